"""The numbers of the charts: means of several cells with their intervals, main effects, axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats
from tests.unit.analyse.made import run

from plimsoll.analyse.design.across import Design, cell_results, grouped
from plimsoll.analyse.design.charts import ChartData, charts_of
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.charts import Chart
from plimsoll.analyse.stats.means import cell_intervals, mean_of_cells
from plimsoll.plan.model.cell import ChartRequest

Cell = dict[str, str]


def cells_of(values: Sequence[tuple[Cell, Sequence[float]]]) -> list[RunResult]:
    """A run for each throughput of each cell."""
    return [
        run(f"{number:04}", cell=cell, throughput=value)
        for number, (cell, value) in enumerate(((cell, v) for cell, many in values for v in many), 1)
    ]


def made(
    runs: Sequence[RunResult], levels: dict[str, list[str]], *requests: ChartRequest, effects: bool = False
) -> tuple[Chart, ...]:
    design = Design(levels, None, {})
    cells = cell_results(grouped(runs, {}, design), design)
    responses = [("throughput", "linear")] if effects else []
    return charts_of(ChartData(cells, runs, design), requests, responses)  # type: ignore[arg-type]


def test_the_mean_of_several_cells_has_the_error_of_the_effects() -> None:
    """Jain 1991, 18.1 to 18.5: memory and cache, three repetitions, s_e = 3.57 with 8 degrees of freedom. The mean at a
    level is over six runs: its half width is t(0.975; 8) s_e / sqrt(6)."""
    cells = [(15, 18, 12), (25, 28, 19), (45, 48, 51), (75, 75, 81)]
    low = mean_of_cells([interval for interval in cell_intervals(cells)[:2] if interval is not None])
    assert low.mean == pytest.approx(19.5)
    assert low.high is not None and low.high - low.mean == pytest.approx(
        2.306 * 3.5707 / np.sqrt(6), rel=1e-3
    )
    assert low.df == 8


def test_without_a_common_error_the_degrees_of_freedom_are_those_of_welch() -> None:
    """The mean of two cells is half of the difference between one and the negative of the other."""
    first, second = [10.0, 12.0, 9.0, 14.0, 11.0], [30.0, 50.0, 41.0]
    both = mean_of_cells(
        [interval for interval in cell_intervals([first, second], separate=True) if interval is not None]
    )
    welch = stats.ttest_ind(first, [-value for value in second], equal_var=False)
    expected = welch.confidence_interval(0.95)
    assert both.df == pytest.approx(welch.df)
    assert both.low == pytest.approx(expected.low / 2) and both.high == pytest.approx(expected.high / 2)


def test_constant_relative_errors_stay_relative() -> None:
    rng = np.random.default_rng(5)
    cells = [list(mean * np.exp(rng.normal(0, 0.2, 4))) for mean in (10.0, 1000.0)]
    intervals = [interval for interval in cell_intervals(cells, log=True) if interval is not None]
    geometric = mean_of_cells(intervals, log=True)
    logs = [np.log(cell) for cell in cells]
    error = np.sqrt(sum(float(np.var(log, ddof=1)) for log in logs) / 2 / 4 / 2)
    half = stats.t.ppf(0.975, 6) * error
    assert geometric.mean == pytest.approx(np.sqrt(intervals[0].mean * intervals[1].mean))
    assert geometric.high == pytest.approx(geometric.mean * np.exp(half))
    arithmetic = mean_of_cells(intervals)
    assert arithmetic.mean == pytest.approx(np.mean([np.mean(cell) for cell in cells]))
    assert arithmetic.low is not None and 0 < arithmetic.low < arithmetic.mean


def test_a_cell_without_interval_leaves_the_mean_without_one() -> None:
    intervals = [interval for interval in cell_intervals([[1.0], [2.0]]) if interval is not None]
    assert mean_of_cells(intervals).mean == 1.5 and mean_of_cells(intervals).low is None
    assert mean_of_cells(intervals[:1]) == intervals[0]


LEVELS = {"size": ["1 kB", "10 kB"], "zip": ["0", "5"], "method": ["direct", "cached"]}
WHOLE = [
    ({"size": size, "zip": zip_level, "method": method}, [base, base + 2])
    for base, (size, zip_level, method) in enumerate(product(*LEVELS.values()), start=10)
]


def test_a_numeric_factor_has_numbers_and_named_levels_have_none() -> None:
    wanted = ChartRequest("size", "factor", ("throughput",), ("zip",))
    named = ChartRequest("method", "factor", ("throughput", "response_p95"))
    size, method = made(cells_of(WHOLE), LEVELS, wanted, named)
    assert (size.x_is, size.x_unit, size.over, size.is_comparable) == ("number", "B", ("method",), True)
    assert [line.levels for line in size.lines] == [{"zip": "0"}, {"zip": "5"}]
    assert [point.x for point in size.lines[0].points] == [1000.0, 10000.0]
    assert size.lines[0].points[0].y.mean == pytest.approx((11 + 12) / 2)
    assert (size.lines[0].points[0].cells, len(size.lines[0].points[0].runs)) == (2, 4)
    assert (method.x_is, method.by, method.over) == ("level", ("size", "zip"), ())
    assert method.y == ("throughput_per_s",)  # three transactions have no percentile


def test_a_metric_on_the_axis_has_a_point_for_each_cell() -> None:
    [chart] = made(
        cells_of(WHOLE), LEVELS, ChartRequest("throughput", "metric", ("payload_bytes_per_s",), ("zip",))
    )
    points = [point for line in chart.lines for point in line.points]
    assert len(points) == 8
    assert all(point.y.mean == pytest.approx(1000 * (point.x or 0)) for point in points)
    assert all(point.x_interval is not None for point in points)


def test_combinations_that_are_missing_at_one_point_are_left_out() -> None:
    runs = cells_of(WHOLE[:-1])  # 10 kB, zip 5, cached
    [chart] = made(runs, LEVELS, ChartRequest("size", "factor", ("throughput",), ()))
    assert [point.cells for point in chart.lines[0].points] == [3, 3]
    assert chart.is_comparable


def test_main_effects_and_interactions_of_crossed_factors() -> None:
    charts = made(cells_of(WHOLE), LEVELS, effects=True)
    kinds = [(chart.kind, chart.x, *chart.by) for chart in charts]
    assert kinds == [
        ("main effect", "size"),
        ("main effect", "zip"),
        ("main effect", "method"),
        ("interaction", "size", "zip"),
        ("interaction", "size", "method"),
        ("interaction", "zip", "method"),
    ]
    assert [point.y.mean for point in charts[0].lines[0].points] == pytest.approx([12.5, 16.5])
    assert all(not point.runs for chart in charts for line in chart.lines for point in line.points)


def test_a_fraction_has_main_effects_and_no_interactions() -> None:
    half = [
        entry
        for entry in WHOLE
        if (entry[0]["size"] == "1 kB") ^ (entry[0]["zip"] == "0") ^ (entry[0]["method"] == "direct")
    ]
    charts = made(cells_of(half), LEVELS, effects=True)
    assert [chart.x for chart in charts] == ["size", "zip", "method"]


def test_nested_factors_have_no_main_effect_that_is_another_factors() -> None:
    levels = {"method": ["direct", "gateway"], "zip": ["0", "5"]}
    cells = [
        ({"method": "direct"}, [5.0, 6.0]),
        *(({"method": "gateway", "zip": z}, [3.0, 4.0]) for z in "05"),
    ]
    runs = cells_of(cells)
    charts = made(runs, levels, ChartRequest("method", "factor", ("throughput",), ()), effects=True)
    assert [(chart.kind, chart.x, chart.is_comparable) for chart in charts] == [
        ("file", "method", False),
        ("main effect", "zip", True),
    ]


def test_the_load_is_a_number_whatever_its_levels_are_called() -> None:
    runs = cells_of([({"testers": "few"}, [5.0]), ({"testers": "many"}, [9.0])])
    design = Design({"testers": ["many", "few"]}, "testers", {"few": 2.0, "many": 64.0})
    cells = cell_results(grouped(runs, {}, design), design)
    request = ChartRequest("testers", "factor", ("throughput",))
    [chart] = charts_of(ChartData(cells, runs, design), [request], [])
    assert (chart.x_is, chart.x_levels) == ("number", ("few", "many"))
    assert [point.x for point in chart.lines[0].points] == [2.0, 64.0]


def test_a_chart_without_any_value_is_left_out() -> None:
    runs = [replace(one, valid=False) for one in cells_of(WHOLE)]
    assert made(runs, LEVELS, ChartRequest("size", "factor", ("throughput",))) == ()
