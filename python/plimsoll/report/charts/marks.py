"""Marks that all time charts of a run have: the warm-up, the actions, and the changes that no plan explains."""

from __future__ import annotations

from typing import Final

import altair as alt

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.report.charts.theme import INK, WIDTH, Rows, chart_of

CUT: Final = "cut"
ACTIONS: Final = "actions"
CHANGES: Final = "changes"
X_TITLE: Final = "time since the start of the run (s)"
LABEL_LINES: Final = 3
LABEL_WIDTH: Final = 6
"""Width of a character of a label in pixels, about."""


def mark_rows(run: RunResult) -> dict[str, Rows]:
    """The rows of the marks of a run, by dataset."""
    return {CUT: cut_rows(run), ACTIONS: action_rows(run), CHANGES: change_rows(run)}


def cut_rows(run: RunResult) -> Rows:
    """The warm-up, in seconds from the start of the run. Without a warm-up it has the length 0, because Vega warns
    about an infinite extent if there are no rows. A second row without length is the end of the time series, so that
    all time charts of a run have the same axis."""
    end = end_of_series(run)
    return [{"from": 0, "to": run.warmup_s}, *([{"from": end, "to": end}] if end is not None else [])]


def end_of_series(run: RunResult) -> float | None:
    """The end of the last bin of any time series of the run, in seconds; None if there is none."""
    ends = []
    if run.series is not None and run.series.t_s:
        ends.append(run.series.t_s[-1] + run.series.quantum_s)
    components = run.component_series
    if components is not None and components.components:
        ends.append(components.bins * components.quantum_s)
    return max(ends, default=None)


def change_rows(run: RunResult) -> Rows:
    """The times of the changes that no plan explains, with what changed. Without changes there is a row that is not
    visible, for the reason of `cut_rows`."""
    at: dict[float, list[str]] = {}
    for change in run.changes or ():
        at.setdefault(change.at_s, []).append(change.text)
    rows: Rows = [{"at": time, "what": "; ".join(texts), "visible": 1} for time, texts in sorted(at.items())]
    return rows or [{"at": 0, "what": "", "visible": 0}]


def action_rows(run: RunResult) -> Rows:
    """The actions that began: `from`, `to`, label, and the line on which the label is written, so that labels do not
    cover each other. Without actions one row that is not shown, for the same reason as in `cut_rows`."""
    series, result = run.series, run.actions
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


def shade(bare: bool) -> alt.Chart:
    """The warm-up as a pale area. `bare`, here and below: the time axis has no title."""
    drawn: alt.Chart = (
        chart_of(CUT)
        .mark_rect(opacity=0.1, color=INK)
        .encode(x=alt.X("from:Q", title=None if bare else X_TITLE), x2="to:Q")
    )
    return drawn


def changes(bare: bool) -> alt.Chart:
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


def actions(bare: bool) -> tuple[alt.Chart, alt.Chart]:
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


def labels(bare: bool) -> tuple[alt.Chart, ...]:
    """The labels of the actions, on several lines."""
    x = alt.X("from:Q", title=None if bare else X_TITLE)
    return tuple(
        chart_of(ACTIONS)
        # Not a filter: a line without labels would have no data, for which Vega warns of an infinite extent.
        .transform_calculate(shown_label=f"datum.line == {line} ? datum.label : ''")
        .mark_text(align="left", baseline="top", dx=4, fontSize=10, color=INK)
        .encode(x=x, y=alt.value(12 * line), text="shown_label:N")
        for line in range(LABEL_LINES)
    )
