"""A run whose load changes by plan: its window in bins of equal load steps, and where each rule begins to fail.

The target lags behind a rising load: what is in progress was built up by loads that were no higher. Where a rule fails,
a constant load of the upper end of that bin would therefore fail it too (a queue under a lower load is never longer),
unless the target becomes faster as it warms up. So the load where a rule begins to fail is an upper bound of the load
that the target carries within the rule. Where a rule still held, nothing follows for a constant load.

A single bin fails by chance: the rule must fail in at least STREAK bins up to the highest load. With one bin, 1 to 20 %
of ramps that end just below the true limit were said to fail; with two at most 4 % (tests/stats/test_ramp.py).

Rejected: more and shorter bins, which carry no percentile; a fit of the response time over the load, which assumes what
the lag makes wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from plimsoll.analyse.design.thresholds import Sample, observe
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import Ramp, RampBin, RampRule, Traffic
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import BinOutcome, RampVerdict, ThresholdReason
from plimsoll.analyse.stats.proportion import clopper_pearson
from plimsoll.analyse.stats.quantiles import Histogram, bucket_edges
from plimsoll.analyse.window.load_profile import LoadUnit, Piece, Profile, rising
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.rules import Rule
from plimsoll.plan.metrics.table import TRAFFIC, Distribution, Part, Value

STREAK = 2
"""Bins in which a rule must fail, up to the highest load."""
FEWEST = 30
"""Transactions of a bin below which no rule is judged."""

Bin = tuple[Traffic, Mapping[str, Histogram]]
"""The figures of a bin, and its histograms by metric."""


def ramp(
    run: RunResult, profile: Profile, bins: Sequence[Piece], found: Sequence[Bin], rules: Iterable[Rule]
) -> Ramp:
    """The run by load, with each rule that can be judged bin by bin. An invalid run judges none."""
    up = rising(bins)
    samples = [Sample([replace(run, traffic=traffic)], [times]) for traffic, times in found]
    shown = tuple(
        RampBin(each.start / 1e9, each.end / 1e9, *_ends(each, profile.unit), traffic)
        for each, (traffic, _) in zip(bins, found, strict=True)
    )
    wanted = {(each.metric, each.text): each for each in rules if _of_traffic(each)} if run.valid else {}
    return Ramp(
        unit=profile.unit,
        bins=shown,
        rising=(up.start, up.stop),
        rules=tuple(_judged(each, samples, shown, up) for each in wanted.values()),
    )


def _ends(bin_: Piece, unit: LoadUnit) -> tuple[float, float]:
    low, high = sorted((bin_.first, bin_.last))
    if unit == "rate" or high == low:
        return low, high
    if bin_.first > bin_.last:
        return math.floor(low + 1e-9) + 1, math.ceil(high - 1e-9)
    # So many whole testers there are just before the end of the bin.
    return math.floor(low + 1e-9), max(math.floor(low + 1e-9), math.ceil(high - 1e-9) - 1)


def _of_traffic(asked: Rule) -> bool:
    """Whether a rule is on a figure that a part of a run has; counts depend on the length of the part."""
    named = catalogue.METRICS.find(asked.metric)
    reader = named.metric.reader if named is not None else None
    known = isinstance(reader, Distribution | Part | Value) and reader.path.startswith(TRAFFIC)
    return known and asked.stat != "count"


def _judged(asked: Rule, samples: Sequence[Sample], bins: Sequence[RampBin], up: range) -> RampRule:
    seen = [_outcome(asked, sample) for sample in samples]
    outcomes = [outcome for outcome, _ in seen]
    verdict, at = where_it_fails([outcomes[place] for place in up])
    first = None if at is None else up.start + at
    held = [place for place in up if outcomes[place] == BinOutcome.HELD and (first is None or place < first)]
    return RampRule(
        metric=asked.metric,
        test=asked.text,
        verdict=verdict,
        first=first,
        load_low=None if first is None else bins[first].load_low,
        load_high=None if first is None else bins[first].load_high,
        held_up_to=bins[held[-1]].load_high if held else None,
        outcomes=tuple(outcomes),
        observed=tuple(value for _, value in seen),
        rule=rule(RuleName.RAMP),
    )


def _outcome(asked: Rule, sample: Sample) -> tuple[BinOutcome, float | None]:
    """Of one bin, with the value. What did not complete in an open load took longer than any limit."""
    value, weak = observe(asked, sample)
    traffic = sample.runs[0].traffic
    ended = traffic.response_ms.count + traffic.response_ms.missing + traffic.errors
    if value is None or ended < FEWEST:
        return BinOutcome.NOT_JUDGED, value
    shown = value if math.isfinite(value) else None
    if weak is not None and weak.code == ThresholdReason.FEW_BEYOND:
        return _of_few(asked, sample), shown
    return (BinOutcome.HELD if asked.holds(value) else BinOutcome.FAILED), shown


def _of_few(asked: Rule, sample: Sample) -> BinOutcome:
    """A percentile with few values beyond it: judged only where the share of values beyond the limit is sure to be on
    one side of that of the percentile (95 %, exact; Clopper and Pearson 1934)."""
    named = catalogue.METRICS.find(asked.metric)
    name = named.histogram if named is not None else None
    times = sample.histograms[0][name or ""]
    edges, _ = bucket_edges(np.array(times.bucket, dtype=np.int64))
    above = sum(n for n, edge in zip(times.count, edges.tolist(), strict=True) if edge >= asked.value * 1e9)
    above += times.missing + times.failed
    low, high = clopper_pearson(above, sum(times.count) + times.missing + times.failed, confidence=0.9)
    share = 1 - (0.5 if asked.arg is None else asked.arg / 100)
    if low > share:
        return BinOutcome.FAILED if asked.upper else BinOutcome.HELD
    if high < share:
        return BinOutcome.HELD if asked.upper else BinOutcome.FAILED
    return BinOutcome.NOT_JUDGED


def where_it_fails(outcomes: Sequence[BinOutcome]) -> tuple[RampVerdict, int | None]:
    """The verdict on a rule over the bins of a rising load, and the bin from which on it failed up to the highest
    load."""
    judged = [at for at, each in enumerate(outcomes) if each != BinOutcome.NOT_JUDGED]
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
