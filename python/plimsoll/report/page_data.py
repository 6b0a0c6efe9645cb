"""The data of the page's script: Vega-Lite specifications and their rows, compact and safe inside HTML."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final

from plimsoll.analyse.components.bottleneck import NOT_RESOLVED
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.wording import count, number, percent, percentile, plural, quantity
from plimsoll.report.charts import Figure, run_charts, shown_runs, spec
from plimsoll.report.charts.marks import mark_rows
from plimsoll.report.charts.resources.components import SMALL, component_title, frame, is_folded, strips
from plimsoll.report.charts.resources.testers import TESTERS, tester_rows
from plimsoll.report.charts.series import (
    MAX_POINTS,
    SERIES,
    SERVED,
    merged,
    series_rows,
    served_note,
    served_rows,
    time_scale,
)
from plimsoll.report.charts.theme import Rows
from plimsoll.report.labels import Labels, has_shares, users
from plimsoll.report.tables.analysis import verdict
from plimsoll.report.tables.run import run_tables
from plimsoll.report.tables.table import Table
from plimsoll.report.template import PACKAGE, asset

MAX_RUNS: Final = 60
"""Maximum number of runs whose time series the page contains."""
MANY_RUNS: Final = 24
"""With more runs than this, a series has half the number of points."""
MAX_OPEN: Final = 6
"""Maximum number of components whose charts are not folded."""


def for_script(value: object) -> str:
    """JSON in which no text can end the script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def packed(rows: Rows) -> dict[str, Any]:
    """Rows as columns. A column of texts consists of its distinct texts (`k`) and an index per row (`i`). Missing
    values and those that are not finite are null."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: dict[str, Any] = {}
    for name in names:
        values = [_plain(row.get(name)) for row in rows]
        if values and all(isinstance(value, str) for value in values):
            texts = list(dict.fromkeys(values))
            index = {text: at for at, text in enumerate(texts)}
            columns[name] = {"k": texts, "i": [index[value] for value in values]}
        else:
            columns[name] = values
    return columns


def _finite(tree: Any) -> Any:
    """A specification without NaN and infinities, which JSON does not have."""
    if isinstance(tree, dict):
        return {key: _finite(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_finite(value) for value in tree]
    return _plain(tree) if isinstance(tree, float) else tree


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def figure_data(figure: Figure) -> dict[str, Any]:
    """Specification and packed rows of a figure."""
    return _parted(spec(figure.chart))


def _parted(drawn: dict[str, Any]) -> dict[str, Any]:
    datasets = drawn.pop("datasets", {})
    return {"spec": _finite(drawn), "data": {name: packed(rows) for name, rows in datasets.items()}}


def chosen_runs(labels: Labels) -> list[RunResult]:
    """The runs that the page contains: all, or MAX_RUNS of them, the first repetitions of every cell first."""
    runs = shown_runs(labels)
    if len(runs) <= MAX_RUNS:
        return runs
    kept = {run.id for run in sorted(runs, key=lambda run: run.repetition)[:MAX_RUNS]}
    return [run for run in runs if run.id in kept]


def first_run(labels: Labels, runs: Sequence[RunResult]) -> RunResult | None:
    """The run that the page shows first: a valid one at the highest load of the first combination."""
    valid = [run for run in runs if run.valid] or list(runs)
    combination = labels.combination(valid[0].cell) if valid else ""
    candidates = [run for run in valid if labels.combination(run.cell) == combination]
    return max(candidates, key=lambda run: (labels.load(run) or 0.0, -run.repetition), default=None)


def run_data(run: RunResult, points: int, component_points: int | None = None) -> dict[str, Any]:
    """The data of one run. `points`: maximum number of points of its time series; `component_points`: of those of its
    components (None: the same)."""
    factor, unit = time_scale(run.series)
    rows = series_rows(run.series, points, factor) if run.series else []
    if run.traffic.cohort is not None and run.traffic.cohort.never_started:
        # Transactions that never started are in no record: the line would fall to zero in the middle of the load.
        rows = [row | {"offered": None} for row in rows]
    return {
        "facts": run_facts(run),
        "time_unit": unit,
        "tables": [_table_data(table) for table in run_tables(run)],
        SERIES: packed(rows),
        SERVED: packed(served_rows(run, points)),
        "served_note": served_note(run),
        **{name: packed(mark) for name, mark in mark_rows(run).items()},
        TESTERS: packed(tester_rows(run)),
        "components": component_data(run, component_points or points),
        "times": component_times(run, component_points or points),
        "components_note": components_note(run, component_points or points),
    }


def component_data(run: RunResult, points: int) -> list[dict[str, Any]]:
    """The strips of each component, with the values of each line, or its only value if it is constant. `points`:
    maximum number of bins."""
    series = run.component_series
    out: list[dict[str, Any]] = []
    for component in series.components if series is not None else ():
        shown = [
            {
                "title": strip.title,
                "stacked": strip.is_stacked,
                "legend": strip.has_legend,
                "names": list(strip.lines),
                "values": [_constant_or_all(merged(values, points)[1]) for values in strip.lines.values()],
            }
            for strip in strips(component)
        ]
        if shown:
            is_open = len(out) < MAX_OPEN and not is_folded(component)
            out.append({"title": component_title(component), "open": is_open, "strips": shown})
    return out


def components_note(run: RunResult, points: int) -> str:
    """What the charts of the components show; empty without components. `points`: maximum number of bins."""
    series, times = run.component_series, component_times(run, points)
    if series is None:
        return ""
    left = (
        f" {plural(series.left_out, 'more host')} {'has' if series.left_out == 1 else 'have'} no charts here."
        if series.left_out
        else ""
    )
    return (
        "CPU, memory, disk and network of each host and service, its queues and what was dropped, its main counters, "
        "and the active sessions of a database, on the time axis above. "
        f"Bins of {times[1]:g} s.{left}"
    )


def component_times(run: RunResult, points: int) -> list[float]:
    """The start of each bin of the components, then the end of the last one, in seconds."""
    series = run.component_series
    if series is None:
        return []
    step, _ = merged((None,) * series.bins, points)
    starts = [at * series.quantum_s for at in range(0, series.bins, step)]
    return [*starts, series.bins * series.quantum_s]


def _constant_or_all(values: list[float | None]) -> float | list[float | None] | None:
    return values[0] if len(set(values)) == 1 else values


def _table_data(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "columns": [[column.name, column.numeric] for column in table.columns],
        "rows": table.rows,
        "note": table.note,
    }


def run_facts(run: RunResult) -> str:
    """A run in one line: verdict, transactions, throughput, response times, errors, bottleneck, fairness."""
    traffic = run.traffic
    facts = [
        f"Run {run.id}: {verdict(run)}",
        f"{plural(traffic.transactions, 'transaction')} in {number(traffic.window_s)} s",
        quantity(traffic.throughput_per_s, "rate", "requests/s"),
        f"median {percentile(traffic.response_ms, 'p50')}",
        f"p95 {percentile(traffic.response_ms, 'p95')}",
        f"{percent(traffic.error_rate)} failed" if traffic.errors else "no errors",
        f"limited by {run.bottleneck}" if run.bottleneck != NOT_RESOLVED else "bottleneck not identified",
    ]
    if has_shares(run):
        kind = " of closed loads" if run.open_load == "some" else ""
        facts.append(f"Jain's index {number(run.jain_index, 4)} over {count(len(users(run)))} testers{kind}")
    if run.open_load == "all":
        facts.append("an open load: its testers are slots, not users, so no shares are shown")
    return " · ".join(facts)


def frames() -> dict[str, Any]:
    """The charts of a single run without rows, which the page fills; and `small`, the height of a small strip.

    They are the same in every page, and drawing them takes as long as all other charts of a short run. Therefore a page
    contains `page/frames.json`, which tests/golden writes and compares.
    """
    series, testers = (_parted(chart) for chart in run_charts())
    lines, areas = (_parted(spec(frame(stacked=stacked))) for stacked in (False, True))
    return {"series": series, "testers": testers, "lines": lines, "areas": areas, "small": SMALL}


def page_data(
    name: str, figures: Sequence[Figure], runs: Sequence[RunResult], *, all_bins: bool = False
) -> dict[str, Any]:
    """All data of the page. `name`: the beginning of the file names of saved images; `all_bins`: no bins of time series
    are merged, because the user has chosen their width."""
    is_whole = all_bins or len(runs) <= MANY_RUNS
    points, component_points = (MAX_POINTS, MAX_POINTS) if is_whole else (300, 75)
    return {
        "name": "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in name)[:60] or "plimsoll",
        "figures": {figure.key: figure_data(figure) for figure in figures},
        "frames": json.loads(asset(PACKAGE, "frames.json")),
        "runs": {run.id: run_data(run, points, component_points) for run in runs},
    }
