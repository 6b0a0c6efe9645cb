"""The value of a rule's metric over the runs of a cell, with the interval over these runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from plimsoll.analyse.design.thresholds import Sample, observe
from plimsoll.analyse.results.metrics import at
from plimsoll.analyse.stats.means import cell_intervals
from plimsoll.analyse.stats.proportion import error_rate
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.rules import Rule
from plimsoll.plan.metrics.table import Kind, MetricReference, Part, Total

_SKEWED: Final = (Kind.TIME, Kind.RATE, Kind.SIZE)
"""Kinds whose error is relative, so that their interval is computed on logarithms."""
_SHARES: Final = (Kind.SHARE, Kind.RESOURCE)


@dataclass(frozen=True, slots=True)
class RuleValue:
    """The value on which a rule is judged, in the unit of the rule. None: no value, or no interval."""

    value: float | None
    low: float | None = None
    high: float | None = None


def observed(rule: Rule, sample: Sample, *, confidence: float = 0.95) -> RuleValue:
    """The value of a cell with its interval.

    Shares of counts, such as the error rate, have the interval of counts with a design effect, which is not empty when
    no run counted anything. Every other value has the t interval over the runs, by the variance of this cell: on
    logarithms for times, rates and sizes, and within 0 and 1 for shares. The interval of a sum over the runs is that of
    their mean, times their number. The interval of a value that is infinite in each of at least two runs is that value.
    """
    value, _ = observe(rule, sample)
    named = catalogue.METRICS.find(rule.metric)
    assert named is not None  # parse_rule refuses it
    if value is None:
        return RuleValue(value)
    if not math.isfinite(value):
        each = [observe(rule, one)[0] for one in sample.each()]
        return RuleValue(value, value, value) if len(each) > 1 and set(each) == {value} else RuleValue(value)
    if isinstance(named.metric.reader, Part) and rule.stat != "count":
        return _of_counts(named, named.metric.reader, value, sample, confidence)
    return _of_values(rule, named, value, sample, confidence)


def _of_counts(
    named: MetricReference, reader: Part, value: float, sample: Sample, confidence: float
) -> RuleValue:
    def sums(paths: Sequence[str]) -> list[int]:
        return [
            round(sum(at(run, named.scoped(path), named.parts) or 0.0 for path in paths))
            for run in sample.runs
        ]

    parts, wholes = sums([reader.part]), sums(reader.whole)
    if any(part > whole for part, whole in zip(parts, wholes, strict=True)):
        return RuleValue(value)  # fetches per answer: no share of a whole
    rate = error_rate(parts, wholes, confidence=confidence, few_runs=True)
    return RuleValue(value) if rate is None else RuleValue(value, rate.low, rate.high)


def _of_values(
    rule: Rule, named: MetricReference, value: float, sample: Sample, confidence: float
) -> RuleValue:
    values = [single for one in sample.each() if (single := observe(rule, one)[0]) is not None]
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return RuleValue(value)
    kind = named.metric.kind
    (interval,) = cell_intervals(
        [np.array(values)], separate=True, log=kind in _SKEWED, confidence=confidence
    )
    if interval is None or interval.low is None or interval.high is None:
        return RuleValue(value)
    is_sum = isinstance(named.metric.reader, Total) or rule.stat == "count"
    times = len(values) if is_sum and isinstance(named.metric.reader, Total | Part) else 1
    low, high = interval.low * times, interval.high * times
    if kind in _SHARES and rule.stat != "count":
        low, high = max(low, 0.0), min(high, 1.0)
    return RuleValue(value, low, high)
