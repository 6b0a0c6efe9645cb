"""One run, from the engine's document to its files, with all conditions that can end it early."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from plimsoll.drive.engine import EngineSession, RunFinished, RunNote, RunRefused, RunSecond, RunStarted

POLL_S = 0.1
SERVICE_CHECK_S = 0.5


class Listener(Protocol):
    """Receives the events of an experiment and shows them to a user. No method may block."""

    def run_begins(
        self, run_id: str, position: int, total: int | None, cell: Mapping[str, str], seconds: float
    ) -> None:
        """Run `position` of `total` begins; `seconds` is its estimated duration."""

    def second(self, second: RunSecond) -> None:
        """A second of the run has passed."""

    def note(self, kind: str, text: str) -> None:
        """An event that the user should know."""

    def run_ended(self, run_id: str, status: str, reason: str) -> None:
        """The run has ended."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended. `status`: done, stopped, ceiling, agent-lost, service-gone, refused."""

    status: str
    reason: str
    t0_unix_ns: int | None
    agents: tuple[str, ...]
    finished: RunFinished | None


class Watchman(Protocol):
    """States whether the run should end early."""

    def stop_reason(self) -> str | None:
        """Why the user has requested the end; None without a request."""

    def ended_service(self) -> str | None:
        """The message for a service that has ended; None while all run."""


class Companion(Protocol):
    """Acts next to the run, in threads of its own."""

    def begin(self, t0_unix_ns: int) -> None:
        """The load begins; `t0_unix_ns` is the run's zero by this host's clock."""

    def deliver(self) -> None:
        """Is called several times a second in the thread of the run, to report what has happened."""


class Companions:
    """Several companions as one."""

    def __init__(self, *companions: Companion) -> None:
        self._companions = companions

    def begin(self, t0_unix_ns: int) -> None:
        """See `Companion`."""
        for companion in self._companions:
            companion.begin(t0_unix_ns)

    def deliver(self) -> None:
        """See `Companion`."""
        for companion in self._companions:
            companion.deliver()


def carry_out(
    engine: EngineSession,
    document: Mapping[str, Any],
    watchman: Watchman,
    listener: Listener,
    log: Callable[[float, str, str], None],
    agents: Sequence[Mapping[str, Any]] = (),
    rules: Mapping[str, Any] | None = None,
    companion: Companion | None = None,
) -> RunEnd:
    """Passes the document to the engine and follows the run to its end. Every event is passed to `log(t_s,
    kind, text)`. `companion`: acts next to the run.

    Raises EngineError when the engine has ended.
    """
    engine.start_run(dict(document), agents, rules)
    progress = _Progress()
    companion = companion or Companions()
    next_check = time.monotonic()
    while True:
        message = engine.next_message(POLL_S)
        now = time.monotonic()
        companion.deliver()
        if progress.asked_to_stop is None:
            reason = watchman.stop_reason()
            status = "stopped"
            if reason is None and now >= next_check:
                next_check = now + SERVICE_CHECK_S
                reason = watchman.ended_service()
                status = "service-gone"
            if reason is not None:
                progress.asked_to_stop = (status, reason)
                log(progress.seconds(), status, reason)
                engine.stop_run(reason)
        match message:
            case None:
                continue
            case RunStarted():
                progress.started = message
                progress.began = now
                companion.begin(message.t0_unix_ns)
            case RunSecond():
                listener.second(message)
            case RunNote():
                log(message.t_s, message.kind, message.text)
                listener.note(message.kind, message.text)
            case RunRefused():
                return RunEnd("refused", message.error, None, (), None)
            case RunFinished():
                end = progress.end(message)
                # The engine sees only that the process has ended; how it ended is known here.
                how = watchman.ended_service() if end.status == "service-gone" else None
                return replace(end, reason=how) if how else end


class _Progress:
    """The state of the run."""

    def __init__(self) -> None:
        self.started: RunStarted | None = None
        self.began: float | None = None
        self.asked_to_stop: tuple[str, str] | None = None

    def seconds(self) -> float:
        return 0.0 if self.began is None else time.monotonic() - self.began

    def end(self, finished: RunFinished) -> RunEnd:
        # The engine knows only that a stop was requested; the reason is known here.
        status, reason = finished.status, finished.reason
        if self.asked_to_stop is not None and status in ("stopped", "done"):
            status, reason = self.asked_to_stop
        t0 = self.started.t0_unix_ns if self.started else None
        agents = self.started.agents if self.started else ()
        return RunEnd(status, reason, t0, agents, finished)


class SilentListener:
    """Shows nothing; for requests that prepare a run."""

    def run_begins(
        self, run_id: str, position: int, total: int | None, cell: Mapping[str, str], seconds: float
    ) -> None:
        pass

    def second(self, second: RunSecond) -> None:
        pass

    def note(self, kind: str, text: str) -> None:
        pass

    def run_ended(self, run_id: str, status: str, reason: str) -> None:
        pass
