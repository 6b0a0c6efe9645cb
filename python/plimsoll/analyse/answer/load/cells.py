"""The throughput of each cell if no load was varied, and of each stage of a staged run, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from plimsoll.analyse.answer.components.components import limiting, memory_of
from plimsoll.analyse.answer.words import MAX_SENTENCES, capital, payload
from plimsoll.analyse.components.bottleneck import NOT_RESOLVED
from plimsoll.analyse.results.analysis import Analysis, CellResult, RunResult
from plimsoll.analyse.results.metrics import canonical, is_work
from plimsoll.analyse.results.run import Overload
from plimsoll.analyse.results.wording import (
    UNKNOWN,
    count,
    describe,
    level_words,
    listing,
    percent,
    percentile,
    plural,
    plus_minus,
    quantity,
)
from plimsoll.analyse.run.validity.overload import is_overloaded
from plimsoll.analyse.run.validity.validity import is_lower_bound


def leading_response(analysis: Analysis) -> str:
    """The name in results of the first response of the experiment."""
    names = [canonical(name) for name in analysis.experiment.responses]
    return next((name for name in names if name is not None), "throughput_per_s")


def of_cells(analysis: Analysis) -> list[str]:
    """A sentence on each cell; if there are many, on the best and the worst."""
    measured = [cell for cell in analysis.cells if cell.valid]
    if len(measured) <= MAX_SENTENCES:
        return [_cell_sentence(analysis, cell) for cell in measured]
    metric = leading_response(analysis)
    known = sorted(
        (cell for cell in measured if metric in cell.responses), key=lambda cell: cell.responses[metric].mean
    )
    if not known:
        return [f"{plural(len(measured), 'cell')} were measured; the table lists them all."]
    sentences = [_cell_sentence(analysis, cell) for cell in (known[-1], known[0])]
    return [
        *sentences,
        f"The other {plural(len(known) - 2, 'cell')} are between these two; the table lists them all.",
    ]


def _cell_sentence(analysis: Analysis, cell: CellResult) -> str:
    name = leading_response(analysis)
    metric = describe(name)
    runs = [run for run in analysis.runs if run.valid and run.cell == cell.cell]
    only_run = runs[0] if len(runs) == 1 else None
    interval = cell.responses.get(name)
    if (
        only_run is not None
        and name == "throughput_per_s"
        and only_run.traffic.throughput_interval is not None
    ):
        interval = (
            only_run.traffic.throughput_interval
        )  # of the only run, by batch means; run_findings states that it holds within the run
    place = f"With {level_words(cell.cell)} the" if cell.cell else "The"
    head = f"{place} target"
    if runs and not any(run.traffic.transactions for run in runs):
        short = memory_of(cell.bottleneck, runs)
        cause = f" {capital(short)} was the limit." if short else ""
        return f"{head} served nothing: {_all_failed(runs)}{cause}"
    if interval is None:
        return f"{place} {metric.title} is unknown."
    shown = plus_minus(interval, metric.kind, metric.unit)
    if not is_work(name):  # It can be a quantity of another component than the target.
        text = f"{place} {metric.title} was {shown}"
    elif any(is_lower_bound(run.reasons) for run in runs):
        least = quantity(interval.mean, metric.kind, metric.unit)
        text = f"{head} served at least {least}{payload(cell, name)}"
    else:
        text = f"{head} served {shown}{payload(cell, name)}"
    if only_run is not None and metric.kind != "ms":
        times = only_run.traffic.response_ms
        known = [
            f"{word} {time}"
            for word, name in (("median", "p50"), ("p95", "p95"), ("p99", "p99"))
            if (time := percentile(times, name)) != UNKNOWN
        ]
        text += f", with response times of {listing(known)}" if known else ""
    return f"{text}{_bottleneck(cell, runs)}.{_overloaded(runs)}{_failures(cell)}"


def _all_failed(runs: Sequence[RunResult]) -> str:
    """Numbers of failed requests by kind, of runs without a successful one."""
    kinds: Counter[str] = Counter()
    for error_count in (error_count for run in runs for error_count in run.traffic.errors_by_kind):
        kinds[
            error_count.outcome
            if error_count.code in ("", error_count.outcome)
            else f"{error_count.outcome} {error_count.code}"
        ] += error_count.count
    named = listing(f"{kind} ({count(count_)})" for kind, count_ in kinds.most_common(3))
    return f"all {plural(kinds.total(), 'request')} failed: {named}."


def of_stages(analysis: Analysis) -> list[str]:
    """One sentence on the stages of the only run of a staged load, because the mean over all stages is not
    informative."""
    stages = analysis.runs[0].stages if len(analysis.runs) == 1 else ()
    if not 2 <= len(stages) <= MAX_SENTENCES:
        return []
    parts = []
    for stage in stages:
        throughput = quantity(stage.traffic.throughput_per_s, "rate", "requests/s")
        p95 = percentile(stage.traffic.response_ms, "p95")
        failed = f", {percent(stage.traffic.error_rate)} failed" if stage.traffic.error_rate else ""
        slow = f" with p95 {p95}" if p95 != UNKNOWN else ""
        over = ", overloaded" if is_overloaded([stage.traffic.overload]) else ""
        parts.append(f"{stage.name or f'stage {stage.stage}'} {throughput}{slow}{failed}{over}")
    return [f"Stage by stage: {'; '.join(parts)}."]


def _bottleneck(cell: CellResult, runs: Sequence[RunResult]) -> str:
    if not cell.bottleneck or cell.bottleneck == NOT_RESOLVED:
        return ""
    return f"; bottleneck: {limiting(cell.bottleneck, runs)}"


def _overloaded(runs: Sequence[RunResult]) -> str:
    """Planned and completed rates, if most runs overloaded the target."""
    overloads = [overload for run in runs if (overload := run.traffic.overload) is not None]
    if not is_overloaded(run.traffic.overload for run in runs):
        return ""
    planned, done = (sum(rates) / len(overloads) for rates in zip(*map(_rates, overloads), strict=True))
    wanted = quantity(planned, "rate", "requests/s")
    completed = quantity(done, "rate", "")
    return (
        f" It was overloaded: in the second half of the window it completed {completed} of {wanted} offered."
    )


def _rates(overload: Overload) -> tuple[float, float]:
    return overload.planned_per_s, overload.completed_per_s


def _failures(cell: CellResult) -> str:
    return f" {percent(cell.error_rate)} of all requests failed." if cell.error_rate else ""
