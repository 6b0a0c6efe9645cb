"""What the runs of an experiment share: services, hosts, the engine, the results directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from plimsoll.deploy.services import RunningServices
from plimsoll.drive.carry_out import Listener
from plimsoll.drive.directory import ResultsDirectory
from plimsoll.drive.engine import EngineSession
from plimsoll.drive.stop import StopRequest
from plimsoll.drive.tester_hosts import TesterHosts
from plimsoll.plan import Plan
from plimsoll.plan.source.secret import Redactor

WORK = ".work"
"""Working directory below the results while runs are carried out: databases may need the space of this file system."""


class Engine:
    """The engine of an experiment. It is started when a session is required, and again after `drop`."""

    def __init__(self, binary: Path, stop: StopRequest) -> None:
        self.binary = binary
        self._stop = stop
        self._session: EngineSession | None = None

    def session(self) -> EngineSession:
        """The session of the running engine. Raises EngineError if the engine cannot be started."""
        if self._session is None:
            self._session = EngineSession(self.binary, self._stop.check)
            self._stop.watch(self._session)
        return self._session

    def drop(self) -> None:
        """Ends the engine, if it runs."""
        if self._session is not None:
            self._session.close()
            self._session = None
        self._stop.watch(None)


@dataclass
class Resources:
    """`served_cell`: index of the cell for which the services were last prepared; None before the first run."""

    plan: Plan
    directory: ResultsDirectory
    listener: Listener
    redactor: Redactor
    stop: StopRequest
    engine: Engine
    services: RunningServices
    hosts: TesterHosts
    served_cell: int | None = None

    def stop_conditions(self) -> StopConditions:
        """Ends what is in progress if a stop is requested or a service ends."""
        return StopConditions(self.stop, self.services.ended_service_message)


@dataclass(frozen=True, slots=True)
class StopConditions:
    """The conditions that end a run early. `ended_service_message`: the message for a service that has ended
    by itself, or None."""

    stop: StopRequest
    ended_service_message: Callable[[], str | None]

    def stop_reason(self) -> str | None:
        """Why a stop was requested; None if it was not."""
        return self.stop.reason

    def ended_service(self) -> str | None:
        """Which service has ended by itself; None while all run."""
        return self.ended_service_message()
