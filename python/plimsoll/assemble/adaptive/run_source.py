"""Chooses what determines the runs of an experiment: its plan, or the results so far."""

from __future__ import annotations

from plimsoll.assemble.adaptive.capacity_search import CapacitySearchRuns
from plimsoll.assemble.adaptive.until_tight import UntilTightRuns
from plimsoll.drive.directory import ResultsDirectory
from plimsoll.drive.experiment import RunSource
from plimsoll.plan import Plan


def run_source(
    plan: Plan, directory: ResultsDirectory, done: frozenset[str] = frozenset()
) -> RunSource | None:
    """The runs of an experiment that does not know them in advance; None if it knows them. `done`: ids of the runs that
    need not be carried out again."""
    if plan.experiment.search is not None:
        return CapacitySearchRuns(plan, directory)
    until = plan.experiment.design.until
    return None if until is None else UntilTightRuns(plan, until, directory, done)


def is_done(plan: Plan, directory: ResultsDirectory, done: frozenset[str]) -> bool:
    """Whether no run is left of an experiment that does not know its runs in advance. Arguments: as in `run_source`."""
    source = run_source(plan, directory, done)
    return source is not None and source.left() == 0
