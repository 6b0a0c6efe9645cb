"""Shares and Jain's index: k of n, testers that join and leave, and the counts of a whole window."""

from __future__ import annotations

import pytest

from plimsoll.analyse.stats.fairness import fairness, jain_index


@pytest.mark.parametrize(("k", "n"), [(1, 1), (1, 10), (3, 10), (10, 10)])
def test_jain_is_k_of_n(k: int, n: int) -> None:
    assert jain_index([7.0] * k + [0.0] * (n - k)) == pytest.approx(k / n)


def test_jain_of_nothing() -> None:
    assert jain_index([]) is None
    assert jain_index([0.0, 0.0]) is None


def test_shares_of_a_closed_load() -> None:
    result = fairness(
        [10, 20, 30], [0, 0, 0], [100, 100, 100], window=(0, 100), completed_at=[0, 100], completed=[0, 60]
    )
    assert result.shares == pytest.approx((0.5, 1.0, 1.5))
    assert result.jain == pytest.approx(60**2 / (3 * (100 + 400 + 900)))
    assert result.cv == pytest.approx(0.5)
    assert result.max_over_min == pytest.approx(3)


def test_a_late_tester_with_its_fair_part_has_share_one() -> None:
    """One tester alone for 50, then two that get half each of 1 per unit of time."""
    result = fairness(
        [75, 25], [0, 50], [100, 100], window=(0, 100), completed_at=[0, 100], completed=[0, 100]
    )
    assert result.shares == pytest.approx((75 / 100 * 1.5, 1.0))
    assert result.jain == pytest.approx((0.75 + 0.5) ** 2 / (2 * (0.75**2 + 0.5**2)))


def test_an_inactive_tester_has_no_share() -> None:
    result = fairness(
        [10, 0, 0], [0, 200, 0], [100, 300, 100], window=(0, 100), completed_at=[0, 100], completed=[0, 10]
    )
    assert result.shares == (2.0, None, 0.0)
    assert result.jain == pytest.approx(0.5)
    assert result.max_over_min is None


def test_activity_outside_the_window_is_cut() -> None:
    result = fairness([5, 5], [-50, 0], [150, 500], window=(0, 100), completed_at=[0, 100], completed=[0, 10])
    assert result.shares == pytest.approx((1.0, 1.0))


def test_an_empty_window() -> None:
    result = fairness([], [], [], window=(0, 100), completed_at=[0, 100], completed=[0, 0])
    assert (result.shares, result.jain, result.cv) == ((), None, None)
