"""The planned load of a run that changes by plan, and its division into bins of equal load steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from plimsoll.analyse.window.transactions import Window

STEPS = 10
"""Number of bins over the whole range of the load."""
MAX_BINS = 100

LoadUnit = Literal["rate", "testers"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a planned load, linear from `first` (at its start) to `last` (at its end). Times in ns."""

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
class Joins:
    """The testers of a ramp: tester i of `testers` joins at i times `every` and stays for `life`, ns (None: to the end
    of the run)."""

    testers: int
    every: int
    life: int | None


@dataclass(frozen=True, slots=True)
class Profile:
    """The planned load of a run over time: starts per second, or testers. `joins`: of a ramp (None: of another load,
    or of a run of an older release)."""

    unit: LoadUnit
    pieces: tuple[Piece, ...]
    joins: Joins | None = None


def load_bins(profile: Profile, measured: Window) -> tuple[Piece, ...]:
    """The measured window in bins of about equal load steps, a tenth of the range of the load. A part of constant load
    is one bin. Empty if the load does not change, or if there would be more than MAX_BINS bins."""
    pieces = [
        piece.cut(max(piece.start, measured.start), min(piece.end, measured.end))
        for piece in profile.pieces
        if min(piece.end, measured.end) > max(piece.start, measured.start)
    ]
    loads = [load for piece in pieces for load in (piece.first, piece.last)]
    if not loads or max(loads) <= min(loads):
        return ()
    step = (max(loads) - min(loads)) / STEPS
    if profile.unit == "testers":
        step = math.ceil(step - 1e-9)
    bins: list[Piece] = []
    for piece in pieces:
        steps = abs(piece.last - piece.first) / step
        parts = max(1, round(steps)) if profile.unit == "rate" else max(1, math.ceil(steps - 1e-9))
        length = (piece.end - piece.start) / (parts if profile.unit == "rate" else max(1.0, steps))
        edges = [min(piece.end, piece.start + round(length * part)) for part in range(parts)] + [piece.end]
        bins += [piece.cut(start, end) for start, end in pairwise(edges) if end > start]
    return tuple(bins) if 2 <= len(bins) <= MAX_BINS else ()


def rising(bins: Sequence[Piece]) -> range:
    """The longest part in which the load never falls and rises at least once; empty if there is none."""
    best = range(0)
    start = 0
    for at, bin_ in enumerate(bins):
        if bin_.last < bin_.first:
            start = at + 1
            continue
        if at > start and bin_.first < bins[at - 1].last - 1e-9:
            start = at
        if bin_.last > bins[start].first and at + 1 - start > len(best):
            best = range(start, at + 1)
    return best


def never_started(
    given_up: Iterable[tuple[int, int]], bins: Sequence[Piece], last_scheduled: int
) -> list[int]:
    """Number of transactions of each bin that never started. `given_up`: the time at which starts were given up (the
    middle of a second, ns) and their number; `last_scheduled`: planned start (ns) of the last transaction that started.

    All starts that were given up after the last bin were due after the last start, because slots take arrivals in their
    order. They are distributed over the bins by the planned rate. The rounded counts add up to the rounded total.
    """
    shares = [0.0] * len(bins)
    end = bins[-1].end
    for at, times in given_up:
        low, high = (min(last_scheduled, end - 1), end) if at >= end else (at - 5 * 10**8, at + 5 * 10**8)
        weights = [_planned_starts(bin_, low, high) for bin_ in bins]
        total = sum(weights)
        if total > 0:
            shares = [old + times * weight / total for old, weight in zip(shares, weights, strict=True)]
    counts, sum_before = [], 0.0
    for share in shares:
        counts.append(round(sum_before + share) - round(sum_before))
        sum_before += share
    return counts


def _planned_starts(bin_: Piece, low: int, high: int) -> float:
    start, end = max(bin_.start, low), min(bin_.end, high)
    return (end - start) * bin_.at((start + end) / 2) if end > start else 0.0
