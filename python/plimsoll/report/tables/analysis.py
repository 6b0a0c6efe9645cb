"""The numbers of the charts as tables. Pure: Labels in, text cells out."""

from __future__ import annotations

import math
import re
from typing import Final

from plimsoll.analyse.answer.load.superseded import stated_words, subject_words, version_words, what_words
from plimsoll.analyse.results.analysis import CellResult, Effect, Model, RunResult, Verdict
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.analyse.results.run import Cohort, ErrorCount, Latency, OperationResult
from plimsoll.analyse.results.wording import (
    UNKNOWN,
    Metric,
    capitalized,
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
from plimsoll.report.tables.table import Column, Table, table_of

LATENCY_COLUMNS = ("mean", "sd", "p50", "p90", "p95", "p99", "p99.9", "max")


COHORT: Final = (
    "succeeded in the window",
    "succeeded in the drain",
    "failed",
    "cut off at the end of the run",
    "never started",
)


def milliseconds(value: float | None) -> str:
    """A duration in ms as text, in a suitable unit."""
    return quantity(value, "ms")


def latency_cells(latency: Latency) -> tuple[str, ...]:
    """One cell per name of LATENCY_COLUMNS; a dash if the sample is too small."""
    mean = plus_minus(latency.mean_interval, "ms") if latency.mean_interval else milliseconds(latency.mean)
    names = ("p50", "p90", "p95", "p99", "p999", "max")
    return (mean, milliseconds(latency.sd), *(percentile(latency, name) for name in names))


def verdict_text(threshold_verdict: Verdict) -> str:
    """A threshold and how it was judged, in one line."""
    where = f" with {level_words(threshold_verdict.cell)}" if threshold_verdict.cell else ""
    value = (
        f" (observed {observed(threshold_verdict)})"
        if threshold_verdict.passed and threshold_verdict.observed is not None
        else ""
    )
    why = f": {threshold_verdict.reason}" if threshold_verdict.reason else ""
    return f"{describe(threshold_verdict.metric).title} {threshold_verdict.test}{where}{value}{why}"


def cell_words(labels: Labels, cell: CellResult) -> tuple[str, ...]:
    """Combination of a cell, and its load if there is a load factor."""
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
    methods = {interval.method for interval in shown if interval is not None and interval.method}
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


def metric(labels: Labels, metric: Metric) -> Table:
    """A metric of each cell with its interval."""
    rows = []
    for cell in labels.cells():
        interval = cell.responses.get(metric.name)
        rows.append(
            (
                *cell_words(labels, cell),
                f"{cell.valid} of {cell.repetitions}",
                plus_minus(interval, metric.kind, metric.unit),
                ends(interval, metric.kind, metric.unit),
                degrees(interval.df) if interval else UNKNOWN,
            )
        )
    note = "95 % intervals over repetitions." if any(row[-2] != UNKNOWN for row in rows) else "No intervals."
    heads = f"{cell_heads(labels)}|Valid runs"
    return table_of(f"{capitalized(metric.title)} per cell", heads, "Mean|Interval|df", rows, note)


def totals(labels: Labels) -> Table:
    """Transactions and all kinds of throughput of each run."""
    rows = []
    for run in labels.runs():
        traffic = run.traffic
        interval = traffic.throughput_interval
        rate = plus_minus(interval, "rate") if interval else number(traffic.throughput_per_s)
        numbers = (
            rate,
            number(traffic.items_per_s),
            number(traffic.offered_per_s),
            number(traffic.concurrency),
        )
        flows = (
            quantity(traffic.payload_bytes_per_s, "bytes_rate"),
            quantity(traffic.wire_bytes_per_s, "bytes_rate"),
        )
        rows.append((run.id, labels.cell(run.cell), count(traffic.transactions), *numbers, *flows))
    heads = "Transactions|Requests/s|Items/s|Offered/s|Concurrency|Payload|On the wire"
    note = "± is a 95 % interval by batch means within the run."
    return table_of("Throughput per run", "Run|Cell", heads, rows, note)


def response(labels: Labels) -> Table:
    """Response time of each cell: the interval over its repetitions; if there is none, the range of the runs."""
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
    """Outcomes of the transactions of open loads that were scheduled in the window of each run."""
    rows = [
        (run.id, labels.cell(run.cell), *map(count, (cohort.scheduled, *cohort_counts(cohort).values())))
        for run in labels.runs()
        if (cohort := run.traffic.cohort) is not None
    ]
    heads = "|".join(("Scheduled", *(name.capitalize() for name in COHORT)))
    note = "Times, errors and thresholds of open loads cover all transactions scheduled in the window."
    return table_of("Scheduled transactions of open loads", "Run|Cell", heads, rows, note)


def cohort_counts(cohort: Cohort) -> dict[str, int]:
    """Number of transactions for each outcome of COHORT."""
    counts = (cohort.in_window, cohort.in_drain, cohort.failed, cohort.cut_off, cohort.never_started)
    return dict(zip(COHORT, counts, strict=True))


def error_kind(error: ErrorCount) -> str:
    """Outcome and code; one word if both are the same ("refused")."""
    return error.outcome if error.code in ("", error.outcome) else f"{error.outcome} {error.code}"


def errors(labels: Labels) -> Table:
    """Error rate of each cell with its upper bound, and the kinds of its errors."""
    rows = []
    for cell in labels.cells():
        kinds: dict[str, int] = {}
        for run in labels.analysis.runs:
            for error in run.traffic.errors_by_kind if run.cell == cell.cell and run.valid else ():
                kind = error_kind(error)
                kinds[kind] = kinds.get(kind, 0) + error.count
        met = listing(
            f"{kind} ({count(times)})" for kind, times in sorted(kinds.items(), key=lambda item: -item[1])
        )
        rate = (percent(cell.error_rate), percent(cell.error_rate_upper))
        rows.append((*cell_words(labels, cell), met or "none", *rate))
    heads = f"{cell_heads(labels)}|Errors by kind"
    note = "Upper bound: 95 %, Wilson. Kinds are counted over the valid runs."
    return table_of("Error rate per cell", heads, "Error rate|Upper bound", rows, note)


def utilization(labels: Labels) -> Table:
    """Utilization of each component of each run, next to the throughput of the run."""
    metric = labels.throughput
    rows = []
    for run in labels.runs():
        for usage in run.utilization:
            watched = listing(
                f"{name} {_watched(name, value)}" for name, value in sorted(usage.detail.items())
            )
            band = UNKNOWN
            if usage.low is not None and usage.high is not None:
                band = percent_range(usage.low, usage.high, 2)
            rate = quantity(metric_value(run, metric.name), metric.kind, metric.unit)
            words = (run.id, labels.cell(run.cell), usage.component, usage.resource, watched)
            rows.append((*words, percent(usage.mean, 2), band, rate))
    heads = "Run|Cell|Component|Binding resource|Watched"
    return table_of("Utilization per run", heads, f"Mean|Interval|{metric.title.capitalize()}", rows)


_SHARES = re.compile(r"(cpu|busiest|core \d|link|psi|disk\.busy)(?!s_used)")


_COUNTED = ("memory.oom_kills", "memory.reclaims", "memory.major_faults")


def _watched(name: str, value: float) -> str:
    """A monitored value as text. Its name determines whether it is a share of 1, bytes, bytes per second or a
    number."""
    if _SHARES.match(name):
        return percent(value, 2)
    if name.startswith("memory") and name not in _COUNTED:
        return about_size(value)
    if name.startswith(("disk.", "net.", "io.")):
        return quantity(value, "bytes_rate")
    return number(value)


def fairness(labels: Labels) -> Table:
    """Fairness among the users of each run."""
    rows = []
    for run in filter(has_shares, labels.runs()):
        shares = [tester.share for tester in users(run) if tester.share is not None]
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
    """An effect as text: `+120 requests/s`, or `× 4.2` on the log scale."""
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
    """The fitted terms of one response, a row for each level."""
    rows = [
        (
            effect.term,
            effect.level,
            effect_value(effect),
            _effect_ends(effect),
            p_value(effect.p_value),
            p_value(effect.adjusted_p_value),
            degrees(effect.df),
            with_unit(number(effect.variation_percent), "%"),
        )
        for effect in labels.analysis.effects
        if (effect.response, effect.scale) == (model.response, model.scale)
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
    """A number of the evidence for a verdict as text. A key that ends with `_s` is in seconds, with `_ms` in
    milliseconds; the limits of `validity:` are shares."""
    if value is None or not math.isfinite(value):
        return number(value)
    if key.endswith("_ms"):
        return milliseconds(value)
    if key.endswith("_s"):
        return milliseconds(value * 1000)
    if key in {
        "tester_cpu",
        "tester_demand",
        "started",
        "lateness_share",
        "gaps",
        "trend_change",
        "steal",
        "requests_difference",
    }:
        return percent(value) if value > 0 else with_unit(number(value * 100), "%")
    return count(round(value)) if key in {"succeeded", "failed"} else number(value)


def run_counts(labels: Labels) -> Table:
    """Counts of every run, which are balanced if started = succeeded + failed + in flight at the end."""
    rows = []
    for run in labels.runs():
        counts = run.counts
        numbers = (
            counts.started,
            counts.succeeded,
            counts.failed,
            counts.in_flight_at_end,
            counts.dropped,
            counts.missed,
            counts.lost_records,
        )
        balanced = "balanced" if counts.balanced else "NOT balanced"
        monitor = percent(run.monitor_cpu, 2)
        rows.append((run.id, labels.cell(run.cell), run.status, balanced, *map(count, numbers), monitor))
    heads = "Started|Succeeded|Failed|In flight at end|Dropped|Missed|Lost records|Monitor, of a core"
    return table_of("Counts per run", "Run|Cell|Status|Totals", heads, rows)


def thresholds(labels: Labels) -> Table:
    """A row for each threshold and each cell on which it was judged."""
    rows = []
    for threshold_verdict in labels.analysis.verdicts:
        kind = describe(threshold_verdict.metric)
        passed = (
            "passed"
            if threshold_verdict.passed
            else "FAILED"
            if threshold_verdict.judged
            else "not judged yet"
        )
        where = labels.cell(threshold_verdict.cell) if threshold_verdict.cell else "every cell"
        rows.append(
            (
                passed,
                kind.title,
                threshold_verdict.test,
                where,
                threshold_verdict.reason,
                observed(threshold_verdict),
            )
        )
    return table_of("Thresholds", "Verdict|Metric|Test|Where|Why", "Observed", rows)


def left_out(labels: Labels) -> Table:
    """Runs and cells that no figure includes, and the reasons."""
    return table_of("Left out", "What|Why", "", [(item.what, item.why) for item in labels.analysis.left_out])


def operation_name(operation: OperationResult, *, several: bool) -> str:
    """The name of an operation as in the experiment file. `several`: with its workload."""
    return f"{operation.workload}: {operation.operation}" if several else operation.operation


def operations(labels: Labels) -> Table:
    """Throughput, errors and times of each request of a mix, for each run."""
    rows = [
        (
            run.id,
            labels.cell(run.cell),
            operation_name(operation, several=len(run.workloads) > 1),
            quantity(operation.traffic.throughput_per_s, "rate", "/s"),
            percent(operation.traffic.error_rate),
            quantity(operation.traffic.payload_bytes_per_s, "bytes_rate"),
            *latency_cells(operation.traffic.response_ms),
            percentile(operation.traffic.request_ms, "p50"),
            percentile(operation.traffic.request_ms, "p95"),
        )
        for run in labels.runs()
        for operation in run.operations
    ]
    times = (*LATENCY_COLUMNS, "request time p50", "request time p95")
    heads = "|".join(("Throughput", "Error rate", "Payload", *times))
    note = "Times without a name are response times."
    return table_of("Requests of the mix", "Run|Cell|Request", heads, rows, note)


def superseded(labels: Labels) -> Table:
    """The verdicts that newer rules changed, before and after the change."""
    rows = [
        (
            subject_words(change),
            what_words(change),
            *(
                words(statement)
                for statement in (change.earlier, change.now)
                for words in (stated_words, version_words)
            ),
            listing(change.changed),
        )
        for change in labels.analysis.superseded
    ]
    heads = "Subject|Verdict|Earlier|Rule|Now|Rule|Changed rules"
    note = "From the same measurements. The figures of this page follow the current rules."
    return table_of("Verdicts changed by newer rules", heads, "", rows, note)
