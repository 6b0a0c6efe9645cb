"""Every number of the report as a table: the same content as the charts, in words. Pure: Labels in, text cells out."""

from __future__ import annotations

import math
import re
from typing import Final

from plimsoll.analyse.answer.superseded import stated_words, subject_words, version_words, what_words
from plimsoll.analyse.results.analysis import CellResult, Effect, Model, RunResult, Verdict
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.analyse.results.run import Cohort, ErrorCount, Latency, OperationResult
from plimsoll.analyse.results.wording import (
    UNKNOWN,
    count,
    degrees,
    describe,
    ends,
    level_words,
    listing,
    number,
    observed,
    p_value,
    percent,
    percent_range,
    percentile,
    plus_minus,
    quantity,
    with_unit,
)
from plimsoll.plan.source.units import about_size
from plimsoll.report.labels import Labels, has_shares, users
from plimsoll.report.table import Column, Table, table_of

LATENCY_COLUMNS = ("mean", "sd", "p50", "p90", "p95", "p99", "p99.9", "max")


COHORT: Final = (
    "succeeded in the window",
    "succeeded in the drain",
    "failed",
    "cut off at the end of the run",
    "never started",
)


def milliseconds(value: float | None) -> str:
    """A duration in the unit that suits it."""
    return quantity(value, "ms")


def latency_cells(latency: Latency) -> tuple[str, ...]:
    """One cell per LATENCY_COLUMNS; a dash where the sample is too small."""
    mean = plus_minus(latency.mean_interval, "ms") if latency.mean_interval else milliseconds(latency.mean)
    names = ("p50", "p90", "p95", "p99", "p999", "max")
    return (mean, milliseconds(latency.sd), *(percentile(latency, name) for name in names))


def verdict_text(each: Verdict) -> str:
    """A threshold and how it was judged, in one line."""
    where = f" with {level_words(each.cell)}" if each.cell else ""
    seen = f" (observed {observed(each)})" if each.passed and each.observed is not None else ""
    why = f": {each.reason}" if each.reason else ""
    return f"{describe(each.metric).title} {each.test}{where}{seen}{why}"


def cell_words(labels: Labels, cell: CellResult) -> tuple[str, ...]:
    """Combination and, where there is one, load of a cell."""
    head = labels.combination(cell.cell)
    return (head,) if labels.load_factor is None else (head, labels.load_label(cell.load))


def cell_heads(labels: Labels) -> str:
    """The heads over `cell_words`."""
    return "Cell" if labels.load_factor is None else f"Combination|{labels.load_word.capitalize()}"


def throughput(labels: Labels) -> Table:
    """Throughput of each cell with its interval."""
    metric = labels.throughput
    rows = []
    for cell in labels.cells():
        interval = cell.responses.get(metric.name)
        payload = cell.responses.get("payload_bytes_per_s")
        rows.append(
            (
                *cell_words(labels, cell),
                f"{cell.valid} of {cell.repetitions}",
                plus_minus(interval, metric.kind, metric.unit),
                ends(interval, metric.kind, metric.unit),
                degrees(interval.df) if interval else UNKNOWN,
                quantity(payload.mean, "bytes_rate") if payload else UNKNOWN,
                number(cell.scaling),
            )
        )
    shown = [cell.responses.get(metric.name) for cell in labels.analysis.cells]
    methods = {each.method for each in shown if each is not None and each.method}
    note = "95 % intervals over repetitions. " if any(row[4] != UNKNOWN for row in rows) else "No intervals. "
    note += f"Error term: {listing(sorted(methods))}. " if methods else ""
    note += (
        f"Scaling: throughput per unit of {labels.load_word} relative to the lowest load."
        if labels.load_factor
        else ""
    )
    heads = f"{cell_heads(labels)}|Valid runs"
    return table_of(
        f"{metric.title.capitalize()} per cell", heads, "Mean|Interval|df|Payload|Scaling", rows, note
    )


def totals(labels: Labels) -> Table:
    """What was done in each run, all kinds of throughput side by side."""
    rows = []
    for run in labels.runs():
        done = run.traffic
        interval = done.throughput_interval
        carried = plus_minus(interval, "rate") if interval else number(done.throughput_per_s)
        numbers = (carried, number(done.items_per_s), number(done.offered_per_s), number(done.concurrency))
        flows = (
            quantity(done.payload_bytes_per_s, "bytes_rate"),
            quantity(done.wire_bytes_per_s, "bytes_rate"),
        )
        rows.append((run.id, labels.cell(run.cell), count(done.transactions), *numbers, *flows))
    heads = "Transactions|Requests/s|Items/s|Offered/s|Concurrency|Payload|On the wire"
    note = "± is a 95 % interval by batch means within the run."
    return table_of("Throughput per run", "Run|Cell", heads, rows, note)


def response(labels: Labels) -> Table:
    """Response time of each cell: the interval over its repetitions, or the range of the runs where there is none."""
    rows = []
    for cell in labels.cells():
        runs = [run for run in labels.analysis.runs if run.cell == cell.cell and run.valid]
        values = [
            _over_runs(cell, f"response_ms_{name}", [getattr(run.traffic.response_ms, name) for run in runs])
            for name in ("mean", "p50", "p95", "p99")
        ]
        rows.append((*cell_words(labels, cell), *values, number(cell.stretch)))
    note = "± is the 95 % interval over repetitions; a range is that of the runs. Stretch: relative to the lowest load."
    heads = cell_heads(labels)
    return table_of("Response time per cell", heads, "Mean|Median|p95|p99|Stretch", rows, note)


def _over_runs(cell: CellResult, name: str, values: list[float | None]) -> str:
    interval = cell.responses.get(name)
    if interval is not None:
        return plus_minus(interval, "ms")
    known = [value for value in values if value is not None]
    if not known:
        return UNKNOWN
    low, high = milliseconds(min(known)), milliseconds(max(known))
    return low if low == high else f"{low} to {high}"


def distribution(labels: Labels) -> Table:
    """Percentiles of the response time of each run."""
    rows = [
        (
            run.id,
            labels.cell(run.cell),
            count(run.traffic.response_ms.count),
            *latency_cells(run.traffic.response_ms),
        )
        for run in labels.runs()
    ]
    note = (
        "± is an interval by batch means within the run. –: too few samples for this percentile, or more than 0.1 % of "
        "the values for the mean are missing. >: the percentile is among transactions of an open load that did not "
        "complete."
    )
    return table_of(
        "Response time per run", "Run|Cell", "|".join(("Transactions", *LATENCY_COLUMNS)), rows, note
    )


def cohorts(labels: Labels) -> Table:
    """What became of the transactions of open loads that were scheduled in the window of each run."""
    rows = [
        (run.id, labels.cell(run.cell), *map(count, (found.scheduled, *cohort_counts(found).values())))
        for run in labels.runs()
        if (found := run.traffic.cohort) is not None
    ]
    heads = "|".join(("Scheduled", *(name.capitalize() for name in COHORT)))
    note = "Times, errors and thresholds of open loads cover all transactions scheduled in the window."
    return table_of("Scheduled transactions of open loads", "Run|Cell", heads, rows, note)


def cohort_counts(cohort: Cohort) -> dict[str, int]:
    """What became of it, by the words for it."""
    found = (cohort.in_window, cohort.in_drain, cohort.failed, cohort.cut_off, cohort.never_started)
    return dict(zip(COHORT, found, strict=True))


def error_kind(each: ErrorCount) -> str:
    """Outcome and code; one word where both are the same ("refused")."""
    return each.outcome if each.code in ("", each.outcome) else f"{each.outcome} {each.code}"


def errors(labels: Labels) -> Table:
    """Error rate of each cell with its upper bound, and the kinds of errors met."""
    rows = []
    for cell in labels.cells():
        kinds: dict[str, int] = {}
        for run in labels.analysis.runs:
            for each in run.traffic.errors_by_kind if run.cell == cell.cell and run.valid else ():
                kind = error_kind(each)
                kinds[kind] = kinds.get(kind, 0) + each.count
        met = listing(
            f"{kind} ({count(times)})" for kind, times in sorted(kinds.items(), key=lambda item: -item[1])
        )
        rate = (percent(cell.error_rate), percent(cell.error_rate_upper))
        rows.append((*cell_words(labels, cell), met or "none", *rate))
    heads = f"{cell_heads(labels)}|Errors by kind"
    note = "Upper bound: 95 %, Wilson. Kinds are counted over the valid runs."
    return table_of("Error rate per cell", heads, "Error rate|Upper bound", rows, note)


def utilization(labels: Labels) -> Table:
    """Utilization of each component of each run beside its throughput."""
    metric = labels.throughput
    rows = []
    for run in labels.runs():
        for each in run.utilization:
            watched = listing(
                f"{name} {_watched(name, value)}" for name, value in sorted(each.detail.items())
            )
            band = UNKNOWN
            if each.low is not None and each.high is not None:
                band = percent_range(each.low, each.high, 2)
            carried = quantity(metric_value(run, metric.name), metric.kind, metric.unit)
            words = (run.id, labels.cell(run.cell), each.component, each.resource, watched)
            rows.append((*words, percent(each.mean, 2), band, carried))
    heads = "Run|Cell|Component|Binding resource|Watched"
    return table_of("Utilization per run", heads, f"Mean|Interval|{metric.title.capitalize()}", rows)


_SHARES = re.compile(r"(cpu|busiest|core \d|link|psi|disk\.busy)(?!s_used)")


def _watched(name: str, value: float) -> str:
    """What a monitor saw, by the name it has there: shares of 1, bytes, bytes per second, or plain numbers."""
    if _SHARES.match(name):
        return percent(value, 2)
    if name.startswith("memory"):
        return about_size(value)
    if name.startswith(("disk.", "net.", "io.")):
        return quantity(value, "bytes_rate")
    return number(value)


def fairness(labels: Labels) -> Table:
    """How evenly the work was shared out in each run."""
    rows = []
    for run in filter(has_shares, labels.runs()):
        shares = [each.share for each in users(run) if each.share is not None]
        least, most = (number(min(shares)), number(max(shares))) if shares else (UNKNOWN, UNKNOWN)
        spread = (number(run.jain_index, 4), number(run.share_cv), least, most)
        rows.append((run.id, labels.cell(run.cell), count(len(shares)), *spread))
    note = "Share 1 is fair. Jain's index: 1 is fair, 1/n when one of n testers gets everything."
    return table_of(
        "Fairness per run",
        "Run|Cell",
        "Testers|Jain index|CV of share|Least share|Greatest share",
        rows,
        note,
    )


def effect_value(effect: Effect) -> str:
    """An effect as it acts: `+120 requests/s`, or `× 4.2` on the log scale."""
    if effect.effect is None:
        return UNKNOWN
    if effect.scale == "log":
        return f"× {number(effect.effect)}"
    metric = describe(effect.response)
    sign = "+" if effect.effect > 0 else ""
    return sign + quantity(effect.effect, metric.kind, metric.unit)


def _effect_ends(effect: Effect) -> str:
    interval = effect.interval
    if interval is None or interval.low is None or interval.high is None:
        return UNKNOWN
    if effect.scale == "log":
        return f"× {number(interval.low)} to × {number(interval.high)}"
    metric = describe(effect.response)
    return ends(interval, metric.kind, metric.unit)


def effects(labels: Labels, model: Model) -> Table:
    """The fitted terms of one response, level by level."""
    rows = [
        (
            each.term,
            each.level,
            effect_value(each),
            _effect_ends(each),
            p_value(each.p_value),
            p_value(each.adjusted_p_value),
            degrees(each.df),
            with_unit(number(each.variation_percent), "%"),
        )
        for each in labels.analysis.effects
        if (each.response, each.scale) == (model.response, model.scale)
    ]
    acts = "factor by which the mean is multiplied" if model.scale == "log" else "added to the grand mean"
    note = f"Effect: {acts}. Sums of squares: {model.sum_of_squares}. Error df: {degrees(model.error_df)}."
    if model.family > 1:
        note += f" Intervals are individual. Adjusted p: for all {model.family} terms together (Holm)."
    title = f"Effects on {describe(model.response).title}, {model.scale} scale"
    return table_of(
        title, "Term|Level", "Effect|95 % interval|p|Adjusted p|df|Share of variation", rows, note
    )


def order(labels: Labels) -> Table:
    """The leading response of the runs in execution order."""
    metric = labels.metric
    rows = [
        (
            run.id,
            labels.cell(run.cell),
            run.block or UNKNOWN,
            verdict(run),
            count(run.order),
            quantity(metric_value(run, metric.name), metric.kind, metric.unit),
        )
        for run in sorted(labels.analysis.runs, key=lambda run: run.order)
    ]
    return table_of(
        "Runs in execution order", "Run|Cell|Block|Verdict", f"Order|{metric.title.capitalize()}", rows
    )


def residuals(model: Model) -> Table:
    """Fitted value and residual of each run, on the scale of the model."""
    rows = [
        (run, number(fitted), number(residual))
        for run, fitted, residual in zip(model.run_ids, model.fitted, model.residuals, strict=False)
    ]
    note = "In logarithms." if model.scale == "log" else ""
    return table_of(f"Residuals of {describe(model.response).title}", "Run", "Fitted|Residual", rows, note)


def verdict(run: RunResult) -> str:
    """One word on a run: valid, doubtful, invalid, or how it ended."""
    if run.status != "finished":
        return run.status
    if not run.valid:
        return "invalid"
    return "doubtful" if run.doubtful_reasons else "valid"


def validity(labels: Labels) -> Table:
    """Every run's verdict, the reasons, and the numbers behind them."""
    keys = list(dict.fromkeys(key for run in labels.analysis.runs for key in run.evidence))
    rows = [
        (
            run.id,
            labels.cell(run.cell),
            verdict(run),
            "; ".join((*run.invalid_reasons, *run.doubtful_reasons, *run.notes)) or "passed all checks",
            *(evidence_words(key, run.evidence.get(key)) for key in keys),
        )
        for run in labels.runs()
    ]
    heads = tuple(Column(_spoken(key), numeric=True) for key in keys)
    return Table(
        "Validity of each run",
        (*map(Column, ("Run", "Cell", "Verdict", "Why")), *heads),
        tuple(map(tuple, rows)),
    )


def objections(labels: Labels) -> Table:
    """The runs that are invalid or doubtful, and why."""
    rows = [
        (
            run.id,
            labels.cell(run.cell),
            verdict(run),
            "; ".join((*run.invalid_reasons, *run.doubtful_reasons)),
        )
        for run in labels.runs()
        if not run.valid or run.doubtful_reasons
    ]
    return table_of("Invalid and doubtful runs", "Run|Cell|Verdict|Why", "", rows)


def _spoken(key: str) -> str:
    return key.removesuffix("_ms").removesuffix("_s").replace("_", " ").capitalize()


def evidence_words(key: str, value: float | None) -> str:
    """A number behind a verdict, by its key: `_s` are seconds, `_ms` milliseconds, the limits of `validity:` shares."""
    if value is None or not math.isfinite(value):
        return number(value)
    if key.endswith("_ms"):
        return milliseconds(value)
    if key.endswith("_s"):
        return milliseconds(value * 1000)
    if key in {"tester_cpu", "tester_demand", "started", "lateness_share", "gaps", "trend_change", "steal"}:
        return percent(value) if value > 0 else with_unit(number(value * 100), "%")
    return count(round(value)) if key in {"succeeded", "failed"} else number(value)


def books(labels: Labels) -> Table:
    """The books of every run: started = succeeded + failed + in flight at the end."""
    rows = []
    for run in labels.runs():
        kept = run.counts
        numbers = (
            kept.started,
            kept.succeeded,
            kept.failed,
            kept.in_flight_at_end,
            kept.dropped,
            kept.missed,
            kept.lost_records,
        )
        balanced = "balanced" if kept.balanced else "NOT balanced"
        monitor = percent(run.monitor_cpu, 2)
        rows.append((run.id, labels.cell(run.cell), run.status, balanced, *map(count, numbers), monitor))
    heads = "Started|Succeeded|Failed|In flight at end|Dropped|Missed|Lost records|Monitor, of a core"
    return table_of("Counts per run", "Run|Cell|Status|Books", heads, rows)


def thresholds(labels: Labels) -> Table:
    """Every threshold on every cell it was judged on."""
    rows = []
    for each in labels.analysis.verdicts:
        kind = describe(each.metric)
        passed = "passed" if each.passed else "FAILED" if each.judged else "not judged yet"
        where = labels.cell(each.cell) if each.cell else "every cell"
        rows.append((passed, kind.title, each.test, where, each.reason, observed(each)))
    return table_of("Thresholds", "Verdict|Metric|Test|Where|Why", "Observed", rows)


def left_out(labels: Labels) -> Table:
    """What is in no figure, and why."""
    return table_of("Left out", "What|Why", "", [(each.what, each.why) for each in labels.analysis.left_out])


def operation_name(each: OperationResult, *, several: bool) -> str:
    """As people wrote it; with its workload where several have a mix."""
    return f"{each.workload}: {each.operation}" if several else each.operation


def operations(labels: Labels) -> Table:
    """What each request of a mix did, in each run."""
    rows = [
        (
            run.id,
            labels.cell(run.cell),
            operation_name(each, several=len(run.workloads) > 1),
            quantity(each.traffic.throughput_per_s, "rate", "/s"),
            percent(each.traffic.error_rate),
            quantity(each.traffic.payload_bytes_per_s, "bytes_rate"),
            *latency_cells(each.traffic.response_ms),
            percentile(each.traffic.request_ms, "p50"),
            percentile(each.traffic.request_ms, "p95"),
        )
        for run in labels.runs()
        for each in run.operations
    ]
    times = (*LATENCY_COLUMNS, "request time p50", "request time p95")
    heads = "|".join(("Throughput", "Error rate", "Payload", *times))
    note = "Times without a name are response times."
    return table_of("Requests of the mix", "Run|Cell|Request", heads, rows, note)


def superseded(labels: Labels) -> Table:
    """The verdicts that newer rules changed, before and after."""
    rows = [
        (
            subject_words(each),
            what_words(each),
            *(words(one) for one in (each.earlier, each.now) for words in (stated_words, version_words)),
            listing(each.changed),
        )
        for each in labels.analysis.superseded
    ]
    heads = "Subject|Verdict|Earlier|Rule|Now|Rule|Changed rules"
    note = "From the same measurements. The figures of this page follow the current rules."
    return table_of("Verdicts changed by newer rules", heads, "", rows, note)
