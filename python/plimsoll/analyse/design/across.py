"""Over the runs of a design: cells with intervals, stretch and scaling, saturation and capacities, thresholds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.components.bottleneck import NOT_RESOLVED
from plimsoll.analyse.design import capacity
from plimsoll.analyse.design.thresholds import Sample, judge, no_cell, not_yet
from plimsoll.analyse.effects.diagnostics import equal_variances_p
from plimsoll.analyse.results import verdict_rules
from plimsoll.analyse.results.analysis import CellResult, RunResult, Verdict
from plimsoll.analyse.results.metrics import metric_value, value
from plimsoll.analyse.results.verdict_rules import RuleName
from plimsoll.analyse.run.parts import OfParts
from plimsoll.analyse.stats.blocks import error_with_blocks
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.means import cell_intervals
from plimsoll.analyse.stats.proportion import error_rate
from plimsoll.analyse.stats.quantiles import Buckets, Histogram, carries, merged
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.table import Distribution, Named
from plimsoll.plan.model import Threshold

VARIANCES_DIFFER = 0.01
"""p-value of Levene's test below which each cell keeps its own variance."""


@dataclass(frozen=True, slots=True)
class Design:
    """What the factors are. `levels`: labels by factor, in the order of the file; `load_factor`: the one that is the
    load, if there is one; `load_values`: its levels as numbers, by label; `loop`: whether runs follow each other in
    passes of `design.loop`."""

    levels: Mapping[str, Sequence[str]]
    load_factor: str | None
    load_values: Mapping[str, float]
    loop: bool = False

    def load(self, cell: Mapping[str, str]) -> float | None:
        """The load of a cell as a number."""
        return self.load_values.get(cell.get(self.load_factor, "")) if self.load_factor else None

    def rest(self, cell: Mapping[str, str]) -> dict[str, str]:
        """The combination of the other factors."""
        return {factor: level for factor, level in cell.items() if factor != self.load_factor}

    def place(self, cell: Mapping[str, str]) -> tuple[int, ...]:
        """For sorting cells as the file lists their levels."""
        return tuple(
            list(levels).index(cell[factor]) if cell.get(factor) in levels else -1
            for factor, levels in self.levels.items()
        )


NO_PARTS: Mapping[str, OfParts] = {}


@dataclass(frozen=True, slots=True)
class Group:
    """The runs of one cell, and the histograms of its valid ones."""

    cell: dict[str, str]
    runs: tuple[RunResult, ...]
    sample: Sample
    _whole: dict[str, Buckets] = field(default_factory=dict, repr=False, compare=False)

    def whole(self, duration: str) -> Buckets:
        """The histogram of all valid runs; merged once."""
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
        mine = [parts.get(run.id, {}) for run in valid]
        sample = Sample(valid, [histograms.get(run.id, {}) for run in valid], mine)
        out.append(Group(dict(members[0].cell), tuple(members), sample))
    return sorted(out, key=lambda group: design.place(group.cell))


def cell_results(
    groups: Sequence[Group], design: Design, wanted: Sequence[str] = ()
) -> tuple[CellResult, ...]:
    """Every cell with its intervals, pooled over the design per metric: of every metric without open parts, and of the
    responses `wanted`."""
    responses = _responses(groups, wanted)
    lowest_of = _lowest(groups, design)
    out = []
    for group, intervals in zip(groups, responses, strict=True):
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
                bottleneck=common_bottleneck(group.valid),
                bottleneck_rule=verdict_rules.rule(RuleName.COMMON_BOTTLENECK),
            )
        )
    return tuple(out)


def errors_and_ended(runs: Sequence[RunResult]) -> tuple[list[int], list[int]]:
    errors = [run.traffic.errors for run in runs]
    return errors, [run.traffic.errors + run.traffic.response_ms.count for run in runs]


def _responses(groups: Sequence[Group], wanted: Sequence[str]) -> list[dict[str, Interval]]:
    out: list[dict[str, Interval]] = [{} for _ in groups]
    found = {named.name: named for named in catalogue.METRICS.results}
    asked = (named for text in wanted if (named := catalogue.METRICS.find(text)) is not None)
    found |= {named.name: named for named in asked if named.name not in found}
    for named in found.values():
        for place, interval in enumerate(_intervals(named, groups)):
            if interval is not None:
                out[place][named.name] = interval
    return out


def metric_intervals(name: str, groups: Sequence[Group]) -> list[Interval | None]:
    """Mean and interval of a metric in each cell, the error pooled over all cells, on logarithms where all values are
    above zero (throughputs and times have a constant relative error rather than a constant error); each cell by its
    own variance where Levene's test says that they differ.

    The centre of a percentile is that of the merged histograms, never a mean of percentiles; its interval is the
    spread between the runs about it, or none where some run alone is too short for that percentile.
    """
    named = catalogue.METRICS.find(name)
    if named is None:
        raise KeyError(name)
    return _intervals(named, groups)


def _intervals(named: Named, groups: Sequence[Group]) -> list[Interval | None]:
    known = [_values(named, group) for group in groups]
    blocks = [[block for block, _ in cell] for cell in known]
    values = [np.array([each for _, each in cell], dtype=np.float64) for cell in known]
    log = all(v.size == 0 or float(v.min()) > 0 for v in values)
    # A time scatters the more the busier the target is: pooled over loads, its error is wrong at each of them.
    own = isinstance(named.metric.reader, Distribution)
    intervals = cell_intervals(
        values,
        separate=own or _differ(values, groups, log),
        log=log,
        error=lambda cells: error_with_blocks(
            [list(zip(labels, cell, strict=True)) for labels, cell in zip(blocks, cells, strict=True)]
        ),
    )
    histogram, q = named.histogram, named.quantile
    if histogram is None or q is None:
        return intervals
    return [
        _centred(interval, each.size, group.whole(histogram), q, group)
        for interval, each, group in zip(intervals, values, groups, strict=True)
    ]


def _values(named: Named, group: Group) -> list[tuple[str | None, float]]:
    """Block and value of each valid run that has it. None of a time that lies, in some run, among what did not
    complete: those of the other runs would be too good."""
    found = [(run.block, value(run, named)) for run in group.valid]
    whole = None if named.histogram is None else group.whole(named.histogram)
    if whole is not None and whole.missing and any(each is None for _, each in found):
        found = []
    return [(block, each) for block, each in found if each is not None]


def _centred(
    interval: Interval | None, values: int, whole: Buckets, q: float, group: Group
) -> Interval | None:
    found = whole.quantile(q)
    if found is None or not carries(q, whole.total):
        return interval
    centre = found / 1e6
    if interval is None and whole.missing:
        return None
    if interval is None or values < len(group.valid):
        return Interval(centre, None, None, method="merged runs, because single runs are too short")
    if interval.mean <= 0:
        return interval
    by = centre / interval.mean
    low = None if interval.low is None else interval.low * by
    high = None if interval.high is None else interval.high * by
    return Interval(centre, low, high, interval.level, interval.df, interval.method)


def _differ(values: Sequence[NDArray[np.float64]], groups: Sequence[Group], log: bool) -> bool:
    used = [(v, group) for v, group in zip(values, groups, strict=True) if v.size]
    if not used:
        return False
    scaled = [np.log(v) if log else v for v, _ in used]
    residuals = np.concatenate([v - v.mean() for v in scaled])
    cells = [place for place, v in enumerate(scaled) for _ in range(v.size)]
    names = {factor for _, group in used for factor in group.cell}
    factors = {
        name: [group.cell.get(name) for v, group in used for _ in range(v.size)] for name in sorted(names)
    }
    p = equal_variances_p(residuals, cells, factors)
    return p is not None and p < VARIANCES_DIFFER


Combination = tuple[tuple[str, str], ...]


def _combination(group: Group, design: Design) -> Combination:
    return tuple(sorted(design.rest(group.cell).items()))


def _lowest(groups: Sequence[Group], design: Design) -> dict[Combination, Group]:
    """The cell at the lowest load that has a valid run, for each combination of the other factors."""
    found: dict[Combination, tuple[float, Group]] = {}
    for group in groups:
        load = design.load(group.cell)
        if load is None or not group.valid:
            continue
        key = _combination(group, design)
        if key not in found or load < found[key][0]:
            found[key] = load, group
    return {key: group for key, (_, group) in found.items()}


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
    """What most runs of a cell name (more than half of them), else "not resolved"."""
    found = Counter(run.bottleneck for run in runs)
    if not found:
        return NOT_RESOLVED
    name, times = found.most_common(1)[0]
    return name if 2 * times > len(runs) else NOT_RESOLVED


def verdicts(
    groups: Sequence[Group], thresholds: Sequence[Threshold], unfinished: Sequence[Mapping[str, str]] = ()
) -> tuple[Verdict, ...]:
    """Every threshold on every cell that it is for. One that is for no cell fails: a rule that judges nothing is a
    mistake, not a success. `unfinished`: cells of which runs are still to come; they are not judged on no sample."""
    out = []
    for threshold in thresholds:
        mine = [group for group in groups if threshold.applies(group.cell)]
        out += [
            judge(threshold, {**group.cell, **labels}, sample, unfinished=group.cell in unfinished)
            for group in mine
            for labels, sample in group.sample.of_parts(threshold.parts)
        ]
        if not mine and any(threshold.applies(cell) for cell in unfinished):
            out.append(not_yet(threshold, {}))
        elif not mine:
            out.append(no_cell(threshold))
    return tuple(out)
