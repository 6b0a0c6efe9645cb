"""Sessions of testers in the results of a run."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.analyse.results.run import Latency


@dataclass(frozen=True, slots=True)
class TesterSessions:
    """The sessions of all workloads of a run with `session:`, in the window.

    The counts are those of sessions that ended in the window; `unfinished` had not ended when it ended. They count in
    no other field, but in part in `per_s`.
    """

    per_s: float | None
    """Successful sessions per second; None: no session finished."""
    succeeded: int
    work_failed: int
    """Sessions whose program failed, or could not be started."""
    query_failed: int
    """Sessions that ended with a failed transaction."""
    failed: int
    """`work_failed` + `query_failed`."""
    finished: int
    """`succeeded` + `failed`."""
    failed_share: float | None
    """`failed` / `finished`."""
    unfinished: int
    duration_ms: Latency
    """Of the successful sessions."""
