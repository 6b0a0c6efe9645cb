"""Reads watched systems during a run. Each has its own thread, which continues after every
failure."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.counters.gaps import Gap, Gaps
from plimsoll.deploy.counters.reading_thread import TIMEOUT_S, ReadingThread
from plimsoll.deploy.counters.recorder import FORMAT, as_line, plain
from plimsoll.deploy.counters.tally import Tally
from plimsoll.plan.model.cell import WatchedSystem
from plimsoll.plan.source.secret import Redactor


class Reader(Protocol):
    """A source of readings. `read` may raise any exception, and succeed at the next call. `unmatched`: names of the
    file that the last reading did not contain."""

    version: str
    unmatched: tuple[str, ...]

    def read(self) -> Reading:
        """Takes one reading."""

    def close(self) -> None:
        """Closes connections that are kept."""


@dataclass(frozen=True, slots=True)
class CounterReadings:
    """The readings of a run. `gauges`: last values. `means` and `peaks`: over the readings. `resets`: the times
    at which a reset of counters was found (unix seconds). If there was no reading, all fields except `gaps`
    are empty."""

    readings: int = 0
    version: str = ""
    counters: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)
    resets: tuple[float, ...] = ()
    gaps: tuple[Gap, ...] = ()


class WatchLog(ReadingThread):
    """Writes counters.jsonl like the recorder of a service, with a line `{"t", "lost"}` for each gap."""

    def __init__(self, watched: WatchedSystem, reader: Reader, path: Path, redactor: Redactor) -> None:
        super().__init__(f"watch-{watched.name}")
        self.watched = watched
        self._reader = reader
        self._redactor = redactor
        self._path = path
        self._tally = Tally()
        self._readings = 0
        self._gauges: set[str] | None = None
        self._resets: list[float] = []
        self._gaps = Gaps()

    def result(self) -> CounterReadings:
        """Waits for the last reading and returns the sums."""
        if not self._wait_for_end():
            self._gaps.note_failure(time.time(), f"no answer within {TIMEOUT_S:g} s")
        self._gaps.extend(time.time())
        gauges = sorted(self._tally.gauges.items())
        return CounterReadings(
            readings=self._readings,
            version=self._reader.version,
            counters={name: plain(value) for name, value in sorted(self._tally.increases.items())},
            gauges={name: plain(gauge.last) for name, gauge in gauges},
            means={name: plain(gauge.total / gauge.times) for name, gauge in gauges},
            peaks={name: plain(gauge.peak) for name, gauge in gauges},
            resets=tuple(self._resets),
            gaps=tuple(self._gaps.entries),
        )

    def _work(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("w", encoding="utf-8") as file:
                self._read_all(file)
        except Exception as error:
            # For example, the disk is full. Reading ends, and the run continues.
            self._gaps.note_failure(time.time(), self._message(error))
        finally:
            self._first_done.set()
            with contextlib.suppress(Exception):
                self._reader.close()

    def _read_all(self, file: Any) -> None:
        due = time.monotonic()
        while True:
            over = self._finish_requested.is_set()
            sent_at = time.time()
            try:
                reading = self._reader.read()
            except Exception as error:
                if self._gaps.note_failure(sent_at, why := self._message(error)):
                    self._head(file, ())
                    file.write(as_line({"t": round(sent_at, 3), "lost": why}))
            else:
                # The values belong to a time between request and answer; the middle is used.
                self._take(reading, (sent_at + time.time()) / 2, file)
            file.flush()
            self._first_done.set()
            if over:
                return
            due = self._pause(due, self.watched.every_ns / 1e9)

    def _take(self, reading: Reading, at: float, file: Any) -> None:
        self._gaps.note_success(at)
        self._head(file, reading.gauges)
        self._readings += 1
        if self._tally.add(reading):
            self._resets.append(at)
        values = {name: plain(value) for name, value in {**reading.counters, **reading.gauges}.items()}
        file.write(as_line({"t": round(at, 3), "values": values}))

    def _head(self, file: Any, gauges: Collection[str]) -> None:
        """Writes the line with the format; writes another one when new gauges appear."""
        if self._gauges is None or not self._gauges.issuperset(gauges):
            self._gauges = {*(self._gauges or ()), *gauges}
            head = {"format": FORMAT, "service": self.watched.name, "kind": self.watched.kind}
            file.write(as_line({**head, "gauges": sorted(self._gauges)}))

    def _message(self, error: Exception) -> str:
        # http.client quotes a header that it rejects, which may contain a password.
        return self._redactor.text(error_text(error))


def error_text(error: Exception) -> str:
    """The text of an error of the system, or of a ValueError; other errors with the name of their type.
    Characters that could control a terminal are replaced."""
    text = str(error.strerror if isinstance(error, OSError) and error.strerror else error).strip()
    named = isinstance(error, (OSError, ValueError)) and bool(text)
    message = (text if named else f"{type(error).__name__}: {text or 'no message'}")[:300]
    return "".join(sign if sign.isprintable() else "?" for sign in message)
