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
    mode: Literal["stream", "extended"] | None = None
    streams: Annotated[int, Field(ge=1, le=MAX_STREAMS)] = 1
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
    """The mode of the data connections: several of them need blocks with offsets."""
    if section.mode is None:
        return "extended" if section.streams > 1 else "stream"
    if section.mode == "stream" and section.streams > 1:
        context.wrong(
            (*at, "streams"), f"{section.streams} streams need mode: extended, which is the default"
        )
    return section.mode


def _ftp_requests(section: FtpSection, at: KeyPath, context: Context) -> Requests:
    mode = _mode(section, at, context)
    is_upload = section.transfer == "upload"
    if isinstance(section.path, str) and _LINE_ENDS & set(section.path):
        context.wrong((*at, "path"), "the path contains a line end, which would end the command")
    if is_upload and section.size is None:
        context.wrong((*at, "size"), "an upload needs the size of its content: give size, such as 10MB")
    if not is_upload and section.size is not None:
        context.wrong(
            (*at, "size"), "size is that of an upload; give expect_bytes for the size of a download"
        )
    for key in ("part", "expect_bytes"):
        if is_upload and getattr(section, key) is not None:
            context.wrong((*at, key), f"{key} applies to downloads")
    if section.verify == "md5" and mode == "extended" and not is_upload:
        context.wrong(
            (*at, "verify"),
            "md5 needs the bytes in their order, which mode: extended does not keep: give adler32",
        )
    request: dict[str, Json] = {
        "path": section.path,
        "transfer": section.transfer,
        "size": section.size,
        "part": None
        if section.part is None
        else {"offset": section.part.offset, "length": section.part.length},
        "mode": mode,
        "streams": section.streams,
        "verify": section.verify,
        "expect_bytes": section.expect_bytes,
    }
    return [(section.transfer, request)]


FTP = Driver(FtpSection, frozenset({"connection", "login", KEY}), ("ftp",), _ftp_settings, _ftp_requests)
