"""The engine that executes runs, one after the other: its commands and its messages."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plimsoll.deploy.talk import EngineTalk
from plimsoll.errors import EngineError


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The load has begun. `t0_unix_ns`: the run's zero by this host's clock."""

    t0_unix_ns: int
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunSecond:
    """The figures of one second, of all agents together. Counts are those of the second; times are in ms."""

    second: int
    started: int
    succeeded: int
    failed: int
    dropped: int
    items: int
    payload: int
    active: int
    in_progress: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class RunNote:
    """An event of a run, `t_s` seconds after the run's zero."""

    t_s: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class RunFinished:
    """How a run ended: done, stopped, ceiling, agent-lost, service-gone."""

    status: str
    reason: str
    counters: dict[str, int]
    in_flight: int
    balanced: bool
    damage: tuple[str, ...]
    lost: tuple[str, ...] = ()
    """Names of agents that were lost."""


@dataclass(frozen=True, slots=True)
class RunRefused:
    """The engine rejected the run document. Nothing was measured."""

    error: str


RunMessage = RunStarted | RunSecond | RunNote | RunFinished | RunRefused


class EngineSession(EngineTalk):
    """One engine process. It carries out runs one after the other."""

    def start_run(
        self,
        spec: dict[str, Any],
        agents: Sequence[Mapping[str, Any]] = (),
        rules: Mapping[str, Any] | None = None,
    ) -> None:
        """Sends a run document and its agents (empty: one agent of this host). Events follow from
        `next_message`."""
        self._send({"type": "run", "spec": spec, "agents": list(agents), "rules": dict(rules or {})})

    def stop_run(self, reason: str) -> None:
        """Requests the end of the current run; `RunFinished` follows."""
        with contextlib.suppress(EngineError):
            self._send({"type": "stop", "reason": reason})

    def next_message(self, timeout_s: float) -> RunMessage | None:
        """The next message, or None after a timeout. Raises EngineError when the engine has ended,
        or its message cannot be parsed."""
        event = self._deferred_notes.popleft() if self._deferred_notes else self._next(timeout_s)
        if event is None:
            return None
        try:
            return _parse(event)
        except (KeyError, TypeError, ValueError) as error:
            raise EngineError(
                f"{self._binary} sent an event that cannot be parsed: {str(event)[:300]}"
            ) from error


def _parse(event: dict[str, Any]) -> RunMessage:
    match event["type"]:
        case "started":
            return RunStarted(event["t0_unix_ns"], tuple(event["agents"]))
        case "second":
            counters = event["counters"]
            return RunSecond(
                second=event["second"],
                started=counters["started"],
                succeeded=counters["succeeded"],
                failed=counters["failed"],
                dropped=counters["dropped"],
                items=counters["items"],
                payload=counters["payload"],
                active=event["active"],
                in_progress=event["in_progress"],
                p50_ms=event["p50_ms"],
                p95_ms=event["p95_ms"],
                p99_ms=event["p99_ms"],
            )
        case "note":
            return RunNote(event["t_s"], event["kind"], event["text"])
        case "finished":
            return RunFinished(
                event["status"],
                event["reason"],
                event["counters"],
                event["in_flight"],
                event["balanced"],
                tuple(event["damage"]),
                tuple(event.get("lost", ())),
            )
        case "refused":
            return RunRefused(event["error"])
        case other:
            raise ValueError(f"unknown event {other!r}")
