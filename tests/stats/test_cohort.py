"""Open loads: times and errors of the cohort scheduled in the window, against a slow and obvious computation."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.stats.test_summary import CODES, MEASURED, S, layout, made, nearest_rank, rows_of

from plimsoll.analyse.results.run import Traffic
from plimsoll.analyse.results.wording import SPACE, percentile, quantity
from plimsoll.analyse.run.summary import Accumulator, RunSummary
from plimsoll.analyse.stats.quantiles import merged
from plimsoll.analyse.window.transactions import OUTCOMES, Transactions, Window

OPEN = frozenset({"readers", "writers"})
NOT_STARTED = ((S, 7), (4 * S, 11), (11 * S, 30))
"""Before the window, in it, and after its end: the last ones waited when the run ended."""


def summed(data: Transactions, open_loads: frozenset[str] = OPEN, *, exact: bool = True) -> RunSummary:
    accumulator = Accumulator(layout(open_loads=open_loads, not_started=NOT_STARTED), exact=exact)
    for part in np.array_split(np.arange(len(data)), 3):
        accumulator.add(data.take(np.isin(np.arange(len(data)), part)))
    return accumulator.result()


def planned(row: dict[str, int], window: Window = MEASURED) -> bool:
    return window.start <= row["scheduled"] < window.end


@pytest.mark.parametrize("exact", [True, False])
def test_each_scheduled_transaction_is_counted_once(exact: bool) -> None:
    data = made()
    cohort = [row for row in rows_of(data) if planned(row)]
    traffic = summed(data, exact=exact).traffic
    assert traffic.cohort is not None
    assert traffic.cohort.scheduled == len(cohort) + 41
    assert traffic.cohort.never_started == 41
    done = [row for row in cohort if row["outcome"] == 0]
    assert traffic.cohort.in_window == sum(row["end"] < MEASURED.end for row in done)
    assert traffic.cohort.in_drain == sum(row["end"] >= MEASURED.end for row in done) > 0
    assert traffic.cohort.cut_off == sum(row["end"] < 0 for row in cohort) > 0
    assert traffic.cohort.failed == len(cohort) - len(done) - traffic.cohort.cut_off
    assert traffic.offered_per_s == (len(cohort) + 41) / 8


@pytest.mark.parametrize("exact", [True, False])
def test_times_and_errors_are_of_the_cohort_and_throughput_of_the_window(exact: bool) -> None:
    data = made()
    rows = rows_of(data)
    traffic = summed(data, exact=exact).traffic
    cohort = [row for row in rows if planned(row)]
    done = [row for row in cohort if row["outcome"] == 0]
    ended = [row for row in rows if MEASURED.start <= row["end"] < MEASURED.end and row["outcome"] == 0]
    assert traffic.transactions == len(ended) and traffic.throughput_per_s == len(ended) / 8
    assert traffic.items_per_s == sum(row["items"] for row in ended) / 8
    kinds = Counter((OUTCOMES[row["outcome"]], CODES[row["code"]]) for row in cohort if row["outcome"])
    assert {(error.outcome, error.code): error.count for error in traffic.errors_by_kind} == kinds
    assert traffic.error_rate == pytest.approx(kinds.total() / len(cohort))
    late = 41 + sum(row["outcome"] in (3, 5) for row in cohort)
    values = [row["end"] - row["scheduled"] for row in done]
    assert (traffic.response_ms.count, traffic.response_ms.missing) == (len(done), late)
    beyond = [*values, *[10**15] * late]
    for q, got in ((0.5, traffic.response_ms.p50), (0.9, traffic.response_ms.p90)):
        assert got == pytest.approx(nearest_rank(beyond, q) / 1e6, rel=0 if exact else 6e-4, abs=0)
    assert traffic.response_ms.p99 is None and traffic.response_ms.is_beyond(0.99)
    assert traffic.response_ms.mean is None, "more than 0.1 % is missing"
    given_up = [
        max(row["end"], MEASURED.end if row["end"] < 0 else 0) - row["scheduled"]
        for row in cohort
        if row["outcome"] in (3, 5)
    ]
    bound = min(max(values), *given_up)
    assert traffic.response_ms.bound == bound / 1e6
    assert percentile(traffic.response_ms, "p99") == f">{SPACE}{quantity(bound / 1e6, 'ms')}"
    assert traffic.request_ms.missing == late - 41, "what never started has no request time"


def test_a_percentile_beyond_the_completed_transactions_has_the_known_lower_bound() -> None:
    """One of ten transactions takes 5 s; two begin 1 s before the end of the window and are cut off 0.5 s after it: of
    these it is known that they took 1.5 s, not that they took longer than 5 s."""
    scheduled = np.arange(10, dtype=np.int64) * S
    end = scheduled + np.array([S, S, S, 5 * S, S, S, S, S, 0, 0])
    scheduled[8:], end[8:] = 9 * S, 10 * S + S // 2
    zeros = np.zeros(10, dtype=np.int64)
    outcome = np.array([0] * 8 + [OUTCOMES.index("cancelled")] * 2)
    data = Transactions(scheduled, scheduled, end, outcome.astype(np.uint8), *[zeros] * 7)
    several = data.take(np.repeat(np.arange(10), 20))
    accumulator = Accumulator(
        layout(open_loads=frozenset({"readers"}), workloads=("readers",), by_workload=False)
    )
    accumulator.add(several)
    times = accumulator.result().traffic.response_ms
    assert (times.max, times.bound) == (5000, 1500)
    assert percentile(times, "p95") == f">{SPACE}{quantity(1500, 'ms')}"
    assert percentile(times, "max") == f">{SPACE}{quantity(5000, 'ms')}"


def test_a_complete_cohort_has_all_figures() -> None:
    """Slow transactions are in the figures, also if they ended after the window."""
    n = 2000
    scheduled = np.linspace(2 * S, 10 * S, n, endpoint=False).astype(np.int64)
    zeros = np.zeros(n, dtype=np.int64)
    took = np.linspace(0, 1, n) * 1.5 * S
    data = Transactions(
        scheduled, scheduled, scheduled + took.astype(np.int64), zeros.astype(np.uint8), *[zeros] * 7
    )
    accumulator = Accumulator(
        layout(open_loads=frozenset({"readers"}), workloads=("readers",), by_workload=False)
    )
    accumulator.add(data)
    traffic = accumulator.result().traffic
    assert traffic.response_ms.missing == 0
    assert traffic.response_ms.mean == pytest.approx(750, rel=0.01)
    assert traffic.response_ms.p95 == pytest.approx(1425, rel=0.01)
    assert traffic.cohort is not None and traffic.cohort.in_drain > 0
    assert traffic.transactions == traffic.cohort.in_window < n
    assert traffic.response_ms.mean_interval is not None
    assert traffic.response_ms.mean_interval.mean == pytest.approx(traffic.response_ms.mean)


def test_open_and_closed_loads_in_one_run_have_their_own_rules() -> None:
    data = made()
    rows = rows_of(data)
    summary = summed(data, frozenset({"writers"}))
    by_name = {workload.workload: workload.traffic for workload in summary.workloads}
    closed = [row for row in rows if row["workload"] == 0 and MEASURED.start <= row["end"] < MEASURED.end]
    mine = [row for row in rows if row["workload"] == 1 and planned(row)]
    assert by_name["readers"].cohort is None and by_name["readers"].response_ms.missing == 0
    assert by_name["readers"].errors == sum(row["outcome"] > 0 for row in closed)
    assert by_name["writers"].cohort == summary.traffic.cohort, "the only open load"
    assert by_name["writers"].errors == sum(row["outcome"] > 0 for row in mine)
    whole: Traffic = summary.traffic
    assert whole.errors == by_name["readers"].errors + by_name["writers"].errors
    assert whole.response_ms.count == sum(traffic.response_ms.count for traffic in by_name.values())
    assert whole.transactions == sum(traffic.transactions for traffic in by_name.values())


def test_stages_have_cohorts_of_their_own() -> None:
    data = made()
    summary = summed(data)
    for stage, never in zip(summary.stages, (11, 30), strict=True):
        window = Window(round(stage.start_s * S), round(stage.end_s * S))
        there = sum(planned(row, window) for row in rows_of(data))
        assert stage.traffic.cohort is not None
        assert stage.traffic.cohort.scheduled == there + never


def test_the_distribution_ends_at_the_share_that_completed() -> None:
    summary = summed(made())
    times = summary.traffic.response_ms
    assert summary.ecdf is not None
    assert summary.ecdf.share[-1] == pytest.approx(times.count / (times.count + times.missing))


def test_missing_values_are_merged_over_runs() -> None:
    once = summed(made()).histograms["response"]
    both = merged([once, summed(made(seed=2)).histograms["response"]])
    assert once.missing > 41 and once.failed > 0
    assert both.missing > once.missing and both.failed > once.failed
    assert both.quantile(0.999) is None and both.quantile(0.5) is not None
    assert both.quantile(0.85) is not None and both.quantile(0.92, failed=True) is None, (
        "failures are long, too"
    )


def test_overload_is_stated_only_where_all_planned_starts_are_known() -> None:
    """The operation, or which of two open loads, is unknown for transactions that never started."""
    accumulator = Accumulator(
        layout(open_loads=OPEN, not_started=NOT_STARTED, operations=("get", "put", "list"))
    )
    accumulator.add(made())
    summary = accumulator.result()
    assert summary.traffic.overload is not None
    parts = [*(part.traffic for part in summary.workloads), *(part.traffic for part in summary.operations)]
    assert len(parts) == 8 and all(part.overload is None for part in parts)
