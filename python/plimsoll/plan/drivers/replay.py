"""The driver `replay`: a trace of file I/O, and the directories of its jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from plimsoll.plan.drivers.driver import Context, Driver
from plimsoll.plan.model.cell import Json, Operation
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Fraction, PlainText, Raw

_BEGINS: Final = b"plimsoll.trace/"
_MAX_RULES: Final = 10_000_000
"""Maximum size of a file of `map` or `ignore`, bytes."""


class Copies(Raw):
    """Which names of a trace are shared by all jobs. A name that matches neither list, or both, is
    private."""

    private: list[PlainText] = Field(default_factory=list)
    shared: list[PlainText] = Field(default_factory=list)
    write_shared: bool = False


class ReplaySection(Raw):
    """A trace of file I/O, replayed in a directory. One job, the whole trace, is one transaction."""

    trace: PlainText | None = None
    root: PlainText | None = None
    timing: Literal["diff", "exact", "afap"] = "diff"
    scale: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 1.0
    order: Literal["resource", "trace"] = "resource"
    map: PlainText | None = None
    ignore: PlainText | None = None
    copies: Copies = Field(default_factory=Copies)
    prepare: Literal["data", "sparse", "none"] = "data"
    compressibility: Fraction = 0.0
    clean: bool = True
    read_maps: bool = False
    allow_root: bool = False
    per_call: bool = False


def replay_settings(section: ReplaySection, at: KeyPath, context: Context) -> dict[str, Json]:
    """Settings of all jobs."""
    copies = section.copies
    if copies.write_shared and not copies.shared:
        context.wrong(
            (*at, "copies", "write_shared"),
            "`shared` is empty: list the shared names in it, or leave this key out",
        )
    return {
        "trace": _trace(section.trace, (*at, "trace"), context),
        "root": _root(section.root, (*at, "root"), context),
        "timing": section.timing,
        "scale": section.scale,
        "order": section.order,
        "map": _rules(section.map, (*at, "map"), context),
        "ignore": _rules(section.ignore, (*at, "ignore"), context),
        "copies": {
            "private": list(copies.private),
            "shared": list(copies.shared),
            "write_shared": copies.write_shared,
        },
        "prepare": section.prepare,
        "compressibility": section.compressibility,
        "clean": section.clean,
        "read_maps": section.read_maps,
        "allow_root": section.allow_root,
        "per_call": section.per_call,
    }


def replay_requests(
    section: ReplaySection, at: KeyPath, context: Context
) -> list[tuple[str, dict[str, Json]]]:
    """One job, with the name of its trace."""
    name = "replay" if section.trace is None else context.as_written((*at, "trace"), section.trace)
    return [(Path(name).stem[:60], {})]


def _trace(name: str | None, at: KeyPath, context: Context) -> Json:
    """Absolute path of the trace. Reports a file that is not a trace."""
    if name is None:
        context.wrong(
            at, "required key missing: the trace to replay, made by `plimsoll trace record -o job.trace`"
        )
        return None
    full = context.file(name, at)
    try:
        with Path(full).open("rb") as file:
            begins = file.read(len(_BEGINS))
    except FileNotFoundError:
        return full  # already reported
    except OSError as error:
        context.wrong(at, f"{context.as_written(at, name)} cannot be read: {error.strerror}")
        return full
    if begins != _BEGINS:
        context.wrong(
            at,
            f"{context.as_written(at, name)} is not a trace: record one with `plimsoll trace record`, or "
            f"convert a strace log with `plimsoll trace import`",
        )
    return full


def _root(name: str | None, at: KeyPath, context: Context) -> Json:
    """Absolute path of the directory of each job."""
    if name is None:
        context.wrong(at, 'required key missing: the directory of each job, for example "/mnt/new/{tester}"')
        return None
    above, _, last = name.rstrip("/").rpartition("/")
    if "{tester}" not in last or "{tester}" in above:
        context.wrong(
            at,
            f"only the last part of {context.as_written(at, name)} must contain {{tester}}: each job needs "
            f"its own directory",
        )
    return context.beside(name.rstrip("/"))


def _rules(name: str | None, at: KeyPath, context: Context) -> Json:
    """The text of a file of `map` or `ignore`, which the engine parses."""
    if name is None:
        return None
    full = Path(context.file(name, at))
    try:
        if full.exists() and full.stat().st_size > _MAX_RULES:
            context.wrong(at, f"{context.as_written(at, name)} is larger than {_MAX_RULES:,} bytes")
            return None
        return full.read_text(encoding="utf-8") if full.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        context.wrong(at, f"{context.as_written(at, name)} cannot be read: {error}")
        return None


def _files(settings: Mapping[str, Any], operations: Sequence[Operation]) -> Iterator[str]:
    yield settings["trace"]


REPLAY = Driver(
    ReplaySection,
    frozenset(ReplaySection.model_fields),
    (),
    replay_settings,
    replay_requests,
    files=_files,
)
