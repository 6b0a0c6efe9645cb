"""Differences between two configurations, as plain data: those that make results incomparable, and the others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

ABSENT: Final = "(absent)"
SUBJECT: Final = frozenset(
    (
        "services",
        "targets",
        "versions",
        "vars",
        "question",
        "responses",
        "capacity",
        "thresholds",
        "charts",
        "costs",
    )
)
"""Sections that may differ: the systems that are compared, and what the analysis does with the measurements. A
difference in any other section makes results incomparable."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A path with both values as text. `directory`: the one whose value is `new`; `old` is that of the first directory.
    `is_gate`: the results are not comparable unless the path is accepted."""

    path: str
    old: str
    new: str
    directory: str
    is_gate: bool
    is_accepted: bool = False


def differences(old: Mapping[str, Any], new: Mapping[str, Any], directory: str) -> list[Difference]:
    """The paths with different values, in the order of the first configuration."""
    before, after = flat(old), flat(new)
    return [
        Difference(path, a, b, directory, path.partition(".")[0] not in SUBJECT)
        for path in dict.fromkeys((*before, *after))
        if (a := before.get(path, ABSENT)) != (b := after.get(path, ABSENT))
    ]


def flat(value: Any, path: str = "") -> dict[str, str]:
    """The leaves of plain data by their dotted paths. A list is a leaf unless it contains mappings."""
    if isinstance(value, Mapping) and value:
        items: Iterable[tuple[str, Any]] = ((str(key), entry) for key, entry in value.items())
    elif isinstance(value, list | tuple) and any(isinstance(entry, Mapping) for entry in value):
        items = ((str(at), entry) for at, entry in enumerate(value))
    elif isinstance(value, str):
        return {path: value}
    else:
        return {path: json.dumps(value, ensure_ascii=False, default=str)}
    return {
        name: leaf
        for key, entry in items
        for name, leaf in flat(entry, f"{path}.{key}" if path else key).items()
    }


def with_accepted(found: Iterable[Difference], accepted: Sequence[str]) -> list[Difference]:
    """The differences, each once. One is accepted if its path, or the beginning of it, is in `accepted`."""

    def is_accepted(path: str) -> bool:
        return any(path == name or path.startswith(f"{name}.") for name in accepted)

    return [replace(one, is_accepted=one.is_gate and is_accepted(one.path)) for one in dict.fromkeys(found)]


def gates(found: Iterable[Difference]) -> list[Difference]:
    """Those that make the results incomparable."""
    return [one for one in found if one.is_gate and not one.is_accepted]
