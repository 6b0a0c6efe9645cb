"""What the sessions of a database waited for, in sentences."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.load.sessions import ExplainingWait
from plimsoll.analyse.results.verdicts import Finding, Topic, Value
from plimsoll.analyse.results.wording import level_words, listing, number, plus_minus, with_unit
from plimsoll.deploy.counters.databases.sessions import LOCK

MAX_SENTENCES: Final = 3
_WORDS: Final = {
    LOCK: "a lock",
    "LWLock": "an internal lock of the server",
    "Synch": "an internal lock of the server",
    "BufferPin": "a buffer in use",
    "IO": "input or output",
    "IPC": "another process of the server",
    "Client": "their client",
    "Timeout": "a fixed time",
}


def of_sessions(analysis: Analysis) -> tuple[Finding, ...]:
    """A sentence for each database whose sessions mostly wait."""
    return tuple(map(_finding, analysis.session_waits[:MAX_SENTENCES]))


def _finding(wait: ExplainingWait) -> Finding:
    values: dict[str, Value] = {
        "service": wait.service,
        "type": wait.type,
        "active": wait.active.mean,
        "sessions": wait.sessions.mean,
        "low": wait.sessions.low,
        "high": wait.sessions.high,
        "events": wait.events,
    }
    return Finding(Topic.SESSIONS, wait_sentence(wait), wait.type, values, wait.rule)


def wait_sentence(wait: ExplainingWait) -> str:
    """The sentence on the sessions of one database."""
    what = _WORDS.get(wait.type, wait.type)
    kinds = f" ({listing(wait.events)})" if wait.events else ""
    where = f" with {level_words(wait.cell)}" if wait.cell else ""
    longest = (
        f"; the longest wait that a sample found was {with_unit(number(wait.longest_lock_wait_s, 2), 's')}"
        if wait.type == LOCK and wait.longest_lock_wait_s > 0
        else ""
    )
    return (
        f"On average{where}, {_mean(wait)} of {number(wait.active.mean, 2)} active sessions of {wait.service} waited "
        f"for {what}{kinds}{longest}."
    )


def _mean(wait: ExplainingWait) -> str:
    interval = wait.sessions
    has_width = interval.low is not None and interval.low < interval.mean
    return plus_minus(interval, "number") if has_width else number(interval.mean, 2)
