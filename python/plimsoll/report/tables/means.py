"""Tables of the charts over the runs: the means of cells, or of several cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll.analyse.results.charts import Chart, ChartPoint
from plimsoll.analyse.results.wording import Metric, describe, factor_word, plus_minus
from plimsoll.report.tables.table import Column, Table


def words(levels: Mapping[str, str]) -> str:
    """Some levels, each with its factor: `zip 0, size 1 kB`; a name that a level contains is not repeated."""
    named = [(factor_word(name), level) for name, level in levels.items()]
    return ", ".join(level if name in level.split() else f"{name} {level}" for name, level in named)


def shown(point: ChartPoint, metric: Metric) -> str:
    """The mean with its interval. A rate or a time cannot be negative, but a difference of the axis may be."""
    return plus_minus(point.y, metric.kind, metric.unit)


def points(title: str, charts: Sequence[Chart]) -> Table:
    """A row for each point of some charts: its levels, the metric on the x axis, and the metrics of the y axes."""
    first = charts[0]
    on_x = describe(first.x) if first.x_is == "metric" else None
    metrics = list(dict.fromkeys(name for chart in charts for name in chart.y))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for chart in charts:
        for line in chart.lines:
            metric = describe(line.metric)
            for point in line.points:
                x = "" if on_x is None else plus_minus(point.x_interval, on_x.kind, on_x.unit)
                rows.setdefault((words(point.levels), x), {})[line.metric] = shown(point, metric)
    columns = [Column("Levels"), *([Column(_head(on_x.name), numeric=True)] if on_x is not None else [])]
    columns += [Column(_head(name), numeric=True) for name in metrics]
    cells = [
        (levels, *((x,) if on_x is not None else ()), *(values.get(name, "–") for name in metrics))
        for (levels, x), values in rows.items()
    ]
    return Table(title, tuple(columns), tuple(cells))


def _head(name: str) -> str:
    title = describe(name).title
    return title[:1].upper() + title[1:]
