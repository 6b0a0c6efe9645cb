"""Results of runs made by hand, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import Counts, Latency, Traffic
from plimsoll.analyse.stats.quantiles import Buckets, Histogram


def latency(values_ms: Sequence[float]) -> Latency:
    v = np.asarray(values_ms, dtype=np.float64)
    if v.size == 0:
        return Latency(0, None, None, None, None, None, None, None, None)
    return Latency(int(v.size), float(v.mean()), float(v.std()), *(None,) * 5, max=float(v.max()))


def histogram(values_ms: Sequence[float]) -> dict[str, Histogram]:
    buckets = Buckets()
    buckets.add((np.asarray(values_ms, dtype=np.float64) * 1e6).astype(np.int64))
    kept = Histogram.of(buckets)
    return {"response": kept, "request": kept, "lateness": kept}


def run(
    id: str = "0001",
    *,
    cell: dict[str, str] | None = None,
    throughput: float = 100.0,
    response_ms: Sequence[float] = (1.0, 2.0, 3.0),
    transactions: int = 1000,
    errors: int = 0,
    valid: bool = True,
    dropped: int = 0,
) -> RunResult:
    times = replace(latency(response_ms), count=transactions)
    ended = transactions + errors
    traffic = Traffic(
        window_s=10.0,
        transactions=transactions,
        errors=errors,
        error_rate=errors / ended if ended else None,
        errors_by_kind=(),
        throughput_per_s=throughput,
        items_per_s=10 * throughput,
        payload_bytes_per_s=1000 * throughput,
        wire_bytes_per_s=1100 * throughput,
        offered_per_s=throughput,
        concurrency=1.0,
        response_ms=times,
        request_ms=times,
        lateness_ms=times,
    )
    return RunResult(
        id=id,
        cell=cell or {},
        repetition=1,
        order=int(id),
        block=None,
        status="done",
        valid=valid,
        invalid_reasons=() if valid else ("made so",),
        doubtful_reasons=(),
        evidence={},
        counts=Counts(ended, transactions, errors, 0, dropped, 0, 0, True),
        traffic=traffic,
        jain_index=1.0,
        share_cv=0.0,
        utilization=(),
        bottleneck="not resolved",
        bottleneck_reason="",
        peak=None,
        stages=(),
        workloads=(),
        testers=(),
        series=None,
        ecdf=None,
        warmup_s=0.0,
        monitor_cpu=None,
    )
