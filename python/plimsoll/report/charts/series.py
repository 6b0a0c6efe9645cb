"""Time series of one run: throughput and offered rate, testers and requests in progress, response times, errors.

The page draws the same chart for the selected run, with the rows of the run as the datasets SERIES, CUT, ACTIONS and
CHANGES.
"""

from __future__ import annotations

from typing import Final, Literal

import altair as alt

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import Series
from plimsoll.analyse.results.wording import scale
from plimsoll.report.charts.theme import INK, WIDTH, Chart, Rows, chart_of, finish

SERIES: Final = "series"
CUT: Final = "cut"
ACTIONS: Final = "actions"
CHANGES: Final = "changes"
MAX_POINTS: Final = 600
TIME_UNIT: Final = "TIME"
"""Placeholder in the frame of the page for the unit of a run's times."""
X_TITLE: Final = "time since the start of the run (s)"
LABEL_LINES: Final = 3
LABEL_WIDTH: Final = 6
"""Width of a character of a label in pixels, about."""
DASHES: Final = [[1, 0], [6, 3], [2, 2]]


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


def cut_rows(run: RunResult) -> Rows:
    """The warm-up, in seconds from the start of the run. Without a warm-up it has the length 0, because Vega warns
    about an infinite extent if there are no rows."""
    return [{"from": 0, "to": run.warmup_s}]


def change_rows(run: RunResult) -> Rows:
    """The times of the changes that no plan explains, with what changed. Without changes there is a row that is not
    visible, for the reason of `cut_rows`."""
    at: dict[float, list[str]] = {}
    for change in run.changes or ():
        at.setdefault(change.at_s, []).append(change.text)
    rows: Rows = [{"at": time, "what": "; ".join(texts), "visible": 1} for time, texts in sorted(at.items())]
    return rows or [{"at": 0, "what": "", "visible": 0}]


def action_rows(run: RunResult | None) -> Rows:
    """The actions that began: `from`, `to`, label, and the line on which the label is written, so that labels do not
    cover each other. Without actions one row that is not shown, for the same reason as in `cut_rows`."""
    series = run.series if run is not None else None
    result = run.actions if run is not None else None
    length = series.t_s[-1] + series.quantum_s if series is not None and series.t_s else 1.0
    rows: Rows = []
    ends = [0.0] * LABEL_LINES
    for action in result.actions if result is not None else ():
        if action.began_s is None:
            continue
        to = action.ended_s if action.planned_for_s and action.ended_s is not None else action.began_s
        line = next((at for at, end in enumerate(ends) if end <= action.began_s), LABEL_LINES - 1)
        ends[line] = action.began_s + length * len(action.label) * LABEL_WIDTH / (WIDTH - 20)
        rows.append({"from": action.began_s, "to": to, "label": action.label, "line": line, "shown": 1})
    return rows or [{"from": 0, "to": 0, "label": "", "line": 0, "shown": 0}]


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
    unit = unit if run is not None else TIME_UNIT
    panels = (
        _panel("requests/s", {"throughput": "throughput", "offered": "offered"}, 150, bare=True, labels=True),
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
            CUT: cut_rows(run) if run is not None else [],
            ACTIONS: action_rows(run) if run is not None else [],
            CHANGES: change_rows(run) if run is not None else [],
        },
    )


def _panel(
    title: str, lines: dict[str, str], height: int, *, bare: bool = False, labels: bool = False
) -> Chart:
    """Several fields on one axis with different dashes, over the shaded warm-up and the actions. `bare`: without labels
    and title of the time axis. `labels`: with those of the actions."""
    names = list(lines.values())
    legend = alt.Legend(title=None, symbolOpacity=1) if len(names) > 1 else None
    dash = alt.StrokeDash("name:N", scale=alt.Scale(domain=names, range=DASHES[: len(names)]), legend=legend)
    layers = [
        _line(field, title, name, dash, faint=at > 0, bare=bare)
        for at, (field, name) in enumerate(lines.items())
    ]
    marks = (_shade(bare), *_actions(bare), *(_labels(bare) if labels else ()))
    return alt.layer(*marks, *layers, _changes(bare), width=WIDTH - 20, height=height)


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
                axis=alt.Axis(format=",~f", tickCount=4),
                scale=alt.Scale(zero=True),
            ),
            strokeDash=dash,
            tooltip=_tooltip(),
        )
    )
    return drawn


def _shade(bare: bool) -> alt.Chart:
    drawn: alt.Chart = (
        chart_of(CUT)
        .mark_rect(opacity=0.1, color=INK)
        .encode(x=alt.X("from:Q", title=None if bare else X_TITLE), x2="to:Q")
    )
    return drawn


def _changes(bare: bool) -> alt.Chart:
    """A vertical line at each change."""
    drawn: alt.Chart = (
        chart_of(CHANGES)
        .mark_rule(color=INK, strokeWidth=1.2, strokeDash=[4, 2])
        .encode(
            x=alt.X("at:Q", title=None if bare else X_TITLE),
            opacity=alt.Opacity("visible:Q", scale=None, legend=None),
            tooltip=[
                alt.Tooltip("at:Q", title="time (s)", format=",.3~r"),
                alt.Tooltip("what:N", title="change"),
            ],
        )
    )
    return drawn


def _actions(bare: bool) -> tuple[alt.Chart, alt.Chart]:
    """A band for each action that lasts, and a line at the begin of each action."""
    x = alt.X("from:Q", title=None if bare else X_TITLE)
    tooltip = [alt.Tooltip("label:N", title="action"), alt.Tooltip("from:Q", title="at (s)", format=",.3~r")]
    band = chart_of(ACTIONS).mark_rect(opacity=0.16, color=INK).encode(x=x, x2="to:Q", tooltip=tooltip)
    line = (
        chart_of(ACTIONS)
        .mark_rule(strokeWidth=1.2, strokeDash=[4, 2], color=INK)
        .encode(x=x, opacity=alt.Opacity("shown:Q", scale=None), tooltip=tooltip)
    )
    return band, line


def _labels(bare: bool) -> tuple[alt.Chart, ...]:
    x = alt.X("from:Q", title=None if bare else X_TITLE)
    return tuple(
        chart_of(ACTIONS)
        # Not a filter: a line without labels would have no data, for which Vega warns of an infinite extent.
        .transform_calculate(shown_label=f"datum.line == {line} ? datum.label : ''")
        .mark_text(align="left", baseline="top", dx=4, fontSize=10, color=INK)
        .encode(x=x, y=alt.value(12 * line), text="shown_label:N")
        for line in range(LABEL_LINES)
    )


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
