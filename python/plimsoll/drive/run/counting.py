"""What the services of a run count of themselves, from just before its load to just after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plimsoll.deploy.counters.recorder import Counted, CounterLog
from plimsoll.deploy.running import RunningService
from plimsoll.plan import Redactor


class Counting:
    """The recorders of one run. `directory`: of the run; each writes services/NAME/counters.jsonl."""

    def __init__(self, services: Sequence[RunningService], directory: Path) -> None:
        self._logs = [
            CounterLog(
                one.wanted.name,
                one.wanted.kind,
                one.counters(),
                directory / "services" / one.wanted.name / "counters.jsonl",
            )
            for one in services
            if one.counters is not None
        ]

    def start(self) -> None:
        """Returns when each has read once, or has failed."""
        for log in self._logs:
            log.start()
        for log in self._logs:
            log.wait_for_first()

    def stop(self) -> dict[str, Counted]:
        """Reads a last time. By the name of the service."""
        for log in self._logs:
            log.finish()
        return {log.name: log.result() for log in self._logs}


def as_record(counted: Counted | None, redactor: Redactor) -> dict[str, Any]:
    """What run.json says of what a service counted; nothing where that is not known."""
    if counted is None or counted.failed:
        return {}
    statements = [
        {**one, "statement": redactor.text(one["statement"])} for one in counted.told.get("statements", ())
    ]
    found: dict[str, Any] = {"counters": counted.counters, "gauges": counted.gauges}
    return {**found, "statements": statements} if statements else found
