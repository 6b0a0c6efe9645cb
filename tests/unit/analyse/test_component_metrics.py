"""Metrics of components, counters, answers and windows of a recorded result, compared with values that plain code
computes from its files.

tests/data/results-metrics-v1: three testers with think time read through a Squid from a Frontier gateway over SQLite.
The host was overloaded when it was recorded, so the rules on the load generator are relaxed.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.unit.analyse.made import run as made_run

from plimsoll.analyse.answer.left_out import worded_left_out
from plimsoll.analyse.components.counted import window_counts
from plimsoll.analyse.components.resources import component_resources
from plimsoll.analyse.effects.fits import ResponseModel, fit_all
from plimsoll.analyse.results.analysis import Analysis, RunResult
from plimsoll.analyse.results.document import as_document
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.analyse.results.run import CountedService
from plimsoll.analyse.results.verdicts import LeftOutReason
from plimsoll.analyse.window.transactions import Window
from plimsoll.api import analysis, open_results
from plimsoll.assemble.run_table import columns_of
from plimsoll.collect.columns.samples import SampleSeries
from plimsoll.collect.watched import WatchedReadings
from plimsoll.report.charts import effect_figures, load_figures
from plimsoll.report.labels import Labels
from plimsoll.report.terminal import summary_lines

DATA = Path(__file__).resolve().parents[2] / "data" / "results-metrics-v1"
NS = 1_000_000_000
RATIO = "requests_per_hit = counter.squid.client_http.requests / counter.squid.client_http.hits"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded result, with responses and thresholds that need every kind of figure."""
    directory = tmp_path_factory.mktemp("results") / "metrics"
    shutil.copytree(DATA, directory)
    plan = json.loads((directory / "plan.json").read_text())
    plan["responses"] = [
        {"metric": metric, "scale": "linear"}
        for metric in ("utilization.gateway", "cpu.gateway@peak", "first_byte_p95", RATIO)
    ]
    plan["thresholds"] = [
        {"metric": "response", "test": test, "where": {}, "parts": {"first": [first]}}
        for first, test in (("connection", "avg<10s"), ("tester", "max<10s"))
    ] + [
        {"metric": metric, "test": test, "where": {}}
        for metric, test in (
            ("memory.gateway", "avg<1GB"),
            ("hit_ratio.squid", "rate>1%"),
            ("response@peak", "p(50)<10s"),
            (RATIO, "avg>0"),
        )
    ]
    plan["validity"] |= {
        **dict.fromkeys(("tester_cpu", "lateness_share", "gaps", "steal"), 1.0),
        **{"started": 0.0, "lateness_floor_ns": 100 * NS, "success": False, "trend": False},
    }
    (directory / "plan.json").write_text(json.dumps(plan))
    return directory


@pytest.fixture(scope="module")
def found(results: Path) -> Analysis:
    return analysis(results)


class Files:
    """The files of a run, as lists and dictionaries. The window is that of run.json and summary.json."""

    def __init__(self, path: Path) -> None:
        self.record = json.loads((path / "run.json").read_text())
        self.start = round(self.record["warmup_s"] * NS)
        self.end = json.loads((path / "summary.json").read_text())["measured_end_ns"]
        self.rows: list[dict[str, Any]] = pq.read_table(path / "transactions.parquet").to_pylist()
        self.samples: list[dict[str, Any]] = pq.read_table(path / "samples.parquet").to_pylist()
        self.path = path

    @property
    def done(self) -> list[dict[str, Any]]:
        """Successful transactions that ended in the window."""
        return [
            row
            for row in self.rows
            if row["outcome"] == "ok" and self.start <= row["start"] + row["end"] < self.end
        ]

    @property
    def seconds(self) -> float:
        return float(self.end - self.start) / NS

    def mean(self, component: str, metric: str, part: str = "") -> float:
        """Mean of the samples whose second lies in the window by more than half."""
        return statistics.fmean(
            sample["value"]
            for sample in self.samples
            if (sample["component"], sample["metric"], sample["part"]) == (component, metric, part)
            and self.start <= sample["t"] - NS // 2 < self.end
        )

    def parts(self, metric: str) -> set[str]:
        return {sample["part"] for sample in self.samples if sample["metric"] == metric}

    def increase(self, service: str, counter: str) -> float:
        """Increase of a counter in the window, by interpolation on a line between two readings; it is constant before
        the first request."""
        zero = self.record["t0_unix_ns"] / NS
        lines = [json.loads(line) for line in self.readings(service)]
        points = [(line["t"] - zero, line["values"][counter]) for line in lines if "values" in line]
        before = [point for point in points if point[0] < 0]
        points = [*before, (0.0, before[-1][1]), *points[len(before) :]]

        def at(second: float) -> float:
            for (t, value), (next_t, next_value) in pairwise(points):
                if t <= second <= next_t:
                    return float(value + (next_value - value) * (second - t) / (next_t - t))
            raise AssertionError(f"no readings around {second} s")

        return at(self.end / NS) - at(self.start / NS)

    def readings(self, service: str) -> list[str]:
        return (self.path / "services" / service / "counters.jsonl").read_text().splitlines()


def quantile(values: list[float], q: float) -> float:
    return sorted(values)[math.ceil(q * len(values)) - 1]


@pytest.fixture(params=[0, 1])
def pair(request: pytest.FixtureRequest, found: Analysis, results: Path) -> Iterator[tuple[RunResult, Files]]:
    run = found.runs[request.param]
    yield run, Files(results / "runs" / run.id)


Pair = tuple[RunResult, Files]


def test_the_parts_of_a_request(pair: Pair) -> None:
    run, files = pair
    first = [row["first_byte"] / 1e6 for row in files.done]
    rest = [(row["end"] - row["first_byte"]) / 1e6 for row in files.done]
    assert min(first) > 0
    for name, values in (("first_byte", first), ("transfer", rest)):
        assert metric_value(run, f"{name}_mean") == pytest.approx(statistics.fmean(values))
        assert metric_value(run, f"{name}_sd") == pytest.approx(statistics.stdev(values))
        assert metric_value(run, f"{name}_max") == pytest.approx(max(values))
        assert metric_value(run, f"{name}_min") == pytest.approx(min(values))
        assert metric_value(run, f"{name}_p50") == pytest.approx(quantile(values, 0.5), rel=1e-3, abs=2e-6)


def test_the_spread_of_the_throughput(pair: Pair) -> None:
    run, files = pair
    per_second = [0] * int(files.seconds)
    for row in files.done:
        second = (row["start"] + row["end"] - files.start) // NS
        if second < len(per_second):
            per_second[second] += 1
    assert metric_value(run, "throughput_sd") == pytest.approx(statistics.stdev(per_second))
    assert metric_value(run, "throughput_min") == min(per_second)
    assert metric_value(run, "throughput_max") == max(per_second)


def test_the_resources_of_components(pair: Pair) -> None:
    run, files = pair
    gateway = "service:gateway"
    assert metric_value(run, "cpu.gateway") == pytest.approx(files.mean(gateway, "cpu")) != 0
    assert metric_value(run, "memory.gateway") == pytest.approx(files.mean(gateway, "memory.rss"))
    assert metric_value(run, "disk_write.squid") == pytest.approx(files.mean("service:squid", "io.write"))
    assert metric_value(run, "network_out.gateway") is None, "the bytes of one process are not measured"
    per_transaction = files.mean(gateway, "cpu") * files.seconds / len(files.done) * 1e3
    assert metric_value(run, "cpu_per_transaction.gateway") == pytest.approx(per_transaction)
    busy = files.mean("host", "cpu.busy") * len(files.parts("cpu.busy") - {""})
    assert metric_value(run, "cpu.host") == pytest.approx(busy)
    assert metric_value(run, "memory.host") == pytest.approx(files.mean("host", "memory.used"))
    interfaces = files.parts("net.receive") - {"lo"}
    if interfaces:
        flows = [
            (files.mean("host", "net.receive", name), files.mean("host", "net.send", name))
            for name in interfaces
        ]
        received, sent = max(flows, key=sum)
        assert metric_value(run, "network_in.host") == pytest.approx(received)
        assert metric_value(run, "network_out.host") == pytest.approx(sent)
    used = {utilization.component: utilization.mean for utilization in run.utilization}
    assert metric_value(run, "utilization.gateway") == used["gateway"]


def test_counters_in_the_window(pair: Pair) -> None:
    run, files = pair
    requests = files.increase("squid", "client_http.requests")
    hits = files.increase("squid", "client_http.hits")
    answered = files.increase("gateway", "answered")
    assert requests > 0
    assert metric_value(run, "counter.squid.client_http.requests") == pytest.approx(requests / files.seconds)
    assert metric_value(run, 'counter_total.squid."client_http.requests"') == pytest.approx(requests)
    assert metric_value(run, "hit_ratio.squid") == pytest.approx(hits / requests)
    each = answered / len(files.done)
    assert metric_value(run, "counter_per_transaction.gateway.answered") == pytest.approx(each)
    ratio = requests / hits
    assert metric_value(run, RATIO) == pytest.approx(ratio)
    assert metric_value(run, "counter.squid.none") is None


def test_metrics_of_the_driver(pair: Pair) -> None:
    run, files = pair
    rows = pq.read_table(files.path / "metrics.parquet").to_pylist()
    names = {row["metric"] for row in rows} - {"tcp_rtt", "tcp_retransmits", "tcp_connect_s"}
    for name in names:
        values = [
            row["value"] for row in rows if row["metric"] == name and files.start <= row["start"] < files.end
        ]
        if values:
            assert metric_value(run, f"metric.{name}") == pytest.approx(statistics.fmean(values))


def test_the_first_transactions(pair: Pair) -> None:
    run, files = pair
    opened = [row for row in files.rows if row["connected"] >= 0 and row["outcome"] == "ok"]
    of_testers: dict[int, dict[str, Any]] = {}
    for row in files.rows:
        if row["tester"] not in of_testers or row["start"] < of_testers[row["tester"]]["start"]:
            of_testers[row["tester"]] = row
    for first, rows in (("connection", opened), ("tester", list(of_testers.values()))):
        times = [(row["end"] - row["scheduled"]) / 1e6 for row in rows if row["outcome"] == "ok"]
        (traffic,) = (entry.traffic for entry in run.first if entry.of == first)
        assert traffic.response_ms.count == len(times) > 0
        assert traffic.response_ms.mean == pytest.approx(statistics.fmean(times))


def test_the_peak_window(pair: Pair) -> None:
    run, files = pair
    assert run.peak is not None and run.at_peak is not None
    start = max(files.start, round(run.peak.start_s * NS))
    end = min(files.end, round(run.peak.end_s * NS))
    assert (run.at_peak.start_s, run.at_peak.end_s) == (start / NS, end / NS)
    files.start, files.end = start, end
    assert metric_value(run, "throughput@peak") == pytest.approx(len(files.done) / files.seconds)
    times = [(row["end"] - row["scheduled"]) / 1e6 for row in files.done]
    assert metric_value(run, "response_p50@peak") == pytest.approx(quantile(times, 0.5))
    assert metric_value(run, "cpu.gateway@peak") == pytest.approx(files.mean("service:gateway", "cpu"))
    requests = files.increase("squid", "client_http.requests")
    assert metric_value(run, "counter_total.squid.client_http.requests@peak") == pytest.approx(requests)
    hits = files.increase("squid", "client_http.hits")
    assert metric_value(run, RATIO + "@peak") == pytest.approx(requests / hits)


def test_responses_have_intervals_effects_and_verdicts(found: Analysis) -> None:
    cell = found.cells[0].responses
    runs = [run for run in found.runs if run.valid and run.cell == found.cells[0].cell]
    values = [metric_value(run, "utilization.gateway") for run in runs]
    assert cell["utilization.gateway"].mean == pytest.approx(np.mean([v for v in values if v is not None]))
    assert {"cpu.gateway@peak", RATIO} <= set(cell)
    assert not [part for part in found.left_out if "utilization" in str(part)]
    judged = {(verdict.metric, str(verdict.cell.get("first", ""))): verdict for verdict in found.verdicts}
    assert judged[("response", "connection")].passed and judged[("response", "tester")].passed
    memory = judged[("memory.gateway", "")]
    assert memory.passed and memory.unit == "B" and memory.observed is not None and memory.observed > 1e6
    assert judged[("response@peak", "")].passed and judged[(RATIO, "")].passed


def test_the_document_contains_the_figures(found: Analysis) -> None:
    run = as_document(found)["runs"][0]
    assert {entry["component"] for entry in run["components"]} >= {"host", "gateway", "squid", "testers"}
    assert run["at_peak"]["throughput_per_s"] > 0 and len(run["first"]) == 2
    assert run["first_byte_ms"]["count"] == run["transactions"]
    assert all("window" in service for service in run["services"])


def test_the_report_has_a_chart_of_each_response(found: Analysis) -> None:
    figures = {figure.key: figure for figure in load_figures(Labels(found))}
    assert figures["metric-1"].title == "Utilization of gateway per cell"
    assert figures["metric-2"].title == "CPU use of gateway in the peak window per cell"
    assert {"metric-3", "metric-4"} <= set(figures)
    effects = [figure.title for figure in effect_figures(Labels(found))]
    assert "What explains the utilization of gateway" in effects


def test_the_summary_has_the_parts_of_a_request(found: Analysis) -> None:
    lines = summary_lines(replace(found, runs=found.runs[:1]), width=200)
    assert any(line.startswith("  first byte........: avg=") for line in lines)
    assert any(line.startswith("  transfer..........: avg=") for line in lines)


def test_the_table_of_runs_has_the_responses(results: Path, found: Analysis) -> None:
    columns = columns_of(open_results(results), found)
    names = [column.name for column in columns]
    assert len(names) == len(set(names)) and {"utilization.gateway", "cpu.gateway@peak", RATIO} <= set(names)
    (column,) = (column for column in columns if column.name == "cpu.gateway@peak")
    assert list(column.values) == [metric_value(run, "cpu.gateway@peak") for run in found.runs]


# -- made by hand


def test_a_counter_that_was_reset_and_a_gap() -> None:
    def readings(t: list[float], value: list[float]) -> WatchedReadings:
        return WatchedReadings(
            "db", "other", "", np.array(t), {"n": np.array(value), "g": np.array(value)}, frozenset({"g"})
        )

    window = Window(1 * NS, 5 * NS)
    # 10 between 0 and 2 s: 5 of them from 1 s on; then a reset, and 4 since; 2 between 4 and 6 s: 1 of them until 5 s.
    counts = window_counts(readings([0, 2, 4, 6], [100, 110, 4, 6]), window)
    assert counts.increases["n"] == pytest.approx(5 + 4 + 1)
    assert counts.gauges["g"] == pytest.approx((110 + 4) / 2)
    assert window_counts(readings([2, 4, 6], [1, 2, 3]), window).increases == {}, (
        "no reading before the window"
    )
    assert window_counts(readings([0, 2, 4], [1, 2, 3]), window).increases == {}, (
        "no reading after the window"
    )
    with_nan = window_counts(readings([0, 2, 4, 6], [0, math.nan, 4, 6]), window)
    assert with_nan.increases["n"] == pytest.approx(3 + 1)


def test_a_counter_is_constant_while_a_service_is_idle() -> None:
    def counted(t: list[float], value: list[float], end: int, *idle: int) -> float:
        readings = WatchedReadings("db", "other", "", np.array(t), {"n": np.array(value)}, frozenset())
        return window_counts(readings, Window(0, end), *idle).increases["n"]

    end = 6 * NS // 10  # A load of 0.6 s between two readings.
    assert counted([-0.4, 0.7, 1.6], [3, 103, 103], end, 0, end) == pytest.approx(100)
    assert counted([-0.4, 0.7, 1.6], [3, 103, 103], end, 0) == pytest.approx(100 * 6 / 7)
    assert counted([-0.4, 0.7, 1.6], [3, 103, 103], end) == pytest.approx(100 * 6 / 11)
    assert counted([-1, 0, 1, 2], [0, 0, 50, 50], NS, 0, NS) == pytest.approx(50)
    # A service that is started again in the first second counts from 0.
    assert counted([-0.5, 0.5, 1.5], [90, 4, 9], NS, 0, NS) == pytest.approx(9)


def test_disks_and_networks_are_not_counted_twice() -> None:
    def series(metric: str, part: str, value: float) -> SampleSeries:
        return SampleSeries("host", metric, part, np.array([1.0, 2.0]), np.array([value, value]))

    samples = [series("disk.read", part, 10.0) for part in ("sda", "sdb", "dm-0", "md0", "loop1")]
    for part, value in (("lo", 900.0), ("eth0", 50.0), ("br0", 40.0)):
        samples += [series("net.receive", part, value), series("net.send", part, value / 2)]
    (host,) = component_resources(samples, Window(0, 2 * NS), 4)
    assert (host.disk_read, host.network_in, host.network_out) == (20.0, 50.0, 25.0)
    assert (host.cpu, host.memory, host.disk_write) == (None, None, None)


def test_nothing_is_divided_by_zero() -> None:
    service = CountedService("db", "other", "", {}, {}, {}, window={"a": 4.0, "zero": 0.0})
    run = replace(made_run(), services=(service,))
    assert metric_value(run, "r = counter.db.a / counter.db.zero") is None
    assert metric_value(run, "r = counter.db.zero / counter.db.a") == 0.0
    assert metric_value(run, "r = counter.db.a / counter.db.none") is None


@pytest.mark.parametrize("levels", [{}, {"a": ["x", "y"]}])
def test_a_counter_that_no_run_has_is_reported(levels: dict[str, list[str]]) -> None:
    service = CountedService("db", "other", "", {}, {}, {}, window={"hits": 4.0, "misses": 0.0})
    runs = [replace(made_run(str(n), cell={"a": "xy"[n]}), services=(service,)) for n in range(2)]
    wanted = [ResponseModel(metric) for metric in ("counter.db.hit", "metric.job_s", "counter.db.hits")]
    left = [worded_left_out(part) for part in fit_all(runs, levels, wanted)[2]]
    texts = [f"{part.what}: {part.why}" for part in left if part.code == LeftOutReason.NO_VALUE]
    assert texts == [
        "the response counter.db.hit: no valid run has a value; did you mean hits?",
        "the response metric.job_s_mean: no valid run has a value",
    ]
