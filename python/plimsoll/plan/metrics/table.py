"""The mechanism of the table of metrics: what a row states, and how the text of a user becomes a row and a statistic.

The rows are in `metrics`. Validation, messages, the JSON Schema, docs/metrics.md, titles and the values of the analysis
derive from them. A reader is data, because `plan` must not import `analyse`: a path into the result of a run
(`analyse.results.RunResult`), which `analyse.metrics` follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final


class Kind(StrEnum):
    """What the number is. It decides the statistics of rules, their units, and how the value is written."""

    TIME = "time"
    RATE = "rate"
    SHARE = "share"
    COUNT = "count"
    RESOURCE = "resource"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class KindFacts:
    """`unit`: in results; `rules`: statistics of rules ("p": a percentile); `example`: a rule that can be read."""

    meaning: str
    unit: str
    rules: tuple[str, ...]
    example: str


KINDS: Final[Mapping[Kind, KindFacts]] = {
    Kind.TIME: KindFacts("a duration", "ms", ("p", "avg", "min", "max", "med"), "p(95)<500ms"),
    Kind.RATE: KindFacts("a count or a size per second", "/s", ("rate", "avg"), "rate>100/s"),
    Kind.SHARE: KindFacts("a part of a whole", "fraction of 1", ("rate", "count", "avg"), "rate<10%"),
    Kind.COUNT: KindFacts("a count, or a mean of counts", "", ("count", "avg"), "count>1000"),
    Kind.RESOURCE: KindFacts("the busy share of a resource", "fraction of 1", ("avg",), "avg<90%"),
    Kind.INDEX: KindFacts("a number without unit that is no count", "", (), "avg>0.9"),
}


class Source(StrEnum):
    """The file of a run that the metric is computed from (docs/results.md)."""

    TRANSACTIONS = "transactions.parquet"
    NAMED = "metrics.parquet"
    SAMPLES = "samples.parquet"
    BOOKS = "summary.json"
    RUN = "run.json"


class Use(StrEnum):
    """The sections of an experiment file that name metrics."""

    RESPONSE = "responses"
    RULE = "thresholds"
    CEILING = "ceiling"


_TITLES: Final = {
    "mean": "mean {}",
    "sd": "standard deviation of {}",
    "p50": "median {}",
    "p999": "p99.9 of {}",
    "max": "longest {}",
}
BYTES: Final = "B/s"
"""The unit of a rate that is written in kB/s, MB/s, ..."""


TRAFFIC: Final = "traffic."
"""Where the paths of figures of a window begin; a workload and an operation have the same."""


@dataclass(frozen=True, slots=True)
class Value:
    """One number of a run, at `path`. Over the runs of a cell: their mean."""

    path: str


@dataclass(frozen=True, slots=True)
class Total:
    """A count of a run, at `path`. Over the runs of a cell: the sum."""

    path: str


@dataclass(frozen=True, slots=True)
class Part:
    """A share of a run, at `path`. Over the runs of a cell: the sum of `part` over the sum of all `whole`."""

    path: str
    part: str
    whole: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of a time, at `path`. Over the runs of a cell: the merged histograms that `RunSummary` has under
    `histogram`; the mean from that of each run (`mean`, in ms) with the weight `weight`.

    `absent`: where the histogram is empty and the weight is not, every statistic is 0, with this remark; `some`: path
    of the count that is 0 then.
    """

    path: str
    histogram: str
    mean: str = ""
    weight: str = ""
    some: str = ""
    absent: str = ""


Reader = Value | Total | Part | Distribution


@dataclass(frozen=True, slots=True)
class Metric:
    """One row. A `{part}` of the name is open: it is any name, such as that of a component in `cpu.{component}`, and
    may stand in `in_results`, `title` and the paths of the reader."""

    name: str
    """As experiment files have it."""
    title: str
    """Lower case; in sentences, tables and charts."""
    kind: Kind
    reader: Reader
    source: Source = Source.TRANSACTIONS
    unit: str = ""
    """Follows the number; empty where the kind decides it."""
    note: str = ""
    """For docs/metrics.md: what the title leaves open."""
    in_results: str = ""
    """Its name in results, before the statistic; empty: the name."""
    aliases: tuple[str, ...] = ()
    """Further names in every section of an experiment file."""
    as_response: tuple[str, ...] = ()
    """Further names in `responses:` alone."""
    short: tuple[str, ...] = ()
    """Further names that scripts may use."""
    statistics: tuple[str, ...] = ()
    """Of the distribution within a run, in results; the first is meant where none is named."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Titles of statistics that differ from the usual ones."""
    rules: tuple[str, ...] | None = None
    """Statistics of rules; None: those of the kind."""
    live: Mapping[str, str] = field(default_factory=dict)
    """Statistics that the engine can watch during a run, and its name of the reading."""
    response: bool = True
    """Whether effects can be computed on it."""
    capacity: bool = False
    """Whether it is a throughput: the analysis gives its saturation and its capacity."""

    @property
    def result(self) -> str:
        """Its name in results, before the statistic."""
        return self.in_results or self.name

    @property
    def rule_statistics(self) -> tuple[str, ...]:
        """What a rule may take of it; "p" is a percentile."""
        return KINDS[self.kind].rules if self.rules is None else self.rules

    @property
    def example(self) -> str:
        """A rule on it that can be read."""
        return "rate>10MB/s" if self.unit == BYTES else KINDS[self.kind].example

    @property
    def parts(self) -> tuple[str, ...]:
        """The open parts of its name."""
        return tuple(_OPEN.findall(self.name))

    def uses(self) -> Iterator[Use]:
        """The sections that may name it."""
        if self.response:
            yield Use.RESPONSE
        if self.rule_statistics:
            yield Use.RULE
        if self.live:
            yield Use.CEILING

    def spellings(self, use: Use) -> tuple[str, ...]:
        """Its names in a section, without statistics."""
        return (self.name, *self.aliases) if use in self.uses() else ()


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of a run that has metrics of its own: a workload, an operation, the peak window.

    `suffix` follows the name of the metric and may have open parts; `root` is the beginning of the paths that it
    changes, `to` what it puts there; `title` follows the title. `metrics`: names of those that there are (empty: all
    whose reader begins with `root`).
    """

    suffix: str
    root: str
    to: str
    title: str
    metrics: tuple[str, ...] = ()

    def fits(self, metric: Metric) -> bool:
        """Whether the metric can be had of this part."""
        begins = metric.reader.path.startswith(self.root)
        return begins and (not self.metrics or metric.name in self.metrics)


@dataclass(frozen=True)
class Named:
    """A row together with what the text named beside it: statistic (empty: none), open parts, scope."""

    metric: Metric
    statistic: str = ""
    scope: Scope | None = None
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def meant(self) -> str:
        """The statistic that is meant; empty where the metric has none."""
        return self.statistic or next(iter(self.metric.statistics), "")

    @cached_property
    def name(self) -> str:
        """Its one name in results: `response_ms_p95`, `throughput_per_s`."""
        base = f"{self.metric.result}_{self.meant}" if self.meant else self.metric.result
        return self._filled(base + (self.scope.suffix if self.scope else ""))

    @cached_property
    def title(self) -> str:
        """In words. Without a statistic, the metric itself: `response time`."""
        title = self.metric.title
        if self.statistic in self.metric.titles:
            title = self.metric.titles[self.statistic]
        elif self.statistic:
            title = _TITLES.get(self.statistic, self.statistic + " of {}").format(title)
        return self._filled(title + (self.scope.title if self.scope else ""))

    @cached_property
    def path(self) -> str:
        """The place of its value in the result of a run."""
        reader = self.metric.reader
        if isinstance(reader, Distribution) and self.meant == "mean" and reader.mean:
            return self.scoped(reader.mean)
        return self.scoped(f"{reader.path}.{self.meant}" if self.meant else reader.path)

    @property
    def histogram(self) -> str | None:
        """Name of the histograms of its distribution; None where it has none."""
        reader = self.metric.reader
        if not isinstance(reader, Distribution):
            return None
        return self._filled(reader.histogram + (self.scope.suffix if self.scope else ""))

    @property
    def quantile(self) -> float | None:
        """0.95 for p95, 0.999 for p999; None where it is no percentile."""
        return float(f"0.{self.meant[1:]}") if _PERCENTILE.fullmatch(self.meant) else None

    def scoped(self, path: str) -> str:
        """A path of the reader, of the scope."""
        if self.scope is None or not path.startswith(self.scope.root):
            return path
        return self.scope.to + path.removeprefix(self.scope.root)

    def _filled(self, text: str) -> str:
        return _OPEN.sub(lambda found: self.parts.get(found[1], found[0]), text)


_OPEN: Final = re.compile(r"\{(\w+)\}")
_PERCENTILE: Final = re.compile(r"p\d{2,}")
_NAME: Final = r"[^\s\[\]{}@]+?"


def _pattern(text: str, tail: str = "") -> re.Pattern[str]:
    """What reads a text with open parts. A part has no dot, but for the last one, such as the name of a counter."""
    pieces = _OPEN.split(text)
    out, last = "", len(pieces) - 2
    for at, piece in enumerate(pieces):
        name = _NAME if at == last else _NAME.replace(r"\s", r"\s.")
        out += f"(?P<{piece}>{name})" if at % 2 else re.escape(piece)
    return re.compile(out + tail)


@dataclass(frozen=True)
class MetricTable:
    """All rows, in the order of the results. `percentiles_of`: name of the row that a bare `p95` is about."""

    rows: tuple[Metric, ...]
    scopes: tuple[Scope, ...] = ()
    percentiles_of: str = ""

    def __post_init__(self) -> None:
        names = [spelled for row in self.rows for spelled in _spelled(row)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two metrics have the name {twice}")

    def extended(self, *rows: Metric) -> MetricTable:
        """The table with further rows."""
        return MetricTable((*self.rows, *rows), self.scopes, self.percentiles_of)

    def find(self, text: str) -> Named | None:
        """The metric behind any of its names, with or without a statistic; None where there is none."""
        return self._closed.get(text) or self._open(text)

    def named(self, text: str, use: Use) -> Named | None:
        """The metric of a name that a section of an experiment file may have."""
        found = self.find(text)
        if found is None or use not in found.metric.uses() or (use is not Use.RESPONSE and found.statistic):
            return None
        if use is Use.CEILING and found.scope is not None:  # the engine reads whole runs
            return None
        return found if found.metric.parts or found.scope or text in self.names(use) else None

    def of_transactions(self, text: str) -> bool:
        """Whether a metric is known of single workloads and operations: it is read from the figures of a window."""
        found = self.find(text)
        return found is not None and found.metric.reader.path.startswith(TRAFFIC)

    def by_kind(self, use: Use) -> list[Metric]:
        """The rows that a section may name, times first."""
        order = list(Kind)
        return sorted((row for row in self.rows if use in row.uses()), key=lambda row: order.index(row.kind))

    def names(self, use: Use) -> tuple[str, ...]:
        """The names that a section may have, by kind; an open part in capitals."""
        return self._names[use]

    @cached_property
    def _names(self) -> dict[Use, tuple[str, ...]]:
        return {use: self._names_of(use) for use in Use}

    def _names_of(self, use: Use) -> tuple[str, ...]:
        rows = self.by_kind(use)
        ruled = [row for row in rows if row.rule_statistics]
        found = [name for row in ruled for name in row.spellings(use)]
        if use is Use.RESPONSE:
            found += [name for row in rows for name in row.as_response if not row.statistics]
            found += [name for row in rows for name in row.spellings(use)]
            found += [f"{row.name}_{each}" for row in rows for each in row.statistics]
            found += [name for row in rows for name in row.as_response if row.statistics]
        return tuple(capitals(name) for name in dict.fromkeys(found))

    @cached_property
    def results(self) -> tuple[Named, ...]:
        """Every metric without open parts that cells have an interval of, in the order of the rows."""
        return tuple(
            Named(row, statistic)
            for row in self.rows
            if row.response and not row.parts
            for statistic in (row.statistics or ("",))
        )

    @cached_property
    def capacities(self) -> frozenset[str]:
        """Names in results of those of which a saturation and a capacity can be given."""
        return frozenset(row.result for row in self.rows if row.capacity)

    def schema(self, use: Use) -> dict[str, Any]:
        """The JSON Schema of a name in a section. A text with `${...}` is left to the file."""
        closed = [row for row in self.rows if not row.parts]
        opened = [row for row in self.rows if row.parts and use in row.uses()]
        names = MetricTable(tuple(closed), (), self.percentiles_of).names(use)
        scoped = [_regex(_pattern(scope.suffix)) for scope in self.scopes]
        patterns = [
            r"\$\{",
            *(f"^{_regex(_pattern(row.name))}" for row in opened),
            *(f"{s}$" for s in scoped),
        ]
        return {"type": "string", "anyOf": [{"enum": list(names)}, *({"pattern": p} for p in patterns)]}

    @cached_property
    def _closed(self) -> dict[str, Named]:
        found = {name: said for row in self.rows if not row.parts for name, said in _spelled(row).items()}
        for row in self.rows:
            if row.name == self.percentiles_of:
                found |= {each: Named(row, each) for each in row.statistics if _PERCENTILE.fullmatch(each)}
        return found

    def _open(self, text: str) -> Named | None:
        for scope in self.scopes:
            found = _pattern(scope.suffix, r"\Z").search(text)
            inner = self.find(text[: found.start()]) if found and found.start() else None
            if found and inner and inner.scope is None and scope.fits(inner.metric):
                return Named(inner.metric, inner.statistic, scope, {**inner.parts, **found.groupdict()})
        for row in self.rows:
            tail = f"(?:_(?P<statistic_>{'|'.join(row.statistics)}))?" if row.statistics else ""
            found = _pattern(row.name, tail).fullmatch(text) if row.parts else None
            if found:
                parts = dict(found.groupdict())
                return Named(row, parts.pop("statistic_", None) or "", None, parts)
        return None


def capitals(text: str) -> str:
    """A text for people: its open parts in capitals, `cpu.COMPONENT`."""
    return _OPEN.sub(lambda part: part[1].upper(), text)


def _spelled(row: Metric) -> dict[str, Named]:
    """Every name of a row: `response`, `response_ms`, `response_p95`, `response_ms_p95`, `response_p95_ms`,
    `response_ms.p95`."""
    bases = dict.fromkeys((row.name, *row.aliases, row.result, *row.short))
    found = {base: Named(row) for base in bases}
    if not row.statistics:
        found |= {name: Named(row) for name in row.as_response}
    unit = row.result.removeprefix(row.name) if row.result.startswith(row.name) else ""
    for each in row.statistics:
        said = Named(row, each)
        found |= {f"{base}_{each}": said for base in bases}
        found |= {f"{row.name}_{each}{unit}": said, f"{row.result}.{each}": said}
    return found


def _regex(pattern: re.Pattern[str]) -> str:
    """The same for a JSON Schema, whose dialect names no groups so."""
    return re.sub(r"\(\?P<\w+>", "(", pattern.pattern)
