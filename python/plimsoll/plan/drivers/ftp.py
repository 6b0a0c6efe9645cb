"""The driver `ftp`: downloads and uploads over FTP and GridFTP."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.common import Connection
from plimsoll.plan.drivers.driver import Context, Driver, Requests
from plimsoll.plan.drivers.source_addresses import KEY, SourceAddresses, source_settings
from plimsoll.plan.model.cell import Json
from plimsoll.plan.queries.database_url import password
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import PlainText, Raw, Size, Text

MAX_STREAMS: Final = 64
"""The largest number of data connections of a transfer, as in the engine."""
MAX_PIPELINED: Final = 100
"""The largest number of files of a transaction, as in the engine."""
FILE_NUMBER: Final = "{i}"
"""In a path: the number of the file in its transaction, from 0."""
MAX_OFFSET: Final = 2**63 - 1
ANONYMOUS: Final[dict[str, Json]] = {"user": "anonymous", "password": "plimsoll@"}
"""The password of an anonymous login has the form of a mail address."""
_LINE_ENDS: Final = frozenset("\r\n\0")


class FtpLogin(Raw):
    """A name and a password."""

    user: PlainText
    password: Text


class FilePart(Raw):
    """`length` bytes of a file, from `offset` on."""

    offset: Annotated[Size, Field(le=MAX_OFFSET)] = 0
    length: Annotated[Size, Field(ge=1, le=MAX_OFFSET)]

    @model_validator(mode="after")
    def _check_end(self) -> FilePart:
        if self.offset + self.length > MAX_OFFSET:
            raise PydanticCustomError("part", "offset and length are together above 2^63 bytes")
        return self


class FtpSection(Raw):
    """Downloads and uploads of files."""

    path: Text = "/"
    transfer: Literal["download", "upload"] = "download"
    size: Size | None = None
    part: FilePart | None = None
    restart_at: Annotated[Size, Field(ge=1, le=MAX_OFFSET)] | None = None
    mode: Literal["stream", "extended"] | None = None
    streams: Annotated[int, Field(ge=1, le=MAX_STREAMS)] = 1
    stripes: Annotated[int, Field(ge=1, le=MAX_STREAMS)] | None = None
    data: Literal["per-file", "kept"] = "per-file"
    pipeline: Annotated[int, Field(ge=1, le=MAX_PIPELINED)] = 1
    verify: Literal["adler32", "md5"] | None = None
    expect_bytes: Size | None = None
    login: Literal["anonymous"] | FtpLogin = "anonymous"
    connection: Connection = "kept"
    source_addresses: SourceAddresses | None = None


def _login(section: FtpSection, at: KeyPath, context: Context) -> dict[str, Json]:
    if not isinstance(section.login, FtpLogin):
        return dict(ANONYMOUS)
    if _LINE_ENDS & set(section.login.user):
        context.wrong((*at, "user"), "the name contains a line end, which would end the command")
    secret = password(section.login.password, (*at, "password"), context)
    return {"user": section.login.user, "password": secret or ""}


def _ftp_settings(section: FtpSection, at: KeyPath, context: Context) -> dict[str, Json]:
    return {
        "connection": section.connection,
        "login": _login(section, (*at, "login"), context),
        **source_settings(section.source_addresses, at, context),
    }


def _mode(section: FtpSection, at: KeyPath, context: Context) -> str:
    """The mode of the data connections. Several of them, and several files on the same ones, need blocks with
    offsets."""
    needs = {
        "streams": section.streams > 1,
        "stripes": section.stripes is not None,
        "data": section.data == "kept",
        "pipeline": section.pipeline > 1,
    }
    key = next((key for key, is_needed in needs.items() if is_needed), None)
    if section.mode is None:
        return "stream" if key is None else "extended"
    if section.mode == "stream" and key is not None:
        value = getattr(section, key)
        context.wrong((*at, key), f"{key}: {value} needs mode: extended, which is the default with it")
    return section.mode


def _check_upload(section: FtpSection, at: KeyPath, context: Context) -> None:
    if section.size is None and section.part is None:
        context.wrong(
            (*at, "size"), "an upload needs the size of its content: give size, such as 10MB, or part"
        )
    if section.size is not None and section.part is not None:
        context.wrong((*at, "size"), "the size of a part is its length: remove size")
    if section.expect_bytes is not None:
        context.wrong((*at, "expect_bytes"), "expect_bytes applies to downloads")
    if section.size is not None and section.restart_at is not None and section.restart_at > section.size:
        context.wrong((*at, "restart_at"), "restart_at is behind the end of the file, whose size is size")


def _check_download(section: FtpSection, at: KeyPath, mode: str, context: Context) -> None:
    if section.size is not None:
        context.wrong(
            (*at, "size"), "size is that of an upload; give expect_bytes for the size of a download"
        )
    if section.verify == "md5" and mode == "extended":
        context.wrong(
            (*at, "verify"),
            "md5 needs the bytes in their order, which mode: extended does not keep: give adler32",
        )


def _ftp_requests(section: FtpSection, at: KeyPath, context: Context) -> Requests:
    mode = _mode(section, at, context)
    if isinstance(section.path, str) and _LINE_ENDS & set(section.path):
        context.wrong((*at, "path"), "the path contains a line end, which would end the command")
    if section.transfer == "upload":
        _check_upload(section, at, context)
    else:
        _check_download(section, at, mode, context)
    if section.restart_at is not None and (section.part is not None or section.pipeline > 1):
        context.wrong((*at, "restart_at"), "restart_at cannot be combined with part or pipeline")
    if section.streams * (section.stripes or 1) > MAX_STREAMS:
        context.wrong(
            (*at, "stripes"),
            f"streams times stripes must be at most {MAX_STREAMS}, the most data connections",
        )
    request: dict[str, Json] = {
        "paths": _paths(section),
        "transfer": section.transfer,
        "size": section.size,
        "part": None
        if section.part is None
        else {"offset": section.part.offset, "length": section.part.length},
        "restart_at": section.restart_at,
        "mode": mode,
        "streams": section.streams,
        "stripes": section.stripes,
        "data": section.data,
        "verify": section.verify,
        "expect_bytes": section.expect_bytes,
    }
    return [(section.transfer, request)]


def _paths(section: FtpSection) -> list[Json]:
    """The paths of the files of a transaction. Without `pipeline`, `{i}` is a value like any other."""
    if section.pipeline == 1:
        return [section.path]
    return [str(section.path).replace(FILE_NUMBER, str(number)) for number in range(section.pipeline)]


FTP = Driver(FtpSection, frozenset({"connection", "login", KEY}), ("ftp",), _ftp_settings, _ftp_requests)
