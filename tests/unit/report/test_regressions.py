"""Tables and charts of regressions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pytest
from tests.golden.fixture import designed, set_up

from plimsoll.analyse.answer.worded import worded_regression
from plimsoll.analyse.effects.regressions import regress
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.report.charts import effect_figures, spec
from plimsoll.report.html import render
from plimsoll.report.labels import Labels
from plimsoll.report.tables import regressions as tables


def made(*, repetitions: int = 2, zips: tuple[str, ...] = ("0", "5")) -> Analysis:
    """The designed experiment, with its testers as a quantitative factor of a made-up throughput."""
    analysis = designed(seconds=6)
    rng = np.random.default_rng(1)
    rows = [(t, z) for t in ("1", "2", "4", "8") for z in zips for _ in range(repetitions)]
    y = [90 * float(t) ** 0.8 * math.exp(rng.normal(0, 0.02)) for t, _ in rows]
    factors = {"testers": [r[0] for r in rows], "zip level": [r[1] for r in rows]}
    found = regress(y, factors, response="throughput_per_s")
    return replace(analysis, regressions=tuple(map(worded_regression, found)))


def regression_figures(analysis: Analysis) -> list[Any]:
    return [figure for figure in effect_figures(Labels(analysis)) if figure.key.startswith("regression-")]


def test_a_regression_on_one_factor_has_a_valid_chart_with_runs_band_and_line() -> None:
    (figure,) = regression_figures(made())
    alt.Chart.from_dict({**spec(figure.chart), "$schema": ""}, validate=True)
    datasets = figure.chart.datasets
    assert {row["others"] for row in datasets["fitted"]} == {"zip level 0", "zip level 5"}
    assert {row["others"] for row in datasets["measured"]} == {"zip level 0", "zip level 5"}
    assert all(row["low"] < row["mean"] < row["high"] for row in datasets["fitted"])
    assert figure.caption.startswith("The throughput is proportional to testers^")
    assert not figure.on_demand and "dashed" not in figure.caption


def test_an_untested_form_is_dashed() -> None:
    (figure,) = regression_figures(made(repetitions=1, zips=("0",)))
    assert "dashed: the form is rejected or could not be tested" in figure.caption
    assert '"strokeDash": [5, 4]' in figure.chart.to_json(indent=None)


def test_more_combinations_than_colours_are_in_the_table_only() -> None:
    (figure,) = regression_figures(made(zips=tuple("abcdefghij")))
    assert figure.caption.endswith("2 further combinations are not drawn.")
    assert len({row["others"] for row in figure.chart.datasets["fitted"]}) == 8


def test_the_table_has_every_form_and_marks_the_reported_one() -> None:
    (regression,) = made(zips=("0",)).regressions
    table = tables.table(regression)
    assert [row[0] for row in table.rows] == ["linear", "", "log-log (reported)", ""]
    assert [row[1] for row in table.rows] == [
        "constant",
        "slope of testers",
        "constant",
        "exponent of testers",
    ]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert table.rows[2][5:7] == (table.rows[2][5], "2, 4")


@pytest.mark.parametrize("joint", [False, True])
def test_the_page_contains_the_regressions(joint: bool) -> None:
    analysis = made()
    if joint:
        analysis = replace(analysis, regressions=tuple(replace(r, lines=()) for r in analysis.regressions))
    page = render(analysis, set_up())
    assert ("Throughput by testers: regression" in page) is not joint
    assert "exponent of testers" in page and "the model fits" in page
