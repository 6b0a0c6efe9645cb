"""Simulated runs of testers with sessions whose rate is known: each tester carries out sessions one after the other."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.sessions import QUERY_FAILED, SUCCEEDED, UNFINISHED, SessionColumns

Law = Literal["fixed", "uniform", "gamma", "exponential"]
LAWS: Final[tuple[Law, ...]] = ("fixed", "uniform", "gamma", "exponential")
TESTERS: Final = 17
S: Final = 10**9
"""Mean duration of a session, ns."""


def durations(rng: np.random.Generator, law: Law, size: int) -> NDArray[np.float64]:
    """Durations with a mean of 1; standard deviations of 0, 0.29, 0.5 and 1."""
    match law:
        case "fixed":
            return np.ones(size)
        case "uniform":
            return rng.uniform(0.5, 1.5, size)
        case "gamma":
            return rng.gamma(4, 0.25, size)
        case "exponential":
            return rng.exponential(1, size)


def run(
    rng: np.random.Generator, law: Law, window: Window, ramp: float = 1.0, failing: float = 0.0
) -> SessionColumns:
    """All sessions of a run that ends with the window. The testers join within `ramp` mean durations; `failing`: share
    of the sessions that fail, at their end."""
    over, most = window.end / S, round(4 * window.end / S) + 30
    drawn = durations(rng, law, TESTERS * most).reshape(TESTERS, most)
    joined = ramp * np.arange(TESTERS)[:, np.newaxis] / TESTERS
    start = joined + np.cumsum(drawn, axis=1) - drawn
    begun = start < over
    start, drawn = start[begun], drawn[begun]
    is_cut = start + drawn >= over
    ended = np.where(rng.random(start.size) < failing, QUERY_FAILED, SUCCEEDED)
    return SessionColumns(
        np.rint(start * S).astype(np.int64),
        np.rint(np.where(is_cut, over - start, drawn) * S).astype(np.int64),
        np.where(is_cut, UNFINISHED, ended).astype(np.int64),
    )


def completions_per_s(columns: SessionColumns, window: Window) -> float:
    """The rejected estimator: successful sessions that end in the window, per second."""
    end = columns.start + columns.duration
    done = (columns.ended == SUCCEEDED) & (end >= window.start) & (end < window.end)
    return float(np.count_nonzero(done)) / window.seconds
