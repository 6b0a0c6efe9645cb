"""Queues against tabulated Erlang C answers."""

from __future__ import annotations

import csv

import pytest
from tests.stats.queueing import erlang_c, md1_response, mm1, mmc
from tests.stats.reference import DATA


def test_erlang_c_table() -> None:
    with (DATA / "mmc_erlang.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            queue = mmc(float(row["lam"]), float(row["mu"]), int(row["c"]))
            assert queue.utilization == pytest.approx(float(row["rho"]))
            assert queue.wait_probability == pytest.approx(float(row["p_wait"]))
            assert queue.response == pytest.approx(float(row["W"]))


def test_mm1() -> None:
    queue = mm1(0.8, 1.0)
    assert (queue.response, queue.in_system) == pytest.approx((5, 4))


def test_md1_waits_half_as_long() -> None:
    assert md1_response(0.8, 1.0) - 1 == pytest.approx((mm1(0.8, 1.0).response - 1) / 2)


def test_many_servers_do_not_overflow() -> None:
    assert 0 < erlang_c(9_900, 10_000) < 1


@pytest.mark.parametrize(("offered", "servers"), [(1.0, 1), (5.0, 4), (-1.0, 2)])
def test_unstable_queues_are_refused(offered: float, servers: int) -> None:
    with pytest.raises(ValueError, match="servers"):
        erlang_c(offered, servers)
