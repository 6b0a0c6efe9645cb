"""Metrics of components, counters, drivers and windows in an experiment file: names, windows, ratios, and refusals."""

from __future__ import annotations

import pytest
from tests.unit.plan.helpers import BASE, edited, load, problems

from plimsoll.analyse.results.wording import describe
from plimsoll.plan import parse_rule
from plimsoll.plan.metrics.catalogue import METRICS
from plimsoll.plan.metrics.table import Use

WATCHED = edited(
    "workload:",
    """\
  squid: {kind: squid, origin: web}
targets:
  site:
    endpoints: ["http://127.0.0.1:1"]
    watch:
      - {host: 10.0.0.9, name: db1, process: postgres}
      - {prometheus: "http://10.0.0.9:9100/metrics", name: node9, kind: node}
workload:""",
).replace("target: web", "target: site")


def response(metric: str, text: str = BASE) -> str:
    """The response as the experiment stores it."""
    return load(f"{text}responses: [{{metric: '{metric}'}}]\n").responses[0].metric


@pytest.mark.parametrize(
    ("text", "name", "title"),
    [
        ("cpu.web", "cpu.web", "CPU use of web"),
        ("utilization.host", "utilization.host", "utilization of host"),
        ("memory.testers", "memory.testers", "memory of testers"),
        ("disk_read.web", "disk_read.web", "bytes that web read"),
        ("network_out.host", "network_out.host", "bytes that host sent"),
        ("cpu_per_transaction.web", "cpu_per_transaction.web", "CPU time of web per transaction"),
        ("counter.web.answered", "counter.web.answered", "counter answered of web"),
        ('counter.web."client_http.hits"', "counter.web.client_http.hits", "counter client_http.hits of web"),
        ("counter.web.client_http.hits", "counter.web.client_http.hits", "counter client_http.hits of web"),
        (
            'counter.web."requests_total{code="200"}"',
            'counter.web."requests_total{code="200"}"',
            'counter requests_total{code="200"} of web',
        ),
        ("counter_total.web.x_total", "counter_total.web.x_total", "total of counter x_total of web"),
        ("hit_ratio.web", "hit_ratio.web", "hit ratio of web"),
        ("metric.cpu_s", "metric.cpu_s_mean", "metric cpu_s"),
        ("metric.cpu_s_p95", "metric.cpu_s_p95", "p95 of metric cpu_s"),
        ('metric."rss_max"', "metric.rss_max_mean", "metric rss_max"),
        ("cpu.web@peak", "cpu.web@peak", "CPU use of web in the peak window"),
        ("response_p95@peak", "response_ms_p95@peak", "p95 of response time in the peak window"),
        ("first_byte_p95", "first_byte_ms_p95", "p95 of time to first byte"),
        ("transfer", "transfer_ms_mean", "transfer time"),
        ("response_min", "response_ms_min", "shortest response time"),
    ],
)
def test_names_and_titles(text: str, name: str, title: str) -> None:
    named = METRICS.find(text)
    assert named is not None and named.name == name
    again = METRICS.find(name)
    assert again is not None and (again.name, again.path) == (name, named.path), "a name in results is a name"
    assert describe(text).title == title
    assert response(text) == text


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (
            "cpu.wbe",
            'there is no component wbe; the results will have host, testers, web: did you mean "web"?',
        ),
        ("counter.host.x", "there is no service host; the results will have web"),
        ("cpu", "there is no metric cpu"),
        ("counter.web", "there is no metric counter.web"),
    ],
)
def test_unknown_names_are_refused(metric: str, message: str) -> None:
    (found,) = problems(f"{BASE}responses: [{{metric: {metric}}}]\n")
    assert found.startswith("x.yaml:10: responses.0.metric: ")
    for part in message.split(": "):
        assert part in found
    (found,) = problems(f"{BASE}thresholds: [{{metric: {metric}, test: 'avg<1'}}]\n")
    assert message.split(";")[0].split(":")[0] in found


@pytest.mark.parametrize("name", ["squid", "db1", '"postgres on db1"', "node9", "host", "testers", "web"])
def test_watched_systems_are_components(name: str) -> None:
    assert response(f"cpu.{name}", WATCHED) == f"cpu.{name}"


def test_a_metric_of_the_peak_window() -> None:
    section = (
        "responses: [{metric: cpu.web, over: peak}]\n"
        "thresholds: [{metric: response, test: 'p(95)<1s', over: peak}]\n"
    )
    experiment = load(BASE + section)
    assert experiment.responses[0].metric == "cpu.web@peak"
    threshold = experiment.thresholds[0]
    assert (threshold.metric, threshold.rule.value) == ("response@peak", 1.0)
    (found,) = problems(BASE + "thresholds: [{metric: dropped, test: 'count<1', over: peak}]\n")
    assert "thresholds.0.over: dropped is only known for the whole run" in found
    (found,) = problems(BASE + "responses: [{metric: cpu.web, over: all}]\n")
    assert "peak" in found


RATIO = 'responses: [{name: twice, ratio: {of: counter.web.received, to: counter.web."answered"}}]\n'


def test_a_ratio_of_two_metrics() -> None:
    section = RATIO + "thresholds: [{metric: twice, test: 'avg<2'}]\n"
    experiment = load(BASE + section)
    name = "twice = counter.web.received / counter.web.answered"
    named = METRICS.find(experiment.responses[0].metric)
    assert named is not None and (named.name, named.title) == (name, "ratio twice")
    assert experiment.thresholds[0].rule.metric == experiment.responses[0].metric
    assert parse_rule("avg<2", name).value == 2.0
    assert METRICS.named(name + "@peak", Use.RULE) is not None


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (RATIO.replace("received", "received, x: 1"), "ratio"),
        (RATIO.replace("name: twice, ", ""), "name and ratio must be given together"),
        (RATIO.replace("counter.web.received", "cpu.nobody"), "there is no component nobody"),
        (RATIO.replace("counter.web.received", "qqqq"), "there is no metric qqqq"),
        ("responses: [{scale: log}]\n", "required key missing"),
        (
            "responses: [{metric: cpu.web, name: a, ratio: {of: cpu.web, to: cpu.web}}]\n",
            "either metric or ratio",
        ),
    ],
)
def test_invalid_ratios_are_refused(section: str, message: str) -> None:
    assert any(message in problem for problem in problems(BASE + section))


def test_rules_have_the_units_of_their_metric() -> None:
    assert parse_rule("avg<2GB", "memory.db").value == 2e9
    assert parse_rule("avg<90%", "utilization.db").value == pytest.approx(0.9)
    assert parse_rule("avg<1.5", "cpu.db").value == 1.5
    assert parse_rule("rate<10MB/s", "network_out.host").value == 1e7
    assert parse_rule("avg<3ms", "cpu_per_transaction.db").value == pytest.approx(0.003)
    assert parse_rule("rate>80%", "hit_ratio.squid").value == pytest.approx(0.8)
    (found,) = problems(BASE + "thresholds: [{metric: memory.web, test: 'avg<2s'}]\n")
    assert "expected a size such as 2GB" in found


FIRST = "thresholds: [{metric: response, test: 'p(95)<1s', where: {first: connection}}]\n"


def test_a_threshold_on_first_transactions() -> None:
    threshold = load(BASE + FIRST).thresholds[0]
    assert (threshold.where, threshold.parts) == ({}, {"first": ("connection",)})
    threshold = load(BASE + FIRST.replace("test:", "over: peak, test:")).thresholds[0]
    assert (threshold.metric, threshold.parts) == ("response@peak", {"first": ("connection",)})


def test_a_factor_named_first_takes_precedence() -> None:
    factor = "factors: {first: {path: load.testers, levels: [1, 2]}}\n"
    threshold = load(
        BASE.replace("load: {testers: 1}\n", "load: {testers: 1}\n" + factor)
        + FIRST.replace("connection", "2")
    )
    assert threshold.thresholds[0].where == {"first": ("2",)} and not threshold.thresholds[0].parts


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (FIRST.replace("connection", "request"), "expected the first transactions of connection or tester"),
        (FIRST.replace("metric: response", "metric: cpu.web").replace("p(95)<1s", "avg<1"), "not available"),
    ],
)
def test_invalid_first_transactions_are_refused(section: str, message: str) -> None:
    assert any(message in problem for problem in problems(BASE + section))


USABLE = "capacity: {usable: [{metric: utilization.web, test: 'avg<80%'}]}\n"


@pytest.mark.parametrize(
    ("metric", "test"),
    [
        ("utilization.web", "avg<80%"),
        ("cpu.host", "avg<1.5"),
        ("memory.web", "avg<2GB"),
        ("network_out.host", "rate<10MB/s"),
        ("counter.web.answered", "rate<100/s"),
        ("hit_ratio.web", "rate>80%"),
        ("metric.cpu_s", "avg<2"),
        ("connect", "p(95)<5ms"),
        ("first_byte", "p(99)<50ms"),
        ("transfer", "med<1ms"),
        ("jain_index", "avg>0.9"),
        ("errors", "rate<1%"),
        ("dropped", "count<1"),
    ],
)
def test_a_usable_capacity_accepts_every_metric_of_thresholds(metric: str, test: str) -> None:
    section = USABLE.replace("utilization.web", metric).replace("avg<80%", test)
    (rule,) = load(BASE + section).capacity.usable
    assert (rule.metric, rule.text, rule.parts) == (metric, test, {})


def test_a_usable_capacity_of_a_ratio_of_a_part_and_of_the_peak_window() -> None:
    ratio = RATIO + USABLE.replace("utilization.web", "twice").replace("80%", "2")
    assert load(BASE + ratio).capacity.usable[0].metric.startswith("twice = ")
    peak = USABLE.replace("test:", "over: peak, test:")
    assert load(BASE + peak).capacity.usable[0].metric == "utilization.web@peak"
    first = "capacity: {usable: [{metric: response, test: 'p(95)<1s', over: peak, where: {first: tester}}]}\n"
    rule = load(BASE + first).capacity.usable[0]
    assert (rule.metric, rule.parts) == ("response@peak", {"first": ("tester",)})


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (USABLE.replace("utilization.web", "cpu.nobody"), "usable.0.metric: there is no component nobody"),
        (USABLE.replace("utilization.web", "qqqq"), "capacity.usable.0.metric: there is no metric qqqq"),
        (USABLE.replace("80%", "80ms"), "capacity.usable.0.test: "),
        (
            USABLE.replace("test:", "where: {first: tester}, test:"),
            "it is not computed from single transactions",
        ),
        (
            USABLE.replace("utilization.web", "response")
            .replace("avg<80%", "avg<1s")
            .replace("test:", "where: {operation: a}, test:"),
            "no operation a",
        ),
        (
            USABLE.replace("utilization.web", "dropped").replace("test:", "over: peak, test:"),
            "only known for the whole run",
        ),
    ],
)
def test_invalid_rules_of_a_usable_capacity_are_refused(section: str, message: str) -> None:
    assert any(message in problem for problem in problems(BASE + section))


SUMMARIES = BASE.replace("run: {duration: 1s}", "run: {duration: 1s, keep: summaries}")


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ("thresholds: [{metric: metric.cpu_s, test: 'p(95)<1'}]\n", "thresholds.0.metric"),
        ("responses: [{metric: response_less_rtt_p50}]\n", "responses.0.metric"),
        ("capacity: {usable: [{metric: connect, test: 'p(95)<1s'}]}\n", "capacity.usable.0.metric"),
        ("thresholds: [{metric: cpu.web, test: 'avg<1', over: peak}]\n", "thresholds.0.over"),
    ],
)
def test_metrics_of_single_transactions_need_single_transactions(section: str, path: str) -> None:
    assert load(BASE + section).cells
    (found,) = problems(SUMMARIES + section)
    assert f"{path}: " in found and "`run.keep: summaries` does not keep them; use `keep: all`" in found


def test_other_metrics_do_not_need_single_transactions() -> None:
    section = "thresholds: [{metric: response, test: 'p(95)<1s'}, {metric: cpu.web, test: 'avg<1'}]\n"
    assert len(load(SUMMARIES + section).thresholds) == 2


def test_rules_on_values_of_a_program_have_percentiles() -> None:
    for test, value in (
        ("p(95)<50", 50.0),
        ("p(99.9)<2.5", 2.5),
        ("med>1", 1.0),
        ("max<9", 9.0),
        ("min>0", 0.0),
    ):
        assert parse_rule(test, "metric.query_ms").value == value
    (found,) = problems(BASE + "thresholds: [{metric: metric.query_ms, test: 'rate<1'}]\n")
    assert "expected one of avg, p(N), min, max, med" in found


MIX = BASE.replace(
    "  target: web\n", "  target: web\n  mix: [{name: page, path: /}, {name: GET /x, path: /x}]\n"
)


@pytest.mark.parametrize(
    ("where", "metric", "title"),
    [
        ("{operation: page}", "response_p95@operation.page", "p95 of response time of the operation page"),
        (
            "{operation: GET /x}, over: peak",
            'response_p95@operation."GET /x"@peak',
            "p95 of response time of the operation GET /x in the peak window",
        ),
        (
            "{first: tester}",
            "response_p95@first.tester",
            "p95 of response time of the first transactions of each tester",
        ),
        ("{workload: main}", "response_p95", "p95 of response time"),
    ],
)
def test_a_response_of_a_part(where: str, metric: str, title: str) -> None:
    found = load(f"{MIX}responses: [{{metric: response_p95, where: {where}}}]\n").responses[0].metric
    assert found == metric and describe(found).title == title


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (
            "metric: cpu.web, where: {operation: page}",
            "responses.0.where: cpu.web is not available for single",
        ),
        (
            "metric: response, where: {operation: pag}",
            "responses.0.where.operation: there is no operation pag",
        ),
        ("metric: response@operation.pag", "responses.0.metric: there is no operation pag"),
        (
            "metric: response, where: {first: request}",
            "expected the first transactions of connection or tester",
        ),
        ("metric: response, where: {operation: page, first: tester}", "responses.0.where"),
    ],
)
def test_invalid_parts_of_responses_are_refused(response: str, message: str) -> None:
    assert any(message in problem for problem in problems(f"{MIX}responses: [{{{response}}}]\n"))
