"""Counts, rates and times of one window, gathered block by block.

What a window holds, by the glossary: throughput counts successful transactions that *ended* in it; times are those of
the same transactions (those of failures are not mixed in); the offered rate counts planned starts in it, lateness is
that of the transactions started in it; concurrency is the integral of the transactions in progress, wherever they began
or ended, over its length.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.batch import BatchMean, ratio_mean
from plimsoll.analyse.quantiles import Buckets, Exact, bucket_of, carries
from plimsoll.analyse.results import CodeCount, ErrorCount, Interval, Latency, Traffic
from plimsoll.analyse.transactions import OK, OUTCOMES, Int, Transactions, Window

BINS = 240
"""Parts of a window in which sums are kept for batch means: whole numbers of them make 30, 15 and 60 batches."""

NEVER = np.iinfo(np.int64).max

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of transactions with what every window needs of it, computed once.

    `ok`: ended and succeeded; `response`, `request` (ns) and `bucket` (of the response) have one entry per ok row.
    """

    rows: Transactions
    ok: Mask
    all_ok: bool
    response: Int
    request: Int
    bucket: Int
    on_time: bool
    """Every transaction of the block started when it was scheduled, so request and response times are the same."""
    all_ended: bool
    left: Int
    """When each transaction was no longer in progress: its end; of one that never ended, when its tester was lost, or
    NEVER."""
    scheduled_span: tuple[int, int]
    start_span: tuple[int, int]
    end_span: tuple[int, int]
    """Smallest and largest stamp: most blocks lie in a window as a whole, which saves a mask and a copy per column."""

    @staticmethod
    def of(rows: Transactions, until: Int | None = None) -> Block:
        """Works out the block. `until`: when each tester was lost, ns, or NEVER (None: none was)."""
        ok = (rows.outcome == OK) & (rows.end >= 0)
        all_ok = bool(ok.all())
        end, scheduled, start = (_at(c, ok, all_ok) for c in (rows.end, rows.scheduled, rows.start))
        response = np.maximum(end - scheduled, 0)
        on_time = bool(np.array_equal(scheduled, start))
        request = response if on_time else np.maximum(end - start, 0)
        scheduled_span, start_span, end_span = (_span(c) for c in (rows.scheduled, rows.start, rows.end))
        return Block(
            rows,
            ok,
            all_ok,
            response,
            request,
            bucket_of(response),
            on_time,
            end_span[0] >= 0,
            rows.end if end_span[0] >= 0 else _left(rows, until),
            scheduled_span,
            start_span,
            end_span,
        )


def _left(rows: Transactions, until: Int | None) -> Int:
    last: Int = np.full(len(rows), NEVER) if until is None else until[rows.tester]
    out: Int = np.where(rows.end < 0, np.maximum(last, rows.start), rows.end)
    return out


def _span(column: Int) -> tuple[int, int]:
    return (int(column.min()), int(column.max())) if column.size else (0, -1)


def within(column: Int, span: tuple[int, int], window: Window) -> Mask | bool:
    """Which stamps lie in the window: a mask, or one answer for all of them."""
    if window.start <= span[0] and span[1] < window.end:
        return True
    if span[1] < window.start or span[0] >= window.end:
        return False
    return (column >= window.start) & (column < window.end)


def _at(column: Int, mask: Mask, everything: bool) -> Int:
    return column if everything else column[mask]


def _sum(column: Int, others: Int) -> int:
    """Sum without the rows at these places: they are few, and a masked sum costs ten times as much as a plain one."""
    return int(column.sum()) - int(column[others].sum())


class Moments:
    """Count, mean and standard deviation of durations; sums are taken about a first guess, so that digits are kept."""

    def __init__(self) -> None:
        self.count = 0
        self.shift: float | None = None
        self.first = 0.0
        self.second = 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        """Takes values (ns)."""
        if values.size == 0:
            return
        if self.shift is None:
            self.shift = float(values.mean())
        about = values - self.shift
        self.count += int(values.size)
        self.first += float(about.sum())
        about *= (
            about  # not `about @ about`: BLAS starts threads for it, which wait for each other on a busy host
        )
        self.second += float(about.sum())

    @property
    def mean(self) -> float | None:
        """Arithmetic mean; None without values."""
        return self.shift + self.first / self.count if self.count and self.shift is not None else None

    @property
    def variance(self) -> float | None:
        """With n - 1; None below two values."""
        if self.count < 2:
            return None
        return max(0.0, (self.second - self.first**2 / self.count) / (self.count - 1))


class Durations:
    """Moments and quantiles of one kind of duration."""

    def __init__(self, *, exact: bool) -> None:
        self.moments = Moments()
        self.store: Exact | Buckets = Exact() if exact else Buckets()

    @property
    def buckets(self) -> Buckets:
        """The counts, in both forms."""
        return self.store.buckets if isinstance(self.store, Exact) else self.store

    def add(self, values: Int, as_float: NDArray[np.float64], bucket: Int | None = None) -> None:
        """Takes durations (ns), the same as doubles, and their buckets if these are known."""
        self.moments.add(as_float)
        self.store.add(values, bucket)

    def latency(self, batches: BatchMean | None = None) -> Latency:
        """In ms. Percentiles that the count cannot carry are None."""
        count = self.moments.count

        def ms(q: float) -> float | None:
            value = self.store.quantile(q) if carries(q, count) else None
            return None if value is None else value / 1e6

        mean, variance, largest = self.moments.mean, self.moments.variance, self.buckets.largest
        return Latency(
            count=count,
            mean=None if mean is None else mean / 1e6,
            sd=None if variance is None else math.sqrt(variance) / 1e6,
            p50=ms(0.5),
            p90=ms(0.9),
            p95=ms(0.95),
            p99=ms(0.99),
            p999=ms(0.999),
            max=None if largest is None else largest / 1e6,
            mean_interval=None if batches is None else scaled(batches.interval, 1e-6),
            effective_samples=None if batches is None else batches.effective,
        )


def scaled(interval: Interval, by: float) -> Interval:
    """The interval in another unit (by > 0)."""
    low = None if interval.low is None else interval.low * by
    high = None if interval.high is None else interval.high * by
    return Interval(interval.mean * by, low, high, interval.level, interval.df, interval.method)


class WindowSum:
    """The sums of one window. `parts`: into how many of equal length it may be cut, a divisor of BINS; fewer where
    several clocks tell the time (`quantum`)."""

    def __init__(self, window: Window, *, exact: bool, parts: int = BINS) -> None:
        self.window = window
        self.parts = parts
        self.response = Durations(exact=exact)
        self.request = Durations(exact=exact)
        self.lateness = Durations(exact=False)
        self.failed_response = Moments()
        self.errors: Counter[tuple[int, int]] = Counter()
        self.codes: Counter[int] = Counter()
        self.items = self.payload = self.wire = self.offered = 0
        self.in_progress_ns = 0
        self.bin_count = np.zeros(BINS, dtype=np.int64)
        self.bin_response = np.zeros(BINS)
        self.bin_request = np.zeros(BINS)

    def add(self, block: Block) -> None:
        """Takes what of the block belongs to the window."""
        rows, w = block.rows, self.window
        self._in_progress(block)
        self._started(block)
        planned = within(rows.scheduled, block.scheduled_span, w)
        self.offered += (
            int(np.count_nonzero(planned)) if isinstance(planned, np.ndarray) else planned * len(rows)
        )
        inside = within(rows.end, block.end_span, w)
        if inside is False:
            return
        if inside is True:
            self._succeeded(block, block.ok, block.response, block.request, block.bucket)
        else:
            here = inside[block.ok] if not block.all_ok else inside
            parts = (block.response[here], block.request[here], block.bucket[here])
            self._succeeded(block, inside & block.ok, *parts)
        if not block.all_ok:
            self._failed(rows, ~block.ok if inside is True else inside & ~block.ok)

    def _in_progress(self, block: Block) -> None:
        rows, w = block.rows, self.window
        if block.start_span[0] >= w.end or (block.all_ended and block.end_span[1] < w.start):
            return
        overlap = np.minimum(block.left, w.end)
        overlap -= np.maximum(rows.start, w.start)
        np.maximum(overlap, 0, out=overlap)
        self.in_progress_ns += int(overlap.sum())

    def _started(self, block: Block) -> None:
        started = within(block.rows.start, block.start_span, self.window)
        if started is False:
            return
        late: Int = block.rows.start - block.rows.scheduled
        if isinstance(started, np.ndarray):
            late = late[started]
        np.maximum(late, 0, out=late)
        if late.size:
            self.lateness.add(late, late.astype(np.float64))

    def _succeeded(self, block: Block, mask: Mask, response: Int, request: Int, bucket: Int) -> None:
        """`mask`: the rows of the block that are meant; the durations are of these rows only."""
        if response.size == 0:
            return
        rows, every = block.rows, response.size == len(block.rows)
        as_float = response.astype(np.float64)
        self.response.add(response, as_float, bucket)
        request_float = as_float if block.on_time else request.astype(np.float64)
        self.request.add(request, request_float, bucket if block.on_time else None)
        others = np.flatnonzero(~mask) if not every else np.zeros(0, dtype=np.int64)
        self.items += _sum(rows.items, others)
        self.payload += _sum(rows.payload, others)
        self.wire += _sum(rows.sent, others) + _sum(rows.received, others)
        codes = np.bincount(rows.code)
        codes -= np.bincount(rows.code[others], minlength=codes.size)
        for number in np.flatnonzero(codes).tolist():
            self.codes[number] += int(codes[number])
        position = self._bin(_at(rows.end, mask, every))
        self.bin_count += np.bincount(position, minlength=BINS)
        by_response = np.bincount(position, weights=as_float, minlength=BINS)
        by_request = by_response
        if not block.on_time:
            by_request = np.bincount(position, weights=request_float, minlength=BINS)
        self.bin_response += by_response
        self.bin_request += by_request

    def _bin(self, end: Int) -> Int:
        per_ns = BINS / max(1, self.window.end - self.window.start)
        position: Int = np.minimum(((end - self.window.start) * per_ns).astype(np.int64), BINS - 1)
        return position

    def _failed(self, rows: Transactions, failed: Mask) -> None:
        if not failed.any():
            return
        kind = rows.outcome[failed].astype(np.int64) << 32 | rows.code[failed].astype(np.int64)
        for key, count in zip(*np.unique(kind, return_counts=True), strict=True):
            self.errors[int(key) >> 32, int(key) & 0xFFFFFFFF] += int(count)
        self.failed_response.add((rows.end[failed] - rows.scheduled[failed]).astype(np.float64))

    def traffic(self, codes: Sequence[str]) -> Traffic:
        """The figures. `codes`: texts of the codes by number."""
        seconds = max(self.window.seconds, 1e-9)
        done = self.response.moments.count
        failed = sum(self.errors.values())
        return Traffic(
            window_s=self.window.seconds,
            transactions=done,
            errors=failed,
            error_rate=failed / (done + failed) if done + failed else None,
            errors_by_kind=_kinds(self.errors, codes),
            throughput_per_s=done / seconds,
            items_per_s=self.items / seconds,
            payload_bytes_per_s=self.payload / seconds,
            wire_bytes_per_s=self.wire / seconds,
            offered_per_s=self.offered / seconds,
            concurrency=self.in_progress_ns / 1e9 / seconds,
            response_ms=self.response.latency(self._mean(self.bin_response, self.response)),
            request_ms=self.request.latency(self._mean(self.bin_request, self.request)),
            lateness_ms=self.lateness.latency(),
            throughput_interval=self._throughput(seconds),
            successes_by_code=_successes(self.codes, codes),
        )

    def _mean(self, sums: NDArray[np.float64], durations: Durations) -> BatchMean | None:
        return ratio_mean(self.cut(sums), self.cut(self.bin_count), variance=durations.moments.variance)

    def cut(self, bins: NDArray[np.float64] | Int) -> NDArray[np.float64]:
        """Sums over BINS bins as those over the parts."""
        out: NDArray[np.float64] = bins.astype(np.float64).reshape(self.parts, -1).sum(axis=1)
        return out

    def _throughput(self, seconds: float) -> Interval | None:
        found = ratio_mean(self.cut(self.bin_count), np.full(self.parts, seconds / self.parts))
        return None if found is None else found.interval


def _successes(counts: Counter[int], codes: Sequence[str]) -> tuple[CodeCount, ...]:
    named = (
        (codes[number] if number < len(codes) else str(number), times) for number, times in counts.items()
    )
    return tuple(
        CodeCount(code, times) for code, times in sorted(named, key=lambda one: (-one[1], one[0])) if code
    )


def _kinds(errors: Counter[tuple[int, int]], codes: Sequence[str]) -> tuple[ErrorCount, ...]:
    return tuple(
        ErrorCount(
            OUTCOMES[outcome] if outcome < len(OUTCOMES) else str(outcome),
            codes[code] if code < len(codes) else str(code),
            count,
        )
        for (outcome, code), count in errors.most_common()
    )
