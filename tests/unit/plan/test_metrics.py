"""The table of metrics: all uses of a metric are derived from its row."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.unit.analyse.made import histogram, latency, run
from tests.unit.plan.helpers import BASE, load, problems

from plimsoll.analyse.answer.left_out import worded_left_out
from plimsoll.analyse.design.across import Design, cell_results, grouped
from plimsoll.analyse.design.thresholds import Sample, observe
from plimsoll.analyse.effects.fits import ResponseModel, fit_all
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.metrics import canonical, metric_value
from plimsoll.analyse.results.named import NamedMetric
from plimsoll.analyse.results.run import CountedService, Peak, Utilization, WorkloadResult
from plimsoll.analyse.results.wording import describe
from plimsoll.plan import json_schema, parse_rule
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.catalogue import METRICS
from plimsoll.plan.metrics.page import metrics_page
from plimsoll.plan.metrics.table import (
    KINDS,
    Distribution,
    Kind,
    Metric,
    MetricTable,
    Part,
    Quotient,
    Scope,
    Source,
    Total,
    Use,
    Value,
    Values,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"


def test_the_page_of_metrics_is_generated_from_the_table() -> None:
    page = metrics_page(METRICS)
    if os.environ.get("PLIMSOLL_GOLDEN") == "write":
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page, (
        "docs/metrics.md is not that of plan/metrics/catalogue.py: renew it with PLIMSOLL_GOLDEN=write"
    )


def test_names_are_those_of_earlier_versions() -> None:
    assert ", ".join(METRICS.names(Use.RULE)) == (
        "response, request, lateness, first_byte, transfer, response_less_rtt, stale_age, session, connect, "
        "tls_handshake, outage_s, outage, recovery_s, recovery, disk_wait.COMPONENT, "
        "cpu_per_transaction.COMPONENT, throughput, throughput_per_s, items_per_s, "
        "payload_bytes_per_s, wire_bytes_per_s, offered_per_s, throughput_sd, throughput_min, throughput_max, "
        "reads_per_s, writes_per_s, sessions_per_s, sessions, disk_read.COMPONENT, disk_write.COMPONENT, "
        "network_in.COMPONENT, network_out.COMPONENT, listen_overflows.COMPONENT, listen_drops.COMPONENT, "
        "syn_retransmits.COMPONENT, packet_drops.COMPONENT, disk_iops.COMPONENT, "
        "counter.SERVICE.COUNTER, errors, stale_share, origin_share, needless_share, "
        "session_errors, availability, ports.COMPONENT, outside_cpu.COMPONENT, "
        "hit_ratio.SERVICE, byte_hit_ratio.SERVICE, buffer_hit_ratio.SERVICE, transactions, "
        "dropped, missed, "
        "concurrency, cpu.COMPONENT, listen_queue.COMPONENT, sockets.COMPONENT, run_queue.COMPONENT, "
        "disk_queue.COMPONENT, counter_total.SERVICE.COUNTER, memory.COMPONENT, own_memory.COMPONENT, "
        "memory_peak.COMPONENT, "
        "disk_read_per_transaction.COMPONENT, disk_write_per_transaction.COMPONENT, "
        "network_in_per_transaction.COMPONENT, network_out_per_transaction.COMPONENT, utilization.COMPONENT, "
        "jain_index, share_cv, share_min, share_max, counter_per_transaction.SERVICE.COUNTER, gauge.SERVICE.GAUGE, "
        "metric.METRIC, RATIO = OF / TO"
    )
    durations = [f"{time}_{statistic}" for time in TIMES for statistic in STATISTICS]
    ages = [
        f"{form}_{statistic}"
        for form in ("stale_age", "stale_age_ms")
        for statistic in ("mean", "p50", "p95", "max")
    ]
    connections = [
        f"{name}_{statistic}"
        for name in ("session", "connect", "tls_handshake")
        for statistic in CONNECTION_TIMES
    ]
    assert METRICS.names(Use.RESPONSE) == (
        *(name for name in METRICS.names(Use.RULE) if name not in ("transactions", "dropped", "missed")),
        "error_rate",
        *durations,
        *ages[:4],
        *connections,
        *(f"metric.METRIC_{statistic}" for statistic in (*STATISTICS_OF_METRICS, "count")),
        *ages[4:],
    )


CONNECTION_TIMES = ("mean", "p50", "p95", "p99", "max")
STATISTICS = ("mean", "sd", "p50", "p90", "p95", "p99", "p999", "max", "min")
STATISTICS_OF_METRICS = ("mean", "sd", "p50", "p90", "p95", "p99", "max", "min")
TIMES = ("response", "request", "lateness", "first_byte", "transfer", "response_less_rtt")


def test_results_have_the_names_and_the_order_of_earlier_versions() -> None:
    times = [f"{time}_ms_{named}" for time in TIMES for named in STATISTICS]
    assert [statistic.name for statistic in METRICS.results] == [
        *("throughput_per_s", "items_per_s", "payload_bytes_per_s", "wire_bytes_per_s", "offered_per_s"),
        *("concurrency", "error_rate", "jain_index", "share_cv", "share_min", "share_max", *times),
        *("throughput_sd", "throughput_min", "throughput_max", "reads_per_s", "writes_per_s"),
        *("stale_share", *(f"stale_age_ms_{statistic}" for statistic in ("mean", "p50", "p95", "max"))),
        *("origin_share", "needless_share", "sessions_per_s", "session_error_rate"),
        *(
            f"{name}_ms_{statistic}"
            for name in ("session", "connect", "tls_handshake")
            for statistic in CONNECTION_TIMES
        ),
        *("outage_ms", "availability", "recovery_ms"),
    ]
    assert METRICS.capacities == {
        *("throughput_per_s", "items_per_s", "payload_bytes_per_s", "wire_bytes_per_s", "sessions_per_s"),
    }


@pytest.mark.parametrize("row", METRICS.rows, ids=lambda row: row.name)
def test_a_row_has_valid_rules_readings_and_paths(row: Metric) -> None:
    """Its example is a valid rule, its readings are those of the engine, and its paths exist."""
    engine = (Path(__file__).resolve().parents[3] / "crates/model/src/run.rs").read_text(encoding="utf-8")
    parts = {"of": "throughput", "to": "concurrency"}
    for use in row.uses():
        for spelling in row.spellings(use):
            name = re.sub(r"\{(\w+)\}", lambda part: parts.get(part[1], "name"), spelling)
            named = METRICS.named(name, use)
            assert named is not None and named.metric is row
            metric_value(run(), name)
    if row.rule_statistics:
        assert parse_rule(row.example, name).metric == name
        observe(parse_rule(row.example, name), Sample([run()], [{}]))
    for reading in row.live.values():
        assert "".join(part.title() for part in reading.split("-")) in re.findall(
            r"^    (\w+),", engine, re.M
        )


def test_no_two_rows_share_a_name() -> None:
    with pytest.raises(ValueError, match="two metrics have the name response_p95"):
        METRICS.extended(Metric("response_p95", "", Kind.TIME, Value("traffic.errors")))


# -- one row is enough

TOY = Metric(
    "toy_per_s", "toys", Kind.RATE, Value("peak.throughput_per_s"), unit="toys/s", note="of the tests"
)


@pytest.fixture
def with_toy(monkeypatch: pytest.MonkeyPatch) -> MetricTable:
    table = METRICS.extended(TOY)
    monkeypatch.setattr(catalogue, "METRICS", table)
    return table


def peaked(id: str, throughput: float) -> RunResult:
    return replace(run(id, cell={"a": id}), peak=Peak(0.0, 1.0, 1.0, throughput))


def test_one_row_adds_a_metric(with_toy: MetricTable) -> None:
    section = (
        "responses: [{metric: toy_per_s, scale: log}]\nthresholds: [{metric: toy_per_s, test: 'rate>5/s'}]\n"
    )
    experiment = load(BASE + section)
    assert [response.metric for response in experiment.responses] == ["toy_per_s"]
    rule = experiment.thresholds[0].rule
    assert (rule.stat, rule.value) == ("rate", 5.0)
    assert (
        "expected one of rate, avg"
        in problems(BASE + "thresholds: [{metric: toy_per_s, test: 'p(95)<5s'}]\n")[0]
    )
    # messages
    assert 'did you mean "toy_per_s"?' in problems(BASE + "responses: [{metric: toys_per_s}]\n")[0]
    assert (
        "counter.SERVICE.COUNTER, toy_per_s, errors" in problems(BASE + "responses: [{metric: qqqqqq}]\n")[0]
    )
    assert (
        "counter.SERVICE.COUNTER, toy_per_s, errors"
        in problems(BASE + "thresholds: [{metric: qqqq, test: 'a<1'}]\n")[0]
    )
    assert "toy_per_s, errors" in problems(BASE + "ceiling: [{metric: qqqq, test: 'a<1'}]\n")[0]
    (left,) = map(worded_left_out, fit_all([run()], {"a": ["x"]}, [ResponseModel("qqqq")])[2])
    assert "toy_per_s" in left.why
    # words
    assert (describe("toy_per_s").title, describe("toy_per_s").unit) == ("toys", "toys/s")
    page = metrics_page(with_toy)
    assert (
        "| `toy_per_s` | toys: of the tests | rate | toys/s | mean of the runs | `transactions.parquet` |"
        in page
    )
    assert "| `toy_per_s` | – | `toy_per_s` | yes | `rate`, `avg` | – |" in page
    # values
    runs = [peaked("1", 7.0), peaked("2", 9.0)]
    assert metric_value(runs[0], "toy_per_s") == 7.0
    assert observe(rule, Sample(runs, [{}, {}])) == (8.0, None)
    cells = cell_results(grouped(runs, {}, Design({}, None, {})), Design({}, None, {}))
    assert [cell.responses["toy_per_s"].mean for cell in cells] == [7.0, 9.0]


def test_a_time_without_a_distribution_is_judged_by_its_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results contain milliseconds, and rules contain seconds."""
    row = Metric("toy_time", "toy time", Kind.TIME, Value("peak.throughput_per_s"), in_results="toy_ms")
    monkeypatch.setattr(catalogue, "METRICS", METRICS.extended(row))
    assert (row.rule_statistics, row.example) == (("avg",), "avg<500ms")
    rule = parse_rule("avg<9ms", "toy_time")
    observed, remark = observe(rule, Sample([peaked("1", 7.0), peaked("2", 9.0)], [{}, {}]))
    assert observed == pytest.approx(0.008) and remark is None
    assert rule.holds(0.008) and not rule.holds(0.010)
    refused = problems(BASE + "thresholds: [{metric: toy_time, test: 'p(95)<5ms'}]\n")[0]
    assert "does not fit the metric toy_time: expected one of avg" in refused


def test_the_example_of_a_row_has_one_of_its_statistics() -> None:
    row = replace(TOY, kind=Kind.INDEX, unit="", rules=("max", "avg"))
    assert row.example == "avg>0.9"
    assert replace(row, rules=("max",)).example == "max>0.9"
    assert replace(row, rules=()).example == "avg>0.9"


def validator() -> jsonschema.Draft202012Validator:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def judged(section: str, metric: str) -> bool:
    """Whether the schema accepts the metric in the section."""
    schema = json_schema()["$defs"][section]["properties"]["metric"]
    return bool(jsonschema.Draft202012Validator(schema).is_valid(metric))


def test_one_row_adds_a_metric_to_the_schema(with_toy: MetricTable) -> None:
    assert validator()
    for section in ("ResponseRaw", "ThresholdRaw"):
        assert judged(section, "toy_per_s")
    assert not judged("CeilingRaw", "toy_per_s")


def test_the_schema_has_the_names_of_each_section() -> None:
    assert validator()
    assert judged("ResponseRaw", "response_p95") and not judged("ThresholdRaw", "response_p95")
    assert judged("ThresholdRaw", "dropped") and not judged("ResponseRaw", "dropped")
    assert judged("CeilingRaw", "errors") and not judged("CeilingRaw", "items_per_s")
    assert judged("ResponseRaw", "${vars.metric}") and not judged("ResponseRaw", "toy_per_s")


# -- metrics with open parts, and scopes

WORKLOAD = Scope("[{workload}]", "traffic.", "workloads[workload={workload}].traffic.", " of {workload}")
PEAK = Scope("@peak", "traffic.", "peak.", " in the peak window", metrics=("throughput",))
NEXT = MetricTable(
    (
        *(row for row in METRICS.rows if not row.parts),
        Metric(
            "cpu.{component}",
            "CPU of {component}",
            Kind.RESOURCE,
            Value("utilization[component={component}].mean"),
            Source.SAMPLES,
        ),
        Metric(
            "counter.{service}.{counter}",
            "{counter} of {service}",
            Kind.COUNT,
            Total("services[name={service}].counters[{counter}]"),
            Source.RUN,
        ),
        Metric(
            "driver.{metric}",
            "{metric}",
            Kind.INDEX,
            Value("metrics[name={metric}]"),
            Source.NAMED,
            statistics=("mean", "p50", "p95", "max"),
            rules=("avg",),
        ),
    ),
    (WORKLOAD, PEAK),
    "response",
)


@pytest.fixture
def with_next(monkeypatch: pytest.MonkeyPatch) -> RunResult:
    """A run with all metrics of the table NEXT."""
    monkeypatch.setattr(catalogue, "METRICS", NEXT)
    base = peaked("1", 700.0)
    traffic = replace(base.traffic, throughput_per_s=40.0, response_ms=replace(latency([5.0]), p95=6.0))
    return replace(
        base,
        utilization=(Utilization("db", "service", "busiest thread", 0.8, None, None),),
        services=(CountedService("db", "mariadb", "11", {}, {"Com_select": 12.0, "a.b": 3.0}, {}),),
        metrics=(NamedMetric("tcp_rtt", 5, 0.01, None, 0.02, 0.03, 0.04),),
        workloads=(WorkloadResult("web", traffic),),
    )


@pytest.mark.parametrize(
    ("text", "name", "title", "value"),
    [
        ("cpu.db", "cpu.db", "CPU of db", 0.8),
        ("cpu.cache", "cpu.cache", "CPU of cache", None),
        ("counter.db.Com_select", "counter.db.Com_select", "Com_select of db", 12.0),
        ("counter.db.a.b", "counter.db.a.b", "a.b of db", 3.0),
        ("counter.db.none", "counter.db.none", "none of db", None),
        ("driver.tcp_rtt", "driver.tcp_rtt_mean", "tcp_rtt", 0.01),
        ("driver.tcp_rtt_p95", "driver.tcp_rtt_p95", "p95 of tcp_rtt", 0.03),
        ("throughput[web]", "throughput_per_s[web]", "throughput of web", 40.0),
        ("errors[web]", "error_rate[web]", "error rate of web", 0.0),
        ("response_p95[web]", "response_ms_p95[web]", "p95 of response time of web", 6.0),
        ("response[web]", "response_ms_mean[web]", "response time of web", 5.0),
        ("response[none]", "response_ms_mean[none]", "response time of none", None),
        ("throughput@peak", "throughput_per_s@peak", "throughput in the peak window", 700.0),
    ],
)
def test_metrics_with_open_parts_and_scopes_are_named_and_read(
    with_next: RunResult, text: str, name: str, title: str, value: float | None
) -> None:
    assert canonical(text) == name
    assert canonical(name) == name, "a name in results is a name"
    assert describe(text).title == title
    assert metric_value(with_next, text) == value
    services = BASE.replace("services:\n", "services:\n  db: {kind: echo}\n  cache: {kind: echo}\n")
    assert load(services + f"responses: [{{metric: '{text}'}}]\n").responses[0].metric == text
    assert judged("ResponseRaw", text)


@pytest.mark.parametrize(
    "text", ["cpu", "cpu.", "counter.db", "response@peak", "throughput[]", "jain_index[web]", "[web]"]
)
def test_unknown_metrics_with_open_parts_are_rejected(with_next: RunResult, text: str) -> None:
    message = problems(BASE + f"responses: [{{metric: '{text}'}}]\n")[0]
    assert f"there is no metric {text}" in message


def test_a_ceiling_is_on_the_whole_run(with_next: RunResult) -> None:
    message = problems(BASE + "ceiling: [{metric: 'throughput[web]', test: 'rate>5/s'}]\n")[0]
    assert 'throughput[web] with "rate>5/s" cannot be watched live' in message


def test_rules_on_metrics_with_open_parts_and_scopes(with_next: RunResult) -> None:
    hists = {"response[web]": histogram([1.0, 2.0, 9.0])["response"]}
    sample = Sample([with_next, with_next], [hists, hists])
    for metric, test, value in (
        ("cpu.db", "avg<90%", 0.8),
        ("counter.db.Com_select", "count<100", 24.0),
        ("driver.tcp_rtt", "avg<1", 0.01),
        ("response[web]", "avg<1s", 0.005),
        ("errors[web]", "rate<1%", 0.0),
        ("throughput@peak", "rate>1/s", 700.0),
        ("response[web]", "max<1s", 0.009),
    ):
        observed, _ = observe(parse_rule(test, metric), sample)
        assert observed == pytest.approx(value, rel=1e-2), metric
    assert "cpu.COMPONENT" in problems(BASE + "thresholds: [{metric: qqqq, test: 'avg<1'}]\n")[0]
    assert "`counter.SERVICE.COUNTER`" in metrics_page(NEXT)


def test_a_response_that_has_open_parts_is_in_the_cells(with_next: RunResult) -> None:
    design = Design({}, None, {})
    cells = cell_results(
        grouped([with_next], {}, design), design, ["cpu.db", "throughput", "throughput@peak"]
    )
    assert cells[0].responses["cpu.db"].mean == 0.8
    assert cells[0].responses["throughput_per_s@peak"].mean == 700.0


def test_every_kind_and_reader_is_known() -> None:
    assert set(KINDS) == set(Kind)
    assert {type(row.reader) for row in METRICS.rows} == {Value, Total, Part, Distribution, Values, Quotient}
