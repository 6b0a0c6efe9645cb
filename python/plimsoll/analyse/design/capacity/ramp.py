"""A run whose load changes by plan: its window in bins of equal load steps, and the load from which each rule fails.

The target lags behind a rising load: the transactions in progress are the result of loads that were not higher. If a
rule fails in a bin, it would therefore also fail under a constant load of the upper end of that bin (a queue under a
lower load is never longer), unless the target becomes faster as it warms up. So the load from which a rule fails is an
upper bound of the load at which the target satisfies the rule. If a rule holds in a bin, nothing follows for a constant
load.

A single bin can fail by chance, so the rule must fail in at least STREAK bins up to the highest load. With one bin, 1
to 20 % of the ramps that end just below the true limit had the verdict "fails"; with two at most 4 %
(tests/stats/test_ramp.py).

Rejected: more and shorter bins, which are too small for a percentile; a fit of the response time over the load, whose
assumption the lag violates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from plimsoll.analyse.design.thresholds import Sample, observe
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import Ramp, RampBin, RampRule, RampStep, Traffic
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import BinOutcome, RampVerdict, ThresholdReason
from plimsoll.analyse.stats.proportion import clopper_pearson
from plimsoll.analyse.stats.quantiles import Histogram, bucket_edges
from plimsoll.analyse.window.load_profile import LoadUnit, Piece, Profile, rising
from plimsoll.analyse.window.steps import Step
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.rules import Rule
from plimsoll.plan.metrics.table import TRAFFIC, Distribution, Part, Value

STREAK = 2
"""Minimum number of bins, up to the highest load, in which a rule must fail."""
MIN_TRANSACTIONS = 30
"""Minimum number of transactions in a bin for a verdict."""

Bin = tuple[Traffic, Mapping[str, Histogram]]
"""The figures of a bin, and its histograms by metric."""


def ramp(
    run: RunResult, profile: Profile, bins: Sequence[Piece], figures: Sequence[Bin], rules: Iterable[Rule]
) -> Ramp:
    """The run by load, with each rule that can be judged bin by bin. On an invalid run no rule is judged."""
    rising_bins = rising(bins)
    samples = [Sample([replace(run, traffic=traffic)], [times]) for traffic, times in figures]
    shown = tuple(
        RampBin(bin_.start / 1e9, bin_.end / 1e9, *_load_range(bin_, profile.unit), traffic)
        for bin_, (traffic, _) in zip(bins, figures, strict=True)
    )
    judged_rules = (
        {(rule_.metric, rule_.text): rule_ for rule_ in rules if _is_on_traffic(rule_)} if run.valid else {}
    )
    return Ramp(
        unit=profile.unit,
        bins=shown,
        rising=(rising_bins.start, rising_bins.stop),
        rules=tuple(_ramp_rule(rule_, samples, shown, rising_bins) for rule_ in judged_rules.values()),
    )


def ramp_step(step: Step, traffic: Traffic) -> RampStep:
    """The result of a step of a ramp of testers."""
    return RampStep(step.start / 1e9, step.end / 1e9, step.low, step.high, step.merged, traffic)


def _load_range(bin_: Piece, unit: LoadUnit) -> tuple[float, float]:
    low, high = sorted((bin_.first, bin_.last))
    if unit == "rate" or high == low:
        return low, high
    if bin_.first > bin_.last:
        return math.floor(low + 1e-9) + 1, math.ceil(high - 1e-9)
    # The number of whole testers just before the end of the bin.
    return math.floor(low + 1e-9), max(math.floor(low + 1e-9), math.ceil(high - 1e-9) - 1)


def _is_on_traffic(rule_: Rule) -> bool:
    """Whether a rule is on a figure that a part of a run has. Counts are excluded: they depend on the length of it."""
    named = catalogue.METRICS.find(rule_.metric)
    reader = named.metric.reader if named is not None and named.scope is None else None
    known = isinstance(reader, Distribution | Part | Value) and reader.path.startswith(TRAFFIC)
    return known and rule_.stat != "count"


def _ramp_rule(
    rule_: Rule, samples: Sequence[Sample], bins: Sequence[RampBin], rising_bins: range
) -> RampRule:
    judged = [_outcome(rule_, sample) for sample in samples]
    outcomes = [outcome for outcome, _ in judged]
    verdict, at = failure_verdict([outcomes[position] for position in rising_bins])
    first = None if at is None else rising_bins.start + at
    held = [
        position
        for position in rising_bins
        if outcomes[position] == BinOutcome.HELD and (first is None or position < first)
    ]
    return RampRule(
        metric=rule_.metric,
        test=rule_.text,
        verdict=verdict,
        first=first,
        load_low=None if first is None else bins[first].load_low,
        load_high=None if first is None else bins[first].load_high,
        held_up_to=bins[held[-1]].load_high if held else None,
        outcomes=tuple(outcomes),
        observed=tuple(value for _, value in judged),
        rule=rule(RuleName.RAMP),
    )


def _outcome(rule_: Rule, sample: Sample) -> tuple[BinOutcome, float | None]:
    """Outcome of one bin, with the value. Transactions of an open load that did not complete count as longer than any
    limit."""
    value, weak = observe(rule_, sample)
    traffic = sample.runs[0].traffic
    ended = traffic.response_ms.count + traffic.response_ms.missing + traffic.errors
    if value is None or ended < MIN_TRANSACTIONS:
        return BinOutcome.NOT_JUDGED, value
    shown = value if math.isfinite(value) else None
    if weak is not None and weak.code == ThresholdReason.FEW_BEYOND:
        return _outcome_of_few(rule_, sample), shown
    return (BinOutcome.HELD if rule_.holds(value) else BinOutcome.FAILED), shown


def _outcome_of_few(rule_: Rule, sample: Sample) -> BinOutcome:
    """Outcome for a percentile with few values beyond it. It is judged only if the share of values beyond the limit is
    shown to be on one side of that of the percentile (95 %, exact; Clopper and Pearson 1934)."""
    named = catalogue.METRICS.find(rule_.metric)
    name = named.histogram if named is not None else None
    times = sample.histograms[0][name or ""]
    edges, _ = bucket_edges(np.array(times.bucket, dtype=np.int64))
    above = sum(
        count for count, edge in zip(times.count, edges.tolist(), strict=True) if edge >= rule_.value * 1e9
    )
    above += times.missing + times.failed
    low, high = clopper_pearson(above, sum(times.count) + times.missing + times.failed, confidence=0.9)
    share = 1 - (0.5 if rule_.arg is None else rule_.arg / 100)
    if low > share:
        return BinOutcome.FAILED if rule_.upper else BinOutcome.HELD
    if high < share:
        return BinOutcome.HELD if rule_.upper else BinOutcome.FAILED
    return BinOutcome.NOT_JUDGED


def failure_verdict(outcomes: Sequence[BinOutcome]) -> tuple[RampVerdict, int | None]:
    """The verdict on a rule over the bins of a rising load, and the bin from which on it failed up to the highest
    load."""
    judged = [at for at, outcome in enumerate(outcomes) if outcome != BinOutcome.NOT_JUDGED]
    failed = [at for at in judged if outcomes[at] == BinOutcome.FAILED]
    if not judged:
        return RampVerdict.NOT_JUDGED, None
    if not failed:
        return RampVerdict.HELD, None
    last_held = max((at for at in judged if outcomes[at] == BinOutcome.HELD), default=-1)
    streak = [at for at in failed if at > last_held]
    if not streak:
        return RampVerdict.RECOVERED, None
    if len(streak) < STREAK:
        return RampVerdict.LAST_ONLY, streak[0]
    return (RampVerdict.FAILED_THROUGHOUT if last_held < 0 else RampVerdict.FAILED_FROM), streak[0]
