"""Reads watched systems, from just before the load of a run to just after it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from plimsoll.deploy.counters.cgroup import GroupReader
from plimsoll.deploy.counters.databases.watched import DatabaseReader
from plimsoll.deploy.counters.gaps import Gap
from plimsoll.deploy.counters.prometheus import PrometheusReader
from plimsoll.deploy.counters.watch import CounterReadings, Reader, WatchLog, error_text
from plimsoll.deploy.testbed.link_counters import LinksReader
from plimsoll.errors import ServiceError
from plimsoll.plan import Redactor
from plimsoll.plan.model.cell import (
    WatchedDatabase,
    WatchedExporter,
    WatchedGroup,
    WatchedLinks,
    WatchedSystem,
)


def reader_of(system: WatchedSystem) -> Reader:
    """The reader of a watched system."""
    match system:
        case WatchedExporter():
            return PrometheusReader(system)
        case WatchedDatabase():
            return DatabaseReader(system)
        case WatchedGroup():
            return GroupReader(system)
        case WatchedLinks():
            return LinksReader(system)


def check_watched(watched: Iterable[WatchedSystem], redactor: Redactor) -> list[str]:
    """Reads each system once, before anything is started. Returns remarks on missing metrics and on
    optional systems that cannot be read. Raises ServiceError with the other systems that cannot be
    read."""
    wrong: list[str] = []
    remarks: list[str] = []
    for system in watched:
        reader = reader_of(system)
        try:
            reader.read()
        except Exception as error:
            message = redactor.text(f"{system.name} ({system.shown}): {error_text(error)}")
            (remarks if system.optional else wrong).append(message)
            continue
        finally:
            reader.close()
        remarks += [
            redactor.text(f"{system.name} ({system.shown}) has no metric {name}") for name in reader.unmatched
        ]
    if wrong:
        raise ServiceError(
            f"systems under `watch` cannot be read: {'; '.join(wrong)} (with `optional: true` the "
            f"experiment continues without them)"
        )
    return remarks


class WatchLogs:
    """The readers of one run. `directory`: that of the run. Each reader writes
    services/NAME/counters.jsonl."""

    def __init__(self, watched: Sequence[WatchedSystem], directory: Path, redactor: Redactor) -> None:
        services = directory / "services"
        self._logs = [
            WatchLog(system, reader_of(system), services / system.name / "counters.jsonl", redactor)
            for system in watched
        ]

    def start(self) -> None:
        """Starts the readers. Returns when each has read once, or has failed."""
        for log in self._logs:
            log.start()
        for log in self._logs:
            log.wait_for_first()

    def finish(self) -> None:
        """Requests the last readings."""
        for log in self._logs:
            log.finish()

    def result(self) -> list[tuple[WatchedSystem, CounterReadings]]:
        """The readings, in the order of the file."""
        return [(log.watched, log.result()) for log in self._logs]


def watched_records(
    watched: Sequence[tuple[WatchedSystem, CounterReadings]], zero_s: float, redactor: Redactor
) -> list[dict[str, Any]]:
    """The entries of run.json for watched systems. Times are in seconds from the run's zero `zero_s` (unix
    seconds)."""
    systems = [system for system, _ in watched]
    return [
        {
            "name": system.name,
            "kind": system.kind,
            "url": redactor.text(system.shown),
            "host": host_of(system, systems),
            "every_s": system.every_ns / 1e9,
            "version": redactor.text(readings.version),
            "readings": readings.readings,
            "anew_s": [round(at - zero_s, 3) for at in readings.resets],
            "gaps": [_gap(gap, zero_s) for gap in readings.gaps],
            **(_counts(readings) if readings.readings else {}),
        }
        for system, readings in watched
    ]


def _counts(readings: CounterReadings) -> dict[str, Any]:
    return {
        "counters": readings.counters,
        "gauges": readings.gauges,
        "means": readings.means,
        "peaks": readings.peaks,
    }


def _gap(gap: Gap, zero_s: float) -> dict[str, Any]:
    return {
        "from_s": round(gap.start - zero_s, 3),
        "to_s": round(gap.end - zero_s, 3),
        "why": gap.why,
    }


def host_of(system: WatchedSystem, watched: Sequence[WatchedSystem]) -> str:
    """The host of a watched system: the name of the node exporter with the same host in its URL, otherwise
    its own name. Empty for the host of the lab."""
    if _is_here(system.host):
        return ""
    same = (other.name for other in watched if other.kind == "node" and other.host == system.host)
    return next(same, system.name)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in ("localhost", socket.gethostname().lower())
