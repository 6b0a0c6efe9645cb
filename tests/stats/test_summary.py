"""The summary of a run against a slow and obvious computation, row by row."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from plimsoll.analyse.run.parts import PartKey
from plimsoll.analyse.run.summary import Accumulator, Layout, RunSummary
from plimsoll.analyse.window.transactions import Stage, Transactions, Window

S = 1_000_000_000
CODES = ("", "500", "reset")
LENGTH = 12 * S
MEASURED = Window(2 * S, 10 * S)
STAGES = (Stage(0, "up", Window(2 * S, 5 * S)), Stage(1, "top", Window(5 * S, 10 * S)))


def made(n: int = 4000, *, seed: int = 1, late: bool = True) -> Transactions:
    """Random transactions over 11 s: failures, some in flight at the end, three testers with unequal numbers of
    transactions."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 11 * S, n)
    scheduled = start - (rng.integers(0, 5_000_000, n) if late else 0)
    scheduled = np.where(start % 3 == 0, start, scheduled)
    end = start + rng.lognormal(17, 1, n).astype(np.int64)
    outcome = np.where(rng.random(n) < 0.1, rng.integers(1, 5, n), 0).astype(np.uint8)
    in_flight = (end > LENGTH) | (start % 97 == 0)
    return Transactions(
        scheduled=scheduled,
        start=start,
        end=np.where(in_flight, -1, end),
        outcome=np.where(in_flight, 5, outcome).astype(np.uint8),
        code=np.where(outcome > 0, rng.integers(1, 3, n), 0),
        tester=rng.choice(3, n, p=[0.5, 0.3, 0.2]),
        workload=rng.integers(0, 2, n),
        items=rng.integers(0, 10, n),
        payload=rng.integers(0, 10_000, n),
        sent=rng.integers(0, 300, n),
        received=rng.integers(0, 12_000, n),
        operation=rng.integers(0, 3, n),
        first_byte=np.where(rng.random(n) < 0.9, ((end - start) * rng.random(n)).astype(np.int64), -1),
        connected=np.where(rng.random(n) < 0.1, 0, -1),
        round_trip=np.where(rng.random(n) < 0.9, rng.integers(0, 20_000_000, n), -1),
    )


def layout(**changes: object) -> Layout:
    known: dict[str, object] = {
        "measured": MEASURED,
        "length_ns": LENGTH,
        "codes": CODES,
        "workloads": ("readers", "writers"),
        "tester_agents": ("agent-0", "agent-0", "agent-1"),
        "stages": STAGES,
        "by_workload": True,
        "quantum_ns": S,
    }
    return Layout(**{**known, **changes})  # type: ignore[arg-type]


def test_first_transactions_of_a_window() -> None:
    """Of the first transactions of the run, those that ended in the window: no tester's own first one in it."""
    data = made(400)
    window = Window(0, int(np.quantile(data.end[data.end >= 0], 0.2)))
    for first_window in (window, None):
        accumulator = Accumulator(layout(first=("tester", "connection"), first_window=first_window))
        accumulator.add(data)
        found = {first.of: first.traffic.response_ms.count for first in accumulator.result().first}
        inside = (data.outcome == 0) & (data.end >= 0)
        inside &= data.end < (LENGTH if first_window is None else window.end)
        earliest = [np.flatnonzero(data.tester == tester) for tester in range(3)]
        chosen = [int(rows[np.argmin(data.start[rows])]) for rows in earliest]
        assert data.connected is not None
        assert found["tester"] == sum(bool(inside[row]) for row in chosen)
        assert found["connection"] == int(np.count_nonzero(inside & (data.connected >= 0))) > 0


def summed(data: Transactions, *, exact: bool = True, parts: int = 3) -> RunSummary:
    accumulator = Accumulator(layout(), exact=exact)
    for rows in np.array_split(np.arange(len(data)), parts):
        mask = np.zeros(len(data), dtype=bool)
        mask[rows] = True
        accumulator.add(data.take(mask))
    return accumulator.result()


def rows_of(data: Transactions) -> list[dict[str, int]]:
    names = [
        "scheduled",
        "start",
        "end",
        "outcome",
        "code",
        "tester",
        "workload",
        "items",
        "payload",
        "sent",
        "received",
        "first_byte",
        "round_trip",
    ]
    return [
        dict(zip(names, row, strict=True))
        for row in zip(*(getattr(data, n).tolist() for n in names), strict=True)
    ]


def nearest_rank(values: list[int], q: float) -> int:
    return sorted(values)[math.ceil(q * len(values)) - 1]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("late", [True, False])
def test_traffic_of_the_window(exact: bool, late: bool) -> None:
    data = made(late=late)
    rows = rows_of(data)
    t = summed(data, exact=exact).traffic
    ended = [r for r in rows if MEASURED.start <= r["end"] < MEASURED.end]
    done = [r for r in ended if r["outcome"] == 0]
    response = [r["end"] - r["scheduled"] for r in done]
    request = [r["end"] - r["start"] for r in done]
    assert t.window_s == 8
    assert t.transactions == len(done)
    assert t.errors == len(ended) - len(done)
    assert t.error_rate == pytest.approx(t.errors / len(ended))
    assert t.throughput_per_s == len(done) / 8
    assert t.items_per_s == sum(r["items"] for r in done) / 8
    assert t.payload_bytes_per_s == sum(r["payload"] for r in done) / 8
    assert t.wire_bytes_per_s == sum(r["sent"] + r["received"] for r in done) / 8
    assert t.offered_per_s == sum(MEASURED.start <= r["scheduled"] < MEASURED.end for r in rows) / 8
    firsts = [row["first_byte"] for row in done if row["first_byte"] >= 0]
    rests = [row["end"] - row["start"] - row["first_byte"] for row in done if row["first_byte"] >= 0]
    less = [
        max(0, row["end"] - row["scheduled"] - row["round_trip"]) for row in done if row["round_trip"] >= 0
    ]
    parts = ((t.first_byte_ms, firsts), (t.transfer_ms, rests), (t.response_less_rtt_ms, less))
    for part, values in parts:
        assert part is not None and part.count == len(values) < len(done)
        assert part.mean == pytest.approx(np.mean(values) / 1e6)
        assert part.p95 == pytest.approx(nearest_rank(values, 0.95) / 1e6, rel=6e-4)
        assert (part.min, part.max) == (min(values) / 1e6, max(values) / 1e6)
    per_second = np.bincount([(row["end"] - MEASURED.start) // S for row in done], minlength=8)
    assert t.throughput_sd == pytest.approx(np.std(per_second, ddof=1))
    assert (t.throughput_min, t.throughput_max) == (min(per_second), max(per_second))
    tolerance = 0 if exact else 6e-4
    for latency, values in ((t.response_ms, response), (t.request_ms, request)):
        assert latency.count == len(values)
        assert latency.mean == pytest.approx(np.mean(values) / 1e6)
        assert latency.sd == pytest.approx(np.std(values, ddof=1) / 1e6)
        assert latency.max == max(values) / 1e6
        assert latency.p999 is None, "3000 values do not carry it"
        for q, got in ((0.5, latency.p50), (0.9, latency.p90), (0.95, latency.p95), (0.99, latency.p99)):
            assert got == pytest.approx(nearest_rank(values, q) / 1e6, rel=tolerance, abs=0)
        assert latency.mean_interval is not None and latency.mean_interval.df is not None
        assert latency.mean_interval.mean == pytest.approx(latency.mean)
    lateness = [r["start"] - r["scheduled"] for r in rows if MEASURED.start <= r["start"] < MEASURED.end]
    assert t.lateness_ms.count == len(lateness)
    assert t.lateness_ms.p99 == pytest.approx(nearest_rank(lateness, 0.99) / 1e6, rel=6e-4)


def test_concurrency_includes_transactions_that_began_before_or_never_ended() -> None:
    data = made()
    area = 0
    for r in rows_of(data):
        end = MEASURED.end if r["end"] < 0 else r["end"]
        area += max(0, min(end, MEASURED.end) - max(r["start"], MEASURED.start))
    assert summed(data).traffic.concurrency == pytest.approx(area / 8e9)


def test_errors_by_kind() -> None:
    data = made()
    counts = {(e.outcome, e.code): e.count for e in summed(data).traffic.errors_by_kind}
    words = ("ok", "wrong", "error", "timeout", "refused", "cancelled")
    expected: dict[tuple[str, str], int] = {}
    for r in rows_of(data):
        if MEASURED.start <= r["end"] < MEASURED.end and r["outcome"]:
            key = words[r["outcome"]], CODES[r["code"]]
            expected[key] = expected.get(key, 0) + 1
    assert counts == expected
    assert list(counts.values()) == sorted(counts.values(), reverse=True)


@pytest.mark.parametrize("exact", [True, False])
def test_successes_by_code(exact: bool) -> None:
    """Codes that appear after the first chunk also count; successes without a code are in no row."""
    data = made()
    code = np.where(data.outcome > 0, data.code, np.arange(len(data)) % 5)
    data = dataclasses.replace(data, code=np.where(np.arange(len(data)) < 2000, code % 2, code))
    names = ("", "200", "304", "204", "206")
    accumulator = Accumulator(layout(codes=names), exact=exact)
    for at in range(0, len(data), 1000):
        accumulator.add(data.take((np.arange(len(data)) >= at) & (np.arange(len(data)) < at + 1000)))
    summary = accumulator.result()
    expected: dict[str, int] = {}
    for r in rows_of(data):
        if MEASURED.start <= r["end"] < MEASURED.end and r["outcome"] == 0 and r["code"]:
            expected[names[r["code"]]] = expected.get(names[r["code"]], 0) + 1
    counts = {code_count.code: code_count.count for code_count in summary.traffic.successes_by_code}
    assert counts == expected and len(counts) == 4
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    for part in (summary.stages, summary.workloads):
        for name, times in counts.items():
            parts = [
                code_count.count
                for workload in part
                for code_count in workload.traffic.successes_by_code
                if code_count.code == name
            ]
            assert sum(parts) == times


def test_a_driver_without_codes_has_none() -> None:
    data = dataclasses.replace(made(), code=np.zeros(4000, dtype=np.uint16))
    assert summed(data).traffic.successes_by_code == ()


def test_the_counts_of_the_run() -> None:
    data = made()
    summary = summed(data)
    assert summary.started == len(data)
    assert summary.in_flight_at_end == int(np.sum(data.end < 0)) > 0
    assert summary.started == summary.succeeded + summary.failed + summary.in_flight_at_end
    assert summary.succeeded == int(np.sum((data.outcome == 0) & (data.end >= 0)))


def test_stages_and_workloads_add_up_to_the_run() -> None:
    data = made()
    summary = summed(data)
    assert [s.name for s in summary.stages] == ["up", "top"]
    assert sum(s.traffic.transactions for s in summary.stages) == summary.traffic.transactions
    assert sum(s.traffic.errors for s in summary.stages) == summary.traffic.errors
    area = sum(s.traffic.concurrency * s.traffic.window_s for s in summary.stages)
    assert area == pytest.approx(summary.traffic.concurrency * 8)
    offered = sum(s.traffic.offered_per_s * s.traffic.window_s for s in summary.stages)
    assert offered == pytest.approx(summary.traffic.offered_per_s * 8)
    assert [w.workload for w in summary.workloads] == ["readers", "writers"]
    assert sum(w.traffic.transactions for w in summary.workloads) == summary.traffic.transactions
    assert sum(w.traffic.concurrency for w in summary.workloads) == pytest.approx(summary.traffic.concurrency)


def test_testers_and_shares() -> None:
    data = made()
    summary = summed(data)
    rows = [r for r in rows_of(data) if MEASURED.start <= r["end"] < MEASURED.end]
    done = [r for r in rows if r["outcome"] == 0]
    assert [t.agent for t in summary.testers] == ["agent-0", "agent-0", "agent-1"]
    for t in summary.testers:
        mine = [r for r in done if r["tester"] == t.tester]
        assert t.transactions == len(mine)
        assert t.errors == sum(r["outcome"] != 0 and r["tester"] == t.tester for r in rows)
        mean = np.mean([r["end"] - r["scheduled"] for r in mine]) / 1e6
        assert t.response_ms_mean == pytest.approx(mean)
        assert t.share == pytest.approx(3 * len(mine) / len(done))
    counts = np.array([t.transactions for t in summary.testers])
    assert summary.fairness.jain == pytest.approx(counts.sum() ** 2 / (3 * (counts**2).sum()))


def test_slots_of_an_open_load_take_no_part_in_shares() -> None:
    """Two closed testers and a slot: their shares and Jain's index are those of the two alone."""
    data = made()
    data = dataclasses.replace(data, workload=(data.tester == 1).astype(np.int64))
    mixed = Accumulator(layout(open_loads=frozenset({"writers"})))
    alone = Accumulator(layout())
    mixed.add(data)
    alone.add(data.take(data.tester != 1))
    summary, wanted = mixed.result(), alone.result()
    assert [t.share is None for t in summary.testers] == [False, True, False]
    assert [t.share for t in summary.testers if t.share is not None] == pytest.approx(
        [t.share for t in wanted.testers]
    )
    assert summary.fairness.jain == pytest.approx(wanted.fairness.jain)
    assert summary.fairness.cv == pytest.approx(wanted.fairness.cv)
    assert summary.testers[1].transactions > 0, "its work is told all the same"
    whole = Accumulator(layout())
    whole.add(data)
    assert whole.result().fairness.jain != pytest.approx(wanted.fairness.jain)


def test_series_agree_with_the_rows() -> None:
    data = made()
    series = summed(data).series
    rows = rows_of(data)
    assert len(series.t_s) == 12 and series.quantum_s == 1
    done = [r for r in rows if r["outcome"] == 0 and r["end"] >= 0]
    for k in range(12):
        mine = [r["end"] - r["scheduled"] for r in done if r["end"] // S == k]
        assert series.throughput_per_s[k] == len(mine)
        assert series.errors_per_s[k] == sum(
            r["outcome"] > 0 and r["end"] // S == k for r in rows if r["end"] >= 0
        )
        area = 0
        for r in rows:
            end = LENGTH if r["end"] < 0 else r["end"]
            area += max(0, min(end, (k + 1) * S) - max(r["start"], k * S))
        assert series.concurrency[k] == pytest.approx(area / S)
        mean, p50, p95 = series.response_ms_mean[k], series.response_ms_p50[k], series.response_ms_p95[k]
        if not mine:
            assert (mean, p50, p95) == (None, None, None)
            continue
        assert mean == pytest.approx(np.mean(mine) / 1e6)
        assert p50 == pytest.approx(nearest_rank(mine, 0.5) / 1e6, rel=0.009)
        assert p95 == pytest.approx(nearest_rank(mine, 0.95) / 1e6, rel=0.009)
    assert max(series.active_testers) == pytest.approx(3, abs=0.01)


def test_peak_and_distribution() -> None:
    data = made()
    summary = summed(data)
    assert summary.peak is not None
    assert summary.peak.active_testers == 3
    assert 0 <= summary.peak.start_s < summary.peak.end_s <= 12
    done = int(np.sum((data.outcome == 0) & (data.end >= 0)))
    assert summary.peak.throughput_per_s * (summary.peak.end_s - summary.peak.start_s) == pytest.approx(
        done, rel=0.02
    )
    assert summary.ecdf is not None
    assert summary.ecdf.share[-1] == 1 and summary.ecdf.ms[-1] == summary.traffic.response_ms.max


def test_chunks_of_any_size_and_order_give_the_same() -> None:
    data = made()
    shuffled = np.random.default_rng(3).permutation(len(data))
    other = Transactions(*(getattr(data, f)[shuffled] for f in Transactions.__dataclass_fields__))
    in_one_chunk, many = summed(data, parts=1), summed(other, parts=17)
    assert in_one_chunk.series == many.series
    assert in_one_chunk.histograms == many.histograms
    assert in_one_chunk.traffic.response_ms.p99 == many.traffic.response_ms.p99
    assert in_one_chunk.traffic.throughput_interval == many.traffic.throughput_interval


def test_an_empty_run() -> None:
    summary = Accumulator(layout()).result()
    assert summary.started == 0
    assert summary.traffic.transactions == 0
    assert summary.traffic.error_rate is None
    assert summary.traffic.response_ms.mean is None and summary.traffic.response_ms.max is None
    assert summary.peak is None and summary.ecdf is None and summary.testers == ()
    assert summary.fairness.jain is None
    assert summary.trend.verdict == "too short to tell"


def test_only_failures() -> None:
    data = made(200)
    failed = dataclasses.replace(data, outcome=np.where(data.end < 0, 5, 2).astype(np.uint8))
    summary = summed(failed)
    assert summary.traffic.transactions == 0
    assert summary.traffic.error_rate == 1
    assert summary.traffic.response_ms.p50 is None
    assert all(t.share is None or t.share == 0 for t in summary.testers)


def test_records_that_do_not_fit_the_plan_are_refused() -> None:
    with pytest.raises(IndexError, match="tester 2 of 1"):
        Accumulator(layout(tester_agents=("only",))).add(made())
    with pytest.raises(IndexError, match="workload 1 of 1"):
        Accumulator(layout(workloads=("main",))).add(made())


def test_a_long_run_has_a_bounded_number_of_quanta() -> None:
    accumulator = Accumulator(layout(length_ns=24 * 3600 * S, quantum_ns=1_000_000))
    assert accumulator.timeline.n <= 5000
    assert Accumulator(layout(length_ns=24 * 3600 * S, quantum_ns=None)).timeline.n <= 1200


def test_a_tester_with_long_think_times_counts_as_active() -> None:
    """Two testers in a window of 8 s: one request each 4 s, and a single one. Three requests, shares 4/3 and 2/3."""
    start = np.array([3, 7, 5], dtype=np.int64) * S
    zero = np.zeros(3, dtype=np.int64)
    data = Transactions(
        start,
        start,
        start + 10_000_000,
        zero.astype(np.uint8),
        zero,
        np.array([0, 0, 1]),
        zero,
        zero,
        zero,
        zero,
        zero,
    )
    accumulator = Accumulator(layout(tester_agents=("a", "a"), by_workload=False))
    accumulator.add(data)
    summary = accumulator.result()
    assert [t.share for t in summary.testers] == pytest.approx([4 / 3, 2 / 3])
    assert summary.fairness.jain == pytest.approx(9 / (2 * 5))


@pytest.mark.parametrize("exact", [True, False])
def test_operations_of_a_mix(exact: bool) -> None:
    """Each operation of each workload against the rows that are its own; their histograms are its own, too."""
    data = made()
    assert data.operation is not None
    accumulator = Accumulator(layout(operations=("get", "put", "list")), exact=exact)
    accumulator.add(data)
    summary = accumulator.result()
    assert len(summary.operations) == 6
    for result in summary.operations:
        workload = ("readers", "writers").index(result.workload)
        operation = ("get", "put", "list").index(result.operation)
        mine = data.take((data.workload == workload) & (data.operation == operation))
        rows = [row for row in rows_of(mine) if MEASURED.start <= row["end"] < MEASURED.end]
        done = [row["end"] - row["scheduled"] for row in rows if row["outcome"] == 0]
        assert (result.traffic.transactions, result.traffic.errors) == (len(done), len(rows) - len(done))
        assert result.traffic.payload_bytes_per_s * 8 == sum(
            row["payload"] for row in rows if not row["outcome"]
        )
        assert result.traffic.response_ms.p95 == pytest.approx(nearest_rank(done, 0.95) / 1e6, rel=1e-3)
        histogram = summary.parts[PartKey(result.workload, result.operation)]["response"]
        assert sum(histogram.count) == len(done)
    assert (
        sum(operation.traffic.transactions for operation in summary.operations)
        == summary.traffic.transactions
    )
    assert PartKey("readers") in summary.parts
