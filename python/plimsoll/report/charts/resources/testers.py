"""Work done per tester of one run, and the fairness of all runs."""

from __future__ import annotations

from typing import Final

import altair as alt

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import TesterResult
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.theme import (
    INK,
    WIDTH,
    Chart,
    Rows,
    chart_of,
    combination_colour,
    combination_shape,
    finish,
    level,
    load_axis,
)
from plimsoll.report.labels import Labels, has_shares, users
from plimsoll.report.tables import analysis as tables

TESTERS: Final = "testers"
MAX_BARS: Final = 120
FAIR: Final = 0.95
"""If Jain's index of every run is above this, the chart shows no more than the range, and is folded."""


def tester_rows(run: RunResult, most: int = MAX_BARS) -> Rows:
    """One row per user, from the least share to the greatest. If there are more than `most`, evenly spaced ranks."""
    known = sorted(users(run), key=lambda tester: tester.share or 0.0)
    if len(known) > most:
        known = [known[round(index * (len(known) - 1) / (most - 1))] for index in range(most)]
    return [
        {
            "rank": rank,
            "tester": tester.name or f"{tester.agent} {tester.tester}",
            "share": float(f"{tester.share or 0:.4g}"),
            "transactions": tester.transactions,
            "errors": tester.errors,
            "rate": float(f"{tester.throughput_per_s:.4g}"),
            "mean": None if tester.response_ms_mean is None else float(f"{tester.response_ms_mean:.4g}"),
            **(_placed(tester) if run.hosts is not None else {}),
        }
        for rank, tester in enumerate(known, start=1)
    ]


def _placed(tester: TesterResult) -> dict[str, float | None]:
    """The values of a tester that are shown only if there are several hosts."""
    values = {
        "p50": tester.response_ms_p50,
        "p95": tester.response_ms_p95,
        "rtt": tester.rtt_ms,
        "less": tester.response_less_rtt_ms,
    }
    return {name: None if value is None else float(f"{value:.4g}") for name, value in values.items()}


def chart(run: RunResult | None) -> Chart:
    """Bars of the share of each user; the dashed line is a fair share. The page replaces the dataset TESTERS by that of
    the selected run."""
    bars = (
        chart_of(TESTERS)
        .mark_bar(color=INK, opacity=0.55)
        .encode(
            x=alt.X(
                "rank:O",
                title="testers in increasing order of their share",
                axis=alt.Axis(labels=False, ticks=False),
                scale=alt.Scale(paddingInner=0.15),
            ),
            y=alt.Y(
                "share:Q",
                title="share of the work (1 is fair)",
                scale=alt.Scale(zero=True),
                axis=alt.Axis(tickCount=5),
            ),
            tooltip=[
                alt.Tooltip("tester:N"),
                alt.Tooltip("share:Q", format="~r"),
                alt.Tooltip("transactions:Q"),
                alt.Tooltip("errors:Q"),
                alt.Tooltip("rate:Q", title="per second"),
                alt.Tooltip("mean:Q", title="mean response (ms)"),
            ],
        )
    )
    drawn = alt.layer(bars, level("y", 1)).properties(width=WIDTH, height=180)
    return finish(drawn, **{TESTERS: tester_rows(run) if run is not None else []})


def fairness(labels: Labels) -> Figure | None:
    """Jain's index of every run against the load; None if no run has several testers."""
    rows: Rows = [
        {
            "combination": labels.combination(run.cell),
            "cell": labels.cell(run.cell),
            "run": run.id,
            "load": labels.load(run),
            "jain": run.jain_index,
        }
        for run in labels.runs()
        if run.valid and has_shares(run)
    ]
    if not rows:
        return None
    least = min(row["jain"] for row in rows)
    domain = [0.0 if least < 0.8 else 0.75, 1.0]
    y = alt.Y(
        "jain:Q", title="Jain's index (1 is fair)", scale=alt.Scale(domain=domain), axis=alt.Axis(tickCount=5)
    )
    tooltip = [
        alt.Tooltip("cell:N"),
        alt.Tooltip("run:N"),
        alt.Tooltip("jain:Q", title="Jain's index", format=".4f"),
    ]
    cells = list(dict.fromkeys(row["cell"] for row in rows))
    x = load_axis(labels) if labels.load_factor else alt.X("cell:N", title=None, sort=cells)
    drawn = (
        chart_of("fairness")
        .mark_point(filled=True, size=55, opacity=0.85)
        .encode(x=x, y=y, color=combination_colour(labels), shape=combination_shape(labels), tooltip=tooltip)
        .properties(width=WIDTH if labels.load_factor else min(WIDTH, 80 * len(cells)), height=180)
    )
    return Figure(
        key="fairness",
        title="Fairness among testers",
        chart=finish(drawn, fairness=rows),
        alt=f"Jain's fairness index of {len(rows)} runs, from {least:.3f} "
        f"to {max(row['jain'] for row in rows):.3f}; 1 is fair.",
        table=tables.fairness(labels),
        caption="Over the testers active in the window. One point per valid run."
        + ("" if least < 0.8 else " The scale starts at 0.75.")
        + _left_out(labels),
        on_demand=least > FAIR,
    )


def _left_out(labels: Labels) -> str:
    """The sentence that states which open loads are not in the figure, and why."""
    kinds = {run.open_load for run in labels.runs() if run.valid}
    why = "testers of an open load are slots that take the next arrival, not users."
    if "all" in kinds:
        return f" Runs of an open load are left out: {why}"
    return f" Of runs with an open load too, only the others: {why}" if "some" in kinds else ""
