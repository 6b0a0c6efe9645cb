"""Runs an experiment from a script or a notebook, also on a Dask cluster of the script."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from plimsoll.deploy.binary import find_engine
from plimsoll.drive.carry_out import Listener, SilentListener
from plimsoll.drive.directory import ResultsDirectory
from plimsoll.drive.experiment import ExperimentRunner, Outcome, RunSource
from plimsoll.plan import Plan, load_experiment, make_plan


def run_experiment(
    file: str | Path,
    *,
    cluster: object | None = None,
    sets: Sequence[str] = (),
    out: str | Path = "results",
    listener: Listener | None = None,
    source: Callable[[Plan, ResultsDirectory], RunSource | None] = lambda *_: None,
) -> Outcome:
    """Carries out an experiment file, from the main thread. `plimsoll.api.analysis(outcome.directory)`
    analyses the results.

    `cluster`: a cluster or a client of Dask. Its workers run the testers, for every kind of hosts in the
    file. It continues to run afterwards. `sets`: "path=value", as --set. `out`: the parent of the results
    directory. `source`: makes the runs of an experiment that does not know them in advance. Raises PlimsollError.
    """
    if cluster is not None:
        sets = [*sets, "hosts.kind=dask", f"hosts.dask={{address: '{_address(cluster)}'}}"]
    plan = make_plan(load_experiment(file, sets), secrets.randbits(32))
    directory = ResultsDirectory.create(Path(out), plan.experiment.name, datetime.datetime.now(datetime.UTC))
    runner = ExperimentRunner(plan, directory, find_engine(), listener or SilentListener(), cluster)
    runner.prepare(["plimsoll.drive.scripted.run_experiment", str(file)])
    return runner.carry_out(source=source(plan, directory))


def _address(cluster: object) -> str:
    """The address of the scheduler, for messages."""
    address = getattr(cluster, "scheduler_address", None)
    if address is None:
        address = getattr(getattr(cluster, "scheduler", None), "address", None)
    return str(address or "the given cluster")
