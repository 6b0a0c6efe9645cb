"""The growth of memory with the number of testers, in sentences."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.components.memory import GrowthVerdict, MemoryGrowth
from plimsoll.analyse.results.verdicts import Finding, Topic, Value
from plimsoll.analyse.results.wording import count, level_words
from plimsoll.analyse.stats.interval import Interval
from plimsoll.plan.source.units import about_size

MAX_SENTENCES: Final = 3
SAME: Final = 0.98
"""Ends of two intervals within 2 % are not both stated."""


def of_memory(analysis: Analysis) -> tuple[Finding, ...]:
    """A sentence for each service whose memory grows with the number of testers."""
    shown = [growth for growth in analysis.memory_growth if growth.verdict != GrowthVerdict.NONE]
    return tuple(map(_finding, shown[:MAX_SENTENCES]))


def _finding(growth: MemoryGrowth) -> Finding:
    values: dict[str, Value] = {
        "component": growth.component,
        "slope": growth.slope.mean,
        "slope_low": growth.slope.low,
        "slope_high": growth.slope.high,
        "capacity": growth.capacity,
        "full_at": None if growth.full_at is None else growth.full_at.mean,
        "full_at_low": None if growth.full_at is None else growth.full_at.low,
        "full_at_high": None if growth.full_at is None else growth.full_at.high,
    }
    return Finding(Topic.MEMORY, memory_sentence(growth), growth.verdict, values, growth.rule)


def memory_sentence(growth: MemoryGrowth) -> str:
    """The sentence on one service."""
    where = f" with {level_words(growth.combination)}" if growth.combination else ""
    slope = growth.slope
    rate = f"{about_size(slope.mean)} per tester{_sizes(slope)}"
    text = f"The own memory of the service {growth.component}{where} grows by {rate}"
    match growth.verdict:
        case GrowthVerdict.CURVED:
            return f"{text} on average, but not in proportion: when it is full cannot be extrapolated."
        case GrowthVerdict.UNTESTED:
            return f"{text}; more levels or repetitions are needed to show whether it grows in proportion."
        case _:
            return f"{text}; {_full(growth)}."


def _full(growth: MemoryGrowth) -> str:
    if growth.capacity is None:
        return "the size at which memory is full is not known"
    what = "its limit" if growth.of == "limit" else "the memory that its host has for it"
    size = about_size(growth.capacity)
    if growth.full_at is None:
        return (
            f"{what}, {size}, is too far away to say at how many testers it is full (at most "
            f"{count(round(growth.reach))} are extrapolated)"
        )
    tried, full = count(growth.loads[-1]), full_at_words(growth, " testers")
    return (
        f"{what}, {size}, is full at about {full} if it keeps this slope, extrapolated from at most {tried}"
        f"{_if_curved(growth)}"
    )


def full_at_words(growth: MemoryGrowth, unit: str = "") -> str:
    """The number of testers at which memory is full, with its interval: `4,910 (4,700 to 5,140)`. Empty if it is not
    known."""
    at = growth.full_at
    if at is None:
        return ""
    ends = f" ({count(_digits(at.low))} to {count(_digits(at.high))})" if at.low and at.high else ""
    return f"{count(_digits(at.mean))}{unit}{ends}"


def _if_curved(growth: MemoryGrowth) -> str:
    """What a curve that the runs do not exclude would change; empty if that is less than the interval of the line."""
    line, low, high = growth.full_at, growth.curved_low, growth.curved_high
    if line is None or line.low is None or line.high is None or low is None:
        return ""
    if high is not None and SAME * line.low <= low and high <= line.high / SAME:
        return ""
    most = "or never" if high is None else f"to {count(_digits(high))}"
    return f"; with a curve that these runs do not exclude, at {count(_digits(low))} {most}"


def _digits(value: float | None) -> int:
    """At most three digits: a number of testers that was extrapolated is not known more exactly."""
    shown = max(0.0, value or 0.0)
    return round(shown) if shown < 1000 else int(float(f"{shown:.3g}"))


def _sizes(slope: Interval) -> str:
    if slope.low is None or slope.high is None:
        return ""
    return f" ({about_size(slope.low)} to {about_size(slope.high)})"
