"""The counters of a Slurm controller, from `sdiag`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from plimsoll.deploy.counters import Reading

COUNTERS: Final = {
    "jobs_submitted": "Jobs submitted",
    "jobs_started": "Jobs started",
    "jobs_completed": "Jobs completed",
    "jobs_canceled": "Jobs canceled",
    "jobs_failed": "Jobs failed",
    "schedule_cycles": "Total cycles",
}
"""Counters with their labels. The first line with a label counts: the backfill scheduler has cycles of its own."""
GAUGES: Final = {
    "server_threads": "Server thread count",
    "agent_queue": "Agent queue size",
    "jobs_pending": "Jobs pending",
    "jobs_running": "Jobs running",
}
OWN: Final = "REQUEST_STATS_INFO"
"""The requests of this reader."""
_VALUE: Final = re.compile(r"^\s*([A-Z][A-Za-z ]*?):\s+(\d+)\s*$", re.MULTILINE)
_REQUEST: Final = re.compile(
    r"^\s+([A-Z][A-Z0-9_]+)\s+\(\s*\d+\)\s+count:(\d+)\s+.*total_time:(\d+)", re.MULTILINE
)


class SlurmCounters:
    """The counters of one controller. `report`: starts `sdiag` and returns its output; empty if it fails."""

    def __init__(self, report: Callable[[], str]) -> None:
        self._report = report

    def open(self) -> None:
        """Each reading has its own connection."""

    def read(self) -> Reading:
        """Sends one request."""
        return reading(self._report())

    def last(self) -> Mapping[str, Any]:
        """Returns nothing."""
        return {}

    def close(self) -> None:
        """Each reading has its own connection."""


def reading(report: str) -> Reading:
    """Parses the output of `sdiag`. Raises ValueError if it is something else."""
    values: dict[str, float] = {}
    for label, value in _VALUE.findall(report):
        values.setdefault(label, float(value))
    missing = [label for label in [*COUNTERS.values(), *GAUGES.values()] if label not in values]
    if missing:
        raise ValueError(f"sdiag reports no {', '.join(missing)}: {report[:100]!r}")
    requests = [(int(count), int(time)) for name, count, time in _REQUEST.findall(report) if name != OWN]
    return Reading(
        {
            **{name: values[label] for name, label in COUNTERS.items()},
            "requests": float(sum(count for count, _ in requests)),
            "request_us": float(sum(time for _, time in requests)),
        },
        {name: values[label] for name, label in GAUGES.items()},
    )
