"""The section `replay:` of a workload: a trace of file I/O, and the directories of its jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from plimsoll.plan.model import Json
from plimsoll.plan.raw_drivers import ReplaySection
from plimsoll.plan.source import KeyPath

if TYPE_CHECKING:
    from plimsoll.plan.drivers import Where

_BEGINS: Final = b"plimsoll.trace/"
_LARGEST_RULES: Final = 10_000_000
"""Bytes of a file of names."""


def replay_settings(section: ReplaySection, at: KeyPath, where: Where) -> dict[str, Json]:
    """What holds for all jobs."""
    copies = section.copies
    if copies.write_shared and not copies.shared:
        where.wrong(
            (*at, "copies", "write_shared"), "nothing is shared: name it in `shared`, or leave this out"
        )
    return {
        "trace": _trace(section.trace, (*at, "trace"), where),
        "root": _root(section.root, (*at, "root"), where),
        "timing": section.timing,
        "scale": section.scale,
        "order": section.order,
        "map": _rules(section.map, (*at, "map"), where),
        "ignore": _rules(section.ignore, (*at, "ignore"), where),
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


def replay_requests(section: ReplaySection, at: KeyPath, where: Where) -> list[tuple[str, dict[str, Json]]]:
    """One job, named like its trace."""
    name = "replay" if section.trace is None else where.as_written((*at, "trace"), section.trace)
    return [(Path(name).stem[:60], {})]


def _trace(name: str | None, at: KeyPath, where: Where) -> Json:
    """The trace's file, absolute; it has to be one."""
    if name is None:
        where.wrong(
            at, "required key missing: the trace to replay, made by `plimsoll trace record -o job.trace`"
        )
        return None
    full = where.file(name, at)
    try:
        with Path(full).open("rb") as file:
            begins = file.read(len(_BEGINS))
    except FileNotFoundError:
        return full  # which was told
    except OSError as error:
        where.wrong(at, f"{where.as_written(at, name)} cannot be read: {error.strerror}")
        return full
    if begins != _BEGINS:
        where.wrong(
            at,
            f"{where.as_written(at, name)} is no trace: make one with `plimsoll trace record`, or, of a log of "
            "strace, with `plimsoll trace import`",
        )
    return full


def _root(name: str | None, at: KeyPath, where: Where) -> Json:
    """The directory of each job, absolute."""
    if name is None:
        where.wrong(at, 'required key missing: the directory of each job, for example "/mnt/new/{tester}"')
        return None
    above, _, last = name.rstrip("/").rpartition("/")
    if "{tester}" not in last or "{tester}" in above:
        where.wrong(
            at,
            f"the last part of {where.as_written(at, name)}, and no other, has to hold {{tester}}: each job needs a "
            "directory of its own",
        )
    return where.beside(name.rstrip("/"))


def _rules(name: str | None, at: KeyPath, where: Where) -> Json:
    """The text of a file for names, which the engine understands."""
    if name is None:
        return None
    full = Path(where.file(name, at))
    try:
        if full.exists() and full.stat().st_size > _LARGEST_RULES:
            where.wrong(at, f"{where.as_written(at, name)} is larger than {_LARGEST_RULES:,} bytes")
            return None
        return full.read_text(encoding="utf-8") if full.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        where.wrong(at, f"{where.as_written(at, name)} cannot be read: {error}")
        return None
