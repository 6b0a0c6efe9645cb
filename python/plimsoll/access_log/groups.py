"""Groups of the requests of a log: HEAD requests, and GET requests by their first directory. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.access_log.popularity import Popularity, popularity
from plimsoll.plan.queries.access_log import AccessLog

Ints = NDArray[np.int64]
MIN_SHARE: Final = 0.05
MAX_GROUPS: Final = 8
OTHER: Final = b""
_UNFIT: Final = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Group:
    """Requests of one kind. `name`: letters, digits and _; `directory`: of the paths, empty for several; `requests`:
    their number; `objects`: indexes of the objects by decreasing number of requests; `counts`: these numbers."""

    name: str
    method: str
    directory: str
    requests: int
    objects: Ints = field(repr=False)
    counts: Ints = field(repr=False)
    popularity: Popularity | None = None


def groups(
    object_of: Ints, is_head: Ints, paths: tuple[bytes, ...], rng: np.random.Generator, objects: int | None
) -> tuple[Group, ...]:
    """The groups, largest first, HEAD last. A directory with less than 5 % of the GET requests belongs to the group
    `other`. `objects`: number of all objects, if it is known; it is used if there is one group of GET requests."""
    gets = np.bincount(object_of[is_head == 0], minlength=len(paths))
    heads = np.bincount(object_of[is_head == 1], minlength=len(paths))
    directory, names = _directories(paths, gets)
    found = []
    for number, name in enumerate(names):
        counts = np.where(directory == number, gets, 0)
        if counts.any():
            found.append(("GET", name, counts))
    found.sort(key=lambda each: -int(each[2].sum()))
    if heads.any():
        found.append(("HEAD", OTHER, heads))
    single = sum(method == "GET" for method, _, _ in found) == 1
    taken: set[str] = set()
    return tuple(
        _group(method, name, counts, taken, rng, objects if single and method == "GET" else None)
        for method, name, counts in found
    )


def _group(
    method: str,
    directory: bytes,
    counts: Ints,
    taken: set[str],
    rng: np.random.Generator,
    objects: int | None,
) -> Group:
    order = np.argsort(-counts, kind="stable")
    order = order[: np.count_nonzero(counts)]
    text = directory.decode("ascii")
    return Group(
        _unique_name("head" if method == "HEAD" else text, taken),
        method,
        text,
        int(counts.sum()),
        order,
        counts[order],
        popularity(counts, rng, objects),
    )


def _directories(paths: tuple[bytes, ...], gets: Ints) -> tuple[Ints, list[bytes]]:
    """Number of the group of each object, and the directories of the groups."""
    numbers: dict[bytes, int] = {}
    of = np.array([numbers.setdefault(_directory(path), len(numbers)) for path in paths], dtype=np.int64)
    totals = np.bincount(of, weights=gets, minlength=len(numbers))
    large = [at for at in np.argsort(-totals, kind="stable") if totals[at] >= MIN_SHARE * totals.sum()]
    large = large[: MAX_GROUPS - 1]
    renumbered = np.full(len(numbers), len(large), dtype=np.int64)
    renumbered[large] = np.arange(len(large))
    listed = list(numbers)
    return renumbered[of], [*(listed[at] for at in large), OTHER]


def _directory(path: bytes) -> bytes:
    """`/a/` of `/a/b/c?d`; `/` of `/a`."""
    end = path.split(b"?", 1)[0].find(b"/", 1)
    return path[: end + 1] if end > 0 else b"/"


def _unique_name(text: str, taken: set[str]) -> str:
    """A name of a value of an experiment file: `root` for `/`, `other` for several directories."""
    base = "root" if text == "/" else _UNFIT.sub("_", text).strip("_").lower()[:24] or "other"
    name = base if base[0].isalpha() else f"d_{base}"
    number = 2
    while name in taken:
        name, number = f"{base}_{number}" if base[0].isalpha() else f"d_{base}_{number}", number + 1
    taken.add(name)
    return name


def columns(log: AccessLog) -> tuple[Ints, Ints]:
    """Objects and HEAD marks of the requests, as arrays."""
    return np.array(log.object, dtype=np.int64), np.array(log.is_head, dtype=np.int64)
