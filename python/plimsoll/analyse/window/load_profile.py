"""The planned load of a run that changes by plan, and the parts of equal load steps that it is cut into."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from plimsoll.analyse.window.transactions import Window

STEPS = 10
"""Bins over the whole range of the load."""
MAX_BINS = 100

LoadUnit = Literal["rate", "testers"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a planned load, linear from `low` to `high` (the values at its start and end). Times in ns."""

    start: int
    end: int
    first: float
    last: float

    def at(self, time: float) -> float:
        """The load at a time of the piece."""
        return self.first + (self.last - self.first) * (time - self.start) / (self.end - self.start)

    def cut(self, start: int, end: int) -> Piece:
        """The part between two times within it."""
        return Piece(start, end, self.at(start), self.at(end))


@dataclass(frozen=True, slots=True)
class Profile:
    """The planned load of a run over time: starts per second, or testers."""

    unit: LoadUnit
    pieces: tuple[Piece, ...]


def load_bins(profile: Profile, measured: Window) -> tuple[Piece, ...]:
    """The measured window in parts of about equal load steps, a tenth of its range; where the load stays the same, one
    part. Empty where the load does not change, or in more than MAX_BINS ways."""
    pieces = [
        each.cut(max(each.start, measured.start), min(each.end, measured.end))
        for each in profile.pieces
        if min(each.end, measured.end) > max(each.start, measured.start)
    ]
    loads = [load for each in pieces for load in (each.first, each.last)]
    if not loads or max(loads) <= min(loads):
        return ()
    step = (max(loads) - min(loads)) / STEPS
    if profile.unit == "testers":
        step = math.ceil(step - 1e-9)
    bins: list[Piece] = []
    for each in pieces:
        steps = abs(each.last - each.first) / step
        parts = max(1, round(steps)) if profile.unit == "rate" else max(1, math.ceil(steps - 1e-9))
        length = (each.end - each.start) / (parts if profile.unit == "rate" else max(1.0, steps))
        edges = [min(each.end, each.start + round(length * part)) for part in range(parts)] + [each.end]
        bins += [each.cut(start, end) for start, end in pairwise(edges) if end > start]
    return tuple(bins) if 2 <= len(bins) <= MAX_BINS else ()


def rising(bins: Sequence[Piece]) -> range:
    """The longest part in which the load never falls and rises at least once; empty if there is none."""
    best = range(0)
    start = 0
    for at, each in enumerate(bins):
        if each.last < each.first:
            start = at + 1
            continue
        if at > start and each.first < bins[at - 1].last - 1e-9:
            start = at
        if each.last > bins[start].first and at + 1 - start > len(best):
            best = range(start, at + 1)
    return best


def never_started(
    given_up: Iterable[tuple[int, int]], bins: Sequence[Piece], last_scheduled: int
) -> list[int]:
    """How many transactions of each bin never started. `given_up`: when starts were given up (the middle of a second,
    ns) and how many; `last_scheduled`: planned start of the last that did start.

    Of what was given up after the last bin, all was due after the last start, as slots take arrivals in their order; it
    is dealt by the planned rate. The whole parts add up to the whole.
    """
    shares = [0.0] * len(bins)
    end = bins[-1].end
    for at, times in given_up:
        low, high = (min(last_scheduled, end - 1), end) if at >= end else (at - 5 * 10**8, at + 5 * 10**8)
        weights = [_planned(each, low, high) for each in bins]
        total = sum(weights)
        if total > 0:
            shares = [old + times * weight / total for old, weight in zip(shares, weights, strict=True)]
    found, sum_before = [], 0.0
    for share in shares:
        found.append(round(sum_before + share) - round(sum_before))
        sum_before += share
    return found


def _planned(bin_: Piece, low: int, high: int) -> float:
    start, end = max(bin_.start, low), min(bin_.end, high)
    return (end - start) * bin_.at((start + end) / 2) if end > start else 0.0
