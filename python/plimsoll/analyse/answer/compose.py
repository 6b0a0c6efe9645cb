"""The answer to the experiment's question, in sentences a person would say, with intervals.

Pure: reads what the other modules of this room found and says it; computes nothing but a ratio. What cannot be said
is said to be so: one repetition has no interval, a bracket is never finer than the levels, "not resolved" is an answer.
"""

from __future__ import annotations

from dataclasses import replace

from plimsoll.analyse.answer.caches import of_caches
from plimsoll.analyse.answer.cells import of_cells, of_stages
from plimsoll.analyse.answer.consistency import of_consistency
from plimsoll.analyse.answer.explained import explained
from plimsoll.analyse.answer.hosts import of_hosts
from plimsoll.analyse.answer.runs import about_the_runs, nothing_valid
from plimsoll.analyse.answer.saturation import of_saturation
from plimsoll.analyse.metrics import canonical
from plimsoll.analyse.results import Analysis
from plimsoll.analyse.wording import count, plural


def with_answer(analysis: Analysis) -> Analysis:
    """The same analysis with its answer filled in."""
    return replace(analysis, answer=sentences(analysis))


def sentences(analysis: Analysis) -> tuple[str, ...]:
    """The answer, the most important sentence first; `analysis.answer` itself is not read."""
    info = analysis.experiment
    said: list[str] = []
    if not info.complete:
        said.append(f"So far: {count(info.finished_runs)} of {plural(info.planned_runs, 'run')}.")
    if not analysis.runs:
        return (*said, "Nothing has been measured yet.")
    if not any(run.valid for run in analysis.runs):
        return (*said, nothing_valid(analysis))
    said += of_consistency(analysis) or of_caches(analysis)
    leading = [found for found in analysis.saturation if found.metric == _leading_metric(analysis)]
    said += of_saturation(analysis, leading) if leading else of_cells(analysis)
    said += of_stages(analysis)
    said += of_hosts(analysis)
    said += explained(analysis)
    said += about_the_runs(analysis)
    return tuple(said)


def _leading_metric(analysis: Analysis) -> str:
    """The first response of the experiment that has a saturation, else the first metric that has one."""
    metrics = [found.metric for found in analysis.saturation]
    wanted = [canonical(name) for name in analysis.experiment.responses]
    return next((name for name in wanted if name in metrics), None) or (metrics[0] if metrics else "")
