"""The structure of the table of metrics, and the search for a row and a statistic by the text of a user.

The rows are in `metrics/catalogue.py`. Validation, messages, the JSON Schema, docs/metrics.md, titles and the values of
the analysis are derived from them. A reader is a path in the result of a run (`analyse.results.RunResult`), which
`analyse.metrics` reads. It is data, because `plan` must not import `analyse`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final


class Kind(StrEnum):
    """The kind of the value. It determines the statistics of rules, their units, and the format of the value."""

    TIME = "time"
    RATE = "rate"
    SHARE = "share"
    COUNT = "count"
    SIZE = "size"
    RESOURCE = "resource"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class KindFacts:
    """`unit`: in results; `rules`: statistics of rules ("p": a percentile); `example`: a valid rule."""

    meaning: str
    unit: str
    rules: tuple[str, ...]
    example: str


KINDS: Final[Mapping[Kind, KindFacts]] = {
    Kind.TIME: KindFacts("a duration", "ms", ("p", "avg", "min", "max", "med"), "p(95)<500ms"),
    Kind.RATE: KindFacts("a count or a size per second", "/s", ("rate", "avg"), "rate>100/s"),
    Kind.SHARE: KindFacts("a part of a whole", "fraction of 1", ("rate", "count", "avg"), "rate<10%"),
    Kind.COUNT: KindFacts("a count, or a mean of counts", "", ("count", "avg"), "count>1000"),
    Kind.SIZE: KindFacts("a number of bytes", "B", ("avg",), "avg<2GB"),
    Kind.RESOURCE: KindFacts("the busy share of a resource", "fraction of 1", ("avg",), "avg<90%"),
    Kind.INDEX: KindFacts("a number without unit that is no count", "", (), "avg>0.9"),
}


class Source(StrEnum):
    """The file of a run from which the metric is computed (docs/results.md), or other metrics."""

    TRANSACTIONS = "transactions.parquet"
    NAMED = "metrics.parquet"
    SAMPLES = "samples.parquet"
    COUNTERS = "counters.jsonl"
    BOOKS = "summary.json"
    RUN = "run.json"
    METRICS = "metrics"


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
    "min": "shortest {}",
}
BYTES: Final = "B/s"
"""The unit of rates that are written in kB/s, MB/s, ..."""


TRAFFIC: Final = "traffic."
"""The beginning of the paths of figures of a window. Workloads and operations have the same figures."""


@dataclass(frozen=True, slots=True)
class Value:
    """A number of a run, at `path`: divided by the number at `per` (empty: by 1) and multiplied by `factor`. Over the
    runs of a cell: the mean."""

    path: str
    per: str = ""
    factor: float = 1.0


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
    """The distribution of a time, at `path`. Over the runs of a cell: the merged histograms of `RunSummary` with the
    name `histogram`; the mean is computed from the mean of each run (path `mean`, in ms) and its weight (path
    `weight`).

    `absent`: the remark if the histogram is empty and the weight is not 0: every statistic is 0 then. `some`: path of
    the count that is 0 in this case.
    """

    path: str
    histogram: str
    mean: str = ""
    weight: str = ""
    some: str = ""
    absent: str = ""


@dataclass(frozen=True, slots=True)
class Values:
    """The distribution of values in their own unit, at `path`. Over the runs of a cell: the merged values; the mean is
    the mean of the runs."""

    path: str


@dataclass(frozen=True, slots=True)
class Quotient:
    """The value of the metric that the open part `of` of the name contains, divided by that of the part `to`. Over the
    runs of a cell: the mean."""

    of: str = "of"
    to: str = "to"
    path: str = ""


Reader = Value | Total | Part | Distribution | Values | Quotient


@dataclass(frozen=True, slots=True)
class Metric:
    """One row. A `{part}` of the name is open: it matches any name, such as that of a component in `cpu.{component}`.
    `in_results`, `title` and the paths of the reader may contain it too."""

    name: str
    """The name in experiment files."""
    title: str
    """The title in sentences, tables and charts, in lower case."""
    kind: Kind
    reader: Reader
    source: Source = Source.TRANSACTIONS
    unit: str = ""
    """The unit after the number; empty: that of the kind."""
    note: str = ""
    """A detail for docs/metrics.md that the title does not contain."""
    in_results: str = ""
    """The name in results, before the statistic; empty: `name`."""
    aliases: tuple[str, ...] = ()
    """Further names in every section of an experiment file."""
    as_response: tuple[str, ...] = ()
    """Further names in `responses:` only."""
    short: tuple[str, ...] = ()
    """Further names that scripts may use."""
    statistics: tuple[str, ...] = ()
    """Statistics of the distribution within a run, in results. The first is the default."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Titles of statistics, if they differ from the default."""
    rules: tuple[str, ...] | None = None
    """Statistics of rules; None: those of the kind."""
    live: Mapping[str, str] = field(default_factory=dict)
    """Statistics that the engine can monitor during a run -> the engine's name of the value."""
    response: bool = True
    """Whether effects on it can be computed."""
    capacity: bool = False
    """Whether it is a throughput, whose saturation and capacity the analysis computes."""
    spread: bool = False
    """Whether it is a spread of another metric."""
    single: bool = False
    """Whether it is computed from the rows of single transactions, which `keep: summaries` does not keep."""

    @property
    def result(self) -> str:
        """Its name in results, before the statistic."""
        return self.in_results or self.name

    @property
    def rule_statistics(self) -> tuple[str, ...]:
        """Statistics that a rule may use; "p" is a percentile. A time without a distribution has one value in each run,
        so a rule may only use the mean over the runs."""
        if self.rules is not None:
            return self.rules
        if self.kind is Kind.TIME and not isinstance(self.reader, Distribution):
            return ("avg",)
        return KINDS[self.kind].rules

    @property
    def example(self) -> str:
        """A valid rule on it."""
        example = "rate>10MB/s" if self.unit == BYTES else KINDS[self.kind].example
        if not self.rule_statistics or example.startswith(self.rule_statistics):
            return example
        return _EXAMPLE_STATISTIC.sub(self.rule_statistics[0], example)

    @property
    def needs_transactions(self) -> bool:
        """Whether a run that keeps summaries only has no value of it."""
        return self.single or self.source is Source.NAMED

    @property
    def is_work(self) -> bool:
        """Whether it is a rate of work that the target does for its clients. Rates of a component are not."""
        return self.kind is Kind.RATE and not self.parts and not self.spread

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

    `suffix` follows the name of the metric and may have open parts; `title` follows the title. In paths, `to` replaces
    the beginning `root`. `metrics`: names of the metrics of this part (empty: all whose path begins with `root`);
    `excluded`: those that it lacks. `meaning`: for docs/metrics.md (empty: the title). `divided`: whether its
    workloads, operations and first transactions have figures, too.
    """

    suffix: str
    root: str
    to: str
    title: str
    metrics: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    meaning: str = ""
    divided: bool = False

    def has_metric(self, metric: Metric) -> bool:
        """Whether this part has the metric."""
        begins = metric.reader.path.startswith(self.root) and metric.name not in self.excluded
        return begins and (not self.metrics or metric.name in self.metrics)


@dataclass(frozen=True)
class MetricReference:
    """A row with the statistic (empty: none), the open parts and the scope that the text contains."""

    metric: Metric
    statistic: str = ""
    scope: Scope | None = None
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def meant(self) -> str:
        """The statistic, or the default of the metric; empty if the metric has no statistics."""
        return self.statistic or next(iter(self.metric.statistics), "")

    @cached_property
    def name(self) -> str:
        """Its unique name in results: `response_ms_p95`, `throughput_per_s`."""
        base = f"{self.metric.result}_{self.meant}" if self.meant else self.metric.result
        text = base + (self.scope.suffix if self.scope else "")
        names = _OPEN.findall(text)
        written = {part: _quoted(self.parts[part], part, last=part == names[-1]) for part in names}
        return _OPEN.sub(lambda part: written[part[1]], text)

    @cached_property
    def title(self) -> str:
        """The title as text: `median response time`; without a statistic that of the metric: `response time`."""
        title = self.metric.title
        if self.statistic in self.metric.titles:
            title = self.metric.titles[self.statistic]
        elif self.statistic:
            title = _TITLES.get(self.statistic, self.statistic + " of {}").format(title)
        return self._fill_parts(title + (self.scope.title if self.scope else ""))

    @cached_property
    def path(self) -> str:
        """The path of its value in the result of a run."""
        reader = self.metric.reader
        if isinstance(reader, Distribution) and self.meant == "mean" and reader.mean:
            return self.scoped(reader.mean)
        return self.scoped(f"{reader.path}.{self.meant}" if self.meant else reader.path)

    @property
    def histogram(self) -> str | None:
        """Name of the histograms of its distribution; None if it has none."""
        reader = self.metric.reader
        if not isinstance(reader, Distribution):
            return None
        return self._fill_parts(reader.histogram + (self.scope.suffix if self.scope else ""))

    @property
    def quantile(self) -> float | None:
        """0.95 for p95, 0.999 for p999; None if it is not a percentile."""
        return float(f"0.{self.meant[1:]}") if _PERCENTILE.fullmatch(self.meant) else None

    @staticmethod
    def of_part(metric: str, kind: str, name: str) -> str:
        """The name of a metric of a part of the transactions: `response_p95@operation.search`."""
        return f"{metric}@{kind}.{_quoted(name, kind, last=True)}"

    def scoped(self, path: str) -> str:
        """A path of the reader, changed to that of the scope."""
        if self.scope is None or not path.startswith(self.scope.root):
            return path
        return self.scope.to + path.removeprefix(self.scope.root)

    def _fill_parts(self, text: str) -> str:
        return _OPEN.sub(lambda part: self.parts.get(part[1], part[0]), text)


_OPEN: Final = re.compile(r"\{(\w+)\}")
_EXAMPLE_STATISTIC: Final = re.compile(r"^\w+(\(\d+\))?")
_PERCENTILE: Final = re.compile(r"p\d{2,}")
_NAME: Final = r'[^\s\[\]{}@"]+?'
_NAME_WITHOUT_DOTS: Final = r'[^\s.\[\]{}@"]+?(?:\.[0-9]+)?'
"""Also the name of an instance of a service, `web.2`."""
_METRIC_PARTS: Final = ("of", "to")
"""Open parts that contain the name of another metric."""
_QUOTED: Final = "quoted_"


def _pattern(text: str, tail: str = "") -> re.Pattern[str]:
    """A pattern that matches a text with open parts. Only the last part, such as the name of a counter, may contain
    dots. Any part may be quoted; it then ends at the last quotation mark."""
    pieces = _OPEN.split(text)
    out, last = "", len(pieces) - 2
    for at, piece in enumerate(pieces):
        if at % 2 == 0:
            out += re.escape(piece).replace("\\ ", " ")  # JSON Schema does not allow an escaped space
        elif piece in _METRIC_PARTS:
            out += f"(?P<{piece}>.+?)"
        else:
            plain = _NAME if at == last else _NAME_WITHOUT_DOTS
            out += f'(?:"(?P<{_QUOTED}{piece}>.+)"|(?P<{piece}>{plain}))'
    return re.compile(out + tail)


def _matched_parts(match: re.Match[str]) -> dict[str, str]:
    """The open parts of a match of `_pattern`, without quotation marks."""
    return {
        name.removeprefix(_QUOTED): value for name, value in match.groupdict().items() if value is not None
    }


def _quoted(value: str, part: str, *, last: bool) -> str:
    """The value of an open part as the name contains it: quoted if the pattern would not match it otherwise."""
    plain = _NAME if last else _NAME_WITHOUT_DOTS
    return value if part in _METRIC_PARTS or re.fullmatch(plain, value) else f'"{value}"'


@dataclass(frozen=True)
class MetricTable:
    """All rows, in the order of the results. `percentiles_of`: name of the row that `p95` without a metric means."""

    rows: tuple[Metric, ...]
    scopes: tuple[Scope, ...] = ()
    percentiles_of: str = ""

    def __post_init__(self) -> None:
        names = [spelling for row in self.rows for spelling in _spellings(row)]
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            raise ValueError(f"two metrics have the name {duplicate}")

    def extended(self, *rows: Metric) -> MetricTable:
        """The table with further rows."""
        return MetricTable((*self.rows, *rows), self.scopes, self.percentiles_of)

    def find(self, text: str) -> MetricReference | None:
        """The metric with this name, with or without a statistic; None if there is none."""
        return self._closed.get(text) or self._open(text)

    def named(self, text: str, use: Use) -> MetricReference | None:
        """The metric with this name, if the section `use` of an experiment file accepts it; otherwise None."""
        named = self.find(text)
        if named is None or use not in named.metric.uses() or (use is not Use.RESPONSE and named.statistic):
            return None
        if use is Use.CEILING and named.scope is not None:  # the engine monitors whole runs only
            return None
        return named if named.metric.parts or named.scope or text in self.names(use) else None

    def has_parts(self, text: str) -> bool:
        """Whether single workloads and operations have this metric: it is one of the figures of a window."""
        named = self.find(text)
        if named is None or not (named.scope is None or named.scope.divided):
            return False
        return named.metric.reader.path.startswith(TRAFFIC)

    def by_kind(self, use: Use) -> list[Metric]:
        """The rows that a section accepts, in the order of `Kind`."""
        order = list(Kind)
        return sorted((row for row in self.rows if use in row.uses()), key=lambda row: order.index(row.kind))

    def names(self, use: Use) -> tuple[str, ...]:
        """The names that a section accepts, by kind, with open parts in capitals."""
        return self._names[use]

    @cached_property
    def _names(self) -> dict[Use, tuple[str, ...]]:
        return {use: self._names_of(use) for use in Use}

    def _names_of(self, use: Use) -> tuple[str, ...]:
        rows = self.by_kind(use)
        ruled = [row for row in rows if row.rule_statistics]
        names = [name for row in ruled for name in row.spellings(use)]
        if use is Use.RESPONSE:
            names += [name for row in rows for name in row.as_response if not row.statistics]
            names += [name for row in rows for name in row.spellings(use)]
            names += [f"{row.name}_{statistic}" for row in rows for statistic in row.statistics]
            names += [name for row in rows for name in row.as_response if row.statistics]
        return tuple(capitals(name) for name in dict.fromkeys(names))

    @cached_property
    def results(self) -> tuple[MetricReference, ...]:
        """Every metric without open parts for which cells have an interval, in the order of the rows."""
        return tuple(
            MetricReference(row, statistic)
            for row in self.rows
            if row.response and not row.parts
            for statistic in (row.statistics or ("",))
        )

    @cached_property
    def capacities(self) -> frozenset[str]:
        """Names in results of the metrics that have a saturation and a capacity."""
        return frozenset(row.result for row in self.rows if row.capacity)

    def schema(self, use: Use) -> dict[str, Any]:
        """The JSON Schema of a name in a section. A text with `${...}` is valid: it is expanded later."""
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
    def _closed(self) -> dict[str, MetricReference]:
        by_name = {
            name: named for row in self.rows if not row.parts for name, named in _spellings(row).items()
        }
        for row in self.rows:
            if row.name == self.percentiles_of:
                by_name |= {
                    statistic: MetricReference(row, statistic)
                    for statistic in row.statistics
                    if _PERCENTILE.fullmatch(statistic)
                }
        return by_name

    def _open(self, text: str) -> MetricReference | None:
        for scope in self.scopes:
            match = _pattern(scope.suffix, r"\Z").search(text)
            inner = self.find(text[: match.start()]) if match and match.start() else None
            if match and inner and inner.scope is None and scope.has_metric(inner.metric):
                return MetricReference(
                    inner.metric, inner.statistic, scope, {**inner.parts, **_matched_parts(match)}
                )
        for row in self.rows:
            tail = f"(?:_(?P<statistic_>{'|'.join(row.statistics)}))?" if row.statistics else ""
            match = _pattern(row.name, tail).fullmatch(text) if row.parts else None
            parts = _matched_parts(match) if match else {}
            statistic = parts.pop("statistic_", "")
            if isinstance(row.reader, Quotient):
                parts = self._with_metric_names(parts)
            if parts:
                return MetricReference(row, statistic, None, parts)
        return None

    def _with_metric_names(self, parts: Mapping[str, str]) -> dict[str, str]:
        """The parts of a ratio, with the names in results of its two metrics; empty if one is no metric of a whole run,
        or a ratio itself."""
        named = {part: self.find(parts[part]) for part in _METRIC_PARTS if part in parts}
        known = {
            part: reference.name
            for part, reference in named.items()
            if reference is not None
            and reference.scope is None
            and not isinstance(reference.metric.reader, Quotient)
        }
        return {**parts, **known} if len(known) == len(_METRIC_PARTS) else {}


def capitals(text: str) -> str:
    """A name for messages: its open parts in capitals, `cpu.COMPONENT`."""
    return _OPEN.sub(lambda part: part[1].upper(), text)


def _spellings(row: Metric) -> dict[str, MetricReference]:
    """Every name of a row: `response`, `response_ms`, `response_p95`, `response_ms_p95`, `response_p95_ms`,
    `response_ms.p95`."""
    bases = dict.fromkeys((row.name, *row.aliases, row.result, *row.short))
    by_name = {base: MetricReference(row) for base in bases}
    if not row.statistics:
        by_name |= {name: MetricReference(row) for name in row.as_response}
    unit = row.result.removeprefix(row.name) if row.result.startswith(row.name) else ""
    for statistic in row.statistics:
        named = MetricReference(row, statistic)
        by_name |= {f"{base}_{statistic}": named for base in bases}
        by_name |= {f"{row.name}_{statistic}{unit}": named, f"{row.result}.{statistic}": named}
    return by_name


def _regex(pattern: re.Pattern[str]) -> str:
    """The pattern for a JSON Schema, which does not support named groups of this form."""
    return re.sub(r"\(\?P<\w+>", "(", pattern.pattern)
