"""Counts, rates and times of one window, summed block by block.

As the glossary defines: throughput counts successful transactions that *ended* in the window; the offered rate counts
planned starts in it; concurrency is the integral of the transactions in progress, divided by its length, also of those
that began or ended outside. Times are those of successful transactions, without failures: in a closed load of those
that ended in the window, in an open load of the cohort *scheduled* in it, also of those that ended later. Otherwise an
overloaded target, which responds late, would lose its slowest transactions at the end of the window.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.run import CodeCount, Cohort, ErrorCount, Latency, Overload, Traffic
from plimsoll.analyse.run.validity.overload import overload
from plimsoll.analyse.stats.batch import BatchMean, ratio_mean
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.quantiles import (
    MISSING_OF_MEAN,
    Buckets,
    ExactBuckets,
    bucket_of,
    is_large_enough,
)
from plimsoll.analyse.window.transactions import CANCELLED, OK, OUTCOMES, TIMEOUT, Int, Transactions, Window

BINS = 240
"""Number of parts of a window with their own sums: a multiple of 30 batches and of 60, 30 and 20 bins."""

NS = 1_000_000_000
FIRST_BYTE, TRANSFER = "first_byte", "transfer"
"""Names of the histograms of the two parts of a request."""
NEVER = np.iinfo(np.int64).max

NO_LOADS: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of transactions with the values that every window needs, computed once.

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
    """The time at which each transaction was no longer in progress: its end; if it never ended, the time at which its
    tester was lost, or NEVER."""
    scheduled_span: tuple[int, int]
    start_span: tuple[int, int]
    end_span: tuple[int, int]
    """Smallest and largest stamp: most blocks lie completely in a window, which saves a mask and a copy per column."""

    @staticmethod
    def of(rows: Transactions, until: Int | None = None) -> Block:
        """A block with its computed values. `until`: the time (ns) at which each tester was lost, or NEVER (None: no
        tester was lost)."""
        ok = (rows.outcome == OK) & (rows.end >= 0)
        all_ok = bool(ok.all())
        end, scheduled, start = (_selected(c, ok, all_ok) for c in (rows.end, rows.scheduled, rows.start))
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
            rows.end if end_span[0] >= 0 else _end_of_progress(rows, until),
            scheduled_span,
            start_span,
            end_span,
        )


def _end_of_progress(rows: Transactions, until: Int | None) -> Int:
    last: Int = np.full(len(rows), NEVER) if until is None else until[rows.tester]
    out: Int = np.where(rows.end < 0, np.maximum(last, rows.start), rows.end)
    return out


def _span(column: Int) -> tuple[int, int]:
    return (int(column.min()), int(column.max())) if column.size else (0, -1)


def within(column: Int, span: tuple[int, int], window: Window) -> Mask | bool:
    """Which stamps lie in the window: a mask, or True or False for all of them."""
    if window.start <= span[0] and span[1] < window.end:
        return True
    if span[1] < window.start or span[0] >= window.end:
        return False
    return (column >= window.start) & (column < window.end)


def mask_of(answer: Mask | bool, n: int) -> Mask:
    """The result of `within` for `n` rows as a mask."""
    return answer if isinstance(answer, np.ndarray) else np.full(n, answer)


def _selected(column: Int, mask: Mask, is_whole: bool) -> Int:
    return column if is_whole else column[mask]


def _count(answer: Mask | bool, n: int) -> int:
    return int(np.count_nonzero(answer)) if isinstance(answer, np.ndarray) else answer * n


def _sum(column: Int, others: Int) -> int:
    """Sum without the rows `others`: they are few, and a masked sum costs ten times as much as a plain one."""
    return int(column.sum()) - int(column[others].sum())


class Moments:
    """Count, mean and standard deviation of durations; sums are taken about a first guess, so that digits are kept."""

    def __init__(self) -> None:
        self.count = 0
        self.shift: float | None = None
        self.first = 0.0
        self.second = 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        """Adds values (ns)."""
        if values.size == 0:
            return
        if self.shift is None:
            self.shift = float(values.mean())
        about = values - self.shift
        self.count += int(values.size)
        self.first += float(about.sum())
        # Not `about @ about`: BLAS starts threads for it, which wait for each other on a busy host.
        about *= about
        self.second += float(about.sum())

    @property
    def mean(self) -> float | None:
        """Arithmetic mean; None without values."""
        return self.shift + self.first / self.count if self.count and self.shift is not None else None

    @property
    def variance(self) -> float | None:
        """Variance with the divisor n - 1; None for fewer than two values."""
        if self.count < 2:
            return None
        return max(0.0, (self.second - self.first**2 / self.count) / (self.count - 1))


class Durations:
    """Moments and quantiles of one kind of duration."""

    def __init__(self, *, exact: bool) -> None:
        self.moments = Moments()
        self.store: ExactBuckets | Buckets = ExactBuckets() if exact else Buckets()

    @property
    def buckets(self) -> Buckets:
        """The bucket counts, which both forms have."""
        return self.store.buckets if isinstance(self.store, ExactBuckets) else self.store

    def add(self, values: Int, as_float: NDArray[np.float64], bucket: Int | None = None) -> None:
        """Adds durations (ns), the same as doubles, and their buckets if these are known."""
        self.moments.add(as_float)
        self.store.add(values, bucket)

    def latency(self, batches: BatchMean | None = None) -> Latency:
        """The distribution in ms. Percentiles are None if the sample is too small, or if they are among the missing
        values."""
        count, missing = self.moments.count, self.buckets.missing

        def ms(q: float) -> float | None:
            value = self.store.quantile(q) if is_large_enough(q, count + missing) else None
            return None if value is None else value / 1e6

        mean, variance, largest = self.moments.mean, self.moments.variance, self.buckets.largest
        if missing > MISSING_OF_MEAN * (count + missing):
            mean = variance = batches = None
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
            missing=missing,
            bound=None if missing == 0 or self.buckets.bound is None else self.buckets.bound / 1e6,
            min=None if self.buckets.smallest is None else self.buckets.smallest / 1e6,
        )


def throughput_spread(per_second: Int) -> tuple[float | None, float | None, float | None]:
    """Standard deviation, minimum and maximum of the throughput over whole seconds. `per_second`: number of
    transactions in each."""
    n = per_second.size
    sd = float(per_second.std(ddof=1)) if n > 1 else None
    return (sd, float(per_second.min()), float(per_second.max())) if n else (None, None, None)


def scaled(interval: Interval, by: float) -> Interval:
    """The interval in another unit (by > 0)."""
    low = None if interval.low is None else interval.low * by
    high = None if interval.high is None else interval.high * by
    return Interval(interval.mean * by, low, high, interval.level, interval.df, interval.method)


class WindowSum:
    """The sums of one window. `parts`: the number of parts of equal length into which it may be cut, a divisor of BINS;
    fewer with several clocks (`quantum`). `open_loads`: by number of the workload, whether its load is open (empty:
    none is); `not_started`: transactions of open loads that were scheduled in the window and never started: the time at
    which they were given up (ns, to half a second), and their number. None: not known for this part of a run, so that
    there is no verdict on overload."""

    def __init__(
        self,
        window: Window,
        *,
        exact: bool,
        parts: int = BINS,
        open_loads: NDArray[np.bool_] = NO_LOADS,
        not_started: Sequence[tuple[int, int]] | None = (),
    ) -> None:
        self.window = window
        self.parts = parts
        self.open_loads = open_loads
        self.some_open, self.all_open = bool(open_loads.any()), bool(open_loads.size and open_loads.all())
        self.not_started = not_started
        self.never_started = sum(count for _, count in not_started or ())
        self.in_window = self.in_drain = self.cohort_failed = self.cut_off = self.timed_out = 0
        self.response = Durations(exact=exact)
        self.request = Durations(exact=exact)
        self.lateness = Durations(exact=False)
        self.answers = {name: Durations(exact=False) for name in (FIRST_BYTE, TRANSFER)}
        self.less_rtt = Durations(exact=False)
        self.errors: Counter[tuple[int, int]] = Counter()
        self.codes: Counter[int] = Counter()
        self.items = self.payload = self.wire = self.offered = self.done = 0
        self.in_progress_ns = 0
        self.bin_count = np.zeros(BINS, dtype=np.int64)
        self.bin_times = np.zeros(BINS, dtype=np.int64)
        self.bin_planned = np.zeros(BINS, dtype=np.int64)
        self.bin_ended = np.zeros(BINS, dtype=np.int64)
        """`bin_planned`, `bin_ended`: planned starts of open loads, and their transactions that ended, also failed
        ones."""
        self.bin_response = np.zeros(BINS)
        self.bin_request = np.zeros(BINS)
        self.second_count = np.zeros(max(0, window.end - window.start) // NS, dtype=np.int64)
        """Successful transactions that ended in each whole second of the window, from its start."""

    def add(self, block: Block) -> None:
        """Adds the transactions of the block that belong to the window."""
        rows, w = block.rows, self.window
        self._add_in_progress(block)
        planned = within(rows.scheduled, block.scheduled_span, w)
        self.offered += _count(planned, len(rows))
        ended = within(rows.end, block.end_span, w)
        if ended is not False:
            self._add_completed(block, ended)
        if not self.some_open:
            self._add_judged(block, ended)
            self._add_lateness(block, within(rows.start, block.start_span, w))
        elif self.all_open:
            self._add_judged(block, planned)
            self._add_lateness(block, planned)
            self._add_cohort(block, planned, ended)
            self._add_balance(block, planned, ended)
        else:
            is_open = self.open_loads[rows.workload]
            is_planned, has_ended = mask_of(planned, len(rows)), mask_of(ended, len(rows))
            self._add_judged(block, np.where(is_open, is_planned, has_ended))
            started = mask_of(within(rows.start, block.start_span, w), len(rows))
            self._add_lateness(block, np.where(is_open, is_planned, started))
            self._add_cohort(block, is_open & is_planned, ended)
            self._add_balance(block, is_open & is_planned, is_open & has_ended)

    def _add_in_progress(self, block: Block) -> None:
        rows, w = block.rows, self.window
        if block.start_span[0] >= w.end or (block.all_ended and block.end_span[1] < w.start):
            return
        overlap = np.minimum(block.left, w.end)
        overlap -= np.maximum(rows.start, w.start)
        np.maximum(overlap, 0, out=overlap)
        self.in_progress_ns += int(overlap.sum())

    def _add_lateness(self, block: Block, mask: Mask | bool) -> None:
        """Adds the lateness of these rows."""
        if mask is False:
            return
        late: Int = block.rows.start - block.rows.scheduled
        if isinstance(mask, np.ndarray):
            late = late[mask]
        np.maximum(late, 0, out=late)
        if late.size:
            self.lateness.add(late, late.astype(np.float64))

    def _add_completed(self, block: Block, ended: Mask | bool) -> None:
        """Adds counts and sizes of those of these rows that succeeded."""
        rows = block.rows
        done = block.ok if ended is True else block.ok & ended
        count = len(rows) if ended is True and block.all_ok else int(np.count_nonzero(done))
        if count == 0:
            return
        is_every = count == len(rows)
        self.done += count
        others = np.zeros(0, dtype=np.int64) if is_every else np.flatnonzero(~done)
        self.items += _sum(rows.items, others)
        self.payload += _sum(rows.payload, others)
        self.wire += _sum(rows.sent, others) + _sum(rows.received, others)
        codes = np.bincount(rows.code)
        codes -= np.bincount(rows.code[others], minlength=codes.size)
        for number in np.flatnonzero(codes).tolist():
            self.codes[number] += int(codes[number])
        end = _selected(rows.end, done, is_every)
        self.bin_count += np.bincount(self._bin(end), minlength=BINS)
        seconds = self.second_count.size
        counts = np.bincount((end - self.window.start) // NS, minlength=seconds)
        self.second_count += counts[:seconds]  # the rest is a second that the window cuts

    def _add_judged(self, block: Block, mask: Mask | bool) -> None:
        """Adds times and errors of these rows."""
        if mask is False:
            return
        response, request, bucket = block.response, block.request, block.bucket
        if isinstance(mask, np.ndarray):
            selected = mask if block.all_ok else mask[block.ok]
            response, request, bucket = response[selected], request[selected], bucket[selected]
        if response.size:
            self._add_times(block, block.ok if mask is True else block.ok & mask, response, request, bucket)
        if not block.all_ok:
            failed = ~block.ok & mask
            self._count_failed(block.rows, failed if self.some_open else failed & (block.rows.end >= 0))

    def _add_times(self, block: Block, mask: Mask, response: Int, request: Int, bucket: Int) -> None:
        """Adds the times of the rows in `mask`; the durations are of these rows only. In batches of an open load, times
        belong to the bin in which they were scheduled."""
        rows, is_every = block.rows, response.size == len(block.rows)
        as_float = response.astype(np.float64)
        self.response.add(response, as_float, bucket)
        request_float = as_float if block.on_time else request.astype(np.float64)
        self.request.add(request, request_float, bucket if block.on_time else None)
        self._add_answers(rows, mask, request, is_every)
        self._add_less_rtt(rows, mask, response, is_every)
        at = rows.end
        if self.some_open:
            at = (
                rows.scheduled
                if self.all_open
                else np.where(self.open_loads[rows.workload], rows.scheduled, at)
            )
        position = self._bin(_selected(at, mask, is_every))
        self.bin_times += np.bincount(position, minlength=BINS)
        by_response = np.bincount(position, weights=as_float, minlength=BINS)
        by_request = by_response
        if not block.on_time:
            by_request = np.bincount(position, weights=request_float, minlength=BINS)
        self.bin_response += by_response
        self.bin_request += by_request

    def _add_answers(self, rows: Transactions, mask: Mask, request: Int, is_every: bool) -> None:
        """Adds the two parts of the request times of these rows, without the rows that have no first byte."""
        if rows.first_byte is None:
            return
        first = _selected(rows.first_byte, mask, is_every)
        if (known := first >= 0).all():
            rest = request - first
        else:
            first, rest = first[known], request[known] - first[known]
        if first.size:
            np.maximum(rest, 0, out=rest)
            self.answers[FIRST_BYTE].add(first, first.astype(np.float64))
            self.answers[TRANSFER].add(rest, rest.astype(np.float64))

    def _add_less_rtt(self, rows: Transactions, mask: Mask, response: Int, is_every: bool) -> None:
        """Adds the response times of these rows less their round trip, without the rows that have none. A reading of
        another connection may be longer than a response time; the difference is 0 then."""
        if rows.round_trip is None:
            return
        trip = _selected(rows.round_trip, mask, is_every)
        known = trip >= 0
        less: Int = np.maximum(response[known] - trip[known], 0)
        if less.size:
            self.less_rtt.add(less, less.astype(np.float64))

    def _add_balance(self, block: Block, planned: Mask | bool, ended: Mask | bool) -> None:
        for mask, stamps, bins in (
            (planned, block.rows.scheduled, self.bin_planned),
            (ended, block.rows.end, self.bin_ended),
        ):
            if mask is not False:
                selected = _selected(stamps, mask_of(mask, len(stamps)), mask is True)
                bins += np.bincount(self._bin(selected), minlength=BINS)

    def _add_cohort(self, block: Block, planned: Mask | bool, ended: Mask | bool) -> None:
        """Adds the outcomes of these rows of open loads."""
        if planned is False:
            return
        rows, n = block.rows, len(block.rows)
        if planned is True and ended is True and block.all_ok:
            self.in_window += n
            return
        is_planned = mask_of(planned, n)
        inside = _count(is_planned & block.ok & ended, n)
        self.in_window += inside
        self.in_drain += _count(is_planned & block.ok, n) - inside
        cut = is_planned & ((rows.end < 0) | (rows.outcome == CANCELLED))
        self.cut_off += _count(cut, n)
        late = is_planned & (rows.outcome == TIMEOUT) & ~cut
        self.timed_out += _count(late, n)
        self.cohort_failed += _count(is_planned & ~block.ok & ~cut, n)
        self._note_missing(block, np.flatnonzero(cut | late))

    def _note_missing(self, block: Block, rows_: Int) -> None:
        """Records lower bounds of the times of these rows: until they were given up, or until the end of the window."""
        if rows_.size == 0:
            return
        until = np.minimum(block.left[rows_], np.maximum(block.rows.end[rows_], self.window.end))
        for durations, since in ((self.response, block.rows.scheduled), (self.request, block.rows.start)):
            durations.buckets.note_missing(max(0, int((until - since[rows_]).min())))
        for durations in (*self.answers.values(), self.less_rtt):
            durations.buckets.note_missing(0)  # it may have been cut off before or after its first byte

    def _bin(self, end: Int) -> Int:
        per_ns = BINS / max(1, self.window.end - self.window.start)
        position: Int = np.minimum(((end - self.window.start) * per_ns).astype(np.int64), BINS - 1)
        return position

    def _count_failed(self, rows: Transactions, failed: Mask) -> None:
        if not failed.any():
            return
        outcome = np.where(rows.end[failed] < 0, CANCELLED, rows.outcome[failed]).astype(np.int64)
        kind = outcome << 32 | rows.code[failed].astype(np.int64)
        for key, count in zip(*np.unique(kind, return_counts=True), strict=True):
            self.errors[int(key) >> 32, int(key) & 0xFFFFFFFF] += int(count)

    def close(self) -> None:
        """Sets the numbers of missing values of the distributions; may be called again after further blocks."""
        cut = self.cut_off + self.timed_out
        parts = [(durations, cut) for durations in self.answers.values()]
        all_cut = cut + self.never_started
        whole = ((self.response, all_cut), (self.less_rtt, all_cut), (self.request, cut))
        for durations, missing in (*whole, *parts):
            durations.buckets.missing = missing
            durations.buckets.failed = self.cohort_failed - self.timed_out

    def traffic(self, codes: Sequence[str]) -> Traffic:
        """The figures. `codes`: texts of the codes by number."""
        self.close()
        seconds = max(self.window.seconds, 1e-9)
        done, judged = self.done, self.response.moments.count
        failed = sum(self.errors.values())
        sd, least, most = throughput_spread(self.second_count)
        return Traffic(
            window_s=self.window.seconds,
            transactions=done,
            errors=failed,
            error_rate=failed / (judged + failed) if judged + failed else None,
            errors_by_kind=_error_counts(self.errors, codes),
            throughput_per_s=done / seconds,
            items_per_s=self.items / seconds,
            payload_bytes_per_s=self.payload / seconds,
            wire_bytes_per_s=self.wire / seconds,
            offered_per_s=(self.offered + self.never_started) / seconds,
            concurrency=self.in_progress_ns / 1e9 / seconds,
            response_ms=self.response.latency(self._mean(self.bin_response, self.response)),
            request_ms=self.request.latency(self._mean(self.bin_request, self.request)),
            lateness_ms=self.lateness.latency(),
            throughput_interval=self._throughput(seconds),
            successes_by_code=_code_counts(self.codes, codes),
            cohort=self._whole_cohort() if self.some_open else None,
            overload=self._overload(seconds),
            first_byte_ms=self._answer(FIRST_BYTE),
            transfer_ms=self._answer(TRANSFER),
            throughput_sd=sd,
            throughput_min=least,
            throughput_max=most,
            response_less_rtt_ms=self.less_rtt.latency() if self.less_rtt.moments.count else None,
        )

    def _answer(self, part: str) -> Latency | None:
        durations = self.answers[part]
        return durations.latency() if durations.moments.count else None

    def _overload(self, seconds: float) -> Overload | None:
        if not self.some_open or self.not_started is None:
            return None
        planned = self.bin_planned.astype(np.float64)
        used = np.flatnonzero(planned)
        tail = slice(min(BINS - 1, int(used[-1]) + 1 if used.size else 0), BINS)
        for at, count in self.not_started:
            # Starts that waited when the run ended were due after the last start: slots take arrivals in their order.
            first, last = self._bin(
                np.clip([at - NS // 2, at + NS // 2 - 1], self.window.start, None)
            ).tolist()
            part = tail if at >= self.window.end else slice(first, last + 1)
            planned[part] += count / (part.stop - part.start)
        return overload(self.cut(planned), self.cut(self.bin_ended), seconds)

    def _whole_cohort(self) -> Cohort:
        return Cohort(self.in_window, self.in_drain, self.cohort_failed, self.cut_off, self.never_started)

    def _mean(self, sums: NDArray[np.float64], durations: Durations) -> BatchMean | None:
        variance = durations.moments.variance
        return ratio_mean(self.cut(sums), self.cut(self.bin_times), variance=variance, of_times=True)

    def cut(self, bins: NDArray[np.float64] | Int) -> NDArray[np.float64]:
        """Sums over BINS bins as those over the parts."""
        out: NDArray[np.float64] = bins.astype(np.float64).reshape(self.parts, -1).sum(axis=1)
        return out

    def _throughput(self, seconds: float) -> Interval | None:
        throughput = ratio_mean(self.cut(self.bin_count), np.full(self.parts, seconds / self.parts))
        return None if throughput is None else throughput.interval


def _code_counts(counts: Counter[int], codes: Sequence[str]) -> tuple[CodeCount, ...]:
    named = (
        (codes[number] if number < len(codes) else str(number), count) for number, count in counts.items()
    )
    return tuple(
        CodeCount(code, count)
        for code, count in sorted(named, key=lambda named_count: (-named_count[1], named_count[0]))
        if code
    )


def _error_counts(errors: Counter[tuple[int, int]], codes: Sequence[str]) -> tuple[ErrorCount, ...]:
    return tuple(
        ErrorCount(
            OUTCOMES[outcome] if outcome < len(OUTCOMES) else str(outcome),
            codes[code] if code < len(codes) else str(code),
            count,
        )
        for (outcome, code), count in errors.most_common()
    )
