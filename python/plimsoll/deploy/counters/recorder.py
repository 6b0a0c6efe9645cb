"""Reads a server's counters once a second during a run. Each server has its own thread, which neither delays
nor ends the run."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from plimsoll.deploy.counters import Reading, Source
from plimsoll.deploy.counters.reading_thread import TIMEOUT_S, ReadingThread

FORMAT: Final = "plimsoll.counters/1"
INTERVAL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ServiceCounts:
    """The counts of a server over a run. `counters`: differences between the readings before and after it.
    `gauges`: last values. `details`: what was read once after the run. `failed`: the reason if a reading failed,
    and `failed_at` its time (unix seconds)."""

    counters: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    failed: str = ""
    failed_at: float = 0.0


class CounterLog(ReadingThread):
    """Writes counters.jsonl: a line with the format, then a line for each reading."""

    def __init__(self, name: str, kind: str, source: Source, path: Path) -> None:
        super().__init__(f"counters-{name}")
        self.name = name
        self._kind = kind
        self._source = source
        self._path = path
        self._first: Reading | None = None
        self._last: Reading | None = None
        self._details: dict[str, Any] = {}
        self._failed: tuple[str, float] | None = None

    def result(self) -> ServiceCounts:
        """The differences between the first reading and the last."""
        if not self._wait_for_end() and self._failed is None:
            self._failed = (f"no answer within {TIMEOUT_S:g} s", time.time())
        if self._failed is not None or self._first is None or self._last is None:
            text, at = self._failed or ("no reading was taken", time.time())
            return ServiceCounts(failed=text, failed_at=at)
        before = self._first.counters
        differences = {key: plain(value - before.get(key, 0.0)) for key, value in self._last.counters.items()}
        gauges = {**self._last.gauges, **self._details.pop("gauges", {})}
        return ServiceCounts(differences, {key: plain(value) for key, value in gauges.items()}, self._details)

    def _work(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("w", encoding="utf-8") as file:
                self._source.open()
                self._read_all(file)
        except Exception as error:
            # For example, the server died or a disk is full. The error is recorded, and the run continues.
            self._failed = (
                f"{type(error).__name__}: {str(error).strip() or 'no message'}"[:500],
                time.time(),
            )
        finally:
            self._first_done.set()
            with contextlib.suppress(Exception):
                self._source.close()

    def _read_all(self, file: Any) -> None:
        head = {"format": FORMAT, "service": self.name, "kind": self._kind}
        due = time.monotonic()
        while True:
            over = self._finish_requested.is_set()
            reading = self._source.read()
            if self._first is None:
                self._first = reading
                file.write(as_line({**head, "gauges": sorted(reading.gauges)}))
            self._last = reading
            values = {key: plain(value) for key, value in {**reading.counters, **reading.gauges}.items()}
            file.write(as_line({"t": round(time.time(), 3), "values": values}))
            file.flush()
            self._first_done.set()
            if over:
                self._details = dict(self._source.last())
                return
            due = self._pause(due, INTERVAL_S)


def as_line(document: Mapping[str, Any]) -> str:
    """A document as a line of JSON."""
    return json.dumps(document, separators=(",", ":")) + "\n"


def plain(value: float) -> float:
    """The value as an integer if it is one; otherwise rounded to six decimal places."""
    return int(value) if float(value).is_integer() else round(value, 6)
