"""Charts are valid Vega-Lite for every analysis, show a combination in the same way, and contain little data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.golden.fixture import HOSTILE, designed, empty, make_run, single

from plimsoll.analyse.results.analysis import Analysis, OpenLoad
from plimsoll.analyse.results.run import Ecdf, Series
from plimsoll.analyse.stats.interval import Interval
from plimsoll.errors import BadInput
from plimsoll.report.charts import Figure, check_figures, effect_figures, load_figures, spec
from plimsoll.report.charts import series as series_chart
from plimsoll.report.charts.distribution import chosen_loads, thin
from plimsoll.report.charts.resources import testers as testers_chart
from plimsoll.report.charts.theme import axis_format, log_axis
from plimsoll.report.figures import write_figures
from plimsoll.report.labels import COLOURS, Labels


def figures(analysis: Analysis) -> dict[str, Figure]:
    labels = Labels(analysis)
    return {
        figure.key: figure for figure in load_figures(labels) + effect_figures(labels) + check_figures(labels)
    }


def without_load() -> Analysis:
    """The same runs, with nothing that is a number to draw against."""
    analysis = designed()
    info = replace(analysis.experiment, load_factor=None)
    return replace(
        analysis,
        experiment=info,
        cells=tuple(replace(cell, load=None) for cell in analysis.cells),
        saturation=(),
    )


@pytest.mark.parametrize(
    "analysis",
    [
        designed(),
        designed(repetitions=1),
        single(),
        empty(),
        designed(finished=7),
        designed(hostile=True),
        without_load(),
    ],
    ids=["designed", "once", "single", "empty", "unfinished", "hostile", "without-load"],
)  # fmt: skip
def test_every_chart_is_valid_vega_lite(analysis: Analysis) -> None:
    for figure in figures(analysis).values():
        figure.chart.to_dict(validate=True)
        assert figure.table.rows, figure.key
        json.dumps(spec(figure.chart), allow_nan=False)
    for run in analysis.runs[:2]:
        series_chart.chart(run).to_dict(validate=True)
        testers_chart.chart(run).to_dict(validate=True)


def test_the_charts_of_a_designed_experiment() -> None:
    named = "throughput response distribution errors utilization fairness effects-1 order residuals-1"
    assert list(figures(designed())) == named.split()
    assert list(figures(single())) == ["distribution", "utilization"]
    assert figures(empty()) == {}


def test_runs_of_one_transaction_have_no_distribution_to_draw() -> None:
    [run] = single().runs
    once = replace(single(), runs=(replace(run, ecdf=Ecdf((12.5,), (1.0,))),))
    assert "distribution" not in figures(once)


def test_a_combination_has_one_colour_everywhere() -> None:
    for figure in figures(designed()).values():
        text = json.dumps(spec(figure.chart))
        if '"zip level 0"' in text and '"domain": ["zip level 0"' in text:
            assert (
                f'"domain": ["zip level 0", "zip level 1", "zip level 5"], "range": {json.dumps(COLOURS[:3])}'
                in text
            )


def test_more_combinations_than_colours_differ_in_shape() -> None:
    analysis = designed()
    cells = tuple(replace(analysis.cells[0], cell={"zip level": f"{n}", "testers": "1"}) for n in range(30))
    labels = Labels(replace(analysis, cells=cells, runs=()))
    looks = {*zip(labels.colours, labels.shapes, labels.dashes, strict=True)}
    assert len(labels.combinations) == len(looks) == 30


def test_names_from_outside_are_data_never_fields_or_expressions() -> None:
    for figure in figures(designed(hostile=True)).values():
        drawn = spec(figure.chart)
        drawn.pop("datasets")
        for channel in ("transform", "field", "labelExpr", "calculate"):
            for text in _values(drawn, channel):
                assert HOSTILE not in json.dumps(text) or "oneOf" in json.dumps(text)


def _values(tree: object, key: str) -> list[object]:
    if isinstance(tree, dict):
        here = [tree[key]] if key in tree else []
        return here + [found for value in tree.values() for found in _values(value, key)]
    return [found for value in tree for found in _values(value, key)] if isinstance(tree, list) else []


def test_bars_start_at_zero() -> None:
    for key in ("throughput", "errors", "order"):
        scales = [
            scale
            for scale in _values(spec(figures(designed())[key].chart), "scale")
            if isinstance(scale, dict)
        ]
        assert any(scale.get("zero") is True for scale in scales), key


def test_a_series_is_thinned_without_averaging_percentiles() -> None:
    count = 3000
    values = tuple(float(n % 7) for n in range(count))
    series = Series(
        1.0,
        tuple(float(n) for n in range(count)),
        values,
        values,
        values,
        values,
        values,
        values,
        values,
        values,
    )
    rows = series_chart.series_rows(series)
    assert len(rows) <= series_chart.MAX_POINTS
    assert rows[0]["throughput"] == pytest.approx(sum(range(5)) / 5)
    assert rows[0]["mean"] == pytest.approx(sum(n * n for n in range(5)) / sum(range(5)))
    assert rows[0]["p95"] == 4.0
    assert rows[0]["p50"] is None
    assert series_chart.series_rows(replace(series, t_s=())) == []


def test_gaps_in_a_series_stay_gaps() -> None:
    rows = series_chart.series_rows(designed().runs[0].series or pytest.fail("no series"))
    assert rows[3]["mean"] is None
    assert rows[3]["throughput"] is not None


def test_many_testers_become_evenly_spaced_ranks() -> None:
    run = make_run(1, {"testers": "8"}, 1)
    many = tuple(replace(run.testers[n % 8], tester=n, share=n / 500) for n in range(1000))
    rows = testers_chart.tester_rows(replace(run, testers=many))
    assert len(rows) == testers_chart.MAX_BARS
    assert (rows[0]["tester"], rows[-1]["tester"]) == ("local 0", "local 999")


def test_the_tail_keeps_its_ends_and_has_no_logarithm_of_zero() -> None:
    ecdf = Ecdf(tuple(float(n) for n in range(1, 1001)), tuple(n / 1000 for n in range(1, 1001)))
    points = thin(ecdf, 50)
    assert len(points) == 50
    assert points[0] == pytest.approx((1.0, 0.999))
    assert points[-1] == pytest.approx((999.0, 0.001))


def test_at_most_six_loads_get_a_panel() -> None:
    analysis = designed()
    cells = tuple(
        replace(analysis.cells[0], cell={"zip level": "0", "testers": str(n)}, load=float(n))
        for n in range(1, 41)
    )
    loads = chosen_loads(Labels(replace(analysis, cells=cells)))
    assert len(loads) == 6
    assert (loads[0], loads[-1]) == (1.0, 40.0)


@pytest.mark.parametrize(
    ("values", "domain", "ticks"),
    [
        ([1.2, 37.0], [1.0, 50.0], [1, 2, 5, 10, 20, 50]),
        ([0.02, 900.0], [0.02, 1000.0], [0.1, 1.0, 10.0, 100.0, 1000.0]),
        ([5.0], [2.5, 10.0], [5.0, 10.0]),
        ([], [0.5, 2.0], [0.5, 1.0, 2.0]),
    ],
)
def test_logarithmic_axes_have_round_numbers(
    values: list[float], domain: list[float], ticks: list[float]
) -> None:
    assert log_axis(values) == (domain, ticks)


def test_si_prefixes_only_where_numbers_are_large() -> None:
    assert axis_format([None, 1600.0]) == ",~f"
    assert axis_format([1.5e6]) == "~s"


@pytest.mark.parametrize(("kind", "start"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_figures_are_written_without_a_browser(tmp_path: Path, kind: str, start: bytes) -> None:
    written = write_figures(designed(finished=2), tmp_path / "figures", kind)
    names = {path.name for path in written}
    assert {f"throughput.{kind}", f"distribution.{kind}", f"series-0001.{kind}"} <= names
    for path in written:
        content = path.read_bytes()
        assert content.startswith(start), path
        assert b"currentColor" not in content


def test_another_kind_of_figure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="svg, png, pdf"):
        write_figures(single(), tmp_path, "bmp")


def of_rates(open_load: OpenLoad) -> Analysis:
    """The designed experiment with levels that are rates."""
    analysis = designed()
    factor = "testers"
    levels = {f"{load:g}": f"{load:g}/s" for load in (1, 2, 4, 8)}

    def renamed(cell: dict[str, str]) -> dict[str, str]:
        return cell | {factor: levels[cell[factor]]}

    return replace(
        analysis,
        experiment=replace(
            analysis.experiment, factors=analysis.experiment.factors | {factor: list(levels.values())}
        ),
        cells=tuple(replace(cell, cell=renamed(cell.cell)) for cell in analysis.cells),
        runs=tuple(replace(run, cell=renamed(run.cell), open_load=open_load) for run in analysis.runs),
    )


@pytest.mark.parametrize(("open_load", "is_drawn"), [("all", True), ("some", False)])
def test_the_offered_rate_is_a_line_if_the_whole_load_is_open(open_load: OpenLoad, is_drawn: bool) -> None:
    figure = figures(of_rates(open_load))["throughput"]
    assert ("Dashed: throughput equal to the offered rate." in figure.caption) == is_drawn
    assert ("offered" in spec(figure.chart)["datasets"]) == is_drawn


def test_a_very_wide_interval_has_no_bar() -> None:
    analysis = designed()
    name = "response_ms_p95"
    first, *others = analysis.cells
    wide = Interval(40.0, 0.3, 4000.0)
    cells = (replace(first, responses=first.responses | {name: wide}), *others)
    figure = figures(replace(analysis, cells=cells))["response"]
    rows = spec(figure.chart)["datasets"]["p95_cells"]
    assert [("low" in row, row.get("wide")) for row in rows if row["value"] == pytest.approx(40.0)] == [
        (False, True)
    ]
    assert "Intervals wider than a factor of 100 have no bar." in figure.caption
    assert "no bar" not in figures(analysis)["response"].caption
