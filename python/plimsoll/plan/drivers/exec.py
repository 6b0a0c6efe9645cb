"""The driver `exec`: any executable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.common import check_regex, short_name
from plimsoll.plan.drivers.driver import Context, Driver, Requests
from plimsoll.plan.limits import LimitsRaw
from plimsoll.plan.model.cell import Json, Operation
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Argv, PlainText, Raw, Size, Text
from plimsoll.plan.source.secret import Secret


class ExecBytes(Raw):
    """The source of the payload size of a transaction: exactly one of the three."""

    fixed: Size | None = None
    regex: PlainText | None = None
    json_: Literal[True] | None = Field(default=None, alias="json")

    @model_validator(mode="after")
    def _check_one(self) -> ExecBytes:
        if sum(value is not None for value in (self.fixed, self.regex, self.json_)) != 1:
            raise PydanticCustomError(
                "bytes", "give exactly one of `fixed: 1MB`, `regex: ([0-9]+) bytes`, `json: true`"
            )
        return self


class ExecSection(Raw):
    """Any executable: one process per transaction, or one per tester that prints a line for each
    transaction."""

    command: Argv | None = None
    mode: Literal["per-transaction", "long-lived"] = "per-transaction"
    bytes: ExecBytes | None = None
    env: dict[str, Text] = Field(default_factory=dict)
    cwd: PlainText | None = None
    files: list[PlainText] = Field(default_factory=list)
    limits: LimitsRaw = Field(default_factory=LimitsRaw)
    stdin: Text | None = None


def _exec_settings(section: ExecSection, at: KeyPath, context: Context) -> dict[str, Json]:
    cwd = None if section.cwd is None else context.file(section.cwd, (*at, "cwd"))
    files = [context.file(name, (*at, "files", index)) for index, name in enumerate(section.files)]
    for index, name in enumerate(files):
        if Path(name).is_dir():
            context.wrong((*at, "files", index), f"{name} is a directory: list the files in it")
    env = {name: _file_path(text, section, context) for name, text in section.env.items()}
    limits = section.limits.resolve().to_json()
    settings = {"mode": section.mode, "env": env, "cwd": cwd, "files": files}
    return {**settings, "limits": limits} if limits else settings


def _file_path(word: str | Secret, section: ExecSection, context: Context) -> str | Secret:
    """A word of a command. If it is in `files`, it becomes the absolute path, which the engine replaces on other
    hosts."""
    return context.beside(word) if isinstance(word, str) and word in section.files else word


def _exec_requests(section: ExecSection, at: KeyPath, context: Context) -> Requests:
    if section.command is None:
        context.wrong(
            (*at, "command"), 'required key missing: the program and its arguments, for example ["true"]'
        )
        return []
    if section.mode == "long-lived" and section.stdin is not None:
        context.wrong(
            (*at, "stdin"),
            "stdin cannot be set for a long-lived program: Plimsoll writes to its stdin to start each transaction",
        )
    payload: dict[str, Json] = {"kind": "none"}
    if section.bytes is not None and section.bytes.fixed is not None:
        payload = {"kind": "fixed", "bytes": section.bytes.fixed}
    elif section.bytes is not None and section.bytes.regex is not None:
        check_regex(section.bytes.regex, (*at, "bytes", "regex"), context, groups=True)
        payload = {"kind": "regex", "pattern": section.bytes.regex}
    elif section.bytes is not None:
        payload = {"kind": "json"}
    program = section.command[0]
    if isinstance(program, str):
        program = context.as_written((*at, "command", 0), program).rsplit("/", 1)[-1]
    command = [_file_path(word, section, context) for word in section.command]
    request = {"command": command, "stdin": section.stdin, "bytes": payload}
    return [(short_name(program), request)]


def _files(settings: Mapping[str, Any], operations: Sequence[Operation]) -> Iterator[str]:
    yield from settings["files"]


EXEC = Driver(
    ExecSection,
    frozenset({"mode", "env", "cwd", "files", "limits"}),
    (),
    _exec_settings,
    _exec_requests,
    files=_files,
)
