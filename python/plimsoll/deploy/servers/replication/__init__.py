"""Replicas of databases: how they get their first copy, how far they are behind, and what they leave at their source.

PostgreSQL (`postgres.py`: streaming, `logical.py`) and MariaDB (`mariadb.py`). Positions are bytes of the source's log
of changes. Rejected: the delays in seconds that the servers report. They are unknown or grow while nothing is written.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from plimsoll.deploy.counters import Reading, Source
from plimsoll.deploy.running import RunningService
from plimsoll.errors import ServiceError
from plimsoll.plan.source.units import about_size

MAX_PAUSE_S: Final = 0.2
PREFIX: Final = "replication."


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """`replayed`: the position up to which the replica has replayed its source's log, in bytes; `lag`: the bytes that
    it has not replayed yet (None: the source does not answer); `connected`: whether it receives changes; `failure`: why
    it never will replay more, as the server states it."""

    replayed: int | None
    lag: int | None
    connected: bool
    failure: str = ""


class Replica(Protocol):
    """A replica, over connections that are kept. Every method may raise the errors of the driver."""

    def source_position(self) -> str:
        """The position of the source now."""

    def has_reached(self, position: str) -> bool:
        """Whether the replica has replayed the source's log up to a `source_position`."""

    def state(self) -> ReplicaState:
        """The state now."""

    def close(self) -> None:
        """Closes the connections."""


class KeptConnection:
    """A connection that is opened when it is needed, and again after an error."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._connection: Any = None

    @contextlib.contextmanager
    def cursor(self, *arguments: Any) -> Any:
        """A cursor of the connection."""
        try:
            if self._connection is None:
                self._connection = self._connect()
            with self._connection.cursor(*arguments) as cursor:
                yield cursor
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.close()
        self._connection = None


class ReplicaCounters:
    """The counters of a replica's server, and its progress. A source that does not answer only leaves out the lag."""

    def __init__(self, server: Source, replica: Replica) -> None:
        self._server = server
        self._replica = replica

    def open(self) -> None:
        """Connects to the replica."""
        self._server.open()

    def read(self) -> Reading:
        """Reads the counters of the server, and the positions of both."""
        reading, state = self._server.read(), self._replica.state()
        counters, gauges = dict(reading.counters), dict(reading.gauges)
        if state.replayed is not None:
            counters[f"{PREFIX}replayed_bytes"] = float(state.replayed)
        if state.lag is not None:
            gauges[f"{PREFIX}lag_bytes"] = float(state.lag)
        gauges[f"{PREFIX}connected"] = float(state.connected)
        return Reading(counters, gauges)

    def last(self) -> Mapping[str, Any]:
        """What the server's own counters return."""
        return self._server.last()

    def close(self) -> None:
        """Closes all connections."""
        self._replica.close()
        self._server.close()


def register(running: RunningService, source: RunningService, make: Callable[[], Replica]) -> None:
    """Adds the progress of a started replica to its counters, and makes the runs wait for it."""
    counters = running.counters
    assert counters is not None, "databases have counters"
    running.counters = lambda: ReplicaCounters(counters(), make())

    def catch_up(check_interrupt: Callable[[], None]) -> None:
        replica = make()
        try:
            wait_for_replica(running, source, replica, check_interrupt)
        finally:
            replica.close()

    running.catch_up = catch_up


def wait_for_replica(
    running: RunningService,
    source: RunningService,
    replica: Replica,
    check_interrupt: Callable[[], None],
) -> None:
    """Waits until the replica has replayed what its source contains now. Raises ServiceError if one of the two has
    ended, or if the replica makes no progress for its `ready_timeout`: a large load may take longer than that."""
    names = f"service {running.spec.name}, a replica of {source.spec.name}"
    goal, seen, error = "", ReplicaState(None, None, connected=False), ""
    limit_s = running.spec.ready_timeout_ns / 1e9
    deadline, pause = time.monotonic() + limit_s, 0.005
    while True:
        check_interrupt()
        for each in (source, running):
            if each.process is not None and each.process.has_ended():
                raise ServiceError(each.process.end_message())
        try:
            goal = goal or replica.source_position()
            if replica.has_reached(goal):
                return
            state, error = replica.state(), ""
        except (
            Exception
        ) as problem:  # of the driver: a server that is started again refuses connections at first
            state, error = seen, str(problem).strip()
        if state.failure:
            raise ServiceError(f"{names}, replays no more: {state.failure}{_last_lines(running)}")
        if state.replayed != seen.replayed:
            deadline = time.monotonic() + limit_s
        seen = state
        if time.monotonic() > deadline:
            raise ServiceError(f"{names}, {_stalled(seen, limit_s, error)}{_last_lines(running)}")
        time.sleep(pause)
        pause = min(pause * 1.5, MAX_PAUSE_S)


def _stalled(state: ReplicaState, limit_s: float, error: str) -> str:
    behind = f"{about_size(state.lag)} behind" if state.lag is not None else "behind by an unknown amount"
    received = "receives changes" if state.connected else "is not connected to it"
    why = f" ({error})" if error else ""
    return (
        f"has not caught up: it is {behind}, {received}, and has replayed nothing for {limit_s:g} s{why}. "
        "The next run starts it with a new copy. If it needs more time, increase its `ready_timeout`"
    )


def _last_lines(running: RunningService) -> str:
    return running.process.last_lines() if running.process is not None else ""
