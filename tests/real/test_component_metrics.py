"""Metrics of components and counters as responses of a 2^k with a real gateway: effects, charts, thresholds."""

from __future__ import annotations

import pytest

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.verdicts import Topic
from plimsoll.api import analysis
from plimsoll.report.charts import effect_figures, load_figures
from plimsoll.report.labels import Labels
from tests.conftest import Lab

EXPERIMENT = """\
plimsoll: 1
name: gateway
vars: {rows: 10}
services:
  db:      {kind: sqlite}
  gateway: {kind: frontier, database: db, connections: 2}
data:
  t_string: {into: db, rows: 1000, row: 100B, compressibility: 50%}
workload:
  driver: frontier
  target: gateway
  timeout: 20s
  frontier: {queries: ["SELECT string FROM t_string LIMIT ${vars.rows}"]}
load: {testers: 2, think: 1ms}
costs: {gateway: 0.36 EUR/h, testers: 0.72 EUR/h}
factors:
  zip:  {path: workload.frontier.zip, low: 0, high: 5}
  size: {1 kB: {vars.rows: 10}, 100 kB: {vars.rows: 1000}}
design: {kind: 2^k, repetitions: 2, seed: 8}
run: {warmup: 500ms, duration: 2s, drain: 20s}
validity: {tester_cpu: 100%, started: 0%, lateness_share: 100%, lateness_floor: 100s, gaps: 100%, steal: 100%}
responses:
  - {metric: utilization.gateway}
  - {metric: cpu_per_transaction.gateway, over: peak}
  - {name: answers_per_request, ratio: {of: counter_total.gateway.answered, to: counter_total.gateway.received}}
charts:
  - {x: size, y: [throughput, cpu.gateway, answers_per_request], by: zip}
  - {x: utilization.gateway, y: response_p50}
thresholds:
  - {metric: memory.gateway, test: "avg<4GB"}
  - {metric: response, test: "max<20s", where: {first: connection}}
"""


@pytest.mark.long
def test_utilization_of_the_gateway_is_a_response(lab: Lab) -> None:
    done = lab.run("run", lab.file(EXPERIMENT))
    assert done.code == 0, done.err
    found = analysis(lab.results())
    names = ["utilization.gateway", "cpu_per_transaction.gateway@peak"]
    names += ["answers_per_request = counter_total.gateway.answered / counter_total.gateway.received"]
    assert [model.response for model in found.models] == names
    for name in names:
        terms = {effect.term for effect in found.effects if effect.response == name}
        assert terms >= {"zip", "size", "zip:size", "residual"}
        assert all(cell.responses[name].mean > 0 for cell in found.cells)
    # Compression of 100 kB costs the gateway processor time that nothing else does.
    by_cell = {(cell.cell["zip"], cell.cell["size"]): cell.responses[names[1]].mean for cell in found.cells}
    assert max(by_cell, key=lambda cell: by_cell[cell]) == ("5", "100 kB")
    figures = {figure.key: figure.title for figure in load_figures(Labels(found))}
    assert figures["metric-1"] == "Utilization of gateway per cell"
    of_effects = [figure.key for figure in effect_figures(Labels(found))]
    kinds = ("effects", "main-effects", "interactions")
    assert of_effects == [f"{kind}-{number}" for number in (1, 2, 3) for kind in kinds]
    size, times = (chart for chart in found.charts if chart.kind == "file")
    assert (size.x_is, size.x_unit, size.y) == ("number", "B", ("throughput_per_s", "cpu.gateway", names[2]))
    assert [point.x for point in size.lines[0].points] == [1e3, 1e5]
    assert times.x == names[0] and sum(len(line.points) for line in times.lines) == 4
    main = next(chart for chart in found.charts if chart.kind == "main effect" and chart.y == (names[0],))
    assert all(point.y.low is not None and point.cells == 2 for point in main.lines[0].points)
    assert {"chart-1", "chart-2"} <= figures.keys()
    assert len(found.verdicts) == 8 and all(verdict.passed for verdict in found.verdicts)
    check_demands(found)


def check_demands(found: Analysis) -> None:
    """What a transaction costs the gateway: at 0.36 EUR per hour a million cost 100 EUR / (transactions per second)."""
    assert [demand.is_highest for demand in found.demands].count(True) == 1
    for demand in found.demands:
        gateway = next(entry for entry in demand.components if entry.component == "gateway")
        # The counters are read every second, and the window has two: its ends are interpolated.
        assert gateway.requests is not None and 0.5 < gateway.requests.mean < 1.5
        assert gateway.cpu_ms is not None and gateway.cpu_ms.mean > 0
        assert gateway.pool_ms is not None and gateway.rest_ms is not None
        assert gateway.cost_per_million is not None and demand.cost_per_million is not None
        assert gateway.cost_per_million.mean == pytest.approx(100 / demand.throughput_per_s.mean)
        assert demand.cost_per_million.mean == pytest.approx(3 * gateway.cost_per_million.mean)
    texts = [finding.text for finding in found.findings if finding.topic == Topic.COST]
    assert len(texts) == 1 and "for testers" in texts[0] and "EUR" in texts[0]
