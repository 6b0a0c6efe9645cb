"""Summary of one run from its transactions, gathered chunk by chunk in bounded memory.

`exact=True` keeps the response and request times of the measured window (16 bytes a transaction, 8 where every
transaction started on time) and gives exact quantiles; `exact=False` keeps buckets only: quantiles within 0.1 %.
The other figures do not depend on it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.run import (
    Ecdf,
    FirstResult,
    OperationResult,
    Peak,
    Series,
    StageResult,
    TesterResult,
    Traffic,
    WorkloadResult,
)
from plimsoll.analyse.run.first import FirstSums
from plimsoll.analyse.run.outages.success_bins import SuccessBins
from plimsoll.analyse.run.parts import OPERATIONS, PartKey, Parts, by_operation, by_workload, histograms
from plimsoll.analyse.run.placed import PlacedSums, TesterSums
from plimsoll.analyse.run.timeline import Timeline, default_quantum
from plimsoll.analyse.run.traffic import BINS, NEVER, NO_LOADS, Block, WindowSum, within
from plimsoll.analyse.stats.fairness import Fairness, fairness
from plimsoll.analyse.stats.quantiles import Histogram
from plimsoll.analyse.stats.steady import (
    CHANGES_BY_PLAN,
    Trend,
    TrendVerdict,
    WarmUp,
    mser5,
    peak_window,
    trend,
)
from plimsoll.analyse.window.load_profile import Piece, never_started
from plimsoll.analyse.window.quantum import MIN_QUANTUM_RATIO, allowed_parts, widened_quantum
from plimsoll.analyse.window.transactions import Int, Stage, Transactions, Window

ROWS = 64 * 1024
"""Rows that are processed at a time: their columns stay in a core's cache."""
TREND_BINS = (240, 120, 60, 30, 20)


@dataclass(frozen=True, slots=True)
class Places:
    """The places of the testers of a run of several agents, one entry per tester. `site`, `host`: their numbers;
    `until`: the time (ns) at which its agent was lost, or NEVER. `bound_ns`: maximum error of any time of any agent."""

    site: Int
    host: Int
    until: Int
    bound_ns: int = 0

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Testers whose agents were lost."""
        out: NDArray[np.bool_] = self.until < NEVER
        return out


@dataclass(frozen=True, slots=True)
class Layout:
    """The properties of a run that the summary needs before the transactions.

    `measured`: from the end of the warm-up to the end of the measured part. `length_ns`: of the whole run including the
    drain. `codes`, `workloads`: names by number; the lists may grow while chunks are added. `tester_agents`: name of
    the agent of each tester; its length is the number of testers. `stages`: only those of a staged load. `by_workload`:
    whether workloads are also summed separately; `operations`: names of the operations of mixes, by number (None: there
    are none). `quantum_ns`: of the time series (None: by the length of the run); `chart_quantum_ns`: of those that are
    shown, if it differs. `bins`: of a load that changes by
    plan. `open_loads`: workloads whose load is open. Their times are those of the cohort scheduled in a window; their
    testers are slots and have no shares if there are also testers of closed loads (needs `by_workload`).
    `not_started`: transactions of open loads that never started: the time (ns) at which they were given up, and their
    number. `places`: None if there is one agent. `phases`: windows before, during and after the actions of the run, by
    name. `availability_ns`: the response time up to which a start counts as available; None if the run has no actions.
    """

    measured: Window
    length_ns: int
    codes: Sequence[str]
    workloads: Sequence[str]
    tester_agents: Sequence[str]
    stages: Sequence[Stage] = ()
    by_workload: bool = False
    operations: Sequence[str] | None = None
    quantum_ns: int | None = None
    chart_quantum_ns: int | None = None
    bins: Sequence[Piece] = ()
    steps: Sequence[Window] = ()
    """Parts of a ramp with the same number of active testers."""
    open_loads: frozenset[str] = frozenset()
    not_started: Sequence[tuple[int, int]] = ()
    places: Places | None = None
    phases: Mapping[str, Window] = field(default_factory=dict)
    availability_ns: int | None = None
    first: Sequence[str] = ()
    """Which first transactions are summed separately: of a connection, of a tester."""
    first_window: Window | None = None
    """The window of the first transactions; None: the whole run."""

    def is_open(self) -> NDArray[np.bool_]:
        """Whether the load of each workload is open, by number of the workload; empty if none is."""
        if not self.open_loads:
            return NO_LOADS
        return np.array([name in self.open_loads for name in self.workloads], dtype=np.bool_)

    def given_up(self, window: Window) -> Sequence[tuple[int, int]]:
        """The entries of `not_started` in the window; also those after its end if the measured window ends with it."""
        last = window.end >= self.measured.end
        return [(at, n) for at, n in self.not_started if window.start <= at and (last or at < window.end)]

    @property
    def bound_ns(self) -> int:
        """Maximum error of the time of any tester; 0 if there is one clock."""
        return self.places.bound_ns if self.places else 0


@dataclass(frozen=True, slots=True)
class RunSummary:
    """All results from the transactions of a run. Counts are of the whole run, the traffic is of the measured
    window."""

    started: int
    succeeded: int
    failed: int
    in_flight_at_end: int
    traffic: Traffic
    stages: tuple[StageResult, ...]
    workloads: tuple[WorkloadResult, ...]
    testers: tuple[TesterResult, ...]
    fairness: Fairness
    series: Series
    ecdf: Ecdf | None
    peak: Peak | None
    trend: Trend
    """Trend of the throughput after the warm-up, or of the response time if only that has a trend."""
    warmup_advice: WarmUp
    histograms: dict[str, Histogram]
    """Of the window, by metric (response, request, lateness); they are merged over the runs of a cell."""
    operations: tuple[OperationResult, ...] = ()
    parts: Mapping[PartKey, Mapping[str, Histogram]] = field(default_factory=dict)
    """The histograms of workloads and operations."""
    by_tester: TesterSums | None = None
    """None if there is only one agent."""
    without_lost: Traffic | None = None
    """The traffic without the transactions of lost agents; None if none was lost."""
    bins: tuple[tuple[Traffic, Mapping[str, Histogram]], ...] = ()
    """Traffic and histograms of each of `Layout.bins`."""
    steps: tuple[Traffic, ...] = ()
    """Traffic of each of `Layout.steps`."""
    phases: Mapping[str, Traffic] = field(default_factory=dict)
    """Traffic of each of `Layout.phases`; their histograms are in `histograms`, with the name of the phase added."""
    success_bins: SuccessBins | None = None
    """None if the run has no actions."""
    first: tuple[FirstResult, ...] = ()
    widened: bool = False
    """Whether the quantum of the series is longer than planned, because there are several clocks."""


class Accumulator:
    """Sums over chunks of transactions, which are added in any order.

    `add` raises IndexError if a chunk contains a tester or a workload that is not in the layout.
    """

    def __init__(self, layout: Layout, *, exact: bool = True) -> None:
        self.layout = layout
        self.exact = exact
        self.whole = self._window(layout.measured)
        self.stages = [self._window(stage.window) for stage in layout.stages]
        self.bins = [
            WindowSum(
                Window(bin_.start, bin_.end), exact=False, open_loads=layout.is_open(), not_started=None
            )
            for bin_ in layout.bins
        ]
        self.steps = [
            WindowSum(window, exact=False, open_loads=layout.is_open(), not_started=None)
            for window in layout.steps
        ]
        self.phases = {name: self._window(window) for name, window in layout.phases.items()}
        self.success_bins = (
            None
            if layout.availability_ns is None
            else SuccessBins(layout.length_ns, layout.measured, layout.availability_ns, layout.bound_ns)
        )
        self.last_scheduled = -1
        self.workloads = Parts(by_workload, lambda part: self._window(layout.measured, part))
        self.operations = Parts(by_operation, self._operation)
        quantum = layout.quantum_ns or default_quantum(layout.length_ns)
        allowed = widened_quantum(quantum, layout.bound_ns)
        self.widened = allowed > quantum
        self.timeline = Timeline(layout.length_ns, allowed)
        self.shown_timeline = self._shown_timeline()
        self._set_places(layout.places)
        n = len(layout.tester_agents)
        self.first = FirstSums(layout.first, self._whole_run) if layout.first else None
        self.tester_workload = np.zeros(n, dtype=np.int64)
        self.tester_started = np.zeros(n, dtype=np.int64)
        self.tester_done = np.zeros(n, dtype=np.int64)
        self.tester_failed = np.zeros(n, dtype=np.int64)
        self.tester_response = np.zeros(n)
        self.first_start = np.full(n, NEVER, dtype=np.int64)
        self.last_end = np.full(n, -1, dtype=np.int64)
        self.started = self.succeeded = self.failed = 0

    def _shown_timeline(self) -> Timeline:
        """The timeline of the time series. Peak and advice are computed from the other one, so that the bin width of a
        chart changes no figure."""
        quantum = self.layout.chart_quantum_ns
        if quantum is None:
            return self.timeline
        allowed = widened_quantum(quantum, self.layout.bound_ns)
        self.widened = allowed > quantum
        return Timeline(self.layout.length_ns, allowed)

    def _window(self, window: Window, workload: int | None = None) -> WindowSum:
        """The sum of all workloads, or of one. Transactions that never started belong to the only open workload."""
        layout = self.layout
        is_open = layout.is_open()
        has_not_started = workload is None or (is_open.size and is_open[workload] and int(is_open.sum()) == 1)
        if workload is not None and is_open.size:
            is_open = is_open if is_open[workload] else NO_LOADS
        return WindowSum(
            window,
            exact=self.exact,
            parts=allowed_parts(window, layout.bound_ns, BINS),
            open_loads=is_open,
            not_started=layout.given_up(window) if has_not_started or not layout.not_started else None,
        )

    def _whole_run(self) -> WindowSum:
        """A sum over the whole run, or `first_window`, without transactions that never started: they are no
        connection's first."""
        layout = self.layout
        window = layout.first_window or Window(0, max(1, layout.length_ns))
        parts = allowed_parts(window, layout.bound_ns, BINS)
        given_up = None if layout.not_started else ()
        return WindowSum(
            window, exact=self.exact, parts=parts, open_loads=layout.is_open(), not_started=given_up
        )

    def _set_places(self, places: Places | None) -> None:
        self.until = places.until if places and places.lost.any() else None
        self.placed = self.kept = None
        if places is not None:
            self.placed = PlacedSums(
                places.site, places.host, self.layout.measured, self.timeline.quantum, self.timeline.n
            )
        if places is not None and self.until is not None:
            self.gone = places.lost
            self.kept = self._window(self.layout.measured)

    def add(self, chunk: Transactions) -> None:
        """Adds a chunk of any size."""
        for rows in chunk.blocks(ROWS):
            self._check_numbers(rows)
            block = Block.of(rows, self.until)
            self.whole.add(block)
            self.timeline.add(block)
            if self.shown_timeline is not self.timeline:
                self.shown_timeline.add(block)
            if self.success_bins is not None:
                self.success_bins.add(block)
            self._add_to_testers(block)
            for total in (*self.stages, *self.bins, *self.steps, *self.phases.values()):
                window = total.window
                is_near = (rows.start < window.end) & ((rows.end < 0) | (rows.end >= window.start))
                is_near |= (rows.scheduled >= window.start) & (rows.scheduled < window.end)
                if is_near.any():
                    total.add(block if bool(is_near.all()) else Block.of(rows.take(is_near), self.until))
            self.last_scheduled = max(self.last_scheduled, block.scheduled_span[1])
            if self.layout.by_workload:
                self.tester_workload[rows.tester] = rows.workload
                self.workloads.add(block, self.until)
            if self.layout.operations is not None:
                self.operations.add(block, self.until)
            if self.first is not None:
                self.first.add(block, self.until)
            if self.placed is not None:
                self.placed.add(block)
            if self.kept is not None:
                kept = ~self.gone[rows.tester]
                self.kept.add(block if bool(kept.all()) else Block.of(rows.take(kept), self.until))

    def _operation(self, part: int) -> WindowSum:
        """The sum of an operation, without transactions that never started: the operation is drawn at the start."""
        workload, _ = divmod(part, OPERATIONS)
        is_open = self.layout.is_open()
        open_loads = is_open if is_open.size and is_open[workload] else NO_LOADS
        parts = allowed_parts(self.layout.measured, self.layout.bound_ns, BINS)
        given_up = None if self.layout.not_started else ()
        window = self.layout.measured
        return WindowSum(window, exact=self.exact, parts=parts, open_loads=open_loads, not_started=given_up)

    def _names_of(self, part: int) -> tuple[str, str]:
        assert self.layout.operations is not None  # otherwise there are no parts
        workload, operation = divmod(part, OPERATIONS)
        return self.layout.workloads[workload], self.layout.operations[operation]

    def _check_numbers(self, rows: Transactions) -> None:
        testers, workloads = len(self.layout.tester_agents), len(self.layout.workloads)
        if len(rows) and int(rows.tester.max()) >= testers:
            raise IndexError(
                f"tester {int(rows.tester.max())} of {testers}: the records of the run do not match its plan"
            )
        if len(rows) and int(rows.workload.max()) >= workloads:
            raise IndexError(
                f"workload {int(rows.workload.max())} of {workloads}: the records of the run do not match its plan"
            )

    def _add_to_testers(self, block: Block) -> None:
        rows, w = block.rows, self.layout.measured
        n = self.tester_done.size
        self.started += len(rows)
        self.succeeded += int(np.count_nonzero(block.ok))
        if not block.all_ok:
            self.failed += int(np.count_nonzero((rows.end >= 0) & ~block.ok))
        tester = rows.tester.astype(np.int64, copy=False)
        end = np.minimum(block.left, self.layout.length_ns)
        self.tester_started += np.bincount(tester, minlength=n)
        np.minimum.at(self.first_start, tester, rows.start)
        np.maximum.at(self.last_end, tester, end)
        inside = within(rows.end, block.end_span, w)
        if inside is False:
            return
        response = block.response if inside is True else block.response[inside[block.ok]]
        done = block.ok if inside is True else inside & block.ok
        testers = tester if block.all_ok and inside is True else tester[done]
        self.tester_done += np.bincount(testers, minlength=n)
        self.tester_response += np.bincount(testers, weights=response, minlength=n)
        if not block.all_ok:
            failed = ~block.ok if inside is True else inside & ~block.ok
            self.tester_failed += np.bincount(tester[failed], minlength=n)

    def result(self) -> RunSummary:
        """The figures of all chunks so far. More chunks may be added afterwards."""
        layout = self.layout
        active = self.last_end >= 0
        starts = np.where(active, self.first_start, 0)
        ends = np.where(active, self.last_end, 0)
        if self.until is not None:  # testers of a lost agent are not active from then on
            ends = np.minimum(ends, self.until)
            starts = np.minimum(starts, ends)
        shares = self._fairness(starts, ends)
        traffic = self.whole.traffic(layout.codes)
        ms, share = self.whole.response.buckets.ecdf()
        peak = self._peak(starts[active], ends[active])
        first = self.first.sums(self.until) if self.first is not None else {}
        return RunSummary(
            started=self.started,
            succeeded=self.succeeded,
            failed=self.failed,
            in_flight_at_end=self.started - self.succeeded - self.failed,
            traffic=traffic,
            stages=tuple(
                StageResult(
                    s.number, s.name, s.window.start / 1e9, s.window.end / 1e9, t.traffic(layout.codes)
                )
                for s, t in zip(layout.stages, self.stages, strict=True)
            ),
            workloads=tuple(
                WorkloadResult(layout.workloads[part], total.traffic(layout.codes))
                for part, total in self.workloads
            ),
            operations=tuple(
                OperationResult(*self._names_of(part), total.traffic(layout.codes))
                for part, total in self.operations
            ),
            testers=self._tester_results(shares, active),
            fairness=shares,
            series=self.shown_timeline.series(starts[active], ends[active]),
            ecdf=Ecdf(tuple(v / 1e6 for v in ms), tuple(share)) if ms else None,
            peak=peak,
            trend=self._trend(),
            warmup_advice=self._advice(),
            histograms=self._histograms(),
            parts={
                **{PartKey(layout.workloads[part]): histograms(total) for part, total in self.workloads},
                **{PartKey(*self._names_of(part)): histograms(total) for part, total in self.operations},
                **{PartKey("", first=of): histograms(total) for of, total in first.items()},
            },
            first=tuple(
                FirstResult(of, _without_intervals(total.traffic(layout.codes)))
                for of, total in first.items()
            ),
            by_tester=self._by_tester(shares, starts, ends, peak),
            bins=self._bins(),
            steps=tuple(_without_intervals(total.traffic(layout.codes)) for total in self.steps),
            phases={
                name: _without_intervals(total.traffic(layout.codes)) for name, total in self.phases.items()
            },
            success_bins=self.success_bins,
            widened=self.widened,
            without_lost=None if self.kept is None else self.kept.traffic(layout.codes),
        )

    def _histograms(self) -> dict[str, Histogram]:
        """Those of the window, and those of the phases with the suffix of their scope."""
        of_phases = {
            f"{metric}@{name}": histogram
            for name, total in self.phases.items()
            for metric, histogram in histograms(total).items()
        }
        return {**histograms(self.whole), **of_phases}

    def _bins(self) -> tuple[tuple[Traffic, Mapping[str, Histogram]], ...]:
        layout = self.layout
        if not layout.bins:
            return ()
        given_up = layout.given_up(Window(layout.bins[0].start, layout.bins[-1].end))
        missing = never_started(given_up, layout.bins, self.last_scheduled)
        for total, count in zip(self.bins, missing, strict=True):
            total.never_started = count
        return tuple(
            (_without_intervals(total.traffic(layout.codes)), histograms(total)) for total in self.bins
        )

    def _by_tester(self, shares: Fairness, starts: Int, ends: Int, peak: Peak | None) -> TesterSums | None:
        if self.placed is None:
            return None
        window = (round(peak.start_s * 1e9), round(peak.end_s * 1e9)) if peak else (0, 0)
        done, span = self.placed.in_peak(*window, starts, ends)
        return TesterSums(
            done=self.tester_done,
            failed=self.tester_failed,
            payload=self.placed.payload,
            wire=self.placed.wire,
            response=self.tester_response,
            span=np.array(shares.spans, dtype=np.float64),
            share=np.array([np.nan if share is None else share for share in shares.shares], dtype=np.float64),
            first=self.first_start,
            last=np.where(self.last_end >= 0, ends, -1),
            times=self.placed.times.result(),
            host_times=self.placed.host_times.result(),
            peak_done=done,
            peak_span=span,
            site_quanta=self.placed.site_quanta(),
            quantum_ns=self.timeline.quantum,
        )

    def _fairness(self, starts: Int, ends: Int) -> Fairness:
        """Shares of the testers. A tester with think time counts as active for one mean gap between its starts before
        its first transaction and after its last, and all the time if it has only one transaction."""
        w = self.layout.measured
        gaps = np.maximum(self.tester_started - 1, 0)
        spans = np.where(gaps > 0, (ends - starts) // np.maximum(gaps, 1), self.layout.length_ns)
        spans = np.where(self.tester_started > 0, spans, 0)
        at = np.linspace(w.start, w.end, self.whole.parts + 1)
        is_open = self.layout.is_open()
        slots = [] if is_open.all() else np.flatnonzero(is_open).tolist()
        of_slots = np.isin(self.tester_workload, slots)
        bins = self.whole.bin_count - sum(
            total.bin_count for at in slots if (total := self.workloads.get(at)) is not None
        )
        left = ends + spans if self.until is None else np.minimum(ends + spans, self.until)
        return fairness(
            np.where(of_slots, 0, self.tester_done),
            np.where(of_slots, 0, starts - spans),  # never active, so without a share
            np.where(of_slots, 0, left),
            window=(w.start, w.end),
            completed_at=at,
            completed=np.concatenate([[0], np.cumsum(self.whole.cut(bins))]),
        )

    def _tester_results(self, shares: Fairness, active: NDArray[np.bool_]) -> tuple[TesterResult, ...]:
        seconds = max(self.layout.measured.seconds, 1e-9)
        out = []
        for i in np.nonzero(active)[0].tolist():
            done = int(self.tester_done[i])
            out.append(
                TesterResult(
                    agent=self.layout.tester_agents[i],
                    tester=i,
                    transactions=done,
                    errors=int(self.tester_failed[i]),
                    throughput_per_s=done / seconds,
                    response_ms_mean=float(self.tester_response[i]) / done / 1e6 if done else None,
                    share=shares.shares[i],
                )
            )
        return tuple(out)

    def _peak(self, starts: Int, ends: Int) -> Peak | None:
        window = peak_window(starts.tolist(), ends.tolist())
        if window is None or window.end <= window.start:
            return None
        q = self.timeline.quantum
        grown = np.concatenate([[0], np.cumsum(self.timeline.done)])
        at = np.arange(self.timeline.n + 1) * q
        done = float(np.interp(window.end, at, grown) - np.interp(window.start, at, grown))
        seconds = (window.end - window.start) / 1e9
        return Peak(window.start / 1e9, window.end / 1e9, float(window.active), done / seconds)

    def _trend(self) -> Trend:
        """Trend of the throughput, then of the response time, over the greatest number of bins with enough
        transactions."""
        count = self.whole.bin_count
        total = int(count.sum())
        length = self.layout.measured.end - self.layout.measured.start
        least = MIN_QUANTUM_RATIO * self.layout.bound_ns
        bins = next((b for b in TREND_BINS if total >= 10 * b and length >= b * least), None)
        if bins is None:
            return Trend(TrendVerdict.TOO_SHORT, None, None, 0.0)
        done = count.reshape(bins, -1).sum(axis=1)
        throughput = trend(done.astype(np.float64))
        if throughput.verdict == TrendVerdict.TRENDS or not done.all():
            return replace(throughput, metric="throughput")
        response = trend(self.whole.bin_response.reshape(bins, -1).sum(axis=1) / done)
        if response.verdict == TrendVerdict.TRENDS:
            return replace(response, metric="response time")
        return replace(throughput, metric="throughput")

    def _advice(self) -> WarmUp:
        """MSER-5 on the throughput of the whole run, including the warm-up, up to the end of the window."""
        until = min(self.timeline.n, self.layout.measured.end // self.timeline.quantum)
        return mser5(self.timeline.done[:until].astype(np.float64), bin_s=self.timeline.quantum / 1e9)


def of_changing_load(summary: RunSummary, rising: Collection[int]) -> RunSummary:
    """The summary of a run whose load changes by plan (stages, a ramp): a trend is intended, and batch means over
    different loads have no meaningful interval. Stages keep their intervals, except those in `rising` (by number)."""
    stages = tuple(
        replace(stage, traffic=_without_intervals(stage.traffic)) if stage.stage in rising else stage
        for stage in summary.stages
    )
    return replace(summary, traffic=_without_intervals(summary.traffic), stages=stages, trend=CHANGES_BY_PLAN)


def without_overload(summary: RunSummary) -> RunSummary:
    """The summary without verdicts on overload, for a run in which the load generator may have caused missing starts or
    late completions."""
    return replace(
        summary,
        traffic=replace(summary.traffic, overload=None),
        stages=tuple(
            replace(stage, traffic=replace(stage.traffic, overload=None)) for stage in summary.stages
        ),
        workloads=tuple(
            replace(workload, traffic=replace(workload.traffic, overload=None))
            for workload in summary.workloads
        ),
        operations=tuple(
            replace(operation, traffic=replace(operation.traffic, overload=None))
            for operation in summary.operations
        ),
    )


def _without_intervals(traffic: Traffic) -> Traffic:
    return replace(
        traffic,
        throughput_interval=None,
        response_ms=replace(traffic.response_ms, mean_interval=None),
        request_ms=replace(traffic.request_ms, mean_interval=None),
    )


def summarise(layout: Layout, chunks: Sequence[Transactions], *, exact: bool = True) -> RunSummary:
    """The summary of all chunks."""
    accumulator = Accumulator(layout, exact=exact)
    for chunk in chunks:
        accumulator.add(chunk)
    return accumulator.result()
