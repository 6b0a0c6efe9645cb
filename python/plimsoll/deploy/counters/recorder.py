"""Reads a server's counters once a second during a run. Each server has its own thread, which neither delays
nor ends the run."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from plimsoll.deploy.counters import Reading, Source
from plimsoll.deploy.counters.gaps import Gap, Gaps
from plimsoll.deploy.counters.reading_thread import TIMEOUT_S, ReadingThread

FORMAT: Final = "plimsoll.counters/1"
INTERVAL_S: Final = 1.0
REST_S: Final = 0.05
"""A server is at rest if its counter of arrivals does not change within this time."""
MAX_REST_S: Final = 5.0
"""The maximum time that the first and the last reading wait for rest."""


@dataclass(frozen=True, slots=True)
class ServiceCounts:
    """The counts of a server over a run. `counters`: differences between the readings before and after it.
    `gauges`: last values. `details`: what was read once after the run. `failed`: the reason if a reading failed,
    and `failed_at` its time (unix seconds). `gaps`: times without readings; `resets`: the times (unix seconds) at
    which the server was found to count from zero again. The differences contain what it counted since then.
    `is_unsettled`: requests still arrived at the first or the last reading."""

    counters: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    failed: str = ""
    failed_at: float = 0.0
    gaps: tuple[Gap, ...] = ()
    resets: tuple[float, ...] = ()
    is_unsettled: bool = False


class CounterLog(ReadingThread):
    """Writes counters.jsonl: a line with the format, then a line for each reading. After a failure it ends, unless
    `renewed` is given: then it tries again, once a second. `renewed` returns a new source if the server was started
    again since the last call, which then counts from zero; otherwise None.

    `arrivals`: the counter of the requests that have arrived, if there is one. The first and the last reading wait
    until it rests: connections that a busy server has not accepted yet, whose clients have gone, would be counted in
    the next run."""

    def __init__(
        self,
        name: str,
        kind: str,
        source: Source,
        path: Path,
        renewed: Callable[[], Source | None] | None = None,
        arrivals: str | None = None,
    ) -> None:
        super().__init__(f"counters-{name}")
        self._arrivals = arrivals
        self._is_unsettled = False
        self.name = name
        self._kind = kind
        self._source = source
        self._path = path
        self._renewed = renewed
        self._before: Mapping[str, float] = {}
        """The counters at the first reading of the server; empty after a restart."""
        self._counted: dict[str, float] = {}
        """What was counted before the last restart."""
        self._gaps = Gaps()
        self._resets: list[float] = []
        self._last: Reading | None = None
        self._gauges: set[str] | None = None
        self._details: dict[str, Any] = {}
        self._failed: tuple[str, float] | None = None

    def result(self) -> ServiceCounts:
        """The differences between the first reading and the last."""
        if not self._wait_for_end() and self._failed is None:
            self._failed = (f"no answer within {TIMEOUT_S:g} s", time.time())
        if self._failed is not None or self._last is None:
            text, at = self._failed or ("no reading was taken", time.time())
            return ServiceCounts(failed=text, failed_at=at)
        self._gaps.extend(time.time())
        self._count()
        differences = {key: plain(value) for key, value in self._counted.items()}
        gauges = {**self._last.gauges, **self._details.pop("gauges", {})}
        return ServiceCounts(
            differences,
            {key: plain(value) for key, value in gauges.items()},
            self._details,
            gaps=tuple(self._gaps.entries),
            resets=tuple(self._resets),
            is_unsettled=self._is_unsettled,
        )

    def _work(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("w", encoding="utf-8") as file:
                self._source.open()
                self._read_all(file)
        except Exception as error:
            # For example, the server died or a disk is full. The error is recorded, and the run continues.
            self._failed = (_message(error), time.time())
        finally:
            self._first_done.set()
            with contextlib.suppress(Exception):
                self._source.close()

    def _read_all(self, file: Any) -> None:
        due = time.monotonic()
        while True:
            over = self._finish_requested.is_set()
            reading, at = self._read()
            if reading is not None and (over or self._last is None):
                reading, at = self._at_rest(reading, at)
            if reading is not None:
                self._add(reading, at, file)
            self._first_done.set()
            if over:
                if reading is not None:
                    self._details = dict(self._source.last())
                return
            due = self._pause(due, INTERVAL_S)

    def _read(self) -> tuple[Reading | None, float]:
        """The next reading, None if it failed and the recorder continues; and its time (unix seconds)."""
        sent_at = time.time()
        try:
            if self._gaps.is_open:
                self._open_again()
                sent_at = time.time()
            reading = self._source.read()
            # The values belong to a time between request and answer; the middle is used.
            return reading, (sent_at + time.time()) / 2
        except Exception as error:
            if self._renewed is None or self._last is None:
                raise
            self._gaps.note_failure(time.time(), _message(error))
            with contextlib.suppress(Exception):
                self._source.close()
            return None, sent_at

    def _at_rest(self, reading: Reading, at: float) -> tuple[Reading, float]:
        """The reading, or a later one after which no more requests arrive."""
        name, deadline = self._arrivals, time.monotonic() + MAX_REST_S
        while name is not None and name in reading.counters:
            time.sleep(REST_S)
            later, later_at = self._read()
            if later is None or later.counters.get(name) == reading.counters[name]:
                break
            reading, at = later, later_at
            if time.monotonic() > deadline:
                self._is_unsettled = True
                break
        return reading, at

    def _open_again(self) -> None:
        source = self._renewed() if self._renewed is not None else None
        if source is not None:
            self._count()
            self._source, self._before, self._last = source, {}, Reading({})
            self._resets.append(time.time())
        self._source.open()

    def _count(self) -> None:
        """Adds what the server has counted since its start, or since the first reading."""
        counters = self._last.counters if self._last is not None else {}
        for key, value in counters.items():
            self._counted[key] = self._counted.get(key, 0.0) + value - self._before.get(key, 0.0)

    def _add(self, reading: Reading, at: float, file: Any) -> None:
        self._gaps.note_success(at)
        if self._last is None:
            self._before = reading.counters
        self._head(file, reading.gauges)
        self._last = reading
        values = {key: plain(value) for key, value in {**reading.counters, **reading.gauges}.items()}
        file.write(as_line({"t": round(at, 3), "values": values}))
        file.flush()

    def _head(self, file: Any, gauges: Collection[str]) -> None:
        """Writes the line with the format; writes another one when new gauges appear."""
        if self._gauges is None or not self._gauges.issuperset(gauges):
            self._gauges = {*(self._gauges or ()), *gauges}
            head = {"format": FORMAT, "service": self.name, "kind": self._kind}
            file.write(as_line({**head, "gauges": sorted(self._gauges)}))


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip() or 'no message'}"[:500]


def as_line(document: Mapping[str, Any]) -> str:
    """A document as a line of JSON."""
    return json.dumps(document, separators=(",", ":")) + "\n"


def plain(value: float) -> float:
    """The value as an integer if it is one; otherwise rounded to six decimal places."""
    return int(value) if float(value).is_integer() else round(value, 6)
