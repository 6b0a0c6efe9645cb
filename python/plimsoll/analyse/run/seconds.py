"""Summary of a run of which only the one-second counts and histograms were kept (`keep: summaries`).

Everything is cut at whole seconds. Figures that need single transactions are empty: request time,
lateness, the kinds of errors, testers and their shares, workloads. Starts replace planned starts, and
concurrency is the mean of the transactions in progress at the end of each second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.run import Ecdf, ErrorCount, Latency, Series, StageResult, Traffic
from plimsoll.analyse.run.summary import RunSummary
from plimsoll.analyse.run.traffic import scaled, throughput_spread
from plimsoll.analyse.stats.batch import BatchMean, batch_mean, ratio_mean
from plimsoll.analyse.stats.fairness import Fairness
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.quantiles import Buckets, Histogram, bucket_of, is_large_enough
from plimsoll.analyse.stats.steady import Trend, mser5, trend
from plimsoll.analyse.window.quantum import MIN_QUANTUM_RATIO
from plimsoll.analyse.window.transactions import Int, Stage, Window
from plimsoll.collect.live import Second

NS = 1_000_000_000
MAX_POINTS = 1200
NO_TIMES = Latency(0, None, None, None, None, None, None, None, None)
UNKNOWN_KIND = "failed"
REMARK = "only one-second histograms were kept: no request times, lateness, kinds of errors or testers"


def summarise_seconds(
    seconds: Sequence[Second],
    measured: Window,
    *,
    stages: Sequence[Stage] = (),
    in_flight: int = 0,
    bound_ns: int = 0,
    chart_quantum_s: float | None = None,
) -> RunSummary:
    """The summary. `in_flight`: number of transactions that never ended, from summary.json; `bound_ns`: maximum error
    of any time of any agent; `chart_quantum_s`: of the time series (None: by the length of the run). Seconds may be in
    any order; missing seconds count as empty."""
    length = max([measured.end // NS, *(s.number + 1 for s in seconds)])
    table = _Table(seconds, length, max(1, -(-MIN_QUANTUM_RATIO * bound_ns // NS)))
    window = _whole_seconds(measured, length)
    total = _SecondsSum(table, window)
    buckets = total.buckets
    at, share = buckets.ecdf()
    return RunSummary(
        started=int(table.started.sum()),
        succeeded=int(table.succeeded.sum()),
        failed=int(table.failed.sum()),
        in_flight_at_end=in_flight,
        traffic=total.traffic(),
        stages=tuple(_stage(stage, table, length) for stage in stages),
        workloads=(),
        testers=(),
        fairness=Fairness((), None, None, None),
        series=table.series(chart_quantum_s),
        ecdf=Ecdf(tuple(v / 1e6 for v in at), tuple(share)) if at else None,
        peak=None,
        trend=_trend(table.together(table.succeeded[window])),
        warmup_advice=mser5(table.together(table.succeeded[: window.stop]), bin_s=float(table.least)),
        histograms={"response": Histogram.of(buckets)},
        widened=table.least > 1,
    )


def _whole_seconds(window: Window, length: int) -> slice:
    """Seconds that lie completely in the window; the nearest second if there is none."""
    first = -(-window.start // NS)
    last = min(window.end // NS, length)
    return slice(first, last) if last > first else slice(min(first, length - 1), min(first, length - 1) + 1)


class _Table:
    """The seconds as columns of equal length, one entry per second from 0. `least`: number of seconds in the shortest
    quantum."""

    def __init__(self, seconds: Sequence[Second], length: int, least: int = 1) -> None:
        self.length, self.least = length, least
        self.seconds: dict[int, list[Second]] = {}
        for second in seconds:
            self.seconds.setdefault(second.number, []).append(second)
        self.started = self._column("started")
        self.succeeded = self._column("succeeded")
        self.failed = self._column("failed")
        self.items = self._column("items")
        self.payload = self._column("payload")
        self.wire = self._column("wire")
        self.active = self._column("active")
        self.in_progress = self._column("in_progress")
        self.response = np.zeros(length)
        for second in seconds:
            self.response[second.number] += float(second.values.astype(np.float64) @ second.counts)

    def _column(self, name: str) -> Int:
        out = np.zeros(self.length, dtype=np.int64)
        for number, parts in self.seconds.items():
            out[number] = sum(getattr(part, name) for part in parts)
        return out

    def together(self, values: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over the shortest quanta; seconds of an incomplete quantum are left out."""
        whole = values.size // self.least
        out: NDArray[np.float64] = (
            values[: whole * self.least].astype(np.float64).reshape(whole, self.least).sum(axis=1)
        )
        return out

    def buckets(self, window: slice) -> Buckets:
        """All response times of some seconds."""
        out = Buckets()
        for number in range(window.start, window.stop):
            for second in self.seconds.get(number, []):
                if second.values.size:
                    counts = np.bincount(bucket_of(second.values), weights=second.counts).astype(np.int64)
                    out.absorb(counts, int(second.values[0]), int(second.values[-1]))
        return out

    def series(self, quantum_s: float | None = None) -> Series:
        """One point per quantum of whole seconds. By default, one per second; for a long run, points are longer so that
        there are at most MAX_POINTS. Points are never shorter than the clock bound allows."""
        step = max(self.least, math.ceil(quantum_s or -(-self.length // MAX_POINTS)))
        edges = np.arange(0, self.length, step)
        widths = np.minimum(edges + step, self.length) - edges

        def per_second(column: NDArray[np.int64]) -> tuple[float, ...]:
            return tuple((np.add.reduceat(column, edges) / widths).tolist())

        buckets = [self.buckets(slice(int(k), min(int(k) + step, self.length))) for k in edges]
        sums, counts = np.add.reduceat(self.response, edges), np.add.reduceat(self.succeeded, edges)
        return Series(
            quantum_s=float(step),
            t_s=tuple(edges.astype(np.float64).tolist()),
            throughput_per_s=per_second(self.succeeded),
            errors_per_s=per_second(self.failed),
            concurrency=per_second(self.in_progress),
            offered_per_s=per_second(self.started),
            active_testers=per_second(self.active),
            response_ms_mean=tuple(
                float(s) / int(n) / 1e6 if n else None for s, n in zip(sums, counts, strict=True)
            ),
            response_ms_p50=tuple(_ms(b.quantile(0.5)) for b in buckets),
            response_ms_p95=tuple(_ms(b.quantile(0.95)) for b in buckets),
        )


class _SecondsSum:
    """The sums of some seconds of the table."""

    def __init__(self, table: _Table, window: slice) -> None:
        self.table, self.window = table, window
        self.seconds = float(window.stop - window.start)
        self.buckets = table.buckets(window)

    def _sum(self, column: Int) -> int:
        return int(column[self.window].sum())

    def traffic(self) -> Traffic:
        """The figures of these seconds."""
        t, seconds = self.table, self.seconds
        done, failed = self._sum(t.succeeded), self._sum(t.failed)
        throughput = _per_second(batch_mean(t.together(t.succeeded[self.window])), t.least)
        sd, least, most = throughput_spread(t.succeeded[self.window])
        return Traffic(
            window_s=seconds,
            transactions=done,
            errors=failed,
            error_rate=failed / (done + failed) if done + failed else None,
            errors_by_kind=(ErrorCount(UNKNOWN_KIND, "", failed),) if failed else (),
            throughput_per_s=done / seconds,
            items_per_s=self._sum(t.items) / seconds,
            payload_bytes_per_s=self._sum(t.payload) / seconds,
            wire_bytes_per_s=self._sum(t.wire) / seconds,
            offered_per_s=self._sum(t.started) / seconds,
            concurrency=float(t.in_progress[self.window].mean()),
            response_ms=self._response(),
            request_ms=NO_TIMES,
            lateness_ms=NO_TIMES,
            throughput_interval=throughput,
            throughput_sd=sd,
            throughput_min=least,
            throughput_max=most,
        )

    def _response(self) -> Latency:
        count = self.buckets.total
        if count == 0:
            return NO_TIMES
        mean, variance = self._moments(count)
        t = self.table
        sums, counts = (t.together(column[self.window]) for column in (t.response, t.succeeded))
        batches = ratio_mean(sums, counts, variance=variance, of_times=True)

        def ms(q: float) -> float | None:
            return _ms(self.buckets.quantile(q)) if is_large_enough(q, count) else None

        return Latency(
            count=count,
            mean=mean / 1e6,
            sd=None if variance is None else math.sqrt(variance) / 1e6,
            p50=ms(0.5),
            p90=ms(0.9),
            p95=ms(0.95),
            p99=ms(0.99),
            p999=ms(0.999),
            max=_ms(self.buckets.largest),
            mean_interval=None if batches is None else scaled(batches.interval, 1e-6),
            effective_samples=None if batches is None else batches.effective,
            min=_ms(self.buckets.smallest),
        )

    def _moments(self, count: int) -> tuple[float, float | None]:
        """Mean and variance from the histograms: within 0.1 % of those of the values."""
        mean = float(self.table.response[self.window].sum()) / count
        square = 0.0
        for number in range(self.window.start, self.window.stop):
            for second in self.table.seconds.get(number, []):
                square += float((second.values - mean) ** 2 @ second.counts)
        return mean, square / (count - 1) if count > 1 else None


def _per_second(batches: BatchMean | None, seconds: int) -> Interval | None:
    return None if batches is None else scaled(batches.interval, 1 / seconds)


def _stage(stage: Stage, table: _Table, length: int) -> StageResult:
    span = _SecondsSum(table, _whole_seconds(stage.window, length))
    return StageResult(
        stage.number, stage.name, stage.window.start / 1e9, stage.window.end / 1e9, span.traffic()
    )


def _trend(throughput: NDArray[np.float64]) -> Trend:
    return replace(trend(throughput), metric="throughput")


def _ms(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e6
