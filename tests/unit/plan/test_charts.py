"""`charts:` of an experiment file: what it may name, and refusals."""

from __future__ import annotations

import json

import pytest
from tests.unit.plan.helpers import BASE, load, problems

from plimsoll.plan.model.cell import ChartRequest
from plimsoll.plan.plan import make_plan

FACTORS = """\
factors:
  size: {1 kB: {run.pause: 1s}, 10 kB: {run.pause: 2s}}
  throughput: {path: run.drain, levels: [1s, 2s]}
responses: [{name: reads, ratio: {of: counter.web.a, to: counter.web.b}}]
"""


def with_charts(text: str, before: str = FACTORS) -> str:
    return f"{BASE}{before}charts:\n  - {text}\n"


def test_a_chart_is_stored_in_the_plan() -> None:
    experiment = load(with_charts("{x: size, y: [response_p95, cpu.web, reads], by: throughput}"))
    ratio = "reads = counter.web.a / counter.web.b"
    assert experiment.charts == (
        ChartRequest("size", "factor", ("response_p95", "cpu.web", ratio), ("throughput",)),
    )
    [stored] = json.loads(json.dumps(make_plan(experiment, 1).to_json()))["charts"]
    assert stored == {"x": "size", "x_is": "factor", "y": [*experiment.charts[0].y], "by": ["throughput"]}


def test_without_charts_the_plan_has_no_such_key() -> None:
    assert "charts" not in make_plan(load(BASE), 1).to_json()


def test_a_factor_takes_precedence_over_a_metric_of_its_name() -> None:
    [chart] = load(with_charts("{x: throughput, y: throughput}")).charts
    assert chart == ChartRequest("throughput", "factor", ("throughput",), None)
    [chart] = load(with_charts("{x: throughput, y: response}", before="")).charts
    assert chart.x_is == "metric"


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (
            "{x: szie, y: response}",
            "charts.0.x",
            "there is no factor and no metric szie; the factors are size",
        ),
        ("{x: size, y: [size]}", "charts.0.y.0", "size is a factor; expected a metric"),
        ("{x: size, y: rps}", "charts.0.y.0", "there is no metric rps"),
        ("{x: size, y: cpu.wbe}", "charts.0.y.0", "there is no component wbe"),
        ("{x: cpu.wbe, y: response}", "charts.0.x", "there is no component wbe"),
        ("{x: size, y: [response, response_mean]}", "charts.0.y.1", "response occurs twice"),
        ("{x: response, y: response_mean}", "charts.0.y.0", "response is already on the x axis"),
        ("{x: size, y: response, by: size}", "charts.0.by.0", "size is already on the x axis"),
        (
            "{x: size, y: response, by: [zip]}",
            "charts.0.by.0",
            "there is no factor zip; the factors are size",
        ),
        ("{x: size, y: []}", "charts.0.y", "expected at least one item"),
        ("{x: size}", "charts.0.y", "required key missing"),
        ("throughput", "charts.0", "expected a chart, for example {x: size"),
    ],
)
def test_what_a_chart_cannot_show_is_refused(text: str, path: str, expected: str) -> None:
    [problem] = problems(with_charts(text))
    line = with_charts("").count("\n")
    assert problem.startswith(f"x.yaml:{line}: {path}: ")
    assert expected in problem
