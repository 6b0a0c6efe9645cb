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
        return _errors(rule, sample)
    if rule.metric in COUNTS and rule.metric != "concurrency":
        return float(sum(_count(run, rule.metric) for run in sample.runs)), ""
    read = METRICS[canonical(rule.metric) or rule.metric]
    known = [value for run in sample.runs if (value := read(run)) is not None]
    return (sum(known) / len(known), "") if known else (None, "no sample")


def _time(rule: Rule, sample: Sample) -> tuple[float | None, str]:
    whole = merged(h[rule.metric] for h in sample.histograms if rule.metric in h)
    total = whole.total
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


def _errors(rule: Rule, sample: Sample) -> tuple[float | None, str]:
    failed = sum(run.traffic.errors for run in sample.runs)
    ended = failed + sum(run.traffic.transactions for run in sample.runs)
    if rule.stat == "count":
        return float(failed), ""
    return (failed / ended, "") if ended else (None, "no sample")


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
