"""Charts of a comparison: the ratios with their intervals beside the margin, and the values of the runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final, TypeVar

import altair as alt

from plimsoll.analyse.results.wording import level_words
from plimsoll.compare.metrics import Scale
from plimsoll.compare.model import Comparison, RunValue, Sample, Verdict
from plimsoll.compare.result import ComparisonResult
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.theme import INK, WIDTH, Chart, Rows, chart_of, finish
from plimsoll.report.labels import COLOURS
from plimsoll.report.tables.compare.comparison import (
    effect_words,
    interval_words,
    intervals_table,
    metric_title,
    run_values_table,
)

_OfCell = TypeVar("_OfCell", Comparison, Sample)

MAX_PANELS: Final = 12
_ROW: Final = 26
"""Height of a metric in pixels."""
_VERDICTS: Final = {
    Verdict.SLOWER: ("slower or worse", COLOURS[1], "triangle-right"),
    Verdict.FASTER: ("faster or better", COLOURS[2], "diamond"),
    Verdict.SAME: ("same", COLOURS[0], "circle"),
    Verdict.UNDECIDED: ("undecided", COLOURS[7], "square"),
}
_MIN_SPAN: Final = 0.05
"""The axis of ratios covers at least +- 5 %."""


def ratios(result: ComparisonResult) -> Figure | None:
    """A panel for each cell, with a row for each metric; None without a ratio that has an interval."""
    shown = [one for one in result.comparisons if one.estimate is not None and one.interval is not None]
    kinds = [[one for one in shown if one.scale is scale] for scale in (Scale.RATIO, Scale.DIFFERENCE)]
    groups = [
        (group, is_ratio)
        for is_ratio, kind in zip((True, False), kinds, strict=True)
        for group in _cells(kind)
    ]
    if not groups:
        return None
    left_out = max(0, len(groups) - MAX_PANELS)
    groups = groups[:MAX_PANELS]
    present = {one.verdict for group, _ in groups for one in group}
    data = {f"ratios{at}": _rows(group, is_ratio) for at, (group, is_ratio) in enumerate(groups)}
    spans = {
        is_ratio: _span([group for group, kind in groups if kind is is_ratio], is_ratio)
        for is_ratio in (True, False)
    }
    panels = [
        _panel(f"ratios{at}", group, spans[is_ratio], present, is_ratio=is_ratio)
        for at, (group, is_ratio) in enumerate(groups)
    ]
    chart: Chart = (
        panels[0] if len(panels) == 1 else alt.vconcat(*panels).resolve_scale(color="shared", shape="shared")
    )
    return Figure(
        key="ratios",
        title="New against old",
        chart=finish(chart, **data),
        alt="; ".join(f"{metric_title(one)}: {effect_words(one)} ({interval_words(one)})" for one in shown),
        table=intervals_table(result.comparisons),
        caption="Points: the ratio new / old, of error rates the difference. Lines: 95 % intervals. Band: the margin. "
        "Right of the band, a throughput is better; times, errors and resources are worse."
        + (f" {left_out} more panels are left out; the table contains all." if left_out else ""),
    )


def runs(result: ComparisonResult) -> Figure | None:
    """The values of the runs of each metric, as multiples of the mean of the old side; None if no sample has one."""
    shown = [sample for sample in result.samples if sample.metric.scale is Scale.RATIO and _base(sample)]
    groups = list(_cells(shown))[:MAX_PANELS]
    if not groups:
        return None
    titles = {one.metric: metric_title(one) for one in result.comparisons}
    data = {f"runs{at}": _run_rows(group, titles) for at, group in enumerate(groups)}
    panels = [_run_panel(f"runs{at}", group, data[f"runs{at}"]) for at, group in enumerate(groups)]
    chart: Chart = panels[0] if len(panels) == 1 else alt.vconcat(*panels)
    return Figure(
        key="runs",
        title="Values of the runs",
        chart=finish(chart, **data),
        alt="The value of each run of both sides, divided by the mean of the old side",
        table=run_values_table(result),
        caption="Each mark is one valid run: its value divided by the mean of the old side.",
    )


def _cells(items: Sequence[_OfCell]) -> list[list[_OfCell]]:
    """The items of each cell, in their order."""
    out: dict[tuple[tuple[str, str], ...], list[_OfCell]] = {}
    for item in items:
        out.setdefault(tuple(item.cell.items()), []).append(item)
    return list(out.values())


def _rows(group: Sequence[Comparison], is_ratio: bool) -> Rows:
    factor = 1 if is_ratio else 100
    return [
        {
            "metric": metric_title(one),
            "verdict": _VERDICTS[one.verdict][0],
            "value": factor * one.estimate,
            "low": factor * one.interval.low,
            "high": factor * one.interval.high,
            "shown": f"{effect_words(one)} ({interval_words(one)})",
        }
        for one in group
        if one.estimate is not None and one.interval is not None
    ]


def _span(groups: Sequence[Sequence[Comparison]], is_ratio: bool) -> list[float]:
    """The domain of the axis: all intervals and twice the margin, symmetric on its scale."""
    ends = [
        end
        for group in groups
        for one in group
        if one.interval
        for end in (one.interval.low, one.interval.high)
    ]
    margins = [one.margin for group in groups for one in group]
    if is_ratio:
        logs = [abs(math.log(end)) for end in ends if 0 < end < math.inf]
        widest = max([*logs, 2 * math.log1p(max(margins, default=0)), math.log1p(_MIN_SPAN)])
        return [math.exp(-1.05 * widest), math.exp(1.05 * widest)]
    widest = 100 * max([*map(abs, ends), *(2 * margin for margin in margins)], default=1)
    return [-1.05 * widest, 1.05 * widest]


def _ticks(highest: float) -> list[float]:
    """Labelled ratios from 1 / `highest` to `highest`: equal steps about 1, or factors if the axis is long."""
    if highest > 3:
        return [factor * 10.0**power for power in range(-6, 7) for factor in (1, 2, 5)]
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if 4 * step >= highest - 1)
    return [round(1 + at * step, 2) for at in range(-4, 5) if 1 + at * step > 0]


def _panel(
    name: str, group: Sequence[Comparison], span: Sequence[float], present: set[Verdict], *, is_ratio: bool
) -> Chart:
    margin = group[0].margin
    band = (1 / (1 + margin), 1 + margin) if is_ratio else (-100 * margin, 100 * margin)
    title = "new / old" if is_ratio else "new - old (percentage points)"
    kinds = [words for verdict, words in _VERDICTS.items() if verdict in present]
    x = alt.X(
        "value:Q",
        title=title,
        scale=alt.Scale(type="log" if is_ratio else "linear", domain=list(span), nice=False),
        axis=alt.Axis(
            values=_ticks(span[1]) if is_ratio else alt.Undefined, format=".4~r", labelOverlap=True
        ),
    )
    y = alt.Y("metric:N", title=None, sort=None, axis=alt.Axis(labelLimit=260, grid=True))
    tooltip = [alt.Tooltip("metric:N"), alt.Tooltip("verdict:N"), alt.Tooltip("shown:N", title="new / old")]
    colour = alt.Color(
        "verdict:N",
        scale=alt.Scale(domain=[kind[0] for kind in kinds], range=[kind[1] for kind in kinds]),
        legend=alt.Legend(title=None),
    )
    shape = alt.Shape(
        "verdict:N",
        scale=alt.Scale(domain=[kind[0] for kind in kinds], range=[kind[2] for kind in kinds]),
        legend=alt.Legend(title=None),
    )
    rows = chart_of(name)
    area = alt.Chart(alt.InlineData(values=[{"from": band[0], "to": band[1]}]))
    drawn: Chart = alt.layer(
        area.mark_rect(color=INK, opacity=0.09).encode(x=alt.X("from:Q", title=title), x2="to:Q"),
        alt.Chart(alt.InlineData(values=[{"at": 1 if is_ratio else 0}]))
        .mark_rule(strokeDash=[4, 3], opacity=0.5)
        .encode(x="at:Q"),
        rows.mark_rule(strokeWidth=2, clip=True).encode(
            x=alt.X("low:Q", title=title), x2="high:Q", y=y, color=colour, tooltip=tooltip
        ),
        rows.mark_point(filled=True, size=70, opacity=1).encode(
            x=x, y=y, color=colour, shape=shape, tooltip=tooltip
        ),
    )
    return drawn.properties(width=WIDTH, height=_ROW * len(group), title=level_words(group[0].cell))


def _base(sample: Sample) -> float:
    """The geometric mean of the old side; 0 if a value is unknown or not positive."""
    values = [run.value for run in sample.old]
    known = [value for value in values if value is not None and value > 0]
    return math.exp(fmean(map(math.log, known))) if known and len(known) == len(values) else 0.0


def _run_rows(group: Sequence[Sample], titles: Mapping[str, str]) -> Rows:
    return [
        {
            "metric": titles.get(sample.metric.metric, ""),
            "side": side,
            "value": run.value / _base(sample),
            "run": order,
        }
        for sample in group
        for side, runs_of in (("old", sample.old), ("new", sample.new))
        for order, run in enumerate(_ordered(runs_of), start=1)
        if run.value is not None and run.value > 0
    ]


def _ordered(side: Sequence[RunValue]) -> list[RunValue]:
    return sorted(side, key=lambda run: (run.sequence, run.order))


def _run_panel(name: str, group: Sequence[Sample], rows: Rows) -> Chart:
    sides = alt.Scale(domain=["old", "new"], range=[COLOURS[7], COLOURS[0]])
    values = [row["value"] for row in rows]
    low, high = min([*values, 1 / (1 + _MIN_SPAN)]) / 1.01, max([*values, 1 + _MIN_SPAN]) * 1.01
    ticks = [tick for tick in _ticks(max(high, 1 / low)) if low <= tick <= high]
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    drawn: Chart = (
        chart_of(name)
        .mark_tick(thickness=2, size=10)
        .encode(
            x=alt.X(
                "value:Q",
                title="value / mean of the old side",
                scale=scale,
                axis=alt.Axis(values=ticks, format=".4~r"),
            ),
            y=alt.Y("metric:N", title=None, sort=None, axis=alt.Axis(labelLimit=260)),
            yOffset=alt.YOffset("side:N", scale=alt.Scale(domain=["old", "new"])),
            color=alt.Color("side:N", scale=sides, legend=alt.Legend(title=None)),
            tooltip=[
                alt.Tooltip("metric:N"),
                alt.Tooltip("side:N"),
                alt.Tooltip("run:Q"),
                alt.Tooltip("value:Q", format=".4~r"),
            ],
        )
    )
    return drawn.properties(width=WIDTH, height=_ROW * len(group), title=level_words(group[0].cell))
