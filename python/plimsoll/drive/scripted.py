"""Runs an experiment from a script or a notebook, also on a Dask cluster of the script."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from plimsoll.deploy.binary import find_engine
from plimsoll.drive.carry_out import Listener
from plimsoll.drive.directory import ResultsDirectory
from plimsoll.drive.engine import Second
from plimsoll.drive.experiment import ExperimentRunner, Outcome
from plimsoll.plan import load_experiment, make_plan


class Silent:
    """A listener without output."""

    def run_begins(
        self, run_id: str, position: int, total: int, cell: Mapping[str, str], seconds: float
    ) -> None:
        """Shows nothing."""

    def second(self, second: Second) -> None:
        """Shows nothing."""

    def note(self, kind: str, text: str) -> None:
        """Shows nothing."""

    def run_ended(self, run_id: str, status: str, reason: str) -> None:
        """Shows nothing."""


def run_experiment(
    file: str | Path,
    *,
    cluster: object | None = None,
    sets: Sequence[str] = (),
    out: str | Path = "results",
    listener: Listener | None = None,
) -> Outcome:
    """Carries out an experiment file, from the main thread. `plimsoll.api.analysis(outcome.directory)`
    analyses the results.

    `cluster`: a cluster or a client of Dask. Its workers run the testers, for every kind of hosts in the
    file. It continues to run afterwards. `sets`: "path=value", as --set. `out`: the parent of the results
    directory. Raises PlimsollError.
    """
    if cluster is not None:
        sets = [*sets, "hosts.kind=dask", f"hosts.dask={{address: '{_address(cluster)}'}}"]
    plan = make_plan(load_experiment(file, sets), secrets.randbits(32))
    directory = ResultsDirectory.create(Path(out), plan.experiment.name, datetime.datetime.now(datetime.UTC))
    driver = ExperimentRunner(plan, directory, find_engine(), listener or Silent(), cluster)
    driver.prepare(["plimsoll.drive.scripted.run_experiment", str(file)])
    return driver.carry_out()


def _address(cluster: object) -> str:
    """The address of the scheduler, for messages."""
    address = getattr(cluster, "scheduler_address", None)
    if address is None:
        address = getattr(getattr(cluster, "scheduler", None), "address", None)
    return str(address or "the given cluster")
