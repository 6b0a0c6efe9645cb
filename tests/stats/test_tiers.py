"""How often a proxy that changes the number of requests is found: simulated, and from the binomial distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest

from plimsoll.analyse.components.tiers import Sent, compare
from plimsoll.analyse.run.validity.validity import ValidityFigures, judge_run
from plimsoll.plan.model.cell import Validity

RUNS = 1000


def found(sent: int, share: float, seed: int, unsure: float = 0.0) -> float:
    """The fraction of doubtful runs behind a proxy that repeats (share above 0) or swallows each request with this
    probability; a fraction `unsure` of the requests failed, and each of these arrived with probability 1/2."""
    rng = np.random.default_rng(seed)
    changed = rng.binomial(sent, abs(share), RUNS)
    failed = rng.binomial(sent, unsure, RUNS)
    lost = rng.binomial(failed, 0.5)
    doubtful = 0
    for number, open_, missing in zip(changed.tolist(), failed.tolist(), lost.tolist(), strict=True):
        counted = sent - missing + (number if share > 0 else -number)
        tier = compare("web", ("testers",), Sent(sent, sent - open_), counted)
        figures = ValidityFigures(sent, open_, 0.1, None, None, None, tiers=(tier,))
        doubtful += bool(judge_run(figures, Validity()).reasons)
    return doubtful / RUNS


def above_limit(sent: int, share: float) -> float:
    """P(X > max(5, sent / 100)) of a binomial X: the exact rate without unsure requests."""
    least = max(5, sent // 100) + 1
    return 1 - sum(math.comb(sent, k) * share**k * (1 - share) ** (sent - k) for k in range(least))


@pytest.mark.parametrize(
    ("sent", "share", "documented"),
    [
        (200, 0.05, 0.94),
        (200, -0.03, 0.56),
        (500, 0.05, 1.0),
        (500, -0.03, 1.0),
        (1000, 0.05, 1.0),
        (1000, -0.03, 1.0),
    ],
)
def test_proxies_are_found_at_the_documented_rate(sent: int, share: float, documented: float) -> None:
    exact = above_limit(sent, abs(share))
    assert exact == pytest.approx(documented, abs=0.006)
    assert found(sent, share, seed=1) == pytest.approx(exact, abs=4 * math.sqrt(0.25 / RUNS))


@pytest.mark.parametrize("unsure", [0.0, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("sent", [20, 200, 2000])
def test_requests_that_may_not_have_arrived_raise_no_false_alarm(sent: int, unsure: float) -> None:
    assert found(sent, 0.0, seed=2, unsure=unsure) == 0.0


def test_many_failures_hide_a_proxy() -> None:
    """With 5 % failed requests, of which half arrived, 3 % swallowed ones are within what may be lost."""
    assert found(2000, -0.03, seed=3, unsure=0.05) < 0.5
    assert found(2000, 0.05, seed=3, unsure=0.02) > 0.99
