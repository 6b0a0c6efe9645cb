"""Sums a series of readings, also of a server that restarts in between. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.counters.databases.sessions import ACTIVE, is_wait


@dataclass(slots=True)
class Gauge:
    """Last value, greatest value, sum and number of the values that were read. A wait of sessions that a reading does
    not contain is 0."""

    last: float
    peak: float
    total: float
    times: int


@dataclass(slots=True)
class Tally:
    """Increases of counters and values of gauges.

    A counter that has decreased was reset; its value is the increase since then. A series that appears later
    counts from its first value on. If it has labels and other series have its name, it counts from zero,
    since exporters create a series when the first event of its kind occurs.
    """

    increases: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, Gauge] = field(default_factory=dict)
    _before: dict[str, float] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def add(self, reading: Reading) -> bool:
        """Adds the next reading. Returns whether a counter was reset."""
        was_reset = False
        for name, value in reading.counters.items():
            before = self._before.get(name)
            if before is None:
                grown = value if "{" in name and name.partition("{")[0] in self._names else 0.0
            else:
                was_reset |= value < before
                grown = value - before if value >= before else value
            self.increases[name] = self.increases.get(name, 0.0) + grown
            self._before[name] = value
        self._names.update(name.partition("{")[0] for name in reading.counters)
        samples = self.gauges[ACTIVE].times if ACTIVE in self.gauges else 0
        absent: dict[str, float] = {}
        if ACTIVE in reading.gauges:
            absent = {name: 0.0 for name in self.gauges if is_wait(name) and name not in reading.gauges}
        for name, value in {**reading.gauges, **absent}.items():
            self._add_gauge(name, value, samples if is_wait(name) else 0)
        return was_reset

    def _add_gauge(self, name: str, value: float, zeros: int) -> None:
        """`zeros`: the number of earlier readings in which a new gauge was 0."""
        known = self.gauges.get(name)
        if known is None:
            self.gauges[name] = Gauge(value, value, value, zeros + 1)
        else:
            known.last, known.peak = value, max(known.peak, value)
            known.total += value
            known.times += 1
