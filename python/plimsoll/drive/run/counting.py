"""Reads the counters of the services of a run, from just before its load to just after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plimsoll.deploy.counters.recorder import CounterLog, ServiceCounts
from plimsoll.deploy.running import RunningService
from plimsoll.plan import Redactor


class CounterLogs:
    """The recorders of one run. `directory`: that of the run. Each recorder writes
    services/NAME/counters.jsonl."""

    def __init__(self, services: Sequence[RunningService], directory: Path) -> None:
        self._logs = [
            CounterLog(
                service.spec.name,
                service.spec.kind,
                service.counters(),
                directory / "services" / service.spec.name / "counters.jsonl",
            )
            for service in services
            if service.counters is not None
        ]

    def start(self) -> None:
        """Starts the recorders. Returns when each has read once, or has failed."""
        for log in self._logs:
            log.start()
        for log in self._logs:
            log.wait_for_first()

    def stop(self) -> dict[str, ServiceCounts]:
        """Takes the last readings; returns the counts by the name of the service."""
        for log in self._logs:
            log.finish()
        return {log.name: log.result() for log in self._logs}


def as_record(counted: ServiceCounts | None, redactor: Redactor) -> dict[str, Any]:
    """The entries of run.json for the counts of a service; empty if they are not known."""
    if counted is None or counted.failed:
        return {}
    statements = [
        {**statement, "statement": redactor.text(statement["statement"])}
        for statement in counted.details.get("statements", ())
    ]
    record: dict[str, Any] = {"counters": counted.counters, "gauges": counted.gauges}
    return {**record, "statements": statements} if statements else record
