"""Going on with an experiment: the plan is made again from what the directory holds, and must be the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plimsoll.drive.directory import ResultsDirectory
from plimsoll.drive.registry import running
from plimsoll.errors import BadInput, DamagedResults
from plimsoll.plan import Plan, load_experiment, make_plan
from plimsoll.plan.plan import FORMAT
from plimsoll.plan.source.secret import HIDDEN

KEPT = ("done", "ceiling")
"""Ends after which a run is not repeated: it went as planned, or a rule of the experiment ended it."""


def resumed_plan(path: Path, again: Sequence[str] = ()) -> tuple[Plan, ResultsDirectory]:
    """The plan of a results directory. Raises BadInput if it runs now, DamagedResults if it is none or was changed.

    `again`: "path=value" for the secrets of the first time's --set, which were not stored.
    """
    told = _plan_file(path)
    try:
        came_from, seed, then = (
            told["experiment"],
            int(told["seed"]),
            [_identity(run) for run in told["runs"]],
        )
        sets, directory = list(came_from["sets"]), Path(came_from["directory"])
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedResults(f"{path / 'plan.json'} is not a Plimsoll plan: {error!r}") from error
    if any(one.directory == path.resolve() for one in running()):
        raise BadInput(f"{path}: this experiment is running now (see plimsoll status)")
    sets = _with_secrets(path, sets, again)
    plan = make_plan(load_experiment(path / "experiment.yaml", sets, directory=directory), seed)
    if [_identity(run) for run in plan.to_json()["runs"]] != then:
        raise DamagedResults(
            f"{path}: experiment.yaml does not match the runs of plan.json: the file was changed, or "
            f"another version wrote it. Start a new experiment."
        )
    return plan, ResultsDirectory(path)


def _with_secrets(results: Path, sets: Sequence[str], again: Sequence[str]) -> list[str]:
    """The first time's --set, with the values that are secrets from this time's."""
    given = {one.partition("=")[0].strip(): one for one in again}
    hidden = [one.partition("=")[0].strip() for one in sets if HIDDEN in one]
    missing = [path for path in hidden if path not in given]
    if missing:
        words = " ".join(f"--set {path}=..." for path in hidden)
        raise BadInput(
            f"{results}: the value of --set {missing[0]} is a secret, which is not stored: give it again "
            f"with plimsoll run --resume {results} {words}"
        )
    beside = [path for path in given if path not in hidden]
    if beside:
        raise BadInput(
            f"--set {beside[0]}: --resume reads the experiment from the directory: only secrets can be given again"
        )
    return [given[one.partition("=")[0].strip()] if HIDDEN in one else one for one in sets]


def _identity(run: dict[str, Any]) -> tuple[Any, ...]:
    return run["id"], run["cell"], run["repetition"]


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
        raise DamagedResults(f"{path} is not a results directory: it has no plan.json") from error
    except (OSError, ValueError) as error:
        raise DamagedResults(f"{path / 'plan.json'} cannot be read: {error}") from error
    name, _, major = str(told.get("format") if isinstance(told, dict) else "").partition("/")
    ours, _, known = FORMAT.partition("/")
    if not isinstance(told, dict) or name != ours or not major.isdigit():
        raise DamagedResults(f"{path / 'plan.json'} is not a Plimsoll plan")
    if int(major) > int(known):
        raise DamagedResults(
            f"{path / 'plan.json'}: its format is version {major} of {name}, this release reads up to "
            f"version {known}: use a newer Plimsoll"
        )
    return told
