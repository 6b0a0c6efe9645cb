"""Reads exporters of systems that exist while a run goes on: a thread for each, which outlives every failure of it."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.counters.reading_thread import TIMEOUT_S, ReadingThread
from plimsoll.deploy.counters.recorder import FORMAT, as_line, plain
from plimsoll.deploy.counters.tally import Tally
from plimsoll.plan.model import Watched
from plimsoll.plan.source.secret import Redactor

MAX_GAPS: Final = 100
"""So many are told of a run; an exporter that comes and goes more often is told of by the last of them."""


class Reader(Protocol):
    """Something that is read again and again. A reading may raise any exception, and the next one be right again."""

    version: str

    def read(self) -> Reading:
        """One look."""


@dataclass(slots=True)
class Gap:
    """From the first reading that failed to the next that did not; unix seconds."""

    start: float
    end: float
    why: str


@dataclass(frozen=True, slots=True)
class CounterReadings:
    """What was read over a run. `gauges`: last values, `means` and `peaks` over the readings; `anew`: when counters
    were found to have begun anew (unix seconds). Without a single reading all but `gaps` is empty."""

    readings: int = 0
    version: str = ""
    counters: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)
    anew: tuple[float, ...] = ()
    gaps: tuple[Gap, ...] = ()


class WatchLog(ReadingThread):
    """Writes counters.jsonl as a service's recorder does, with a line `{"t", "lost"}` for each gap."""

    def __init__(self, watched: Watched, reader: Reader, path: Path, redactor: Redactor) -> None:
        super().__init__(f"watch-{watched.name}")
        self.watched = watched
        self._reader = reader
        self._redactor = redactor
        self._path = path
        self._tally = Tally()
        self._readings = 0
        self._gauges: set[str] | None = None
        self._anew: list[float] = []
        self._gaps: list[Gap] = []
        self._lost = False

    def result(self) -> CounterReadings:
        """What was read."""
        if not self._ended():
            self._fails(time.time(), f"no answer within {TIMEOUT_S:g} s")
        if self._lost:
            self._gaps[-1].end = time.time()
        gauges = sorted(self._tally.gauges.items())
        return CounterReadings(
            readings=self._readings,
            version=self._reader.version,
            counters={name: plain(value) for name, value in sorted(self._tally.increases.items())},
            gauges={name: plain(one.last) for name, one in gauges},
            means={name: plain(one.total / one.times) for name, one in gauges},
            peaks={name: plain(one.peak) for name, one in gauges},
            anew=tuple(self._anew),
            gaps=tuple(self._gaps),
        )

    def _work(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("w", encoding="utf-8") as file:
                self._read_all(file)
        except Exception as error:
            # A disk that is full: nothing more is read, and the run goes on.
            self._fails(time.time(), self._said(error))
        finally:
            self._begun.set()

    def _read_all(self, file: Any) -> None:
        due = time.monotonic()
        while True:
            over = self._over.is_set()
            asked = time.time()
            try:
                reading = self._reader.read()
            except Exception as error:
                if self._fails(asked, why := self._said(error)):
                    self._head(file, ())
                    file.write(as_line({"t": round(asked, 3), "lost": why}))
            else:
                # What it tells is of some moment between question and answer.
                self._take(reading, (asked + time.time()) / 2, file)
            file.flush()
            self._begun.set()
            if over:
                return
            due = self._pause(due, self.watched.every_ns / 1e9)

    def _take(self, reading: Reading, at: float, file: Any) -> None:
        if self._lost:
            self._gaps[-1].end, self._lost = at, False
        self._head(file, reading.gauges)
        self._readings += 1
        if self._tally.add(reading):
            self._anew.append(at)
        values = {name: plain(value) for name, value in {**reading.counters, **reading.gauges}.items()}
        file.write(as_line({"t": round(at, 3), "values": values}))

    def _head(self, file: Any, gauges: Collection[str]) -> None:
        """The line with the format, and another where gauges appear that were not there before."""
        if self._gauges is None or not self._gauges.issuperset(gauges):
            self._gauges = {*(self._gauges or ()), *gauges}
            head = {"format": FORMAT, "service": self.watched.name, "kind": self.watched.kind}
            file.write(as_line({**head, "gauges": sorted(self._gauges)}))

    def _said(self, error: Exception) -> str:
        # http.client quotes a header that it does not take, and that may be a password.
        return self._redactor.text(words_of(error))

    def _fails(self, at: float, why: str) -> bool:
        """Whether this begins a gap."""
        if self._lost:
            self._gaps[-1].end = at
            return False
        if len(self._gaps) == MAX_GAPS:
            self._gaps.pop()
        self._gaps.append(Gap(at, at, why))
        self._lost = True
        return True


def words_of(error: Exception) -> str:
    """A system's error by its own words, any other with its name; nothing of a page may steer a terminal."""
    text = str(error.strerror if isinstance(error, OSError) and error.strerror else error).strip()
    named = isinstance(error, (OSError, ValueError)) and bool(text)
    told = (text if named else f"{type(error).__name__}: {text or 'no message'}")[:300]
    return "".join(sign if sign.isprintable() else "?" for sign in told)
