"""The answer to the experiment's question, in sentences with intervals.

Pure: puts the results of the analysis into words and computes only ratios. Where there is no result the answer says
so: one repetition has no interval, a bracket is never finer than the levels, "not resolved" is an answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from plimsoll.analyse.answer.caches import of_caches
from plimsoll.analyse.answer.cells import of_cells, of_stages
from plimsoll.analyse.answer.consistency import of_consistency
from plimsoll.analyse.answer.explained import explained
from plimsoll.analyse.answer.hosts import of_hosts
from plimsoll.analyse.answer.ramp import of_ramps
from plimsoll.analyse.answer.runs import about_the_runs, nothing_valid
from plimsoll.analyse.answer.saturation import of_saturation
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.metrics import canonical
from plimsoll.analyse.results.verdicts import Finding, Topic
from plimsoll.analyse.results.wording import count, plural, tied


def with_answer(analysis: Analysis) -> Analysis:
    """The same analysis with its answer filled in."""
    found = findings(analysis)
    return replace(analysis, answer=tuple(each.text for each in found), findings=found)


def sentences(analysis: Analysis) -> tuple[str, ...]:
    """The answer, the most important sentence first; `analysis.answer` itself is not read."""
    return tuple(each.text for each in findings(analysis))


def findings(analysis: Analysis) -> tuple[Finding, ...]:
    """The sentences of the answer, with the verdicts and rules behind them."""
    return tuple(replace(each, text=tied(each.text)) for each in _findings(analysis))


def _findings(analysis: Analysis) -> tuple[Finding, ...]:
    said = [Finding(Topic.PROGRESS, text) for text in (so_far(analysis),) if text]
    if not analysis.runs:
        return (*said, Finding(Topic.NOTHING, "Nothing has been measured yet."))
    if not any(run.valid for run in analysis.runs):
        return (*said, Finding(Topic.NOTHING, nothing_valid(analysis)))
    said += of_consistency(analysis) or _about(Topic.CACHES, of_caches(analysis))
    leading = [found for found in analysis.saturation if found.metric == _leading_metric(analysis)]
    said += of_saturation(analysis, leading) if leading else _about(Topic.CELLS, of_cells(analysis))
    said += _about(Topic.STAGES, of_stages(analysis))
    said += of_ramps(analysis)
    said += of_hosts(analysis)
    said += _about(Topic.EFFECTS, explained(analysis))
    said += about_the_runs(analysis)
    return tuple(said)


def so_far(analysis: Analysis) -> str:
    """`So far: 7 of 24 runs.` on an unfinished experiment, else nothing."""
    info = analysis.experiment
    if info.complete:
        return ""
    return f"So far: {count(info.finished_runs)} of {plural(info.planned_runs, 'run')}."


def shown_answer(analysis: Analysis) -> list[str]:
    """The answer without `so_far`, for places that show it separately."""
    return [each.text for each in analysis.findings if each.topic != Topic.PROGRESS]


def _about(topic: Topic, texts: Iterable[str]) -> list[Finding]:
    return [Finding(topic, text) for text in texts]


def _leading_metric(analysis: Analysis) -> str:
    """The first response of the experiment that has a saturation, else the first metric that has one."""
    metrics = [found.metric for found in analysis.saturation]
    wanted = [canonical(name) for name in analysis.experiment.responses]
    return next((name for name in wanted if name in metrics), None) or (metrics[0] if metrics else "")
