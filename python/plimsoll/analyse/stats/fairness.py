"""Fairness of a service to its users (glossary: share; Jain, Chiu and Hawe 1984)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def jain_index(amounts: ArrayLike) -> float | None:
    """(sum x)^2 / (n sum x^2), 1/n to 1: k/n if k of n amounts are equal and the others are 0.

    `amounts`: the amount (>= 0) of each tester that was active in the window. None without testers, or if all are 0.
    """
    x = np.asarray(amounts, dtype=np.float64)
    square = float(x @ x)
    return float(x.sum()) ** 2 / (x.size * square) if x.size and square > 0 else None


@dataclass(frozen=True)
class Fairness:
    """`shares`: one per tester (None: not active in the window). Jain's index is that of the rates of work of the
    active testers; `max_over_min` is None if an active tester has no transactions."""

    shares: tuple[float | None, ...]
    jain: float | None
    cv: float | None
    max_over_min: float | None
    spans: tuple[float, ...] = ()
    """Time (ns) for which each tester was active in the window."""

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """The smallest and the greatest share; None if no tester has one."""
        known = [share for share in self.shares if share is not None]
        return (min(known), max(known)) if known else (None, None)


def fairness(
    done: Sequence[int] | NDArray[np.int64],
    starts: Sequence[int] | NDArray[np.int64],
    ends: Sequence[int] | NDArray[np.int64],
    *,
    window: tuple[int, int],
    completed_at: ArrayLike,
    completed: ArrayLike,
) -> Fairness:
    """Shares of testers: own transactions / all completed while it was active, times the mean number of active testers.


    `done`: transactions that each tester completed in the window; `starts`, `ends`: its activity in ns, cut to it.
    `completed_at` (ascending, ns) and `completed`: cumulative number of transactions of all testers at those times;
    between them it is interpolated linearly, so shares of testers that join and leave are as exact as this grid. The
    share of a tester that was active throughout is exact.
    """
    w0, w1 = window
    n = np.asarray(done, dtype=np.float64)
    a = np.clip(np.asarray(starts, dtype=np.int64), w0, w1).astype(np.float64)
    b = np.clip(np.asarray(ends, dtype=np.int64), w0, w1).astype(np.float64)
    span = b - a
    active = span > 0
    if not active.any():
        return Fairness((None,) * n.size, None, None, None, (0.0,) * n.size)
    at = np.asarray(completed_at, dtype=np.float64)
    cumulative = np.asarray(completed, dtype=np.float64)
    completed_while_active = np.interp(b, at, cumulative) - np.interp(a, at, cumulative)
    throughout = (a <= w0) & (b >= w1)
    completed_while_active[throughout] = n.sum()
    active_testers = _mean_active(a, b, active)
    usable = active & (completed_while_active > 0)
    share = np.zeros(n.size)
    share[usable] = n[usable] / completed_while_active[usable] * active_testers[usable]
    rates = n[active] / span[active]
    mean = float(share[active].mean())
    smallest = float(share[active].min())
    return Fairness(
        tuple(float(s) if on else None for s, on in zip(share, active, strict=True)),
        jain_index(rates),
        float(share[active].std(ddof=1)) / mean if int(active.sum()) > 1 and mean > 0 else None,
        float(share[active].max()) / smallest if smallest > 0 else None,
        tuple(np.maximum(span, 0.0).tolist()),
    )


def _mean_active(a: Array, b: Array, active: NDArray[np.bool_]) -> Array:
    """Mean number of active testers during the activity of each: integral of the number, by its corners."""
    moments = np.unique(np.concatenate([a[active], b[active]]))
    joined = np.searchsorted(np.sort(a[active]), moments, side="right")
    left = np.searchsorted(np.sort(b[active]), moments, side="right")
    number = (joined - left).astype(np.float64)
    area = np.concatenate([[0.0], np.cumsum(number[:-1] * np.diff(moments))])
    span = np.where(active, b - a, 1.0)
    out: Array = (np.interp(b, moments, area) - np.interp(a, moments, area)) / span
    return out
