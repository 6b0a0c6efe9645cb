"""Results over the runs of a design: cells with intervals, stretch and scaling, and thresholds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.components.bottleneck import NOT_RESOLVED
from plimsoll.analyse.design.capacity import capacity
from plimsoll.analyse.design.thresholds import Sample, judge, no_cell, not_yet
from plimsoll.analyse.effects.diagnostics import equal_variances_p
from plimsoll.analyse.results import verdict_rules
from plimsoll.analyse.results.analysis import CellResult, RunResult, Verdict
from plimsoll.analyse.results.metrics import merged_metric, metric_value, value
from plimsoll.analyse.results.verdict_rules import RuleName
from plimsoll.analyse.run.parts import OfParts
from plimsoll.analyse.stats.blocks import error_with_blocks
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.means import cell_intervals
from plimsoll.analyse.stats.proportion import error_rate
from plimsoll.analyse.stats.quantiles import Buckets, Histogram, is_large_enough, merged
from plimsoll.analyse.stats.sequential import sequential_intervals
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.table import Distribution, MetricReference, Values
from plimsoll.plan.model.cell import Threshold, UntilTight

VARIANCES_DIFFER = 0.01
"""p-value of Levene's test below which each cell keeps its own variance."""
LESS_THROUGHPUT = 0.5
"""A host that is full at this share of another throughput is filled by other processes: by the utilization law, the
experiment uses about half of its CPU there. Not nearer to 1, because larger batches can make requests cheaper."""


@dataclass(frozen=True, slots=True)
class Design:
    """The factors. `levels`: labels by factor, in the order of the file; `load_factor`: the factor that is the load, if
    there is one; `load_values`: its levels as numbers, by label; `loop`: whether the runs are in passes of
    `design.loop`."""

    levels: Mapping[str, Sequence[str]]
    load_factor: str | None
    load_values: Mapping[str, float]
    loop: bool = False
    until: UntilTight | None = None
    """The rule that ends the repetitions of a cell."""

    def load(self, cell: Mapping[str, str]) -> float | None:
        """The load of a cell as a number; None without a load factor."""
        return self.load_values.get(cell.get(self.load_factor, "")) if self.load_factor else None

    def rest(self, cell: Mapping[str, str]) -> dict[str, str]:
        """The combination of the factors other than the load."""
        return {factor: level for factor, level in cell.items() if factor != self.load_factor}

    def sort_key(self, cell: Mapping[str, str]) -> tuple[int, ...]:
        """Key by which cells are sorted in the order of the levels in the file."""
        return tuple(
            list(levels).index(cell[factor]) if cell.get(factor) in levels else -1
            for factor, levels in self.levels.items()
        )


NO_PARTS: Mapping[str, OfParts] = {}


@dataclass(frozen=True, slots=True)
class Group:
    """The runs of one cell, and the histograms of its valid runs."""

    cell: dict[str, str]
    runs: tuple[RunResult, ...]
    sample: Sample
    until_tight: bool = False
    """Whether the width of its intervals ended its repetitions."""
    _whole: dict[str, Buckets] = field(default_factory=dict, repr=False, compare=False)

    def whole(self, duration: str) -> Buckets:
        """The histogram of a duration over all valid runs. It is merged once."""
        if duration not in self._whole:
            self._whole[duration] = merged(h[duration] for h in self.sample.histograms if duration in h)
        return self._whole[duration]

    @property
    def valid(self) -> Sequence[RunResult]:
        """The valid runs."""
        return self.sample.runs


def grouped(
    runs: Sequence[RunResult],
    histograms: Mapping[str, Mapping[str, Histogram]],
    design: Design,
    parts: Mapping[str, OfParts] = NO_PARTS,
) -> list[Group]:
    """Runs by cell, in the order of the file. `histograms`, `parts`: of `RunSummary`, by run id."""
    cells: dict[tuple[tuple[str, str], ...], list[RunResult]] = {}
    for run in runs:
        cells.setdefault(tuple(sorted(run.cell.items())), []).append(run)
    out = []
    for members in cells.values():
        valid = [run for run in members if run.valid]
        run_parts = [parts.get(run.id, {}) for run in valid]
        sample = Sample(valid, [histograms.get(run.id, {}) for run in valid], run_parts)
        out.append(Group(dict(members[0].cell), tuple(members), sample, design.until is not None))
    return sorted(out, key=lambda group: design.sort_key(group.cell))


def cell_results(
    groups: Sequence[Group], design: Design, wanted: Sequence[str] = ()
) -> tuple[CellResult, ...]:
    """Every cell with its intervals, pooled over the design per metric: of every metric without open parts, and of the
    responses in `wanted`."""
    responses = _responses(groups, wanted)
    lowest_of = _lowest_cells(groups, design)
    out = []
    for group, intervals, limiting in zip(groups, responses, cell_bottlenecks(groups, design), strict=True):
        rate = error_rate(*errors_and_ended(group.valid), confidence=0.90)  # the upper bound is one-sided
        lowest = lowest_of.get(_combination(group, design)) if design.load(group.cell) is not None else None
        out.append(
            CellResult(
                cell=group.cell,
                load=design.load(group.cell),
                repetitions=len(group.runs),
                valid=len(group.valid),
                responses=intervals,
                error_rate=None if rate is None else rate.rate,
                error_rate_upper=None if rate is None else rate.high,
                stretch=_stretch(group, lowest),
                scaling=_scaling(group, lowest, design),
                bottleneck=limiting,
                bottleneck_rule=verdict_rules.rule(RuleName.COMMON_BOTTLENECK),
            )
        )
    return tuple(out)


def errors_and_ended(runs: Sequence[RunResult]) -> tuple[list[int], list[int]]:
    errors = [run.traffic.errors for run in runs]
    return errors, [run.traffic.errors + run.traffic.response_ms.count for run in runs]


def _responses(groups: Sequence[Group], wanted: Sequence[str]) -> list[dict[str, Interval]]:
    out: list[dict[str, Interval]] = [{} for _ in groups]
    metrics = {named.name: named for named in catalogue.METRICS.results}
    requested = (named for text in wanted if (named := catalogue.METRICS.find(text)) is not None)
    metrics |= {named.name: named for named in requested if named.name not in metrics}
    for named in metrics.values():
        for position, interval in enumerate(_intervals(named, groups)):
            if interval is not None:
                out[position][named.name] = interval
    return out


def metric_intervals(name: str, groups: Sequence[Group]) -> list[Interval | None]:
    """Mean and interval of a metric in each cell. The error is pooled over all cells, on logarithms if all values are
    above zero (throughputs and times have a constant relative error rather than a constant error). If Levene's test
    shows that the variances differ, each cell has its own.

    The centre of a percentile is that of the merged histograms, never a mean of percentiles. Its interval is the spread
    between the runs about it; there is none if some run is too short for that percentile. Raises KeyError if there is
    no such metric.
    """
    named = catalogue.METRICS.find(name)
    if named is None:
        raise KeyError(name)
    return _intervals(named, groups)


def _intervals(named: MetricReference, groups: Sequence[Group]) -> list[Interval | None]:
    known = [_values(named, group) for group in groups]
    # The scatter of a time increases with the utilization of the target: pooled over loads, its error is wrong at each.
    is_distribution = isinstance(named.metric.reader, Distribution)
    intervals = intervals_of(known, groups, separate=is_distribution)
    histogram, q = named.histogram, named.quantile
    if isinstance(named.metric.reader, Values) and q is not None:
        return [
            _with_merged_values(interval, len(pairs), named, q, group)
            for interval, pairs, group in zip(intervals, known, groups, strict=True)
        ]
    if histogram is None or q is None:
        return intervals
    return [
        _with_centre(interval, len(pairs), group.whole(histogram), q, group)
        for interval, pairs, group in zip(intervals, known, groups, strict=True)
    ]


def intervals_of(
    known: Sequence[Sequence[tuple[str | None, float]]], groups: Sequence[Group], *, separate: bool = False
) -> list[Interval | None]:
    """Mean and interval of a figure in each cell, as those of a metric. `known`: block and value of each valid run, by
    cell; `separate`: each cell by its own variance."""
    blocks = [[block for block, _ in cell] for cell in known]
    values = [np.array([number for _, number in cell], dtype=np.float64) for cell in known]
    log = all(v.size == 0 or float(v.min()) > 0 for v in values)
    if any(group.until_tight for group in groups):
        return sequential_intervals(values, log=log)
    return cell_intervals(
        values,
        separate=separate or _has_unequal_variances(values, groups, log),
        log=log,
        error=lambda cells: error_with_blocks(
            [list(zip(labels, cell, strict=True)) for labels, cell in zip(blocks, cells, strict=True)]
        ),
    )


def _values(named: MetricReference, group: Group) -> list[tuple[str | None, float]]:
    """Block and value of each valid run that has the metric. No value at all of a time that is, in some run, among the
    transactions that did not complete: the values of the other runs alone would be too good."""
    pairs = [(run.block, value(run, named)) for run in group.valid]
    whole = None if named.histogram is None else group.whole(named.histogram)
    if whole is not None and whole.missing and any(number is None for _, number in pairs):
        pairs = []
    return [(block, number) for block, number in pairs if number is not None]


def _with_centre(
    interval: Interval | None, values: int, whole: Buckets, q: float, group: Group
) -> Interval | None:
    quantile = whole.quantile(q)
    if quantile is None or not is_large_enough(q, whole.total):
        return interval
    if interval is None and whole.missing:
        return None
    return _recentred(interval, values, quantile / 1e6, group)


def _with_merged_values(
    interval: Interval | None, values: int, named: MetricReference, q: float, group: Group
) -> Interval | None:
    whole = merged_metric(group.valid, named)
    if whole is None or not is_large_enough(q, whole.total):
        return interval
    return _recentred(interval, values, whole.quantile(q), group)


def _recentred(interval: Interval | None, values: int, centre: float, group: Group) -> Interval:
    if interval is None or values < len(group.valid):
        return Interval(centre, None, None, method="merged runs, because single runs are too short")
    if interval.mean <= 0:
        return interval
    scale = centre / interval.mean
    low = None if interval.low is None else interval.low * scale
    high = None if interval.high is None else interval.high * scale
    return Interval(centre, low, high, interval.level, interval.df, interval.method)


def _has_unequal_variances(values: Sequence[NDArray[np.float64]], groups: Sequence[Group], log: bool) -> bool:
    used = [(v, group) for v, group in zip(values, groups, strict=True) if v.size]
    if not used:
        return False
    scaled = [np.log(v) if log else v for v, _ in used]
    residuals = np.concatenate([v - v.mean() for v in scaled])
    cells = [position for position, v in enumerate(scaled) for _ in range(v.size)]
    names = {factor for _, group in used for factor in group.cell}
    factors = {
        name: [group.cell.get(name) for v, group in used for _ in range(v.size)] for name in sorted(names)
    }
    p = equal_variances_p(residuals, cells, factors)
    return p is not None and p < VARIANCES_DIFFER


Combination = tuple[tuple[str, str], ...]


def _combination(group: Group, design: Design) -> Combination:
    return tuple(sorted(design.rest(group.cell).items()))


def _lowest_cells(groups: Sequence[Group], design: Design) -> dict[Combination, Group]:
    """The cell at the lowest load with a valid run, for each combination of the other factors."""
    lowest_cells: dict[Combination, tuple[float, Group]] = {}
    for group in groups:
        load = design.load(group.cell)
        if load is None or not group.valid:
            continue
        key = _combination(group, design)
        if key not in lowest_cells or load < lowest_cells[key][0]:
            lowest_cells[key] = load, group
    return {key: group for key, (_, group) in lowest_cells.items()}


def _mean_of(group: Group, name: str) -> float | None:
    values = [v for run in group.valid if (v := metric_value(run, name)) is not None]
    return float(np.mean(values)) if values else None


def _stretch(group: Group, lowest: Group | None) -> float | None:
    if lowest is None:
        return None
    return capacity.stretch(_mean_of(group, "response_ms_mean"), _mean_of(lowest, "response_ms_mean"))


def _scaling(group: Group, lowest: Group | None, design: Design) -> float | None:
    if lowest is None:
        return None
    load, least = design.load(group.cell), design.load(lowest.cell)
    done, first = _mean_of(group, "throughput_per_s"), _mean_of(lowest, "throughput_per_s")
    if load is None or least is None or done is None or first is None:
        return None
    return capacity.scaling(done, load, first, least)


def common_bottleneck(runs: Sequence[RunResult]) -> str:
    """The bottleneck of more than half of the runs of a cell, else "not resolved"."""
    counts = Counter(run.bottleneck for run in runs)
    if not counts:
        return NOT_RESOLVED
    name, count = counts.most_common(1)[0]
    return name if 2 * count > len(runs) else NOT_RESOLVED


def cell_bottlenecks(groups: Sequence[Group], design: Design) -> list[str]:
    """The bottleneck of each cell. A host that is the bottleneck of several cells of a combination is not resolved if
    one of them has less than LESS_THROUGHPUT of the throughput of another."""
    names = [common_bottleneck(group.valid) for group in groups]
    keys = [(_combination(group, design), name) for group, name in zip(groups, names, strict=True)]
    done: dict[tuple[Combination, str], list[float]] = {}
    for group, key in zip(groups, keys, strict=True):
        mean = _mean_of(group, "throughput_per_s")
        if mean is not None and design.load(group.cell) is not None and _is_host(group, key[1]):
            done.setdefault(key, []).append(mean)
    filled = {key for key, means in done.items() if min(means) < LESS_THROUGHPUT * max(means)}
    return [NOT_RESOLVED if key in filled else key[1] for key in keys]


def _is_host(group: Group, component: str) -> bool:
    used = (entry for run in group.valid for entry in run.utilization if entry.component == component)
    return any(entry.role == "host" for entry in used)


def verdicts(
    groups: Sequence[Group], thresholds: Sequence[Threshold], unfinished: Sequence[Mapping[str, str]] = ()
) -> tuple[Verdict, ...]:
    """Verdicts on every threshold for every cell to which it applies. A threshold that applies to no cell fails,
    because it is a mistake in the file. `unfinished`: cells with further planned runs; they are not judged without a
    sample."""
    out = []
    for threshold in thresholds:
        applicable = [group for group in groups if threshold.applies(group.cell)]
        out += [
            judge(threshold, {**group.cell, **labels}, sample, unfinished=group.cell in unfinished)
            for group in applicable
            for labels, sample in group.sample.of_parts(threshold.parts)
        ]
        if not applicable and any(threshold.applies(cell) for cell in unfinished):
            out.append(not_yet(threshold, {}))
        elif not applicable:
            out.append(no_cell(threshold))
    return tuple(out)
