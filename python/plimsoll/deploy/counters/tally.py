"""What a series of readings adds up to, whatever happens to the server meanwhile. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from plimsoll.deploy.counters import Reading


@dataclass(slots=True)
class Gauge:
    """Last value, greatest value, and sum of all that were read."""

    last: float
    peak: float
    total: float
    times: int


@dataclass(slots=True)
class Tally:
    """Increases of counters and values of gauges.

    A counter that has fallen was begun anew: what it shows is what it has counted since. A series that appears later
    counts from its first value on; but with labels, beside others of its name, from zero: exporters make a series
    when the first of its kind happens.
    """

    increases: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, Gauge] = field(default_factory=dict)
    _before: dict[str, float] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def add(self, reading: Reading) -> bool:
        """The next reading; whether some counter was begun anew."""
        anew = False
        for name, value in reading.counters.items():
            before = self._before.get(name)
            if before is None:
                grown = value if "{" in name and name.partition("{")[0] in self._names else 0.0
            else:
                anew |= value < before
                grown = value - before if value >= before else value
            self.increases[name] = self.increases.get(name, 0.0) + grown
            self._before[name] = value
        self._names.update(name.partition("{")[0] for name in reading.counters)
        for name, value in reading.gauges.items():
            self._add_gauge(name, value)
        return anew

    def _add_gauge(self, name: str, value: float) -> None:
        known = self.gauges.get(name)
        if known is None:
            self.gauges[name] = Gauge(value, value, value, 1)
        else:
            known.last, known.peak = value, max(known.peak, value)
            known.total += value
            known.times += 1
