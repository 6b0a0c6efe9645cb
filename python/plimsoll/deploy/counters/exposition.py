"""Pages of metrics as exporters give them: Prometheus' text format 0.0.4 and OpenMetrics 1.0.

A parser of our own, which looks only into lines that somebody wants: on the host that measures, a page of a node
exporter takes a tenth of the time that `prometheus_client` needs for it, and a hostile page no more than its length
asks. The tests hold it against that library.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

MAX_LINE: Final = 16_000
"""Characters of a line that is wanted; labels of that size are a mistake of the exporter."""
MAX_NAME: Final = 200
GREATEST: Final = 1e100
"""Beyond this a value means nothing, and a sum of some would be no number."""
_HEAD: Final = re.compile(r"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*+)[ \t]*+")
_LABEL: Final = re.compile(r'[ \t]*,?[ \t]*([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*=[ \t]*"((?:[^"\\]++|\\.)*+)"')
_CLOSE: Final = re.compile(r"[ \t]*,?[ \t]*\}")
_VALUE: Final = re.compile(r"[ \t]*([^ \t\r\n]+)")
_TYPE: Final = re.compile(r"#[ \t]+TYPE[ \t]+([a-zA-Z_:][a-zA-Z0-9_:]*+)[ \t]+(\w+)")
_ESCAPE: Final = re.compile(r'\\([\\"n])')
_COUNT: Final = frozenset({"counter", "histogram", "summary"})
"""Types whose series only grow, but for the quantiles of a summary, which have its own name."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a page. `counts`: it only grows while what it tells of lives."""

    name: str
    labels: Mapping[str, str]
    value: float
    counts: bool

    @property
    def series(self) -> str:
        """Name and labels, the same on every page."""
        inside = ",".join(f'{key}="{value}"' for key, value in sorted(self.labels.items()))
        return f"{self.name}{{{inside}}}" if inside else self.name


def samples(page: str, wanted: Callable[[str], bool]) -> Iterator[Sample]:
    """The values whose names are wanted, in the order of the page; what is no number of this world is left out. Raises
    ValueError where a wanted line cannot be read; other lines may be anything."""
    types: dict[str, str] = {}
    for line in io.StringIO(page):
        if line.startswith("#"):
            told = _TYPE.match(line)
            if told is not None:
                types[told[1]] = told[2]
            continue
        head = _HEAD.match(line)
        if head is None or len(head[1]) > MAX_NAME or not wanted(head[1]):
            continue
        if len(line) > MAX_LINE:
            raise ValueError(f"a line of {head[1]} has {len(line):,} characters; the limit is {MAX_LINE:,}")
        labels, at = _labels(line, head.end())
        value = _value(line, at)
        if abs(value) <= GREATEST:  # no NaN is
            yield Sample(head[1], labels, value, _counts(head[1], types))


def _labels(line: str, at: int) -> tuple[dict[str, str], int]:
    """The labels, and where the value begins."""
    if not line.startswith("{", at):
        return {}, at
    at += 1
    labels = {}
    while (found := _LABEL.match(line, at)) is not None:
        labels[found[1]] = _ESCAPE.sub(lambda sign: "\n" if sign[1] == "n" else sign[1], found[2])
        at = found.end()
    closed = _CLOSE.match(line, at)
    if closed is None:
        raise ValueError(f"the labels of a line cannot be parsed: {line.strip()[:200]}")
    return labels, closed.end()


def _value(line: str, at: int) -> float:
    """What follows it, a time or an exemplar, is not looked at."""
    found = _VALUE.match(line, at)
    try:
        if found is None or "_" in found[1]:  # Python's own way to write a number
            raise ValueError
        return float(found[1])
    except ValueError:
        raise ValueError(f"a line has no value: {line.strip()[:200]}") from None


def _counts(name: str, types: Mapping[str, str]) -> bool:
    own = types.get(name)
    if own in ("counter", "gauge", "summary"):
        return own == "counter"
    for end in ("_total", "_bucket", "_count", "_sum", "_created"):
        family = types.get(name.removesuffix(end)) if name.endswith(end) else None
        if family is not None:
            return family in _COUNT and end != "_created"
    return name.endswith("_total")
