"""Charts of means over a factor or a metric: those of the experiment file, main effects and interactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

import altair as alt

from plimsoll.analyse.answer.load.regressions import step_for
from plimsoll.analyse.results.charts import Chart as Means
from plimsoll.analyse.results.charts import ChartLine, ChartPoint
from plimsoll.analyse.results.wording import capitalized, describe, factor_word, listing, quantity
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.load import WIDE_NOTE, axis_scale, narrowed
from plimsoll.report.charts.theme import (
    HEIGHT,
    WIDTH,
    Chart,
    Rows,
    axis_format,
    chart_of,
    finish,
    load_axis,
    log_axis,
)
from plimsoll.report.labels import COLOURS, ONLY, SHAPES, Labels
from plimsoll.report.tables import means as tables

ACROSS: Final = 3
"""Panels of main effects and of interactions that are side by side."""
MAX_PAIRS: Final = 6
"""Interactions that are drawn of a response: those with the greatest shares of the variation."""
MAX_GROUPS: Final = len(COLOURS) * 3
"""Further combinations are not drawn; the table contains them."""
MAX_TICKS: Final = 12
MAX_WIDTH: Final = 24
"""Characters of the labels of a small panel; longer ones are turned."""
WIDE_RATIO: Final = 30
"""Greatest / smallest mean from which the y axis is logarithmic."""


def own_figures(labels: Labels) -> list[Figure]:
    """The charts of the experiment file."""
    charts = [chart for chart in labels.analysis.charts if chart.kind == "file"]
    return [_own_figure(labels, chart, at) for at, chart in enumerate(charts, start=1)]


def effect_figures(labels: Labels, response: str, position: int) -> list[Figure]:
    """The main effects on a response, and its interactions. `position`: of its model, for the keys of the figures."""
    of_response = [chart for chart in labels.analysis.charts if chart.y == (response,)]
    main = [chart for chart in of_response if chart.kind == "main effect"]
    pairs = _largest(labels, response, [chart for chart in of_response if chart.kind == "interaction"])
    is_secondary = response not in (labels.metric.name, labels.leading_capacity)
    figures = []
    if main:
        figures.append(_panels(main, f"main-effects-{position}", "Main effects on the", is_secondary))
    if pairs:
        # With two factors, the panel contains the means of the cells, which another chart shows already.
        key, is_folded = f"interactions-{position}", is_secondary or len(main) < ACROSS
        figures.append(_panels(pairs, key, "Interactions of the factors in the", is_folded))
    return figures


def _largest(labels: Labels, response: str, charts: Sequence[Means]) -> list[Means]:
    shares: dict[frozenset[str], float] = {}
    for effect in labels.analysis.effects:
        if effect.response == response and effect.variation_percent is not None:
            for part in effect.parts:
                shares[frozenset(part.factors)] = effect.variation_percent
    ranked = sorted(charts, key=lambda chart: -shares.get(frozenset((chart.x, *chart.by)), 0.0))
    kept = ranked[:MAX_PAIRS]
    return [chart for chart in charts if chart in kept]


class _Groups:
    """Colours and shapes of the groups of a chart: those of a combination if the groups are combinations."""

    def __init__(self, labels: Labels | None, chart: Means) -> None:
        names = list(dict.fromkeys(group_of(chart, line) for line in chart.lines))
        self.names, self.more = names[:MAX_GROUPS], max(0, len(names) - MAX_GROUPS)
        at = list(range(len(self.names)))
        if labels is not None and set(self.names) <= set(labels.combinations):
            at = [labels.combinations.index(name) for name in self.names]
        self.colours = [COLOURS[index % len(COLOURS)] for index in at]
        self.shapes = [SHAPES[(index + index // len(COLOURS)) % len(SHAPES)] for index in at]

    def colour(self, title: str | None = None) -> alt.Color:
        legend = alt.Legend(title=title, symbolOpacity=1) if len(self.names) > 1 else None
        return alt.Color("group:N", scale=alt.Scale(domain=self.names, range=self.colours), legend=legend)

    def shape(self, title: str | None = None) -> alt.Shape:
        legend = alt.Legend(title=title, symbolOpacity=1) if len(self.names) > 1 else None
        return alt.Shape("group:N", scale=alt.Scale(domain=self.names, range=self.shapes), legend=legend)


def group_of(chart: Means, line: ChartLine) -> str:
    """The levels of a line that have a colour, as text."""
    return tables.words({name: line.levels[name] for name in chart.by if name in line.levels}) or ONLY


def _own_figure(labels: Labels, chart: Means, position: int) -> Figure:
    key = f"chart-{position}"
    x = describe(chart.x).title if chart.x_is == "metric" else factor_word(chart.x)
    what = listing([describe(name).title for name in chart.y])
    title = capitalized(f"{what} against {x}" if chart.x_is != "level" else f"{what} for each {x}")
    groups = _Groups(labels, chart)
    drawn_lines = [line for line in chart.lines if group_of(chart, line) in groups.names]
    datasets: dict[str, Rows] = {}
    panels: list[Chart] = []
    for at, name in enumerate(chart.y):
        lines = [line for line in drawn_lines if line.metric == name]
        panel, rows = _panel(labels, chart, lines, groups, f"{key}-{at}".replace("-", "_"))
        panels.append(panel)
        datasets |= rows
    drawn = panels[0] if len(panels) == 1 else alt.vconcat(*panels)
    texts = [
        f"{tables.words(point.levels)}: {describe(line.metric).title} {tables.shown(point, describe(line.metric))}"
        for line in chart.lines
        for point in line.points
    ]
    return Figure(
        key=key,
        title=title,
        chart=finish(drawn, **datasets),
        alt=f"{title}. " + "; ".join(texts[:16]),
        table=tables.points(title, [chart]),
        caption=_caption(chart, datasets)
        + (f" {groups.more} further combinations are not drawn." if groups.more else ""),
    )


def _caption(chart: Means, datasets: dict[str, Rows]) -> str:
    rows = [row for dataset in datasets.values() for row in dataset]
    mark = "Bars" if chart.x_is == "level" else "Points"
    over = (
        f", with equal weights over the levels of {listing(map(factor_word, chart.over))}"
        if chart.over
        else ""
    )
    text = f"{mark}: means over the valid runs{over}"
    if any("low" in row for row in rows):
        text += "; lines across: 95 % intervals" if chart.x_is == "level" else "; bars: 95 % intervals"
    text += "; faint points: the runs." if any("run" in row for row in rows) else "."
    text += WIDE_NOTE if any("wide" in row for row in rows) else ""
    if not chart.is_comparable:
        text += (
            f" The means are over different combinations of {listing(map(factor_word, chart.over))}, so their "
            "differences are not the effect of the factors of this chart alone."
        )
    return text


def _panel(
    labels: Labels, chart: Means, lines: Sequence[ChartLine], groups: _Groups, name: str
) -> tuple[Chart, dict[str, Rows]]:
    """The chart of one metric, and its rows."""
    metric = describe(lines[0].metric)
    factor, unit = axis_scale(metric, [point.y.mean for line in lines for point in line.points])
    title = f"{metric.title} ({unit})" if unit else metric.title
    x_step, x_title = _x_scale(labels, chart)
    points: Rows = [
        _row(chart, line, point, factor, x_step) | {"line": tables.words(line.levels)}
        for line in lines
        for point in line.points
    ]
    runs: Rows = [
        _row_at(chart, line, point)
        | {"x": None if run.x is None else run.x / x_step, "value": run.y * factor, "run": f"run {run.run}"}
        | {"said": quantity(run.y, metric.kind, metric.unit)}
        for line in lines
        for point in line.points
        for run in point.runs
    ]
    datasets = {f"{name}_points": points, f"{name}_runs": runs}
    if chart.x_is == "level":
        drawn = _bars(chart, groups, name, title, points, runs)
        levels = len(chart.x_levels)
        height = min(900, max(90, levels * (14 + 18 * len(groups.names))))
        return drawn.properties(width=WIDTH - 120, height=height), datasets
    height = HEIGHT if len(chart.y) == 1 else 180
    drawn = _curve(labels, chart, groups, name, x_title, title, points, runs)
    return drawn.properties(width=WIDTH, height=height), datasets


def _row_at(chart: Means, line: ChartLine, point: ChartPoint) -> dict[str, Any]:
    return {
        "group": group_of(chart, line),
        "level": point.levels.get(chart.x, ""),
        "cell": tables.words(point.levels),
    }


def _row(chart: Means, line: ChartLine, point: ChartPoint, factor: float, x_step: float) -> dict[str, Any]:
    metric = describe(line.metric)
    row = _row_at(chart, line, point) | {
        "x": None if point.x is None else point.x / x_step,
        "value": point.y.mean * factor,
        "said": tables.shown(point, metric),
    }
    low, high = point.y.low, point.y.high
    return (
        row if low is None or high is None else narrowed(row | {"low": low * factor, "high": high * factor})
    )


def _x_scale(labels: Labels, chart: Means) -> tuple[float, str]:
    """The number by which numbers of the x axis are divided, and the title of the axis."""
    if chart.x_is == "metric":
        metric = describe(chart.x)
        factor, unit = axis_scale(metric, [point.x for line in chart.lines for point in line.points])
        return 1 / factor, f"{metric.title} ({unit})" if unit else metric.title
    if chart.x == labels.load_factor:
        return 1.0, labels.load_title
    numbers = [point.x for line in chart.lines for point in line.points if point.x is not None]
    step, unit = step_for(chart.x_unit, numbers)
    unit = {"second": "s", "byte": "B"}.get(unit, unit)
    return step, f"{factor_word(chart.x)} ({unit})" if unit else factor_word(chart.x)


def is_geometric(numbers: Iterable[float]) -> bool:
    """Whether levels are on a logarithmic axis: they span a factor of 50, or a factor of 8 in nearly equal ratios."""
    levels = sorted(set(numbers))
    if len(levels) < 2 or levels[0] <= 0:
        return False
    ratios = [high / low for low, high in pairwise(levels)]
    span = levels[-1] / levels[0]
    return span > 50 or (span >= 8 and len(levels) > 2 and max(ratios) / min(ratios) <= 1.3)


def _x_axis(labels: Labels, chart: Means, title: str, rows: Rows) -> alt.X:
    numbers = sorted({row["x"] for row in rows if row["x"] is not None})
    if chart.x == labels.load_factor and chart.x_is == "number":
        axis = load_axis(labels)
        axis.shorthand = "x:Q"
        return axis
    if chart.x_is == "metric":
        positive = bool(numbers) and numbers[0] > 0 and numbers[-1] / numbers[0] > WIDE_RATIO
        domain, ticks = log_axis(numbers)
        scale = (
            alt.Scale(type="log", domain=domain, nice=False, padding=8)
            if positive
            else alt.Scale(zero=True, nice=True)
        )
        axis_of = alt.Axis(
            grid=False, format=axis_format(numbers), values=ticks if positive else alt.Undefined, tickCount=6
        )
        return alt.X("x:Q", title=title, scale=scale, axis=axis_of)
    is_log = is_geometric(numbers)
    scale = (
        alt.Scale(type="log", domain=[numbers[0], numbers[-1]], nice=False, padding=12)
        if is_log
        else alt.Scale(zero=False, nice=False, padding=12)
    )
    ticks_of = numbers if len(numbers) <= MAX_TICKS else log_axis(numbers)[1] if is_log else alt.Undefined
    axis_of = alt.Axis(
        grid=False, values=ticks_of, format=axis_format(numbers), labelOverlap=True, labelFlush=False
    )
    return alt.X("x:Q", title=title, scale=scale, axis=axis_of)


def _y_axis(field: str, title: str | None, rows: Rows, *, shared: bool = False) -> alt.Y:
    """From zero, or logarithmic if the means span a wide range. `shared`: the same axis in several charts."""
    means = [row["value"] for row in rows]
    everything = [row[key] for row in rows for key in ("value", "low", "high") if key in row]
    if min(means) > 0 and max(means) / min(means) > WIDE_RATIO:
        domain, ticks = log_axis(everything)
        scale, axis = alt.Scale(type="log", domain=domain, nice=False), alt.Axis(format=",~f", values=ticks)
    else:
        ends = [min(0.0, *everything), max(0.0, *everything)] if shared else alt.Undefined
        scale = alt.Scale(zero=True, nice=True, domain=ends)
        axis = alt.Axis(format=axis_format(everything), tickCount=5)
    return alt.Y(field, title=title, scale=scale, axis=axis)


def _curve(
    labels: Labels,
    chart: Means,
    groups: _Groups,
    name: str,
    x_title: str,
    title: str,
    points: Rows,
    runs: Rows,
) -> Chart:
    """Means with intervals, joined by lines, and the runs as faint points."""
    rows = [*points, *runs]
    x, y = _x_axis(labels, chart, x_title, rows), _y_axis("value:Q", title, rows)
    tooltip = [alt.Tooltip("cell:N", title="levels"), alt.Tooltip("said:N", title="value")]
    base = chart_of(f"{name}_points")
    colour = groups.colour()
    order = "index:Q" if chart.x_is == "metric" else "x:Q"
    for index, row in enumerate(points):
        row["index"] = index
    layers: list[alt.Chart] = []
    if runs:
        faint = chart_of(f"{name}_runs").mark_circle(size=18, opacity=0.45)
        layers.append(faint.encode(x=x, y=y, color=colour, tooltip=[alt.Tooltip("run:N"), *tooltip]))
    layers.append(base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, detail="line:N", order=order))
    if any("low" in row for row in points):
        layers.append(
            base.transform_filter("isValid(datum.low)")
            .mark_errorbar(ticks=alt.MarkConfig(width=9), thickness=1.5)
            .encode(x=x, y=_y_axis("low:Q", title, rows), y2="high:Q", color=colour)
        )
    layers.append(
        base.mark_point(size=55, filled=True, opacity=1).encode(
            x=x, y=y, color=colour, shape=groups.shape(), tooltip=tooltip
        )
    )
    return alt.layer(*layers)


def _bars(chart: Means, groups: _Groups, name: str, title: str, points: Rows, runs: Rows) -> Chart:
    """A group of bars for each level, from zero, with intervals and the runs."""
    y = alt.Y("level:N", title=factor_word(chart.x), sort=list(chart.x_levels), axis=alt.Axis(labelLimit=220))
    offset = alt.YOffset("group:N", sort=groups.names, scale=alt.Scale(paddingInner=0.12))
    rows = [*points, *runs]
    values = [row[key] for row in rows for key in ("value", "low", "high") if key in row]
    x = alt.X(
        "value:Q",
        title=title,
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(format=axis_format(values), tickCount=6),
    )
    tooltip = [alt.Tooltip("cell:N", title="levels"), alt.Tooltip("said:N", title="value")]
    base = chart_of(f"{name}_points")
    layers = [
        base.mark_bar(opacity=0.75).encode(x=x, y=y, yOffset=offset, color=groups.colour(), tooltip=tooltip)
    ]
    if runs:
        faint = chart_of(f"{name}_runs").mark_circle(size=16, opacity=0.6, color="currentColor")
        layers.append(faint.encode(x=x, y=y, yOffset=offset, tooltip=[alt.Tooltip("run:N"), *tooltip]))
    if any("low" in row for row in points):
        layers.append(
            base.transform_filter("isValid(datum.low)")
            .mark_rule(strokeWidth=1.5)
            .encode(x=alt.X("low:Q", title=title), x2="high:Q", y=y, yOffset=offset)
        )
    return alt.layer(*layers)


def _panels(charts: Sequence[Means], key: str, title: str, on_demand: bool) -> Figure:
    """Small charts of one response side by side, with one scale."""
    metric = describe(charts[0].y[0])
    intervals = [point.y for chart in charts for line in chart.lines for point in line.points]
    factor, unit = axis_scale(metric, [interval.mean for interval in intervals])
    y_title = f"{metric.title} ({unit})" if unit else metric.title
    rows_of = [
        [_row(chart, line, point, factor, 1.0) for line in chart.lines for point in line.points]
        for chart in charts
    ]
    values = [row for rows in rows_of for row in rows]
    width = WIDTH // min(ACROSS, len(charts)) - 60
    datasets, panels = {}, []
    for at, (chart, rows) in enumerate(zip(charts, rows_of, strict=True)):
        name = f"{key}-{at}".replace("-", "_")
        datasets[name] = rows
        panels.append(
            _small(chart, name, y_title if at % ACROSS == 0 else None, values).properties(
                width=width, height=190
            )
        )
    across = [
        alt.hconcat(*panels[at : at + ACROSS]).resolve_scale(color="independent", shape="independent")
        for at in range(0, len(panels), ACROSS)
    ]
    drawn = (
        across[0]
        if len(across) == 1
        else alt.vconcat(*across).resolve_scale(color="independent", shape="independent")
    )
    named = f"{title} {metric.title}"
    texts = [f"{row['cell']}: {row['said']}" for row in values]
    return Figure(
        key=key,
        title=named,
        chart=finish(drawn, **datasets),
        alt=f"{named}. " + "; ".join(texts[:24]),
        table=tables.points(named, charts),
        caption=_panels_caption(charts, any("low" in row for row in values)),
        on_demand=on_demand,
    )


def _panels_caption(charts: Sequence[Means], has_intervals: bool) -> str:
    mean = "geometric means" if charts[0].mean == "geometric" else "means"
    text = f"Points: {mean} over the cells with the level"
    if charts[0].kind == "interaction":
        text = f"Points: {mean} over the cells with both levels. Parallel lines: no interaction"
    return text + ("; bars: 95 % intervals." if has_intervals else "; no intervals without repetitions.")


def _small(chart: Means, name: str, y_title: str | None, values: Rows) -> Chart:
    """A panel: the levels of a factor at equal distances, and the means."""
    groups = _Groups(None, chart)
    is_short = sum(map(len, chart.x_levels)) + 2 * len(chart.x_levels) <= MAX_WIDTH
    x = alt.X(
        "level:N",
        title=factor_word(chart.x),
        sort=list(chart.x_levels),
        scale=alt.Scale(paddingOuter=0.3),
        axis=alt.Axis(labelAngle=0 if is_short else -35, grid=False, labelLimit=90),
    )
    y = _y_axis("value:Q", y_title, values, shared=True)
    low = _y_axis("low:Q", y_title, values, shared=True)
    base = chart_of(name)
    tooltip = [alt.Tooltip("cell:N", title="levels"), alt.Tooltip("said:N", title="value")]
    colour = groups.colour()
    layers: list[alt.Chart] = [base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour)]
    if any("low" in row for row in values):
        layers.append(
            base.transform_filter("isValid(datum.low)")
            .mark_rule(strokeWidth=1.5)
            .encode(x=x, y=low, y2="high:Q", color=colour)
        )
    layers.append(
        base.mark_point(size=50, filled=True, opacity=1).encode(
            x=x, y=y, color=colour, shape=groups.shape(), tooltip=tooltip
        )
    )
    return alt.layer(*layers)
