"""The growth of the memory of services with the number of testers, as a table. Pure."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.answer.components.memory import full_at_words
from plimsoll.analyse.results.components.memory import GrowthVerdict, MemoryGrowth
from plimsoll.analyse.results.wording import (
    UNKNOWN,
    count,
    number,
    p_value,
    plus_minus,
    quantity,
    scale,
    with_unit,
)
from plimsoll.analyse.stats.interval import Interval
from plimsoll.plan.source.units import about_size
from plimsoll.report.labels import ONLY, Labels
from plimsoll.report.tables.table import Column, Table

NOTE: Final = (
    "Own memory: each shared page counted once. The slope is that of the least-squares line over the valid runs, with "
    "its 95 % interval. Full at: the number of testers at which this line reaches the size in the column before, with "
    "its 95 % interval. –: not extrapolated, because the growth is not shown to be in proportion, the size is not "
    "known, or the number is more than ten times the highest number of testers."
)


def growing(labels: Labels) -> list[MemoryGrowth]:
    """The services whose memory is shown to grow, in the order of the analysis."""
    return [growth for growth in labels.analysis.memory_growth if growth.verdict != GrowthVerdict.NONE]


def table(labels: Labels) -> Table | None:
    """A row for each service and combination whose memory grows; None if none does."""
    growths = growing(labels)
    if not growths:
        return None
    several = any(labels.combination(growth.combination) != ONLY for growth in growths)
    columns = [Column("Service"), *([Column("Combination")] if several else []), Column("Growth")]
    heads = ("Runs", "Testers", "Slope (per tester)", "Curvature (p)", "Full size", "Full at (testers)")
    columns += [Column(head, numeric=True) for head in heads]
    rows = tuple(
        (
            growth.component,
            *([labels.combination(growth.combination)] if several else []),
            growth.verdict,
            count(growth.runs),
            f"{count(growth.loads[0])} to {count(growth.loads[-1])}",
            slope_words(growth.slope),
            p_value(growth.curvature_p),
            _full_size(growth),
            full_at_words(growth) or UNKNOWN,
        )
        for growth in growths
    )
    return Table("Memory against the number of testers", tuple(columns), rows, NOTE)


def points(labels: Labels) -> Table:
    """A row for each run of the services whose memory grows: the numbers of the chart."""
    columns = (
        *map(Column, ("Service", "Combination", "Run")),
        Column("Testers", numeric=True),
        Column("Own memory", numeric=True),
    )
    rows = (
        (growth.component, labels.combination(growth.combination), point)
        for growth in growing(labels)
        for point in sorted(growth.points, key=lambda point: (point.testers, point.run))
    )
    cells = tuple(
        (service, combination, point.run, count(point.testers), quantity(point.memory, "bytes", digits=4))
        for service, combination, point in rows
    )
    return Table("Own memory of each run", columns, cells)


def slope_words(slope: Interval) -> str:
    """`93.9 ± 4.1 kB`. Both ends of a narrow interval would round to the mean."""
    if slope.low is None or slope.high is None or slope.high <= slope.low:
        factor, unit = scale(slope.mean, "bytes")
        return with_unit(number(slope.mean * factor), unit)
    return plus_minus(slope, "bytes", signed=True)


def _full_size(growth: MemoryGrowth) -> str:
    if growth.capacity is None:
        return UNKNOWN
    return f"{about_size(growth.capacity)} ({'limit' if growth.of == 'limit' else 'of its host'})"
