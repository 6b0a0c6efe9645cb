"""Reads the counters of the services of a run, from just before its load to just after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from plimsoll.deploy.counters import Source
from plimsoll.deploy.counters.recorder import CounterLog, ServiceCounts
from plimsoll.deploy.running import RunningService
from plimsoll.plan import Redactor
from plimsoll.plan.services.table import SERVICE_KINDS


class CounterLogs:
    """The recorders of one run. `directory`: that of the run. Each recorder writes
    services/NAME/counters.jsonl. `is_interrupted`: whether actions of the run may interrupt services, so that
    recorders continue after a failure."""

    def __init__(
        self, services: Sequence[RunningService], directory: Path, *, is_interrupted: bool = False
    ) -> None:
        self._logs = [
            CounterLog(
                service.spec.name,
                service.spec.kind,
                service.counters(),
                directory / "services" / service.spec.name / "counters.jsonl",
                renewal(service) if is_interrupted else None,
                SERVICE_KINDS[service.spec.kind].arrival_counter,
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


def renewal(service: RunningService) -> Callable[[], Source | None]:
    """A function that returns a new source of the counters of a service if its program was started again since the
    last call."""
    process, make = service.process, service.counters
    starts = process.starts if process is not None else 0

    def renewed() -> Source | None:
        nonlocal starts
        if process is None or make is None or process.starts == starts:
            return None
        starts = process.starts
        return make()

    return renewed


def as_record(counted: ServiceCounts | None, redactor: Redactor, zero_s: float) -> dict[str, Any]:
    """The entries of run.json for the counts of a service; empty if they are not known. `zero_s`: the run's zero
    (unix seconds)."""
    if counted is None or counted.failed:
        return {}
    statements = [
        {**statement, "statement": redactor.text(statement["statement"])}
        for statement in counted.details.get("statements", ())
    ]
    record: dict[str, Any] = {"counters": counted.counters, "gauges": counted.gauges}
    if counted.gaps:
        record["counter_gaps"] = [
            {"from_s": round(gap.start - zero_s, 3), "to_s": round(gap.end - zero_s, 3), "why": gap.why}
            for gap in counted.gaps
        ]
    if counted.resets:
        record["counters_reset_s"] = [round(at - zero_s, 3) for at in counted.resets]
    if counted.is_unsettled:
        record["counters_unsettled"] = True
    return {**record, "statements": statements} if statements else record
