"""The answer to the experiment's question, in sentences with intervals.

Pure: writes the results of the analysis as sentences and computes only ratios. If there is no result, the answer states
that: one repetition has no interval, a bracket is never finer than the levels, a bottleneck may be "not identified".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from plimsoll.analyse.answer.actions import of_actions
from plimsoll.analyse.answer.changes import of_changes
from plimsoll.analyse.answer.components.caches import of_caches
from plimsoll.analyse.answer.components.conditions import of_conditions
from plimsoll.analyse.answer.components.hosts import of_hosts
from plimsoll.analyse.answer.components.memory import of_memory
from plimsoll.analyse.answer.components.pool import of_pool
from plimsoll.analyse.answer.explained import variation_sentences
from plimsoll.analyse.answer.few import of_few_transactions
from plimsoll.analyse.answer.load.best_levels import of_best_levels
from plimsoll.analyse.answer.load.cells import of_cells, of_stages
from plimsoll.analyse.answer.load.consistency import of_consistency
from plimsoll.analyse.answer.load.demands import of_demands
from plimsoll.analyse.answer.load.ramp import of_ramps
from plimsoll.analyse.answer.load.regressions import of_regressions
from plimsoll.analyse.answer.load.saturation import of_saturation
from plimsoll.analyse.answer.load.search import of_search
from plimsoll.analyse.answer.load.sessions import of_sessions
from plimsoll.analyse.answer.load.sufficient import of_sufficient
from plimsoll.analyse.answer.load.until_tight import of_until_tight
from plimsoll.analyse.answer.runs import nothing_valid, run_findings
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.metrics import canonical
from plimsoll.analyse.results.verdicts import Finding, Topic
from plimsoll.analyse.results.wording import count, plural, tied


def with_answer(analysis: Analysis) -> Analysis:
    """The analysis with its answer and findings filled in."""
    answer = findings(analysis)
    return replace(analysis, answer=tuple(finding.text for finding in answer), findings=answer)


def sentences(analysis: Analysis) -> tuple[str, ...]:
    """The sentences of the answer, the most important first. The field `analysis.answer` is not read."""
    return tuple(finding.text for finding in findings(analysis))


def findings(analysis: Analysis) -> tuple[Finding, ...]:
    """The sentences of the answer, with the verdicts and rules behind them."""
    return tuple(replace(finding, text=tied(finding.text)) for finding in _findings(analysis))


def _findings(analysis: Analysis) -> tuple[Finding, ...]:
    answer = [Finding(Topic.PROGRESS, text) for text in (so_far(analysis),) if text]
    if not analysis.runs:
        return (*answer, Finding(Topic.NOTHING, "Nothing has been measured yet."))
    if not any(run.valid for run in analysis.runs):
        return (*answer, *of_search(analysis), Finding(Topic.NOTHING, nothing_valid(analysis)))
    answer += of_consistency(analysis) or _about(Topic.CACHES, of_caches(analysis))
    answer += _about(Topic.READERS, of_best_levels(analysis))
    leading = [
        saturation for saturation in analysis.saturation if saturation.metric == _leading_metric(analysis)
    ]
    if analysis.search is not None:
        answer += of_search(analysis)
    else:
        answer += of_saturation(analysis, leading) if leading else _about(Topic.CELLS, of_cells(analysis))
    answer += of_sufficient(analysis)
    answer += _about(Topic.STAGES, of_stages(analysis))
    answer += of_ramps(analysis)
    answer += of_actions(analysis)
    answer += of_changes(analysis)
    answer += of_conditions(analysis)
    answer += of_hosts(analysis)
    answer += of_pool(analysis)
    answer += of_until_tight(analysis)
    answer += of_few_transactions(analysis)
    answer += _about(Topic.EFFECTS, variation_sentences(analysis))
    answer += of_regressions(analysis)
    answer += of_memory(analysis)
    answer += of_sessions(analysis)
    answer += of_demands(analysis)
    answer += run_findings(analysis)
    return tuple(answer)


def so_far(analysis: Analysis) -> str:
    """`So far: 7 of 24 runs.` for an unfinished experiment, else empty."""
    info = analysis.experiment
    if info.complete:
        return ""
    if analysis.search is not None:
        return f"So far: {plural(info.finished_runs, 'trial')} of the search."
    return f"So far: {count(info.finished_runs)} of {plural(info.planned_runs, 'run')}."


def shown_answer(analysis: Analysis) -> list[str]:
    """The answer without `so_far`, for places that show it separately."""
    return [finding.text for finding in analysis.findings if finding.topic != Topic.PROGRESS]


def _about(topic: Topic, texts: Iterable[str]) -> list[Finding]:
    return [Finding(topic, text) for text in texts]


def _leading_metric(analysis: Analysis) -> str:
    """The first response of the experiment that has a saturation, else the first metric that has one."""
    metrics = [saturation.metric for saturation in analysis.saturation]
    responses = [canonical(name) for name in analysis.experiment.responses]
    return next((name for name in responses if name in metrics), None) or (metrics[0] if metrics else "")
