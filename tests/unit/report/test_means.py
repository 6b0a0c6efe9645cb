"""Charts over the runs: those of the experiment file, main effects, interactions, and grouped bars of cells."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.golden.fixture import designed, set_up

from plimsoll.analyse.design.across import Design
from plimsoll.analyse.design.charts import ChartData, charts_of
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.plan.model.cell import ChartRequest
from plimsoll.report.charts import Figure, effect_figures, load_figures, spec
from plimsoll.report.charts.means import is_geometric
from plimsoll.report.html import render
from plimsoll.report.labels import COLOURS, Labels


def with_charts(*requests: ChartRequest, repetitions: int = 2, hostile: bool = False) -> Analysis:
    """The runs of the golden analysis, without a load, with charts."""
    analysis = designed(repetitions=repetitions, hostile=hostile)
    cells = tuple(replace(cell, load=None) for cell in analysis.cells)
    design = Design(analysis.experiment.factors, None, {})
    names = analysis.experiment.responses
    charts = charts_of(ChartData(cells, analysis.runs, design), requests, [(name, "log") for name in names])
    info = replace(analysis.experiment, load_factor=None)
    return replace(analysis, experiment=info, cells=cells, saturation=(), charts=charts)


def figures(analysis: Analysis) -> dict[str, Figure]:
    labels = Labels(analysis)
    return {figure.key: figure for figure in (*load_figures(labels), *effect_figures(labels))}


def requests(*, hostile: bool = False) -> tuple[ChartRequest, ...]:
    other, load = list(designed(hostile=hostile).experiment.factors)
    return (
        ChartRequest(load, "factor", ("throughput", "response_p95"), (other,)),
        ChartRequest(other, "factor", ("throughput",), ()),
        ChartRequest("throughput", "metric", ("response",)),
    )


@pytest.mark.parametrize(("repetitions", "hostile"), [(1, False), (2, True)])
def test_every_chart_is_valid_and_has_a_table(repetitions: int, hostile: bool) -> None:
    drawn = figures(with_charts(*requests(hostile=hostile), repetitions=repetitions, hostile=hostile))
    for key in ("chart-1", "chart-2", "chart-3", "main-effects-1", "interactions-1"):
        figure = drawn[key]
        figure.chart.to_dict(validate=True)
        assert figure.table.rows
        json.dumps(spec(figure.chart), allow_nan=False)
    has_intervals = "95 % intervals" in drawn["chart-1"].caption
    assert has_intervals is (repetitions > 1)
    assert drawn["main-effects-1"].caption.startswith("Points: geometric means over the cells with the level")


def test_the_page_has_them_in_their_sections() -> None:
    page = render(with_charts(*requests()), set_up(), bundle="")
    assert page.index("Charts of the experiment file") < page.index("Main effects on the")
    assert 'id="charts"' not in render(designed(), set_up(), bundle="")


def test_metrics_share_the_x_axis_and_averages_are_named() -> None:
    drawn = figures(with_charts(*requests()))
    assert len(spec(drawn["chart-1"].chart)["vconcat"]) == 2
    assert "with equal weights over the levels of" in drawn["chart-2"].caption
    assert "equal weights" not in drawn["chart-1"].caption


def test_cells_without_a_load_are_groups_of_bars_from_zero() -> None:
    analysis = with_charts()
    drawn = spec(figures(analysis)["throughput"].chart)
    bars = drawn["layer"][0]
    assert bars["mark"]["type"] == "bar" and bars["encoding"]["x"]["scale"]["zero"] is True
    assert bars["encoding"]["yOffset"]["field"] == "bar"
    assert bars["encoding"]["color"]["scale"]["range"] == list(COLOURS[: len(Labels(analysis).bars)])
    groups = {row["group"] for row in drawn["datasets"]["throughput_cells"]}
    assert len(groups) == len(next(iter(analysis.experiment.factors.values())))


@pytest.mark.parametrize(
    ("levels", "is_log"),
    [([1, 2, 4, 8], True), ([1, 10, 100], True), ([1, 100], True), ([1, 2, 3, 4, 8], False), ([0, 10, 1000], False),
     ([1, 8], False), ([5], False)],
)  # fmt: skip
def test_levels_in_equal_ratios_are_on_a_logarithmic_axis(levels: list[float], is_log: bool) -> None:
    assert is_geometric(levels) is is_log
