"""Judging rules on cells: from merged histograms and counts, never from averaged percentiles. No sample fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plimsoll.analyse.metrics import at, mean_and_weight, value
from plimsoll.analyse.quantiles import Histogram, merged, rank
from plimsoll.analyse.results import RunResult, Verdict
from plimsoll.analyse.wording import describe, number, percent, quantity
from plimsoll.plan import metrics
from plimsoll.plan.metric_table import Distribution, Named, Part, Total, Value
from plimsoll.plan.model import Threshold
from plimsoll.plan.rules import Rule


@dataclass(frozen=True, slots=True)
class Sample:
    """The valid runs of one cell, or one run of it, with their histograms (`RunSummary.histograms`, same order)."""

    runs: Sequence[RunResult]
    histograms: Sequence[Mapping[str, Histogram]]


def observe(rule: Rule, sample: Sample) -> tuple[float | None, str]:
    """The value that a rule is about, in SI units, and a remark ("" or what is weak about it). None: no sample."""
    if not sample.runs:
        return None, "no valid run"
    named = metrics.METRICS.find(rule.metric)
    assert named is not None  # parse_rule refuses it
    match named.metric.reader:
        case Distribution() as reader:
            return _time(rule, named, reader, sample)
        case Part() as reader:
            return _fraction(rule, named, reader, sample)
        case Total():
            return sum(value(run, named) or 0.0 for run in sample.runs), ""
        case Value():
            known = [found for run in sample.runs if (found := value(run, named)) is not None]
            return (sum(known) / len(known), "") if known else (None, "no sample")


def _time(rule: Rule, named: Named, reader: Distribution, sample: Sample) -> tuple[float | None, str]:
    name = named.histogram or ""
    whole = merged(h[name] for h in sample.histograms if name in h)
    total = whole.total
    if reader.absent and (rule.stat == "avg" or total == 0):
        found = _mean(named, sample)
        some = any(at(run, named.scoped(reader.some), named.parts) for run in sample.runs)
        return found, "no sample" if found is None else "" if some else reader.absent
    if total == 0 or whole.smallest is None or whole.largest is None:
        return None, "no sample"
    if rule.stat == "min":
        return whole.smallest / 1e9, ""
    if rule.stat == "max":
        return whole.largest / 1e9, ""
    if rule.stat == "avg":
        return _mean(named, sample), ""
    q = 0.5 if rule.arg is None else rule.arg / 100.0
    quantile = whole.quantile(q)
    beyond = total - rank(q, total) - 1
    weak = f"only {beyond} of {total} values lie beyond it" if beyond < 10 else ""
    return (None if quantile is None else quantile / 1e9), weak


def _mean(named: Named, sample: Sample) -> float | None:
    total, count = 0.0, 0.0
    for run in sample.runs:
        mean, weight = mean_and_weight(run, named)
        if mean is not None:
            total += mean * weight
            count += weight
    return total / count / 1e3 if count else None


def _fraction(rule: Rule, named: Named, reader: Part, sample: Sample) -> tuple[float | None, str]:
    part = _sum(sample, named, [reader.part])
    if rule.stat == "count":
        return part, ""
    whole = _sum(sample, named, reader.whole)
    return (part / whole, "") if whole else (None, "no sample")


def _sum(sample: Sample, named: Named, paths: Sequence[str]) -> float:
    return sum(at(run, named.scoped(path), named.parts) or 0.0 for run in sample.runs for path in paths)


def judge(
    threshold: Threshold, cell: Mapping[str, str], sample: Sample, *, unfinished: bool = False
) -> Verdict:
    """One threshold on one cell. `unfinished`: runs of the cell are still to come, which may bring a sample."""
    rule = threshold.rule
    observed, remark = observe(rule, sample)
    if observed is None and unfinished:
        return not_yet(threshold, cell)
    if observed is None:
        return Verdict(rule.metric, threshold.text, dict(cell), None, False, f"failed: {remark}")
    passed = rule.holds(observed)
    reason = "" if passed else f"{_shown(rule, observed)} where {threshold.text} was asked"
    return Verdict(
        rule.metric, threshold.text, dict(cell), observed, passed, "; ".join(p for p in (reason, remark) if p)
    )


def not_yet(threshold: Threshold, cell: Mapping[str, str]) -> Verdict:
    """The verdict on a cell of which nothing was measured so far."""
    reason = "not judged yet: no valid run so far"
    return Verdict(threshold.rule.metric, threshold.text, dict(cell), None, False, reason, judged=False)


def _shown(rule: Rule, observed: float) -> str:
    kind = describe(rule.metric).kind
    if kind == "ms":  # one digit more than elsewhere: it may lie just beyond the rule
        return quantity(observed * 1e3, "ms", digits=4)
    if kind == "fraction" and rule.stat != "count":
        return percent(observed)
    return number(observed, 5)
