"""The estimator of sessions/s and its interval over repetitions, in simulated runs with a known rate (docs/methods.md
has the table)."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stats.tester_session_truths import LAWS, TESTERS, Law, S, completions_per_s, run

from plimsoll.analyse.run.tester_sessions import session_figures
from plimsoll.analyse.stats.means import mean_interval
from plimsoll.analyse.window.transactions import Window

WINDOW = Window(2 * S, round(8.5 * S))


def rate(rng: np.random.Generator, law: Law, window: Window, ramp: float, failing: float = 0.0) -> float:
    figures = session_figures(run(rng, law, window, ramp, failing), window)
    assert figures is not None and figures.sessions.per_s is not None
    return figures.sessions.per_s


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("ramp", [0.0, 1.0])
def test_the_rate_is_unbiased_after_a_warm_up(law: Law, ramp: float) -> None:
    """The standard error of the mean of 100 runs is at most 1 %."""
    rng = np.random.default_rng(31)
    rates = [rate(rng, law, WINDOW, ramp) for _ in range(100)]
    error = max(float(np.std(rates, ddof=1)) / 10, 1e-9)
    assert abs(np.mean(rates) - TESTERS) <= 4 * error


def test_sessions_in_progress_at_the_end_are_neither_done_nor_failed() -> None:
    """With sessions of equal duration that begin together, the rate is exact for every window; that of the completions
    is not."""
    window = Window(0, round(2.9 * S))
    columns = run(np.random.default_rng(32), "fixed", window, ramp=0.0)
    figures = session_figures(columns, window)
    assert figures is not None
    found = figures.sessions
    assert (found.succeeded, found.failed, found.unfinished) == (2 * TESTERS, 0, TESTERS)
    assert found.per_s == pytest.approx(TESTERS)
    assert completions_per_s(columns, window) == pytest.approx(TESTERS * 2 / 2.9)


def test_failed_sessions_do_not_count() -> None:
    rng = np.random.default_rng(33)
    rates = [rate(rng, "gamma", WINDOW, 1.0, failing=0.2) for _ in range(100)]
    assert abs(np.mean(rates) - 0.8 * TESTERS) <= 4 * float(np.std(rates, ddof=1)) / 10


@pytest.mark.parametrize("law", ["uniform", "gamma", "exponential"])
def test_the_interval_over_repetitions_contains_the_rate(law: Law) -> None:
    """In 95 % of experiments; 2.8 % is the standard error of the share of 60."""
    rng = np.random.default_rng(34)
    covered = 0
    for _ in range(60):
        interval = mean_interval([rate(rng, law, WINDOW, 1.0) for _ in range(5)], None)
        assert interval is not None and interval.low is not None and interval.high is not None
        covered += interval.low <= TESTERS <= interval.high
    assert covered / 60 >= 0.85
