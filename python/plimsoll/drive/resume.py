"""Resumes an experiment. The plan is computed again from the files of the directory, and must be the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from plimsoll.drive.directory import ResultsDirectory
from plimsoll.drive.registry import running_experiments
from plimsoll.errors import BadInput, DamagedResults
from plimsoll.plan import Plan, load_experiment, make_plan
from plimsoll.plan.model.search import Search
from plimsoll.plan.plan import BLOCK, FORMAT, trial_run
from plimsoll.plan.source.secret import HIDDEN

KEPT = ("done", "ceiling")
"""Status values after which a run is not repeated: it ended as planned, or a rule of the experiment ended
it."""


def resumed_plan(path: Path, again: Sequence[str] = ()) -> tuple[Plan, ResultsDirectory]:
    """The plan of a results directory. Raises BadInput if the experiment runs now, and DamagedResults if the
    directory has no plan or was changed.

    `again`: "path=value" for the secrets of the first --set, which were not stored.
    """
    document = _plan_file(path)
    try:
        came_from, seed, planned = (
            document["experiment"],
            int(document["seed"]),
            [_identity(run) for run in document["runs"]],
        )
        search = None if document.get("search") is None else Search.from_json(document["search"])
        sets, directory = list(came_from["sets"]), Path(came_from["directory"])
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedResults(f"{path / 'plan.json'} is not a Plimsoll plan: {error!r}") from error
    if any(experiment.directory == path.resolve() for experiment in running_experiments()):
        raise BadInput(f"{path}: this experiment is running now (see plimsoll status)")
    sets = _with_secrets(path, sets, again)
    plan = make_plan(load_experiment(path / "experiment.yaml", sets, directory=directory), seed)
    # The trials of a search follow from its results: only the search itself must be the same.
    listed = [] if plan.experiment.search is not None else plan.to_json()["runs"]
    if search != plan.experiment.search or (search is None and [_identity(run) for run in listed] != planned):
        raise DamagedResults(
            f"{path}: experiment.yaml does not match the runs of plan.json: the file was changed, or "
            f"another version wrote it. Start a new experiment."
        )
    try:
        plan = _with_starts(plan, document.get("search_starts", ()))
        return _with_trials(plan, document["runs"]), ResultsDirectory(path)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedResults(
            f"{path / 'plan.json'}: the trials of the search cannot be read: {error!r}"
        ) from error


def _with_secrets(results: Path, sets: Sequence[str], again: Sequence[str]) -> list[str]:
    """The --set of the first start, with the values of secrets from `again`. Raises BadInput."""
    given_values = {setting.partition("=")[0].strip(): setting for setting in again}
    hidden = [setting.partition("=")[0].strip() for setting in sets if HIDDEN in setting]
    missing = [path for path in hidden if path not in given_values]
    if missing:
        words = " ".join(f"--set {path}=..." for path in hidden)
        raise BadInput(
            f"{results}: the value of --set {missing[0]} is a secret, which is not stored: give it again "
            f"with plimsoll run --resume {results} {words}"
        )
    superfluous = [path for path in given_values if path not in hidden]
    if superfluous:
        raise BadInput(
            f"--set {superfluous[0]}: --resume reads the experiment from the directory: only secrets can be given again"
        )
    return [
        given_values[setting.partition("=")[0].strip()] if HIDDEN in setting else setting for setting in sets
    ]


def _with_starts(plan: Plan, stored: Sequence[dict[str, Any]]) -> Plan:
    """The plan of a search whose cells begin at the loads of the first start."""
    cells = [dict(cell.labels) for cell in plan.experiment.cells]
    return replace(plan, starts={cells.index(one["cell"]): float(one["load"]) for one in stored})


def _with_trials(plan: Plan, stored: Sequence[dict[str, Any]]) -> Plan:
    """The plan of a search with the trials that had begun, so that their measurements can be fetched from hosts."""
    search = plan.experiment.search
    if search is None:
        return plan
    cells = [dict(cell.labels) for cell in plan.experiment.cells]
    for run in stored:
        index = cells.index({name: label for name, label in run["cell"].items() if name != search.axis})
        seconds, number = run["end_s"] - run["warmup_s"], int(run["block"].removeprefix(BLOCK)) - 1
        trial = trial_run(plan, index, run["values"][search.axis], seconds, number)
        plan = replace(plan, trials=(*plan.trials, trial))
    return plan


def _identity(run: dict[str, Any]) -> tuple[Any, ...]:
    return run["id"], run["cell"], run["repetition"]


def done_runs(path: Path) -> frozenset[str]:
    """Ids of the runs that need not be carried out again."""
    finished = set()
    for record in sorted((path / "runs").glob("*/run.json")):
        try:
            content = json.loads(record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if content.get("status") in KEPT:
            finished.add(record.parent.name)
    return frozenset(finished)


def _plan_file(path: Path) -> dict[str, Any]:
    try:
        document = json.loads((path / "plan.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DamagedResults(f"{path} is not a results directory: it has no plan.json") from error
    except (OSError, ValueError) as error:
        raise DamagedResults(f"{path / 'plan.json'} cannot be read: {error}") from error
    name, _, major = str(document.get("format") if isinstance(document, dict) else "").partition("/")
    own_name, _, own_major = FORMAT.partition("/")
    if not isinstance(document, dict) or name != own_name or not major.isdigit():
        raise DamagedResults(f"{path / 'plan.json'} is not a Plimsoll plan")
    if int(major) > int(own_major):
        raise DamagedResults(
            f"{path / 'plan.json'}: its format is version {major} of {name}; this release reads up to "
            f"version {own_major}: use a newer Plimsoll"
        )
    return document
