"""Finds the runs of a results directory that are to be repeated because they are invalid."""

from __future__ import annotations

from pathlib import Path

from plimsoll.assemble.whole import analysis_of
from plimsoll.collect.results import open_results
from plimsoll.errors import BadInput
from plimsoll.plan import Plan


def invalid_runs(plan: Plan, path: Path) -> frozenset[str]:
    """Ids of the runs that the analysis of the stored results finds invalid. Raises BadInput for an experiment whose
    runs follow from the results of earlier runs: later decisions would no longer agree with the results before them."""
    design = plan.experiment.design
    if plan.experiment.search is not None or design.until is not None:
        what = "a search" if plan.experiment.search is not None else "`repetitions: {until: ...}`"
        raise BadInput(
            f"{path}: --repeat-invalid: the runs of {what} follow from the runs before them, so that single ones "
            "cannot be repeated: start a new experiment"
        )
    return frozenset(run.id for run in analysis_of(open_results(path)).runs if not run.valid)
