"""Time series of one run: throughput and offered rate, testers and requests in progress, response times, errors.

The page draws the same chart for the selected run, with the rows of the run as the datasets SERIES, SERVED, CUT,
ACTIONS and CHANGES.
"""

from __future__ import annotations

from typing import Final, Literal

import altair as alt

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.components.component_series import Values
from plimsoll.analyse.results.run import Series
from plimsoll.analyse.results.wording import scale
from plimsoll.report.charts import marks
from plimsoll.report.charts.marks import ACTIONS, CHANGES, CUT, X_TITLE, mark_rows
from plimsoll.report.charts.theme import INK, WIDTH, Chart, Rows, chart_of, finish

SERIES: Final = "series"
SERVED: Final = "served"
MAX_POINTS: Final = 600
TIME_UNIT: Final = "TIME"
"""Placeholder in the frame of the page for the unit of a run's times."""
DASHES: Final = [[1, 0], [6, 3], [2, 2]]
MIN_EXTENT: Final = 34
"""Width of the labels of a vertical axis in pixels: time axes below each other begin at the same place."""


def time_scale(series: Series | None) -> tuple[float, str]:
    """Factor and unit that suit the response times (ms) of a run."""
    known = [value for value in series.response_ms_p95 if value is not None] if series is not None else []
    return scale(max(known, default=1.0), "ms")


def series_rows(series: Series, most: int = MAX_POINTS, factor: float = 1.0) -> Rows:
    """One row per quantum. If there are more than `most`, neighbours are merged. `factor` scales the times.

    Rates and concurrency of merged quanta are means; the mean response time is weighted with the throughput.
    Percentiles cannot be merged: the row has the highest p95, and no p50.
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
                "active": _digits(_mean(series.active_testers[part])),
                "mean": _digits(
                    _weighted(series.response_ms_mean[part], series.throughput_per_s[part]), factor
                ),
                "p50": _digits(series.response_ms_p50[at], factor) if step == 1 else None,
                "p95": _digits(
                    max((v for v in series.response_ms_p95[part] if v is not None), default=None), factor
                ),
            }
        )
    return rows


def served_rows(run: RunResult, most: int = MAX_POINTS) -> Rows:
    """The requests per second that each service counted to which testers send requests; there may be none.

    The rows of the testers have the start of their quantum as time. A bin of another length is moved so that the
    middles of both agree.
    """
    series, clients = run.component_series, run.series
    if series is None or clients is None:
        return []
    rows: Rows = []
    for component in series.components:
        counter = component.request_counter
        if not component.is_addressed or counter is None:
            continue
        step, bins = merged(component.counters[counter], most)
        width = step * series.quantum_s
        ahead = (width - clients.quantum_s * max(1, -(-len(clients.t_s) // most))) / 2
        rows += [
            {"t": _digits(at * width + ahead), "rate": value, "name": f"counted by {component.component}"}
            for at, value in enumerate(bins)
        ]
    return rows


def served_note(run: RunResult) -> str:
    """What the lines of `served_rows` are, for a caption; empty without lines."""
    series = run.component_series
    shown = [
        component
        for component in (series.components if series is not None else ())
        if component.is_addressed and component.request_counter is not None
    ]
    if not shown:
        return ""
    delay = " PostgreSQL counts statements that read no table when their session ends."
    is_late = any(component.system == "postgres" for component in shown)
    return "Broad pale lines: requests that the service itself counted." + (delay if is_late else "")


def merged(values: Values, most: int) -> tuple[int, list[float | None]]:
    """The number of bins that each value covers, and the values. If there are more than `most`, neighbours are
    merged to their mean."""
    step = max(1, -(-len(values) // most))
    parts = (values[at : at + step] for at in range(0, len(values), step))
    return step, [_digits(_mean(tuple(v for v in part if v is not None))) for part in parts]


def thin(values: Values, quantum_s: float, most: int) -> list[tuple[float, float | None]]:
    """Start of each bin and its value, then the end of the last bin with its value: a line keeps its value until
    the next point. At most `most` bins."""
    step, bins = merged(values, most)
    points = [(at * step * quantum_s, value) for at, value in enumerate(bins)]
    return [*points, (len(values) * quantum_s, bins[-1])] if bins else []


def _mean(values: tuple[float, ...]) -> float | None:
    return sum(values) / len(values) if values else None


def _weighted(values: tuple[float | None, ...], weights: tuple[float, ...]) -> float | None:
    known = [(value, weight) for value, weight in zip(values, weights, strict=False) if value is not None]
    total = sum(weight for _, weight in known)
    if not known:
        return None
    return sum(v * w for v, w in known) / total if total > 0 else sum(v for v, _ in known) / len(known)


def _digits(value: float | None, factor: float = 1.0) -> float | None:
    return None if value is None else float(f"{value * factor:.4g}")


def chart(run: RunResult | None) -> Chart:
    """Panels over one time axis. Without a run, the frame alone: the page fills it and replaces TIME by the unit of the
    run's times.

    All lines have the colour of text, because a colour stands for a combination of factors on the whole page.
    """
    factor, unit = time_scale(run.series if run is not None else None)
    rows = series_rows(run.series, factor=factor) if run is not None and run.series is not None else []
    served = served_rows(run) if run is not None else []
    unit = unit if run is not None else TIME_UNIT
    panels = (
        _panel(
            "requests/s",
            {"throughput": "throughput", "offered": "offered"},
            150,
            bare=True,
            labels=True,
            served=run is None or bool(served),
        ),
        _panel(
            "testers; requests",
            {"active": "active testers", "concurrency": "requests in progress"},
            110,
            bare=True,
        ),
        _panel(f"response time ({unit})", {"p95": "p95", "mean": "mean", "p50": "p50"}, 170),
        _panel("errors/s", {"errors": "errors"}, 70),
    )
    return finish(
        alt.vconcat(*panels, resolve=_scales(x="shared", strokeDash="independent")),
        **{
            SERIES: rows,
            SERVED: served,
            **(mark_rows(run) if run is not None else {name: [] for name in (CUT, ACTIONS, CHANGES)}),
        },
    )


def _panel(
    title: str,
    lines: dict[str, str],
    height: int,
    *,
    bare: bool = False,
    labels: bool = False,
    served: bool = False,
) -> Chart:
    """Several fields on one axis with different dashes, over the shaded warm-up and the actions. `bare`: without labels
    and title of the time axis. `labels`: with those of the actions. `served`: with what the services counted."""
    names = list(lines.values())
    legend = alt.Legend(title=None, symbolOpacity=1) if len(names) > 1 else None
    dash = alt.StrokeDash("name:N", scale=alt.Scale(domain=names, range=DASHES[: len(names)]), legend=legend)
    layers = [
        _line(field, title, name, dash, faint=at > 0, bare=bare)
        for at, (field, name) in enumerate(lines.items())
    ]
    behind = (marks.shade(bare), *marks.actions(bare), *(marks.labels(bare) if labels else ()))
    if not served:
        return alt.layer(*behind, *layers, marks.changes(bare), width=WIDTH - 20, height=height)
    # Dashes of services are a scale of its own, with a legend of its own.
    return alt.layer(
        *behind,
        _served(title, bare=bare),
        alt.layer(*layers),
        marks.changes(bare),
        width=WIDTH - 20,
        height=height,
        resolve=_scales(strokeDash="independent"),
    )


def _scales(**channels: Literal["shared", "independent"]) -> alt.Resolve:
    """Scales for the constructor of a chart. A method call instead would copy all parts of the chart, which is slow."""
    return alt.Resolve(scale=alt.ScaleResolveMap(**channels))


def _line(field: str, title: str, name: str, dash: alt.StrokeDash, *, faint: bool, bare: bool) -> alt.Chart:
    drawn: alt.Chart = (
        chart_of(SERIES)
        .transform_calculate(name=f"'{name}'")
        .mark_line(strokeWidth=1.3 if faint else 1.8, opacity=0.75 if faint else 1.0, color=INK)
        .encode(
            x=alt.X(
                "t:Q",
                title=None if bare else X_TITLE,
                scale=alt.Scale(zero=True, nice=False),
                axis=alt.Axis(grid=False, format=",~f", tickCount=8, labels=not bare),
            ),
            y=alt.Y(
                f"{field}:Q",
                title=title,
                axis=alt.Axis(format=",~f", tickCount=4, minExtent=MIN_EXTENT),
                scale=alt.Scale(zero=True),
            ),
            strokeDash=dash,
            tooltip=_tooltip(),
        )
    )
    return drawn


def _served(title: str, *, bare: bool) -> alt.Chart:
    """The rates that services counted, as broad pale lines below those of the testers. Where both agree, the narrow
    line is in the middle of the broad one."""
    legend = alt.Legend(title=None, symbolOpacity=0.3, symbolStrokeWidth=5)
    drawn: alt.Chart = (
        chart_of(SERVED)
        .mark_line(strokeWidth=5, opacity=0.3, color=INK)
        .encode(
            x=alt.X("t:Q", title=None if bare else X_TITLE),
            y=alt.Y("rate:Q", title=title),
            strokeDash=alt.StrokeDash("name:N", sort=None, scale=alt.Scale(range=DASHES), legend=legend),
            tooltip=[
                alt.Tooltip("name:N", title="requests/s"),
                alt.Tooltip("t:Q", title="time (s)", format=",.3~r"),
                alt.Tooltip("rate:Q", title="counted/s", format=",.3~r"),
            ],
        )
    )
    return drawn


def _tooltip() -> list[alt.Tooltip]:
    names = {
        "t": "time (s)",
        "throughput": "requests/s",
        "offered": "offered/s",
        "active": "active testers",
        "concurrency": "requests in progress",
        "p50": f"p50 ({TIME_UNIT})",
        "mean": f"mean ({TIME_UNIT})",
        "p95": f"p95 ({TIME_UNIT})",
        "errors": "errors/s",
    }
    return [alt.Tooltip(f"{field}:Q", title=title, format=",.3~r") for field, title in names.items()]
