"""A search in the page and in the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.golden.fixture import designed, set_up
from tests.unit.analyse.searches import found, result_of, trials_of

from plimsoll.analyse.answer.compose import so_far, with_answer
from plimsoll.analyse.effects.found_capacity import capacity_effects
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.load.search import MeasuredThroughput, SearchCell, SearchResult
from plimsoll.report.charts import check_figures
from plimsoll.report.charts.search import figures
from plimsoll.report.html import render
from plimsoll.report.key_figures import key_figures
from plimsoll.report.labels import Labels
from plimsoll.report.tables import search as tables
from plimsoll.report.terminal import summary_lines

LEVELS = {"servers": ["2", "3"]}


def result(axis: str = "load.rate") -> SearchResult:
    measured = MeasuredThroughput(8, 95.0, 90.0, 99.0)
    cells = tuple(
        SearchCell({"servers": label}, (found(*estimates, throughput=measured),), trials_of(3, at), 66.0)
        for at, (label, estimates) in enumerate((("2", (99, 100, 101)), ("3", (148, 150, 152))))
    )
    whole = result_of(*cells, axis=axis)
    return replace(whole, ratios=capacity_effects(whole, LEVELS).ratios)


def searched(axis: str = "load.rate") -> Analysis:
    return with_answer(replace(designed(), search=result(axis), saturation=(), verdicts=()))


def test_the_charts_show_trials_bounds_and_percentiles() -> None:
    analysis = searched()
    cell = analysis.search.cells[0] if analysis.search else None
    assert analysis.search is not None and cell is not None
    lost = replace(cell.trials[-1], percentile_ms={"fast": None}, high_loss={"fast": True})
    bounded = replace(cell.trials[0], bounds={"fast": (90.0, 110.0)})
    search = replace(
        analysis.search,
        cells=(replace(cell, trials=(bounded, *cell.trials[1:-1], lost)), analysis.search.cells[1]),
    )
    trials, percentiles = figures(Labels(replace(analysis, search=search)))
    for figure in (trials, percentiles):
        figure.chart.to_dict(validate=True)
    rows = trials.chart.to_dict()["datasets"]["trials0"]
    assert [row["elapsed"] for row in rows] == [11, 22, 33, 44, 55, 66]
    assert (rows[0]["lower"], rows[0]["upper"]) == (90.0, 110.0)
    rows = percentiles.chart.to_dict()["datasets"]["percentiles0"]
    assert rows[-1]["at"] == 100, "the upper end of the axis, where the limit is"
    assert rows[-1]["outcome"] == "exceeded the goal" and rows[0]["outcome"] == "met the goal"
    assert "among the starts that failed" in percentiles.caption
    assert percentiles.table.rows[5][-1] == "failed or not started"


def test_a_goal_without_a_limit_of_the_response_time_has_no_chart_of_it() -> None:
    analysis = searched()
    assert analysis.search is not None
    cells = tuple(
        replace(cell, trials=tuple(replace(trial, percentile_ms={}) for trial in cell.trials))
        for cell in analysis.search.cells
    )
    drawn = figures(Labels(replace(analysis, search=replace(analysis.search, cells=cells))))
    assert [figure.key for figure in drawn] == ["trials"]
    assert figures(Labels(designed())) == []


def test_the_tables_have_time_ratio_and_measured_throughput() -> None:
    table = tables.found(result())
    assert [column.name for column in table.columns][-2:] == ["Trials", "Time"]
    assert table.rows[0][-2:] == ("6", "1 min 6 s")
    ratios = tables.ratios(result())
    assert ratios is not None and ratios.rows[0][3] == "1.50"
    assert [column.name for column in ratios.columns][:4] == ["Goal", "Capacity with", "Relative to", "Ratio"]
    in_testers = tables.found(result("load.testers"))
    assert in_testers.rows[0][-3] == "95.0 (90.0 to 99.0)"


def test_the_page_begins_with_the_capacity() -> None:
    shown = {figure.name: figure for figure in key_figures(Labels(searched()))}
    assert shown["Capacity, fast"].value.replace("\N{NO-BREAK SPACE}", " ") == "150 requests/s"
    assert shown["Capacity, fast"].note.startswith("servers 3, 145 to 155")
    assert (shown["Trials"].value, shown["Trials"].note) == ("12", "2 min 12 s")
    page = render(searched(), set_up(), bundle="")
    assert "6 searches of each cell" in page and "Ratios of capacities" in page
    assert "order" not in {figure.key for figure in check_figures(Labels(searched()))}


@pytest.mark.parametrize(
    ("ending", "value", "note"),
    [
        ("lowest-fails", "–", "the lowest load already fails"),
        ("generator", "–", "the load generator was the limit"),
    ],
)
def test_a_search_without_a_bracket_states_why(ending: str, value: str, note: str) -> None:
    cell = SearchCell({}, (found(None, ending=ending),), trials_of(1, 0), 9.0)
    figure = key_figures(Labels(replace(searched(), search=result_of(cell))))[0]
    assert (figure.value, figure.note) == (value, note)


def test_the_terminal_counts_trials_instead_of_listing_loads() -> None:
    lines = "\n".join(summary_lines(searched(), 100))
    assert "trials............: " in lines and "in 2 min 12 s (6 searches of each of 2 cells)" in lines
    assert "combination" not in lines
    assert "with servers 3 the capacity is 1.50 times" in lines


def test_an_unfinished_search_counts_its_trials() -> None:
    analysis = searched()
    started = replace(analysis, experiment=replace(analysis.experiment, complete=False, finished_runs=7))
    assert so_far(started) == "So far: 7 trials of the search."
