"""Exporters of systems that exist, read from just before the load of a run to just after it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from plimsoll.deploy.counters.prometheus import PrometheusReader
from plimsoll.deploy.counters.watch import CounterReadings, Gap, WatchLog, words_of
from plimsoll.errors import ServiceError
from plimsoll.plan import Redactor
from plimsoll.plan.model import Watched


def look_at(watched: Iterable[Watched], redactor: Redactor) -> list[str]:
    """Reads each once, before anything is started; remarks on what is missing. Raises ServiceError naming those that
    cannot be read, but for optional ones."""
    wrong: list[str] = []
    remarks: list[str] = []
    for one in watched:
        reader = PrometheusReader(one)
        try:
            reader.read()
        except Exception as error:
            told = redactor.text(f"{one.name} ({one.shown}): {words_of(error)}")
            (remarks if one.optional else wrong).append(told)
            continue
        remarks += [
            redactor.text(f"{one.name} ({one.shown}) has no metric {name}") for name in reader.unmatched
        ]
    if wrong:
        raise ServiceError(
            f"exporters under `watch` cannot be read: {'; '.join(wrong)} (with `optional: true` the "
            f"experiment continues without them)"
        )
    return remarks


class Watching:
    """The readers of one run. `directory`: of the run; each writes services/NAME/counters.jsonl."""

    def __init__(self, watched: Sequence[Watched], directory: Path, redactor: Redactor) -> None:
        place = directory / "services"
        self._logs = [
            WatchLog(one, PrometheusReader(one), place / one.name / "counters.jsonl", redactor)
            for one in watched
        ]

    def start(self) -> None:
        """Returns when each has read once, or has failed."""
        for log in self._logs:
            log.start()
        for log in self._logs:
            log.wait_for_first()

    def finish(self) -> None:
        """Asks for the last readings."""
        for log in self._logs:
            log.finish()

    def result(self) -> list[tuple[Watched, CounterReadings]]:
        """What was read, in the order of the file."""
        return [(log.watched, log.result()) for log in self._logs]


def watched_records(
    found: Sequence[tuple[Watched, CounterReadings]], zero_s: float, redactor: Redactor
) -> list[dict[str, Any]]:
    """What run.json says of what was watched; times in seconds from the run's zero (unix seconds)."""
    all_of = [one for one, _ in found]
    return [
        {
            "name": one.name,
            "kind": one.kind,
            "url": redactor.text(one.shown),
            "host": place_of(one, all_of),
            "every_s": one.every_ns / 1e9,
            "version": redactor.text(seen.version),
            "readings": seen.readings,
            "anew_s": [round(at - zero_s, 3) for at in seen.anew],
            "gaps": [_gap(gap, zero_s) for gap in seen.gaps],
            **(_counted(seen) if seen.readings else {}),
        }
        for one, seen in found
    ]


def _counted(seen: CounterReadings) -> dict[str, Any]:
    return {"counters": seen.counters, "gauges": seen.gauges, "means": seen.means, "peaks": seen.peaks}


def _gap(gap: Gap, zero_s: float) -> dict[str, Any]:
    return {
        "from_s": round(gap.start - zero_s, 3),
        "to_s": round(gap.end - zero_s, 3),
        "why": gap.why,
    }


def place_of(one: Watched, watched: Sequence[Watched]) -> str:
    """The host that it is, or is on: the name of the node exporter with the same host in its URL, else its own; empty
    for the host of the lab."""
    if _is_here(one.host):
        return ""
    same = (other.name for other in watched if other.kind == "node" and other.host == one.host)
    return next(same, one.name)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in ("localhost", socket.gethostname().lower())
