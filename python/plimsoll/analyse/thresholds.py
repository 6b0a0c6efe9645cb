"""Judging rules on cells: from merged histograms and counts, never from averaged percentiles. No sample fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from plimsoll.analyse import verdict_rules
from plimsoll.analyse.metrics import METRICS, canonical, latency
from plimsoll.analyse.quantiles import Histogram, merged, rank
from plimsoll.analyse.results import RunResult, Verdict
from plimsoll.analyse.results_verdicts import Reason, Severity, ThresholdReason, ThresholdVerdict, Value
from plimsoll.analyse.verdict_rules import RuleName
from plimsoll.plan.model import Threshold
from plimsoll.plan.rules import COUNTS, FRACTIONS, TIMES, Rule

FEW = 10
"""Values beyond a percentile below which it is weak."""
STALE_AGE = "stale_age"
"""The duration of which most transactions have none."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The valid runs of one cell, or one run of it, with their histograms (`RunSummary.histograms`, same order)."""

    runs: Sequence[RunResult]
    histograms: Sequence[Mapping[str, Histogram]]


Observed = tuple[float | None, Reason | None]


def observe(rule: Rule, sample: Sample) -> Observed:
    """The value that a rule is about, in SI units, and what is weak about it. None: no sample."""
    if not sample.runs:
        return None, _reason(ThresholdReason.NO_VALID_RUN)
    if rule.metric in TIMES:
        return _time(rule, sample)
    if rule.metric in FRACTIONS:
        return _fraction(rule, sample)
    if rule.metric in COUNTS and rule.metric != "concurrency":
        return float(sum(_count(run, rule.metric) for run in sample.runs)), None
    read = METRICS[canonical(rule.metric) or rule.metric]
    known = [value for run in sample.runs if (value := read(run)) is not None]
    return (sum(known) / len(known), None) if known else (None, _no_sample())


def _time(rule: Rule, sample: Sample) -> Observed:
    whole = merged(h[rule.metric] for h in sample.histograms if rule.metric in h)
    total = whole.total
    if rule.metric == STALE_AGE and (rule.stat == "avg" or total == 0):
        return _stale_age(rule, sample)
    if total == 0 or whole.smallest is None or whole.largest is None:
        return None, _no_sample()
    if rule.stat == "min":
        return whole.smallest / 1e9, None
    if rule.stat == "max":
        return whole.largest / 1e9, None
    if rule.stat == "avg":
        return _mean(rule.metric, sample), None
    q = 0.5 if rule.arg is None else rule.arg / 100.0
    value = whole.quantile(q)
    beyond = total - rank(q, total) - 1
    weak = _reason(ThresholdReason.FEW_BEYOND, beyond=beyond, of=total) if beyond < FEW else None
    return (None if value is None else value / 1e9), weak


def _mean(metric: str, sample: Sample) -> float | None:
    total, count = 0.0, 0
    for run in sample.runs:
        times = latency(run, metric)
        if times.mean is not None:
            total += times.mean * times.count
            count += times.count
    return total / count / 1e3 if count else None


def _stale_age(rule: Rule, sample: Sample) -> Observed:
    """The mean is over all answers, those that were not stale with 0; where none was stale, every statistic is 0."""
    got = [run.staleness.readers for run in sample.runs if run.staleness is not None]
    answers, stale = sum(one.answers for one in got), sum(one.stale for one in got)
    if not answers:
        return None, _no_sample()
    total = sum((one.stale_age_ms_mean or 0.0) * one.answers for one in got)
    return total / answers / 1e3, None if stale else _reason(ThresholdReason.NOTHING_STALE)


def _fraction(rule: Rule, sample: Sample) -> Observed:
    parts = [_part_and_whole(rule.metric, run) for run in sample.runs]
    part, whole = sum(each for each, _ in parts), sum(each for _, each in parts)
    if rule.stat == "count":
        return float(part), None
    return (part / whole, None) if whole else (None, _no_sample())


def _part_and_whole(metric: str, run: RunResult) -> tuple[int, int]:
    if metric == "errors":
        return run.traffic.errors, run.traffic.errors + run.traffic.transactions
    if run.staleness is None:
        return 0, 0
    got = run.staleness.readers
    match metric:
        case "stale_share":
            return got.stale, got.answers
        case "origin_share":
            return got.fetches, got.answers
        case _:
            return got.needless, got.fetches


def _count(run: RunResult, metric: str) -> int:
    match metric:
        case "dropped":
            return run.counts.dropped
        case "missed":
            return run.counts.missed
        case _:
            return run.traffic.transactions


def judge(
    threshold: Threshold, cell: Mapping[str, str], sample: Sample, *, unfinished: bool = False
) -> Verdict:
    """One threshold on one cell. `unfinished`: runs of the cell are still to come, which may bring a sample."""
    asked = threshold.rule
    observed, remark = observe(asked, sample)
    if observed is None and unfinished:
        return not_yet(threshold, cell)
    reasons = [] if remark is None else [remark]
    if observed is None:
        reasons = [replace(each, severity=Severity.FAILED) for each in reasons]
        return _verdict(threshold, cell, ThresholdVerdict.FAILED, None, reasons)
    if asked.holds(observed):
        return _verdict(threshold, cell, ThresholdVerdict.PASSED, observed, reasons)
    figures: dict[str, Value] = {"observed": observed, "limit": asked.value, "kind": _kind(asked)}
    broken = _reason(ThresholdReason.BROKEN, Severity.FAILED, **figures)
    return _verdict(threshold, cell, ThresholdVerdict.FAILED, observed, [broken, *reasons])


def not_yet(threshold: Threshold, cell: Mapping[str, str]) -> Verdict:
    """The verdict on a cell of which nothing was measured so far."""
    return _verdict(threshold, cell, ThresholdVerdict.NOT_JUDGED, None, [_reason(ThresholdReason.NOT_YET)])


def no_cell(threshold: Threshold) -> Verdict:
    """The verdict on a threshold that is for no cell of the experiment."""
    reason = _reason(ThresholdReason.NO_CELL, Severity.FAILED)
    return _verdict(threshold, {}, ThresholdVerdict.FAILED, None, [reason])


def _verdict(
    threshold: Threshold,
    cell: Mapping[str, str],
    verdict: ThresholdVerdict,
    observed: float | None,
    reasons: Sequence[Reason],
) -> Verdict:
    """Without texts."""
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
    )


def _reason(code: ThresholdReason, severity: Severity = Severity.NOTE, **values: Value) -> Reason:
    return Reason(code, severity, values, verdict_rules.rule(RuleName.THRESHOLD))


def _no_sample() -> Reason:
    return _reason(ThresholdReason.NO_SAMPLE)


def _kind(rule: Rule) -> str:
    """Of what is observed: a time in seconds, a share of 1, or a plain number."""
    if rule.metric in TIMES:
        return "time"
    return "fraction" if rule.metric in FRACTIONS and rule.stat != "count" else "number"
