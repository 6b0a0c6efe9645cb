"""What a transaction costs each component, against values computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.analyse import made

from plimsoll.analyse.answer.load.demands import fan_out_sentence, of_demands
from plimsoll.analyse.design.across import Design, grouped
from plimsoll.analyse.design.demands import cell_demands, cost_per_million, fan_outs
from plimsoll.analyse.results.analysis import Analysis, ExperimentInfo, RunResult
from plimsoll.analyse.results.run import ComponentResources, CountedService
from plimsoll.analyse.stats.interval import Interval
from plimsoll.plan.source.price import Price
from plimsoll.plan.topology import Component, Connection, Topology
from plimsoll.report.labels import Labels
from plimsoll.report.tables import demands as tables

CHAIN = Topology(
    (
        Component("testers", "testers", "", "", 0),
        Component("web", "service", "squid", "", 1),
        Component("gw", "service", "frontier", "", 2),
        Component("db", "service", "postgres", "", 3),
    ),
    (Connection("testers", "web"), Connection("web", "gw"), Connection("gw", "db")),
)
DESIGN = Design({"n": ["1", "4"]}, "n", {"1": 1.0, "4": 4.0})
PRICES = {"db": Price(0.2, "EUR"), "gw": Price(0.1, "EUR")}


def run(
    id: str, level: str, throughput: float, *, received: float = 500.0, statements: float = 2600.0
) -> RunResult:
    """1,000 transactions in a window of 10 s; 1,000 in the whole run."""
    return replace(
        made.run(id, cell={"n": level}, throughput=throughput),
        components=(
            ComponentResources("gw", cpu=0.5, disk_write=1000.0),
            ComponentResources("db", cpu=0.25),
            ComponentResources("host", cpu=1.5, network_in=10_000.0, network_out=20_000.0),
            ComponentResources("testers", cpu=0.1),
        ),
        services=(
            CountedService(
                name="web",
                kind="squid",
                version="",
                derived={},
                counters={"client_http.requests": 1000.0},
                gauges={},
                statements=(),
                window={
                    "client_http.requests": 1000.0,
                    "client_http.kbytes_in": 100.0,
                    "client_http.kbytes_out": 500.0,
                },
            ),
            CountedService(
                name="gw",
                kind="frontier",
                version="",
                derived={},
                counters={"received": received},
                gauges={},
                statements=(),
                window={"received": received, "payload_bytes": 4e6},
                window_gauges={"in_progress": 3.0, "connections_waiting": 1.5, "connections_in_use": 1.0},
            ),
            CountedService(
                name="db",
                kind="postgres",
                version="",
                derived={},
                counters={"xact_commit": 2700.0},
                gauges={"statements.calls": statements},
                statements=(),
                window={"xact_commit": 2700.0},
            ),
        ),
    )


def analysis(*runs: RunResult, prices: dict[str, Price] | None = None) -> Analysis:
    groups = grouped(runs, {}, DESIGN)
    info = ExperimentInfo(
        "x", "", "", 1, {"n": ["1", "4"]}, "n", "full-factorial", 1, len(runs), len(runs), True, (), ""
    )
    costs = PRICES if prices is None else prices
    return Analysis(
        info,
        (),
        runs,
        (),
        (),
        (),
        (),
        (),
        (),
        demands=cell_demands(groups, costs, CHAIN),
        fan_out=fan_outs(groups, CHAIN),
    )


def test_figures_per_transaction() -> None:
    low, high = analysis(run("0001", "1", 50.0), run("0002", "4", 100.0)).demands
    assert (low.is_highest, high.is_highest) == (False, True)
    assert [entry.component for entry in high.components] == ["testers", "web", "gw", "db", "host"]
    testers, web, gw, db, host = high.components

    def mean(interval: Interval | None) -> float | None:
        return None if interval is None else round(interval.mean, 9)

    assert mean(gw.cpu_ms) == 5.0  # 0.5 cores / 100 per second
    assert mean(gw.disk_write) == 10.0
    assert (mean(gw.requests), gw.request_counter) == (0.5, "received")
    assert mean(gw.bytes_out) == 4000.0
    assert gw.bytes_in is None
    assert (mean(web.bytes_in), mean(web.bytes_out)) == (102.4, 512.0)
    assert (mean(db.requests), db.request_counter) == (2.6, "statements.calls")
    assert db.bytes_out is None
    assert (mean(host.bytes_in), mean(host.bytes_out)) == (100.0, 200.0)
    assert (mean(testers.bytes_in), testers.bytes_out) == (1100.0, None)
    assert low.components[2].cpu_ms is not None
    assert low.components[2].cpu_ms.mean == 10.0


def test_times_in_a_gateway_by_littles_law() -> None:
    (demand,) = analysis(run("0001", "4", 100.0)).demands
    gw = demand.components[2]
    assert gw.pool_ms is not None and gw.connection_ms is not None and gw.rest_ms is not None
    assert [gw.pool_ms.mean, gw.connection_ms.mean, gw.rest_ms.mean] == pytest.approx([15.0, 10.0, 5.0])
    assert demand.components[1].pool_ms is None


def test_times_that_a_gateway_counted() -> None:
    """400 requests in the window, 0.4 for each of 1,000 transactions: 12 s of waiting are 30 ms each."""
    counted = {"request_count": 400.0, "request_ns": 20e9, "pool_ns": 12e9, "query_ns": 6e9}
    counted |= {"compression_ns": 1e9, "sending_ns": 0.4e9, "pool_count": 390.0}
    before = run("0001", "4", 100.0)
    gateway = replace(before.services[1], window={**before.services[1].window, **counted})
    both = replace(before, services=(before.services[0], gateway, before.services[2]))
    (demand,) = analysis(both).demands
    times = demand.components[2].gateway
    assert times is not None and times.per_transaction is not None
    shown = (times.request_ms, times.pool_ms, times.query_ms, times.compression_ms, times.sending_ms)
    assert [interval.mean for interval in shown] == pytest.approx([50.0, 30.0, 15.0, 2.5, 1.0])
    assert times.per_transaction.mean == pytest.approx(0.4)
    assert demand.components[1].gateway is None
    table = tables.shown(Labels(analysis(both)))[1]
    assert [column.name for column in table.columns][1:4] == [
        "Waiting for a connection",
        "Query",
        "Compression",
    ]
    assert [cell.replace("\xa0", " ") for cell in table.rows[0]] == [
        "gw",
        "30.0 ms",
        "15.0 ms",
        "2.50 ms",
        "1.00 ms",
        "50.0 ms",
        "0.400",
    ]
    assert table.note == tables.OF_GATEWAYS
    old = tables.shown(Labels(analysis(before)))[1]
    assert (old.note, old.rows[0][1]) == (tables.ESTIMATED, "15.0\xa0ms")


def test_costs_of_a_million_transactions() -> None:
    """100 transactions per second are 360,000 in an hour: 0.20 EUR / 0.36 for a million."""
    (demand,) = analysis(run("0001", "4", 100.0)).demands
    costs = {entry.component: entry.cost_per_million for entry in demand.components}
    assert costs["db"] is not None and demand.cost_per_million is not None
    assert costs["db"].mean == pytest.approx(0.2 / 0.36)
    assert costs["web"] is None
    assert demand.cost_per_million.mean == pytest.approx(0.3 / 0.36)
    assert demand.currency == "EUR"
    assert (demand.cost_per_million.low, demand.cost_per_million.high) == (None, None)


def test_the_interval_of_a_cost_is_that_of_the_throughput() -> None:
    cost = cost_per_million(3.6, Interval(100.0, 80.0, 125.0, df=3))
    assert (cost.mean, cost.low, cost.high) == pytest.approx((10.0, 8.0, 12.5))
    assert cost_per_million(3.6, Interval(100.0, -5.0, 205.0)).high is None
    assert cost_per_million(0.0, Interval(100.0, 80.0, 125.0)).mean == 0.0


def test_a_price_of_a_service_is_that_of_each_instance() -> None:
    two = replace(
        run("0001", "4", 100.0),
        components=(ComponentResources("web.1", cpu=1.0), ComponentResources("web.2", cpu=1.0)),
        services=(),
    )
    prices = {"web": Price(1.0, "EUR"), "web.2": Price(2.0, "EUR")}
    (demand,) = analysis(two, prices=prices).demands
    assert [entry.price_per_hour for entry in demand.components] == [1.0, 2.0]
    assert demand.cost_per_million is not None
    assert demand.cost_per_million.mean == pytest.approx(3.0 / 0.36)


def test_fan_out_is_counted_from_service_to_service() -> None:
    result = analysis(run("0001", "1", 50.0), run("0002", "4", 100.0))
    behind_squid, behind_gateway = result.fan_out
    assert (behind_squid.service, behind_squid.ratio.mean) == ("gw", 0.5)
    assert (behind_gateway.service, behind_gateway.ratio.mean) == ("db", 5.2)
    assert behind_gateway.cell == {"n": "4"}
    text = fan_out_sentence(behind_gateway)
    assert (
        text
        == "Fan-out: gw sends 5.2 database statements to db per client request (with n 4), by their counters."
    )
    assert [finding.topic for finding in of_demands(result)] == ["fan-out", "cost"]


def test_a_cell_with_further_instances_has_no_fan_out_of_the_topology() -> None:
    found = run("0002", "4", 100.0)
    gateway = next(service for service in found.services if service.name == "gw")
    more = replace(found, services=(*found.services, replace(gateway, name="gw.2")))
    result = analysis(run("0001", "1", 50.0), more)
    assert [entry.service for entry in result.fan_out] == ["gw"], "of db it is not known"


def test_a_small_fan_out_and_few_requests_are_not_stated() -> None:
    small = analysis(run("0001", "4", 100.0, received=1000.0, statements=1300.0), prices={})
    assert small.fan_out[1].ratio.mean == 1.3
    assert of_demands(small) == []
    assert [entry.service for entry in analysis(run("0001", "4", 100.0, received=99.0)).fan_out] == ["gw"]


def test_invalid_runs_have_no_demands() -> None:
    result = analysis(replace(run("0001", "4", 100.0), valid=False))
    assert (result.demands, result.fan_out, of_demands(result)) == ((), (), [])


def test_tables() -> None:
    labels = Labels(analysis(run("0001", "1", 50.0), run("0002", "4", 100.0)))
    components, gateways = tables.shown(labels)
    heads = [column.name for column in components.columns]
    assert heads[-3:] == ["Disk write", "EUR/h", "EUR per million"]
    assert "Disk read" not in heads
    assert components.rows[-1][0] == "Total"
    assert components.rows[-1][-1] == "0.833"
    assert all(len(row) == len(heads) for row in components.rows)
    assert gateways.rows[0][0] == "gw"
    assert len(tables.others(labels)[0].rows) == 12
    unpriced = Labels(analysis(run("0001", "4", 100.0), prices={}))
    assert tables.others(unpriced) == ()
    assert "EUR/h" not in [column.name for column in tables.shown(unpriced)[0].columns]
