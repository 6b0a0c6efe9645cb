"""Sessions of testers: completions per second, durations and failures in a window.

A session counts in the rate by the part of its duration that lies in the window, so that sessions at both ends of the
window count in part. In a steady state the expected value is the rate of completions. Of an unfinished session with the
elapsed time e, the duration is not known; the mean of 1 / D over the finished sessions with a duration D above e is
used instead (1 / e if there is none), and it counts by the share of the finished sessions that succeeded.

Rejected: completions in the window / its length. If testers begin together and sessions have similar durations, all of
them end shortly before or shortly after the end of the window: the error is up to one session of each tester, and the
same in every repetition. Also rejected: waiting for the end of all sessions, since the load decreases meanwhile.
Rates of both: tests/stats/test_tester_sessions.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.load.tester_sessions import TesterSessions
from plimsoll.analyse.run.traffic import Durations
from plimsoll.analyse.stats.quantiles import Histogram
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.sessions import (
    QUERY_FAILED,
    SUCCEEDED,
    UNFINISHED,
    WORK_FAILED,
    SessionColumns,
)

HISTOGRAM: Final = "session"
"""Name of the histogram of the durations, in addition to those of the summary."""
FEW: Final = 3
"""A window shorter than this number of sessions is remarked on."""

Int = NDArray[np.int64]
Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RunSessions:
    """The figures of a window, and the durations of its successful sessions for figures over several runs."""

    sessions: TesterSessions
    durations: Histogram


def session_figures(columns: SessionColumns, window: Window) -> RunSessions | None:
    """The figures of the window. None if the run has no sessions."""
    if columns.start.size == 0:
        return None
    end = columns.start + columns.duration
    ended = np.where(end < window.end, columns.ended, UNFINISHED)
    in_window = (end >= window.start) & (columns.start < window.end)
    counts = [int(np.count_nonzero(in_window & (ended == way))) for way in range(UNFINISHED + 1)]
    durations = Durations(exact=True)
    of_done = columns.duration[in_window & (ended == SUCCEEDED)]
    durations.add(of_done, of_done.astype(np.float64))
    failed = counts[WORK_FAILED] + counts[QUERY_FAILED]
    finished = counts[SUCCEEDED] + failed
    sessions = TesterSessions(
        per_s=_rate(columns, window),
        succeeded=counts[SUCCEEDED],
        work_failed=counts[WORK_FAILED],
        query_failed=counts[QUERY_FAILED],
        failed=failed,
        finished=finished,
        failed_share=failed / finished if finished else None,
        unfinished=counts[UNFINISHED],
        duration_ms=durations.latency(),
    )
    return RunSessions(sessions, Histogram.of(durations.buckets))


def _rate(columns: SessionColumns, window: Window) -> float | None:
    """Successful sessions per second; None if no session has finished, so that no duration is known. A session that
    the drain let finish has a known duration and outcome."""
    start, duration, ended = columns.start, columns.duration, columns.ended
    end = start + duration
    touched = (end >= window.start) & (start < window.end)
    known = touched & (ended != UNFINISHED)
    succeeded = touched & (ended == SUCCEEDED)
    if not known.any():
        return None
    whole = _inside(start[succeeded], end[succeeded], window) / np.maximum(duration[succeeded], 1)
    # A session without a duration is in the window as a whole.
    count = float(np.where(duration[succeeded] == 0, end[succeeded] < window.end, whole).sum())
    cut = start[touched & (ended == UNFINISHED)]
    parts = _inside(cut, np.full(cut.size, window.end), window) * _inverse_durations(
        window.end - cut, duration[succeeded]
    )
    success = np.count_nonzero(succeeded) / np.count_nonzero(known)
    return (count + success * float(parts.sum())) / window.seconds


def _inside(start: Int, end: Int, window: Window) -> Float:
    """The time of each session in the window, ns."""
    return (np.minimum(end, window.end) - np.maximum(start, window.start)).astype(np.float64)


def _inverse_durations(elapsed: Int, durations: Int) -> Float:
    """Expected 1 / duration of unfinished sessions of this age, by the finished ones that took longer."""
    ascending = np.sort(durations)
    inverse = 1.0 / np.maximum(ascending, 1)
    longer = ascending.size - np.searchsorted(ascending, elapsed, side="right")
    sums = np.concatenate(([0.0], np.cumsum(inverse[::-1])))  # of the longest ones
    means: Float = np.where(longer > 0, sums[longer] / np.maximum(longer, 1), 1.0 / np.maximum(elapsed, 1))
    return means


def remark(sessions: TesterSessions, window: Window) -> str:
    """Remark on a window that is short in comparison with its sessions; empty if it is not."""
    mean = sessions.duration_ms.mean
    if mean is None:
        return "no session succeeded in the window"
    if window.seconds >= FEW * mean / 1e3:
        return ""
    return (
        f"the window of {window.seconds:g} s is shorter than {FEW} sessions, which took {mean / 1e3:.3g} s on average: "
        "the sessions/s depend on when the sessions began"
    )
