"""Judges rules on cells: from merged histograms and counts, never from averaged percentiles. A cell without a sample
fails."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from plimsoll.analyse.results import verdict_rules
from plimsoll.analyse.results.analysis import RunResult, Verdict
from plimsoll.analyse.results.metrics import at, mean_and_weight, merged_metric, value
from plimsoll.analyse.results.run import Traffic, WindowResult
from plimsoll.analyse.results.verdict_rules import RuleName
from plimsoll.analyse.results.verdicts import Reason, Severity, ThresholdReason, ThresholdVerdict
from plimsoll.analyse.results.verdicts import Value as Figure
from plimsoll.analyse.results.wording import describe
from plimsoll.analyse.run.parts import OfParts, PartKey
from plimsoll.analyse.stats.quantiles import MISSING_OF_MEAN, Buckets, Histogram, merged, rank
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.rules import Rule
from plimsoll.plan.metrics.table import (
    Distribution,
    Kind,
    MetricReference,
    Part,
    Quotient,
    Total,
    Value,
    Values,
)
from plimsoll.plan.model import cell as model
from plimsoll.plan.model.cell import Threshold

MIN_BEYOND = 10
"""Minimum number of values beyond a percentile; with fewer there is a remark."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The valid runs of one cell, or one of its runs, with their histograms (`RunSummary.histograms`, in the same
    order) and those of their workloads and operations."""

    runs: Sequence[RunResult]
    histograms: Sequence[Mapping[str, Histogram]]
    parts: Sequence[OfParts] = ()

    def each(self) -> list[Sample]:
        """The runs one by one."""
        return [Sample([run], [own]) for run, own in zip(self.runs, self.histograms, strict=True)]

    def of_parts(self, parts: Mapping[str, tuple[str, ...]]) -> list[tuple[dict[str, str], Sample]]:
        """The parts that are judged separately, with their labels: all transactions if no part is requested. `parts`:
        names of the requested workloads and operations."""
        if not parts:
            return [({}, self)]
        if model.FIRST in parts:
            return [({model.FIRST: of}, self._of_first(of)) for of in parts[model.FIRST]]
        workloads = parts.get(model.WORKLOAD)
        if (operations := parts.get(model.OPERATION)) is None:
            return [({model.WORKLOAD: name}, self._of(name, None)) for name in workloads or ()]
        out: list[tuple[dict[str, str], Sample]] = []
        for operation in operations:
            keys = dict.fromkeys(key for part in self.parts for key in part if key.operation == operation)
            at = [key.workload for key in keys if workloads is None or key.workload in workloads]
            for name in at:
                labels = {model.WORKLOAD: name} if len(at) > 1 or workloads is not None else {}
                out.append(({**labels, model.OPERATION: operation}, self._of(name, operation)))
            if not at:
                out.append(({model.OPERATION: operation}, Sample([], [])))
        return out

    def _of(self, workload: str, operation: str | None) -> Sample:
        if operation is None and not any(run.workloads for run in self.runs):
            return self  # the only workload
        return self._with_traffic_of(PartKey(workload, operation))

    def _of_first(self, of: str) -> Sample:
        return self._with_traffic_of(PartKey("", first=of))

    def _with_traffic_of(self, key: PartKey) -> Sample:
        pairs = [
            (replace(run, traffic=traffic, at_peak=_peak_of(run, key)), part[key])
            for run, part in zip(self.runs, self.parts, strict=True)
            if key in part and (traffic := _traffic(run, key)) is not None
        ]
        return Sample([run for run, _ in pairs], [histograms for _, histograms in pairs])


def _peak_of(run: RunResult, key: PartKey) -> WindowResult | None:
    """The peak window with the traffic of a part; None if the part has none in it."""
    if run.at_peak is None or (traffic := _traffic(run.at_peak, key)) is None:
        return None
    return replace(run.at_peak, traffic=traffic)


def _traffic(run: RunResult | WindowResult, key: PartKey) -> Traffic | None:
    if key.first:
        return next((first.traffic for first in run.first if first.of == key.first), None)
    if key.operation is None:
        return next(
            (workload.traffic for workload in run.workloads if workload.workload == key.workload), None
        )
    operations = (
        operation for operation in run.operations if PartKey(operation.workload, operation.operation) == key
    )
    return next((operation.traffic for operation in operations), None)


Observation = tuple[float | None, Reason | None]


def observe(rule: Rule, sample: Sample) -> Observation:
    """The value of the rule's metric in SI units, and a remark on its weakness. None: no sample; infinite: longer than
    all measured times."""
    if not sample.runs:
        return None, _reason(ThresholdReason.NO_VALID_RUN)
    named = catalogue.METRICS.find(rule.metric)
    assert named is not None  # parse_rule refuses it
    match named.metric.reader:
        case Distribution() as reader:
            return _time(rule, named, reader, sample)
        case Part() as reader:
            return _fraction(rule, named, reader, sample)
        case Total():
            return sum(value(run, named) or 0.0 for run in sample.runs), None
        case Values() if rule.stat != "avg":
            return _of_values(rule, named, sample)
        case Value() | Values() | Quotient():
            known = [figure for run in sample.runs if (figure := value(run, named)) is not None]
            per_unit = 1e3 if named.metric.kind is Kind.TIME else 1.0  # results contain ms, rules contain s
            return (sum(known) / len(known) / per_unit, None) if known else (None, _no_sample())


def _of_values(rule: Rule, named: MetricReference, sample: Sample) -> Observation:
    """A percentile, the least or the greatest of the values of all runs."""
    whole = merged_metric(sample.runs, named)
    if whole is None:
        return None, _no_sample()
    if rule.stat in ("min", "max"):
        return (whole.smallest if rule.stat == "min" else whole.largest), None
    q = 0.5 if rule.arg is None else rule.arg / 100.0
    at_rank, total = rank(q, whole.total), whole.total
    beyond = min(at_rank, total - at_rank - 1)
    weak = _reason(ThresholdReason.FEW_BEYOND, beyond=beyond, of=total) if beyond < MIN_BEYOND else None
    return whole.quantile(q), weak


def _time(rule: Rule, named: MetricReference, reader: Distribution, sample: Sample) -> Observation:
    name = named.histogram or ""
    whole = merged(h[name] for h in sample.histograms if name in h)
    total = whole.total
    if reader.absent and (rule.stat == "avg" or total == 0):
        mean = _mean(named, sample)
        has_any = any(at(run, named.scoped(reader.some), named.parts) for run in sample.runs)
        if mean is None:
            return None, _no_sample()
        return mean, None if has_any else _reason(ThresholdReason.ABSENT, absent=reader.absent)
    if total == 0 and whole.missing + whole.failed > 0:
        return math.inf, _reason(ThresholdReason.NOT_COMPLETED, completed=0, of=whole.missing + whole.failed)
    if total == 0 or whole.smallest is None or whole.largest is None:
        return None, _no_sample()
    if rule.stat == "min":
        return whole.smallest / 1e9, None
    return _upper_statistic(rule, named, whole, sample)


def _upper_statistic(rule: Rule, named: MetricReference, whole: Buckets, sample: Sample) -> Observation:
    """The value of an upper statistic. Transactions that failed, or did not complete in an open load, count as longer
    than any limit."""
    total, more = whole.total, whole.missing + whole.failed
    q = 0.5 if rule.arg is None else rule.arg / 100.0
    if rule.stat == "max":
        known = more == 0
    elif rule.stat == "avg":
        known = whole.missing <= MISSING_OF_MEAN * (total + whole.missing)
    else:
        known = whole.position(q, failed=True) is not None
    if not known:
        return math.inf, _reason(ThresholdReason.NOT_COMPLETED, completed=total, of=total + more)
    if rule.stat == "max":
        return (whole.largest or 0) / 1e9, None
    if rule.stat == "avg":
        return _mean(named, sample), None
    quantile = whole.quantile(q, failed=True)
    total += more
    beyond = total - rank(q, total) - 1
    weak = _reason(ThresholdReason.FEW_BEYOND, beyond=beyond, of=total) if beyond < MIN_BEYOND else None
    return (None if quantile is None else quantile / 1e9), weak


def _mean(named: MetricReference, sample: Sample) -> float | None:
    total, count = 0.0, 0.0
    for run in sample.runs:
        mean, weight = mean_and_weight(run, named)
        if mean is not None:
            total += mean * weight
            count += weight
    return total / count / 1e3 if count else None


def _fraction(rule: Rule, named: MetricReference, reader: Part, sample: Sample) -> Observation:
    part = _sum(sample, named, [reader.part])
    if rule.stat == "count":
        return part, None
    whole = _sum(sample, named, reader.whole)
    return (part / whole, None) if whole else (None, _no_sample())


def _sum(sample: Sample, named: MetricReference, paths: Sequence[str]) -> float:
    return sum(at(run, named.scoped(path), named.parts) or 0.0 for run in sample.runs for path in paths)


def judge(
    threshold: Threshold, cell: Mapping[str, str], sample: Sample, *, unfinished: bool = False
) -> Verdict:
    """The verdict on one threshold for one cell. `unfinished`: the cell has further planned runs, so it is not judged
    without a sample."""
    rule = threshold.rule
    observed, remark = observe(rule, sample)
    if observed is None and unfinished:
        return not_yet(threshold, cell)
    reasons = [] if remark is None else [remark]
    if observed is None:
        reasons = [replace(reason, severity=Severity.FAILED) for reason in reasons]
        return _verdict(threshold, cell, ThresholdVerdict.FAILED, None, reasons)
    if math.isinf(observed):
        held = rule.holds(observed)
        severity = Severity.NOTE if held else Severity.FAILED
        verdict = ThresholdVerdict.PASSED if held else ThresholdVerdict.FAILED
        return _verdict(
            threshold, cell, verdict, None, [replace(reason, severity=severity) for reason in reasons]
        )
    if rule.holds(observed):
        return _verdict(threshold, cell, ThresholdVerdict.PASSED, observed, reasons)
    figures: dict[str, Figure] = {"observed": observed, "limit": rule.value, "kind": _kind(rule)}
    broken = _reason(ThresholdReason.BROKEN, Severity.FAILED, **figures)
    return _verdict(threshold, cell, ThresholdVerdict.FAILED, observed, [broken, *reasons])


def not_yet(threshold: Threshold, cell: Mapping[str, str]) -> Verdict:
    """The verdict on a cell without measurements so far."""
    return _verdict(threshold, cell, ThresholdVerdict.NOT_JUDGED, None, [_reason(ThresholdReason.NOT_YET)])


def no_cell(threshold: Threshold) -> Verdict:
    """The verdict on a threshold that applies to no cell of the experiment."""
    reason = _reason(ThresholdReason.NO_CELL, Severity.FAILED)
    return _verdict(threshold, {}, ThresholdVerdict.FAILED, None, [reason])


def _verdict(
    threshold: Threshold,
    cell: Mapping[str, str],
    verdict: ThresholdVerdict,
    observed: float | None,
    reasons: Sequence[Reason],
) -> Verdict:
    """A verdict without texts."""
    return Verdict(
        metric=threshold.rule.metric,
        test=threshold.text,
        cell=dict(cell),
        observed=observed,
        passed=verdict == ThresholdVerdict.PASSED,
        reason="",
        judged=verdict != ThresholdVerdict.NOT_JUDGED,
        verdict=verdict,
        reasons=tuple(reasons),
        rule=verdict_rules.rule(RuleName.THRESHOLD),
        unit=_unit(threshold.rule),
    )


def _unit(rule: Rule) -> str:
    metric = describe(rule.metric)
    if _kind(rule) == "time":
        return "s"
    if metric.kind in ("bytes_rate", "bytes"):
        return "B/s" if metric.kind == "bytes_rate" else "B"
    return "" if _kind(rule) == "fraction" or rule.stat == "count" else metric.unit


def _reason(code: ThresholdReason, severity: Severity = Severity.NOTE, **values: Figure) -> Reason:
    return Reason(code, severity, values, verdict_rules.rule(RuleName.THRESHOLD))


def _no_sample() -> Reason:
    return _reason(ThresholdReason.NO_SAMPLE)


def _kind(rule: Rule) -> str:
    """Kind of the observed value: a time in seconds, a share of 1, or a plain number."""
    kind = describe(rule.metric).kind
    if kind == "ms":
        return "time"
    return "fraction" if kind == "fraction" and rule.stat != "count" else "number"
