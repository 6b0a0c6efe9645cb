"""Sessions of the databases of a run by what they waited for, a part of `analysis.json`."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.analyse.results.verdicts import RuleId
from plimsoll.analyse.stats.interval import Interval


@dataclass(frozen=True, slots=True)
class SessionWait:
    """The mean number of active sessions with one wait event, or with any event of one type (`event` empty)."""

    type: str
    event: str
    sessions: Interval


@dataclass(frozen=True, slots=True)
class DatabaseSessions:
    """Sessions of one database in the window, as means of samples, one per second.

    `types`: by type of wait, `waits`: by event, the most frequent first. The type CPU has no wait event: the session
    ran, or waited for a core. `longest_lock_wait_s`: the longest wait for a lock that a sample found in progress.
    `explained_by`: the type of wait that explains what its sessions did, by `rule`; empty: none.
    """

    service: str
    kind: str
    samples: int
    active: Interval
    idle_in_transaction: float
    types: tuple[SessionWait, ...]
    waits: tuple[SessionWait, ...]
    longest_lock_wait_s: float
    explained_by: str
    rule: RuleId


@dataclass(frozen=True, slots=True)
class ExplainingWait:
    """A wait that explains what the sessions of a database did, in most of the valid `runs` of a cell: the cell in
    which most sessions had it. `active`, `sessions`: mean numbers over these runs, of active sessions and
    of those with this wait; of a single run with the interval within it. `events`: the most frequent ones."""

    service: str
    type: str
    cell: dict[str, str]
    runs: int
    active: Interval
    sessions: Interval
    events: tuple[str, ...]
    longest_lock_wait_s: float
    rule: RuleId
