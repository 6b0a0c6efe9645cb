"""Time series of one run: throughput, concurrency, response time on two axes, moving averages, the cut warm-up.

The page draws the same chart for whichever run its reader picks: it puts that run's rows under the names SERIES,
CUT and AVERAGES.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import altair as alt

from plimsoll.analyse.results import RunResult, Series
from plimsoll.report.charts.theme import INK, WIDTH, Chart, Rows, finish, of

SERIES: Final = "series"
CUT: Final = "cut"
MOST_POINTS: Final = 600
FRAME: Final = 5
"""The moving average takes so many quanta on either side."""

THROUGHPUT, CONCURRENCY, MEAN, P95, ERRORS = "#0a84c6", "#d55e00", "#009e73", "#c06aa8", "#b7860b"


def series_rows(series: Series, most: int = MOST_POINTS) -> Rows:
    """One row per quantum; of more than `most`, neighbours are drawn together.

    Rates and concurrency of merged quanta are their mean, the mean response time is weighted with the transactions;
    percentiles cannot be merged, so the highest p95 of them is drawn and p50 is left out.
    """
    step = -(-len(series.t_s) // most) if series.t_s else 1
    rows: Rows = []
    for at in range(0, len(series.t_s), step):
        part = slice(at, at + step)
        rows.append(
            {
                "t": series.t_s[at],
                "throughput": _digits(_mean(series.throughput_per_s[part])),
                "errors": _digits(_mean(series.errors_per_s[part])),
                "concurrency": _digits(_mean(series.concurrency[part])),
                "offered": _digits(_mean(series.offered_per_s[part])),
                "mean": _digits(_weighted(series.response_ms_mean[part], series.throughput_per_s[part])),
                "p50": _digits(series.response_ms_p50[at]) if step == 1 else None,
                "p95": _digits(max((v for v in series.response_ms_p95[part] if v is not None), default=None)),
            }
        )
    return rows


def cut_rows(run: RunResult) -> Rows:
    """The warm-up that is in no figure, in seconds from the start of the run; empty where nothing was cut."""
    return [{"from": 0, "to": run.warmup_s}] if run.warmup_s > 0 else []


def _mean(values: tuple[float, ...]) -> float | None:
    return sum(values) / len(values) if values else None


def _weighted(values: tuple[float | None, ...], weights: tuple[float, ...]) -> float | None:
    known = [(value, weight) for value, weight in zip(values, weights, strict=False) if value is not None]
    total = sum(weight for _, weight in known)
    if not known:
        return None
    return sum(v * w for v, w in known) / total if total > 0 else sum(v for v, _ in known) / len(known)


def _digits(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def chart(run: RunResult | None) -> Chart:
    """Two panels over one time axis. Without a run, the frame alone (the page fills it)."""
    rows = series_rows(run.series) if run is not None and run.series is not None else []
    upper = alt.layer(
        _shade(),
        _pair("throughput", "throughput (requests/s)", THROUGHPUT, "left", "throughput"),
        _pair("concurrency", "concurrency (requests)", CONCURRENCY, "right", "concurrency", headroom=1.35),
        **_panel("independent"),
    )
    times = alt.layer(
        _pair("mean", "response time (ms)", MEAN, "left", "mean response time"),
        _line("p95", "response time (ms)", "p95 of the quantum"),
        resolve=_scales(y="shared"),
    )
    lower = alt.layer(_shade(), _errors(), times, **_panel("independent"))
    both = alt.vconcat(upper, lower, resolve=_scales(x="shared", color="shared"))
    return finish(both, **{SERIES: rows, CUT: cut_rows(run) if run is not None else []})


def _panel(y: Literal["shared", "independent"]) -> dict[str, Any]:
    return {"width": WIDTH - 20, "height": 190, "resolve": _scales(y=y)}


def _scales(**channels: Literal["shared", "independent"]) -> alt.Resolve:
    """To be given to a chart as it is made: each method of a chart copies all its parts, which costs a page most."""
    return alt.Resolve(scale=alt.ScaleResolveMap(**channels))


def _named(name: str) -> alt.Chart:
    drawn: alt.Chart = of(SERIES).transform_calculate(name=f"'{name}'")
    return drawn


def _x() -> alt.X:
    return alt.X(
        "t:Q",
        title="time since the start of the run (s)",
        scale=alt.Scale(zero=True, nice=False),
        axis=alt.Axis(grid=False, format=",~f"),
    )


def _colour() -> alt.Color:
    """Colour by the field `name`, which every line calculates for itself."""
    domain = ["throughput", "concurrency", "mean response time", "p95 of the quantum", "errors"]
    scale = alt.Scale(domain=domain, range=[THROUGHPUT, CONCURRENCY, MEAN, P95, ERRORS])
    return alt.Color("name:N", scale=scale, legend=alt.Legend(title=None, columns=5, symbolOpacity=1))


def _y(field: str, title: str, colour: str, side: Literal["left", "right"]) -> alt.Y:
    axis = alt.Axis(orient=side, titleColor=colour, format=",~f", tickCount=5, grid=side == "left")
    return alt.Y(f"{field}:Q", title=title, axis=axis, scale=alt.Scale(zero=True))


def _pair(
    field: str, title: str, colour: str, side: Literal["left", "right"], name: str, headroom: float = 1.0
) -> alt.LayerChart:
    """The quanta as a faint line, their moving average as a strong one, on one axis.

    `headroom` above 1 stretches that axis, so that two steady lines on two axes do not lie on each other.
    """
    raw = (
        _named(name)
        .mark_line(strokeWidth=1, opacity=0.4)
        .encode(x=_x(), y=_y(field, title, colour, side), color=_colour(), tooltip=_tooltip())
    )
    smooth = (
        _named(name)
        .transform_filter(f"isValid(datum['{field}'])")
        .transform_window(smooth=f"mean({field})", frame=[-FRAME, FRAME])
        .mark_line(strokeWidth=2.2)
        .encode(x=_x(), y=_y("smooth", title, colour, side), color=_colour())
    )
    above = (
        of(SERIES)
        .transform_calculate(above=f"datum['{field}'] * {headroom}")
        .mark_point(opacity=0)
        .encode(x=_x(), y=_y("above", title, colour, side))
    )
    return alt.LayerChart(
        layer=[raw, smooth, *([above] if headroom > 1 else [])], resolve=_scales(y="shared")
    )


def _line(field: str, title: str, name: str) -> alt.Chart:
    drawn: alt.Chart = (
        _named(name)
        .mark_line(strokeWidth=1.2, opacity=0.9)
        .encode(x=_x(), y=_y(field, title, MEAN, "left"), color=_colour())
    )
    return drawn


def _errors() -> alt.LayerChart:
    title = "errors (1/s)"
    rules = (
        _named("errors")
        .mark_rule(strokeWidth=2, opacity=0.7)
        .encode(x=_x(), y=_y("errors", title, ERRORS, "right"), y2=alt.datum(0), color=_colour())
    )
    # Without any error there is an axis all the same, from 0, and not one around it.
    least = (
        of(SERIES)
        .transform_calculate(least="max(datum.errors, 1)")
        .mark_point(opacity=0)
        .encode(x=_x(), y=_y("least", title, ERRORS, "right"))
    )
    return alt.LayerChart(layer=[rules, least], resolve=_scales(y="shared"))


def _shade() -> alt.Chart:
    drawn: alt.Chart = (
        of(CUT)
        .mark_rect(opacity=0.1, color=INK)
        .encode(x=alt.X("from:Q", title="time since the start of the run (s)"), x2="to:Q")
    )
    return drawn


def _tooltip() -> list[alt.Tooltip]:
    names = {
        "t": "time (s)",
        "throughput": "requests/s",
        "concurrency": "concurrency",
        "mean": "mean (ms)",
        "p95": "p95 (ms)",
        "errors": "errors/s",
    }
    return [alt.Tooltip(f"{field}:Q", title=title, format="~r") for field, title in names.items()]
