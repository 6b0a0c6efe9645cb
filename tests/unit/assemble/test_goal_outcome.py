"""What a stored trial says about the goals of a search."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from plimsoll.assemble.adaptive.goal_outcome import trial_result
from plimsoll.collect.results import open_results
from plimsoll.plan.model.search import Search, SearchGoal
from plimsoll.search.trials import Invalid, Rule, Trial, TrialResult

OLD = Path(__file__).resolve().parents[2] / "data" / "results-v1"
EASY, HARD = SearchGoal("easy", "p(99)<10s", "", 0.05), SearchGoal("hard", "p(99)<1us", "", 0.05)
SEARCH = Search("load.rate", 50, 1000, (EASY, HARD), 1, 1, 6, 0.5, 1, 60, False, 0, 1.5)
TRIAL = Trial(100, 1, Rule.START, "it is the first load of the search")
LATE = {"lateness_share": 0.0, "lateness_floor_ns": 0}
OPEN = {"plans_starts": True}


def changed(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def measured(directory: Path, validity: dict[str, Any], run: dict[str, Any], **summary: Any) -> TrialResult:
    """The result of a run of the kept results, after changes to its files and to the limits of `validity:`."""
    shutil.copytree(OLD, directory, dirs_exist_ok=True)
    plan = json.loads((directory / "plan.json").read_text())
    changed(directory / "plan.json", validity=plan["validity"] | validity)
    changed(directory / "runs" / "0001" / "run.json", **run)
    changed(directory / "runs" / "0001" / "summary.json", **summary)
    results = open_results(directory)
    return trial_result(TRIAL, results.runs[0], results, SEARCH, 2.0)


def test_a_valid_trial_has_an_outcome_for_each_goal(tmp_path: Path) -> None:
    result = measured(tmp_path, {}, {})
    assert result.invalid is None and result.starts
    assert {name: one.high_loss for name, one in result.outcomes.items()} == {"easy": False, "hard": True}
    assert result.outcomes["hard"].loss_ratio == 1


def test_a_late_trial_counts_for_the_goal_that_it_meets(tmp_path: Path) -> None:
    result = measured(tmp_path, LATE, OPEN)
    assert result.invalid is Invalid.GENERATOR
    assert set(result.outcomes) == {"easy"} and not result.outcomes["easy"].high_loss


def test_a_late_trial_of_a_closed_load_does_not_count(tmp_path: Path) -> None:
    """Late testers send fewer requests than those of the load: the service was not measured at this load."""
    result = measured(tmp_path, LATE, {})
    assert result.invalid is Invalid.GENERATOR and not result.outcomes


def test_a_late_trial_with_dropped_starts_does_not_count(tmp_path: Path) -> None:
    counters = json.loads((OLD / "runs" / "0001" / "summary.json").read_text())["counters"]
    result = measured(tmp_path, LATE, OPEN, counters={**counters, "dropped": counters["started"]})
    assert result.invalid is Invalid.GENERATOR and not result.outcomes


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("agent-lost", Invalid.LOST_DATA),
        ("service-gone", Invalid.NOT_FINISHED),
        ("stopped", Invalid.NOT_FINISHED),
    ],
)
def test_a_run_that_ended_early(tmp_path: Path, status: str, expected: Invalid) -> None:
    result = measured(tmp_path, {}, {"status": status})
    assert result.invalid is expected and not result.outcomes


def test_a_record_that_is_damaged(tmp_path: Path) -> None:
    assert measured(tmp_path, {}, {}, balanced=False).invalid is Invalid.LOST_DATA
