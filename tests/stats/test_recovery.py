"""Outages and recoveries of simulated runs, against the truth of the simulation. docs/methods.md has the rates of
400 runs of each case; fewer are simulated here."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.stats.recovery_truths import KILL_S, RESTART_S, Truth, analysed

from plimsoll.analyse.results.actions import ActionsResult, RecoveryVerdict

RUNS = 40
STEPS = (Truth(100, "even"), Truth(100), Truth(1000))
RISES = (Truth(100, "even", rise_s=2), Truth(1000, rise_s=2))
LOSSES = (Truth(1000, level=0.9), Truth(1000, level=0.8), Truth(100, level=0.8), Truth(100, level=0.5))
UNCHANGED = (Truth(100, "even", ready_s=None), Truth(100, ready_s=None), Truth(1000, ready_s=None))


def runs_of(truth: Truth) -> list[ActionsResult]:
    return [analysed(truth, seed) for seed in range(RUNS)]


@pytest.mark.parametrize("truth", STEPS, ids=str)
def test_an_outage_is_as_long_as_the_service_was_away(truth: Truth) -> None:
    """No outage is missed, split or invented, and its length is right to 20 mean intervals between starts."""
    assert truth.ready_s is not None
    for result in runs_of(truth):
        (outage,) = result.outages
        assert outage.has_ended
        assert 0 <= outage.length_s - (truth.ready_s - KILL_S) <= 20 / truth.rate + 0.02
        assert [(error.outcome, error.code) for error in outage.errors] == [("refused", "")]


@pytest.mark.parametrize("truth", [*STEPS, *RISES], ids=str)
def test_the_time_of_recovery_is_in_its_interval(truth: Truth) -> None:
    """Of the runs that can be decided, at most one in ten states a wrong interval, or that there was no recovery."""
    wrong = decided = 0
    for result in runs_of(truth):
        found = result.incidents[0].recovery
        if found.verdict is RecoveryVerdict.UNDECIDED:
            continue
        decided += 1
        if found.at_s is None or found.latest_s is None:
            wrong += 1
            continue
        interval = 2 / truth.rate + 0.05
        wrong += not found.at_s - interval <= truth.recovered_s <= RESTART_S + found.latest_s + 0.01
    assert decided >= 0.8 * RUNS
    assert wrong <= 0.1 * decided


@pytest.mark.parametrize("truth", LOSSES, ids=str)
def test_a_lasting_loss_is_no_recovery(truth: Truth) -> None:
    verdicts = Counter(result.incidents[0].recovery.verdict for result in runs_of(truth))
    assert verdicts[RecoveryVerdict.RECOVERED] <= 0.05 * RUNS
    assert verdicts[RecoveryVerdict.NOT_RECOVERED] >= 0.8 * RUNS


@pytest.mark.parametrize("truth", UNCHANGED, ids=str)
def test_an_action_without_effect_causes_no_outage_and_no_recovery_time(truth: Truth) -> None:
    results = runs_of(truth)
    assert not any(result.outages for result in results)
    recoveries = [result.incidents[0].recovery for result in results]
    assert sum(found.verdict is RecoveryVerdict.NOT_RECOVERED for found in recoveries) <= 0.05 * RUNS
    assert sum(bool(found.recovery_s) for found in recoveries) <= 0.1 * RUNS


def test_availability_is_the_share_of_the_planned_starts() -> None:
    truth = Truth(100, "even")
    result = analysed(truth, 1)
    away = 17.5 - KILL_S
    assert result.availability == pytest.approx(1 - away / 38, abs=0.002)
    assert result.planned_starts == 3800
