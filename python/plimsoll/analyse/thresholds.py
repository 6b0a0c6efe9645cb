"""Judging rules on cells: from merged histograms and counts, never from averaged percentiles. No sample fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plimsoll.analyse.metrics import METRICS, canonical, latency
from plimsoll.analyse.quantiles import Histogram, merged, rank
from plimsoll.analyse.results import RunResult, Verdict
from plimsoll.analyse.wording import number, percent, quantity
from plimsoll.plan.model import Threshold
from plimsoll.plan.rules import COUNTS, FRACTIONS, TIMES, Rule

STALE_AGE = "stale_age"
"""The duration of which most transactions have none."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The valid runs of one cell, or one run of it, with their histograms (`RunSummary.histograms`, same order)."""

    runs: Sequence[RunResult]
    histograms: Sequence[Mapping[str, Histogram]]


def observe(rule: Rule, sample: Sample) -> tuple[float | None, str]:
    """The value that a rule is about, in SI units, and a remark ("" or what is weak about it). None: no sample."""
    if not sample.runs:
        return None, "no valid run"
    if rule.metric in TIMES:
        return _time(rule, sample)
    if rule.metric in FRACTIONS:
        return _fraction(rule, sample)
    if rule.metric in COUNTS and rule.metric != "concurrency":
        return float(sum(_count(run, rule.metric) for run in sample.runs)), ""
    read = METRICS[canonical(rule.metric) or rule.metric]
    known = [value for run in sample.runs if (value := read(run)) is not None]
    return (sum(known) / len(known), "") if known else (None, "no sample")


def _time(rule: Rule, sample: Sample) -> tuple[float | None, str]:
    whole = merged(h[rule.metric] for h in sample.histograms if rule.metric in h)
    total = whole.total
    if rule.metric == STALE_AGE and (rule.stat == "avg" or total == 0):
        return _stale_age(rule, sample)
    if total == 0 or whole.smallest is None or whole.largest is None:
        return None, "no sample"
    if rule.stat == "min":
        return whole.smallest / 1e9, ""
    if rule.stat == "max":
        return whole.largest / 1e9, ""
    if rule.stat == "avg":
        return _mean(rule.metric, sample), ""
    q = 0.5 if rule.arg is None else rule.arg / 100.0
    value = whole.quantile(q)
    beyond = total - rank(q, total) - 1
    weak = f"only {beyond} of {total} values lie beyond it" if beyond < 10 else ""
    return (None if value is None else value / 1e9), weak


def _mean(metric: str, sample: Sample) -> float | None:
    total, count = 0.0, 0
    for run in sample.runs:
        times = latency(run, metric)
        if times.mean is not None:
            total += times.mean * times.count
            count += times.count
    return total / count / 1e3 if count else None


def _stale_age(rule: Rule, sample: Sample) -> tuple[float | None, str]:
    """The mean is over all answers, those that were not stale with 0; where none was stale, every statistic is 0."""
    got = [run.staleness.readers for run in sample.runs if run.staleness is not None]
    answers, stale = sum(one.answers for one in got), sum(one.stale for one in got)
    if not answers:
        return None, "no sample"
    total = sum((one.stale_age_ms_mean or 0.0) * one.answers for one in got)
    return total / answers / 1e3, "" if stale else "no answer was stale"


def _fraction(rule: Rule, sample: Sample) -> tuple[float | None, str]:
    parts = [_part_and_whole(rule.metric, run) for run in sample.runs]
    part, whole = sum(each for each, _ in parts), sum(each for _, each in parts)
    if rule.stat == "count":
        return float(part), ""
    return (part / whole, "") if whole else (None, "no sample")


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


def _shown(rule: Rule, value: float) -> str:
    if rule.metric in TIMES:
        return quantity(
            value * 1e3, "ms", digits=4
        )  # one more than elsewhere: it may lie just beyond the rule
    if rule.metric in FRACTIONS and rule.stat != "count":
        return percent(value)
    return number(value, 5)
