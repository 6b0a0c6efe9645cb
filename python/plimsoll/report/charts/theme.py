"""Sizes, configuration, scales and axes that all charts share. The colours suit light and dark backgrounds.

Ink is `currentColor`, so that an inline SVG has the colour of text of the page, also in print, without being drawn
again. Exported files have a white background and dark ink.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, Literal

import altair as alt

from plimsoll.report.labels import COLOURS, Labels

WIDTH: Final = 640
"""Width of a whole chart in pixels. A narrower page scales it down."""
HEIGHT: Final = 300
INK: Final = "currentColor"
CONFIG: Final[dict[str, Any]] = {
    "font": "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif",
    "background": "white",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": INK,
        "tickColor": INK,
        "gridColor": INK,
        "gridOpacity": 0.09,
        "domainOpacity": 0.4,
        "tickOpacity": 0.4,
        "labelOpacity": 0.85,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelLimit": 220,
        "titleLimit": 420,
    },
    "legend": {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 12,
        "orient": "top",
        "direction": "horizontal",
        "labelLimit": 240,
        "symbolSize": 70,
        "symbolStrokeWidth": 2,
        "columns": 4,
    },
    "header": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "labelLimit": 300},
    "title": {"color": INK, "fontSize": 12, "fontWeight": "normal", "anchor": "start", "limit": 600},
    "text": {"color": INK},
    "rule": {"color": INK},
}

Chart = alt.Chart | alt.LayerChart | alt.VConcatChart | alt.HConcatChart | alt.ConcatChart | alt.FacetChart
Rows = list[dict[str, Any]]


def finish(chart: Chart, **datasets: Rows) -> Chart:
    """Sets the common configuration and the datasets of a chart, and returns the chart.

    `datasets`: rows by the names that the parts of the chart use. They are set last, because Altair copies a part with
    all its contents each time it is put into another.
    """
    chart.config = CONFIG
    chart.datasets = datasets
    return chart


def chart_of(name: str) -> alt.Chart:
    """An empty chart of the dataset with this name."""
    return alt.Chart(alt.NamedData(name))


def level(channel: Literal["x", "y"], value: float) -> alt.Chart:
    """A dashed line across the chart at a value."""
    rule: alt.Chart = alt.Chart(alt.InlineData(values=[{"at": value}])).mark_rule(
        strokeDash=[4, 3], opacity=0.5
    )
    drawn: alt.Chart = rule.encode(**{channel: "at:Q"})
    return drawn


def combination_colour(labels: Labels, *, legend: bool = True) -> alt.Color:
    """Colour of a combination, the same in every chart; without a legend if there is one combination."""
    many = legend and len(labels.combinations) > 1
    return alt.Color(
        "combination:N",
        scale=alt.Scale(domain=list(labels.combinations), range=list(labels.colours)),
        legend=alt.Legend(title=None, symbolOpacity=1) if many else None,
    )


def combination_shape(labels: Labels) -> alt.Shape:
    """Shape of a combination, in addition to its colour."""
    many = len(labels.combinations) > 1
    return alt.Shape(
        "combination:N",
        scale=alt.Scale(domain=list(labels.combinations), range=list(labels.shapes)),
        legend=alt.Legend(title=None, symbolOpacity=1) if many else None,
    )


def combination_dash(labels: Labels) -> alt.StrokeDash | alt.StrokeDashValue:
    """Dash of a combination if colours repeat; solid if there are at most eight combinations."""
    if len(labels.combinations) <= len(COLOURS):
        return alt.StrokeDashValue([1, 0])
    return alt.StrokeDash(
        "combination:N",
        scale=alt.Scale(domain=list(labels.combinations), range=[list(dash) for dash in labels.dashes]),
        legend=alt.Legend(title=None, symbolOpacity=1),
    )


def axis_format(values: Iterable[float | None]) -> str:
    """Format of axis labels that suits all values: grouped thousands, or SI prefixes from 1,000,000 on."""
    largest = max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)
    return "~s" if largest >= 1e6 else ",~f"


def log_axis(values: Iterable[float | None]) -> tuple[list[float], list[float]]:
    """Domain and labelled values of a logarithmic axis: steps of 1, 2 and 5, or decades if there are many."""
    known = [value for value in values if value is not None and 0 < value < math.inf] or [1.0]
    first, last = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    steps = [step * 10.0**power for power in range(first - 1, last + 1) for step in (1, 2, 5)]
    low = max((step for step in steps if step <= min(known) * 1.000001), default=min(known))
    high = min((step for step in steps if step >= max(known) * 0.999999), default=max(known))
    if high <= low:
        low, high = low / 2, high * 2
    inside = [float(f"{step:.4g}") for step in steps if low * 0.999 <= step <= high * 1.001]
    if len(inside) > 8:
        inside = [step for step in inside if f"{step:e}".startswith("1.")]
    return [float(f"{low:.6g}"), float(f"{high:.6g}")], inside


def load_axis(labels: Labels, title: str | None = None) -> alt.X:
    """The load on x: linear from zero, or logarithmic if its levels span more than a factor of 50.

    The domain contains all loads, so that panels with some of them have the same axis.
    """
    loads = labels.loads
    wide = bool(loads) and loads[0] > 0 and loads[-1] / loads[0] > 50
    ends = [loads[0] if wide else min(0.0, loads[0]), loads[-1]] if loads else alt.Undefined
    scale = alt.Scale(type="log" if wide else "linear", domain=ends, nice=False, padding=8)
    values = list(loads) if len(loads) <= 12 else alt.Undefined
    axis = alt.Axis(values=values, grid=False, format=axis_format(loads), labelOverlap=True, labelFlush=False)
    return alt.X("load:Q", title=labels.load_title if title is None else title, scale=scale, axis=axis)
