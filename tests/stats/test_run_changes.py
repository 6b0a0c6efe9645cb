"""The rule `changes` on simulated runs with known truth: false statements per run, and changes that are found."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stats.changing_runs import simulated_run

from plimsoll.analyse.results.verdicts import ChangedSeries
from plimsoll.analyse.run.changes import run_changes
from plimsoll.analyse.stats.proportion import wilson

MAX_FALSE = 0.05


def runs_with_false_changes(n: int, phi: float, sd: float, runs: int) -> int:
    """Runs without a change in which at least one of five series has one."""
    rng = np.random.default_rng(21)
    false = 0
    for _ in range(runs):
        seconds, hosts = simulated_run(rng, n, phi, sd=sd)
        false += bool(run_changes(seconds, range(n), hosts))
    return false


def found(n: int, phi: float, slower: float, runs: int) -> tuple[float, float]:
    """Share of runs in which a slower target from the middle on is found within 2 s, and in which it is explained by
    the other processes that cause it."""
    rng = np.random.default_rng(22)
    hits = explained = 0
    for _ in range(runs):
        seconds, hosts = simulated_run(rng, n, phi, sd=0.05, at=n // 2, slower=slower, outside=0.4)
        changes = [
            change
            for change in run_changes(seconds, range(n), hosts) or ()
            if change.series == ChangedSeries.THROUGHPUT and abs(change.at_s - n // 2) <= 2
        ]
        hits += bool(changes)
        explained += any(change.outside for change in changes)
    return hits / runs, explained / runs


@pytest.mark.parametrize(("n", "phi"), [(40, 0.0), (60, 0.3)])
def test_steady_runs_rarely_have_a_change(n: int, phi: float) -> None:
    false = runs_with_false_changes(n, phi, 0.1, 25)
    assert wilson(false, 25, confidence=0.90)[0] <= MAX_FALSE, false


def test_a_slower_target_is_found_and_explained() -> None:
    hits, explained = found(40, 0.0, 0.3, 8)
    assert hits >= 0.75 and explained >= 0.75


@pytest.mark.long
@pytest.mark.parametrize("n", [30, 60, 120])
@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.8])
def test_false_changes_per_run_of_the_table(n: int, phi: float) -> None:
    """The table of docs/methods.md."""
    false = runs_with_false_changes(n, phi, 0.1, 200)
    assert wilson(false, 200, confidence=0.90)[0] <= MAX_FALSE, false


@pytest.mark.long
@pytest.mark.parametrize(
    ("n", "phi", "least"), [(40, 0.0, 0.9), (60, 0.3, 0.9), (120, 0.3, 0.95), (120, 0.6, 0.7)]
)
def test_changes_found_of_the_table(n: int, phi: float, least: float) -> None:
    hits, _ = found(n, phi, 0.3, 40)
    assert hits >= least
