"""Going on with an experiment: the plan is made again from what the directory holds, and must be the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plimsoll.drive.directory import ResultsDirectory
from plimsoll.drive.registry import running
from plimsoll.errors import BadInput, DamagedResults
from plimsoll.plan import Plan, load_experiment, make_plan

KEPT = ("done", "ceiling")
"""Ends after which a run is not repeated: it went as planned, or a rule of the experiment ended it."""


def resumed_plan(path: Path) -> tuple[Plan, ResultsDirectory]:
    """The plan of a results directory. Raises BadInput if it runs now, DamagedResults if it is none or was changed."""
    told = _plan_file(path)
    if any(one.directory == path.resolve() for one in running()):
        raise BadInput(f"{path}: this experiment is running now (see plimsoll status)")
    experiment = load_experiment(
        path / "experiment.yaml", told.get("sets", ()), directory=Path(told["directory"])
    )
    plan = make_plan(experiment, int(told["seed"]))
    now = [(run["id"], run["cell"], run["repetition"]) for run in plan.to_json()["runs"]]
    then = [(run["id"], run["cell"], run["repetition"]) for run in told["runs"]]
    if now != then:
        raise DamagedResults(
            f"{path}: its experiment.yaml no longer gives the runs of its plan.json; the file was changed, or it was "
            "written by another version. Start it anew."
        )
    return plan, ResultsDirectory(path)


def done_runs(path: Path) -> frozenset[str]:
    """Ids of the runs that need not be carried out again."""
    done = set()
    for record in sorted((path / "runs").glob("*/run.json")):
        try:
            told = json.loads(record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if told.get("status") in KEPT:
            done.add(record.parent.name)
    return frozenset(done)


def _plan_file(path: Path) -> dict[str, Any]:
    try:
        told = json.loads((path / "plan.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DamagedResults(f"{path} is no results directory: it has no plan.json") from error
    except (OSError, ValueError) as error:
        raise DamagedResults(f"{path / 'plan.json'} cannot be read: {error}") from error
    if not isinstance(told, dict) or not str(told.get("format", "")).startswith("plimsoll.plan/"):
        raise DamagedResults(f"{path / 'plan.json'} is no plan of ours")
    return told
