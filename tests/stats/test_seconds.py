"""Runs of which only the one-second histograms were kept agree with the same runs summed from their transactions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stats.test_summary import LENGTH, MEASURED, STAGES, S, made, summed

from plimsoll.analyse.run.seconds import summarise_seconds
from plimsoll.analyse.run.summary import RunSummary
from plimsoll.analyse.window.transactions import Transactions, Window
from plimsoll.collect.live import Second


def counted(data: Transactions) -> list[Second]:
    """What an agent would have counted; the histogram holds single values, so that only our own buckets round."""
    out = []
    ended = data.end >= 0
    for k in range(LENGTH // S):
        mine = ended & (data.end // S == k)
        ok = mine & (data.outcome == 0)
        values, counts = np.unique(data.end[ok] - data.scheduled[ok], return_counts=True)
        at = (k + 1) * S
        out.append(
            Second(
                number=k,
                started=int(np.sum(data.start // S == k)),
                succeeded=int(ok.sum()),
                failed=int((mine & ~ok).sum()),
                items=int(data.items[ok].sum()),
                payload=int(data.payload[ok].sum()),
                wire=int(data.sent[ok].sum() + data.received[ok].sum()),
                active=3,
                in_progress=int(np.sum((data.start < at) & (~ended | (data.end >= at)))),
                values=values,
                counts=counts,
            )
        )
    return out


@pytest.fixture(scope="module")
def both() -> tuple[RunSummary, RunSummary]:
    data = made()
    in_flight = int(np.sum(data.end < 0))
    return summarise_seconds(counted(data), MEASURED, stages=STAGES, in_flight=in_flight), summed(data)


def test_traffic_agrees(both: tuple[RunSummary, RunSummary]) -> None:
    of_seconds, full = (summary.traffic for summary in both)
    for name in (
        "window_s",
        "transactions",
        "errors",
        "error_rate",
        "throughput_per_s",
        "items_per_s",
        "payload_bytes_per_s",
        "wire_bytes_per_s",
    ):
        assert getattr(of_seconds, name) == pytest.approx(getattr(full, name))
    for name in ("mean", "sd", "p50", "p90", "p95", "p99", "max"):
        assert getattr(of_seconds.response_ms, name) == pytest.approx(
            getattr(full.response_ms, name), rel=1e-3
        )
    assert of_seconds.concurrency == pytest.approx(full.concurrency, rel=0.15)


def test_counts_stages_and_series_agree(both: tuple[RunSummary, RunSummary]) -> None:
    of_seconds, full = both
    assert (of_seconds.started, of_seconds.succeeded, of_seconds.failed) == (
        full.started,
        full.succeeded,
        full.failed,
    )
    assert of_seconds.started == of_seconds.succeeded + of_seconds.failed + of_seconds.in_flight_at_end
    for mine, other in zip(of_seconds.stages, full.stages, strict=True):
        assert mine.traffic.transactions == other.traffic.transactions
        assert mine.traffic.response_ms.p90 == pytest.approx(other.traffic.response_ms.p90, rel=1e-3)
    assert of_seconds.series.throughput_per_s == full.series.throughput_per_s
    assert of_seconds.series.errors_per_s == full.series.errors_per_s
    for a, b in zip(of_seconds.series.response_ms_p95, full.series.response_ms_p95, strict=True):
        assert a == (None if b is None else pytest.approx(b, rel=0.01))


def test_figures_that_need_single_transactions_are_empty(both: tuple[RunSummary, RunSummary]) -> None:
    summary = both[0]
    assert summary.testers == () and summary.fairness.jain is None
    assert summary.traffic.request_ms.mean is None and summary.traffic.lateness_ms.p99 is None
    assert [(e.outcome, e.count) for e in summary.traffic.errors_by_kind] == [
        ("failed", summary.traffic.errors)
    ]


def test_a_run_without_seconds() -> None:
    summary = summarise_seconds([], MEASURED)
    assert summary.traffic.transactions == 0 and summary.traffic.response_ms.mean is None
    assert summary.ecdf is None and len(summary.series.t_s) == 10


def test_a_long_run_has_a_bounded_number_of_points() -> None:
    empty = np.zeros(0, dtype=np.int64)
    day = [Second(k, 2, 2, 0, 0, 0, 0, 1, 1, empty, empty) for k in range(24 * 3600)]
    series = summarise_seconds(day, Window(0, 24 * 3600 * S)).series
    assert len(series.t_s) == 1200 and series.quantum_s == 72
    assert set(series.throughput_per_s) == {2.0}
