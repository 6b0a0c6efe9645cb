"""Waits that explain what the sessions of a database did, over the runs of a design."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from plimsoll.analyse.design.across import Group, intervals_of
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.load.sessions import DatabaseSessions, ExplainingWait
from plimsoll.analyse.stats.interval import Interval

MAX_EVENTS: Final = 3
MIN_EVENT_SHARE: Final = 0.1
"""Events of a wait that are stated: at most MAX_EVENTS, each of at least this share of its sessions."""


def explaining_waits(groups: Sequence[Group]) -> tuple[ExplainingWait, ...]:
    """Of each database the wait that explains most, in the cell in which most sessions had it."""
    best: dict[str, ExplainingWait] = {}
    for group in groups:
        for wait in _of_cell(group):
            known = best.get(wait.service)
            if known is None or wait.sessions.mean > known.sessions.mean:
                best[wait.service] = wait
    return tuple(best.values())


def _of_cell(group: Group) -> Iterator[ExplainingWait]:
    for service in dict.fromkeys(sessions.service for run in group.valid for sessions in run.sessions):
        pairs = [(run, found) for run in group.valid if (found := _sessions(service, run)) is not None]
        said = Counter(found.explained_by for _, found in pairs if found.explained_by)
        kind, times = next(iter(said.most_common(1)), ("", 0))
        if 2 * times <= len(group.valid):
            continue
        active = _over_runs([(run, found.active) for run, found in pairs], group)
        waiting = _over_runs([(run, _of_type(found, kind)) for run, found in pairs], group)
        yield ExplainingWait(
            service=service,
            type=kind,
            cell=group.cell,
            runs=len(pairs),
            active=active,
            sessions=waiting,
            events=_events([found for _, found in pairs], kind),
            longest_lock_wait_s=max(found.longest_lock_wait_s for _, found in pairs),
            rule=pairs[0][1].rule,
        )


def _sessions(service: str, run: RunResult) -> DatabaseSessions | None:
    return next((sessions for sessions in run.sessions if sessions.service == service), None)


def _of_type(sessions: DatabaseSessions, kind: str) -> Interval:
    return next((wait.sessions for wait in sessions.types if wait.type == kind), Interval(0.0, None, None))


def _over_runs(values: Sequence[tuple[RunResult, Interval]], group: Group) -> Interval:
    """The mean over the runs of a cell; of a single run its own interval."""
    if len(values) == 1:
        return values[0][1]
    pairs = [(run.block, interval.mean) for run, interval in values]
    over = intervals_of([pairs], [group], separate=True)[0]
    assert over is not None  # there are values
    return over


def _events(found: Sequence[DatabaseSessions], kind: str) -> tuple[str, ...]:
    sums: dict[str, float] = {}
    for sessions in found:
        for wait in sessions.waits:
            if wait.type == kind:
                sums[wait.event] = sums.get(wait.event, 0.0) + wait.sessions.mean
    least = MIN_EVENT_SHARE * sum(sums.values())
    frequent = sorted(
        (event for event, part in sums.items() if part >= least), key=lambda event: -sums[event]
    )
    return tuple(frequent[:MAX_EVENTS])
