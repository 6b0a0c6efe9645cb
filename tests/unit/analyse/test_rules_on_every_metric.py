"""Rules on parts of the peak window, on values of a program, on round trips and on the usable capacity, from stored
results, compared with what plain code computes from the files.

A copy of tests/data/results-metrics-v1 gets two operations, a metric of its own for each transaction, and the levels of
its factor as a load.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plimsoll.analyse.results.analysis import Analysis, RunResult, Verdict
from plimsoll.analyse.results.document import as_document
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.analyse.results.verdicts import CapacityKind
from plimsoll.api import analysis

DATA = Path(__file__).resolve().parents[2] / "data" / "results-metrics-v1"
NS = 1_000_000_000
RULES: list[dict[str, Any]] = [
    {"metric": "response@peak", "test": "p(50)<1ns", "where": {}, "parts": {"operation": ["a", "b"]}},
    {"metric": "errors@peak", "test": "rate<0.1%", "where": {}, "parts": {"operation": ["a"]}},
    {"metric": "response@peak", "test": "max<1ns", "where": {}, "parts": {"first": ["tester"]}},
    {"metric": "metric.query_ms", "test": "p(90)<0", "where": {}},
    {"metric": "metric.query_ms@peak", "test": "max<0", "where": {}},
    {"metric": "response_less_rtt", "test": "p(50)<1ns", "where": {}},
]


def query_ms(row: dict[str, Any]) -> float:
    """A value of either sign that depends on the transaction."""
    return float(row["end"]) / 1e6 - 5.0


def edited(path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    table = pq.read_table(path)
    made = pa.Table.from_pylist(change(table.to_pylist()), schema=table.schema)
    metadata = pq.ParquetFile(path).metadata.metadata
    kept = {key: value for key, value in metadata.items() if key != b"ARROW:schema"}
    pq.write_table(made.replace_schema_metadata(kept), path)


def with_operations(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "operation": "ab"[number % 3 == 0]} for number, row in enumerate(rows)]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("rules") / "results"
    shutil.copytree(DATA, directory)
    plan = json.loads((directory / "plan.json").read_text())
    plan["responses"] = [
        {"metric": metric, "scale": "linear"}
        for metric in (
            "metric.query_ms_p90",
            "response_less_rtt_p50",
            "response_p50@operation.b@peak",
            "throughput@operation.a",
            "response@first.tester",
        )
    ]
    plan["thresholds"] = RULES
    plan["load_factor"] = "zip"
    for run in plan["runs"]:
        run["values"] = {"zip": float(run["cell"]["zip"]) + 1}
    plan["capacity"] = {
        "response": "p(50)<100s",
        "errors": "",
        "usable": [{"metric": "utilization.gateway", "test": "avg<3.2%", "where": {}}],
    }
    plan["validity"] |= {
        **dict.fromkeys(("tester_cpu", "lateness_share", "gaps", "steal"), 1.0),
        **{"started": 0.0, "lateness_floor_ns": 100 * NS, "success": False, "trend": False},
    }
    (directory / "plan.json").write_text(json.dumps(plan))
    for run_path in (directory / "runs").iterdir():
        record = json.loads((run_path / "run.json").read_text())
        record["operations"] = {"main": ["a", "b"]}
        (run_path / "run.json").write_text(json.dumps(record))
        edited(run_path / "transactions.parquet", with_operations)
        rows = pq.read_table(run_path / "transactions.parquet").to_pylist()
        own = [
            {"agent": row["agent"], "tester": row["tester"], "start": row["start"]}
            | {"metric": "query_ms", "value": query_ms(row)}
            for row in rows
        ]
        edited(run_path / "metrics.parquet", lambda known, own=own: [*known, *own])  # type: ignore[misc]
    return directory


@pytest.fixture(scope="module")
def found(results: Path) -> Analysis:
    return analysis(results)


def rows_of(results: Path, run: RunResult) -> list[dict[str, Any]]:
    return list(pq.read_table(results / "runs" / run.id / "transactions.parquet").to_pylist())


def done_at_peak(results: Path, run: RunResult) -> list[dict[str, Any]]:
    """Successful transactions that ended in the peak window."""
    assert run.at_peak is not None
    start, end = run.at_peak.start_s * NS, run.at_peak.end_s * NS
    return [
        row
        for row in rows_of(results, run)
        if row["outcome"] == "ok" and start <= row["start"] + row["end"] < end
    ]


def response_s(row: dict[str, Any]) -> float:
    return float(row["end"] - row["scheduled"]) / NS


def quantile(values: list[float], q: float) -> float:
    return sorted(values)[max(0, math.ceil(q * len(values) - 1e-9) - 1)]


def verdicts(found: Analysis, metric: str, **labels: str) -> list[Verdict]:
    return [
        verdict
        for verdict in found.verdicts
        if verdict.metric == metric and labels.items() <= verdict.cell.items()
    ]


def runs_of(found: Analysis, verdict: Verdict) -> list[RunResult]:
    return [run for run in found.runs if run.valid and run.cell["zip"] == verdict.cell["zip"]]


@pytest.mark.parametrize("operation", ["a", "b"])
def test_a_percentile_of_an_operation_in_the_peak_window(
    found: Analysis, results: Path, operation: str
) -> None:
    judged = verdicts(found, "response@peak", operation=operation)
    assert len(judged) == 2, "one for each cell"
    for verdict in judged:
        times = [
            response_s(row)
            for run in runs_of(found, verdict)
            for row in done_at_peak(results, run)
            if row["operation"] == operation
        ]
        assert len(times) > 50
        assert verdict.observed == pytest.approx(quantile(times, 0.5), rel=1e-3)


def test_a_share_of_an_operation_in_the_peak_window(found: Analysis) -> None:
    for verdict in verdicts(found, "errors@peak"):
        of = [
            part.traffic
            for run in runs_of(found, verdict)
            if run.at_peak
            for part in run.at_peak.operations
            if part.operation == "a"
        ]
        failed, ended = sum(t.errors for t in of), sum(t.errors + t.response_ms.count for t in of)
        assert ended > 50 and verdict.observed == failed / ended


def test_a_response_of_an_operation_in_the_peak_window(found: Analysis, results: Path) -> None:
    for cell in found.cells:
        runs = [run for run in found.runs if run.cell == cell.cell]
        times = [
            [response_s(row) * 1e3 for row in done_at_peak(results, run) if row["operation"] == "b"]
            for run in runs
        ]
        for run, own in zip(runs, times, strict=True):
            assert metric_value(run, "response_p50@operation.b@peak") == pytest.approx(quantile(own, 0.5))
            assert metric_value(run, "throughput@operation.a") == pytest.approx(
                next(part.traffic.throughput_per_s for part in run.operations if part.operation == "a")
            )
            assert metric_value(run, "response@first.tester") == next(
                first.traffic.response_ms.mean for first in run.first if first.of == "tester"
            )
        interval = cell.responses["response_ms_p50@operation.b@peak"]
        assert interval.mean == pytest.approx(quantile([*chain(*times)], 0.5), rel=1e-3), (
            "of all runs together"
        )
    assert "response_ms_p50@operation.b@peak" in {model.response for model in found.models}


def test_first_transactions_of_testers_that_belong_to_the_peak_window(found: Analysis, results: Path) -> None:
    for verdict in verdicts(found, "response@peak", first="tester"):
        times = []
        for run in runs_of(found, verdict):
            first: dict[int, dict[str, Any]] = {}
            for row in sorted(rows_of(results, run), key=lambda row: row["start"]):
                first.setdefault(row["tester"], row)
            inside = {(row["tester"], row["start"]) for row in done_at_peak(results, run)}
            times += [response_s(row) for row in first.values() if (row["tester"], row["start"]) in inside]
        assert verdict.observed == (pytest.approx(max(times)) if times else None)
        assert not times, "the peak window begins after the warm-up, and every tester started in it"


def test_percentiles_of_the_values_of_a_program_over_all_runs(found: Analysis, results: Path) -> None:
    (other,) = {verdict.test for verdict in verdicts(found, "metric.query_ms@peak")}
    assert other == "max<0"
    for verdict in verdicts(found, "metric.query_ms"):
        values = []
        for run in runs_of(found, verdict):
            end = json.loads((results / "runs" / run.id / "summary.json").read_text())["measured_end_ns"]
            rows = rows_of(results, run)
            own = [query_ms(row) for row in rows if run.warmup_s * NS <= row["start"] < end]
            assert metric_value(run, "metric.query_ms_p90") == quantile(own, 0.9)
            assert metric_value(run, "metric.query_ms_min") == min(own)
            values += own
        assert verdict.observed == quantile(values, 0.9), "few distinct values are kept as they are"
    for cell in found.cells:
        verdict = next(v for v in verdicts(found, "metric.query_ms") if v.cell["zip"] == cell.cell["zip"])
        assert cell.responses["metric.query_ms_p90"].mean == pytest.approx(verdict.observed)


def test_the_response_less_one_round_trip(found: Analysis, results: Path) -> None:
    for run in found.runs:
        readings = pq.read_table(results / "runs" / run.id / "metrics.parquet").to_pylist()
        least: dict[int, float] = {}
        for row in readings:
            if row["metric"] == "tcp_rtt":
                least[row["tester"]] = min(least.get(row["tester"], math.inf), row["value"])
        end = json.loads((results / "runs" / run.id / "summary.json").read_text())["measured_end_ns"]
        less = [
            max(0.0, response_s(row) - least[row["tester"]]) * 1e3
            for row in rows_of(results, run)
            if row["outcome"] == "ok" and run.warmup_s * NS <= row["start"] + row["end"] < end
        ]
        assert run.traffic.response_less_rtt_ms is not None
        assert run.traffic.response_less_rtt_ms.count == len(less) == run.traffic.response_ms.count
        assert run.traffic.response_less_rtt_ms.mean == pytest.approx(statistics.fmean(less), rel=1e-5)
        assert metric_value(run, "response_less_rtt_p50") == pytest.approx(quantile(less, 0.5), rel=1e-3)


def test_without_a_reading_the_value_is_missing_and_the_reason_is_stated(
    results: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(results, copy)
    for path in (copy / "runs").glob("*/metrics.parquet"):
        edited(path, lambda rows: [row for row in rows if row["metric"] != "tcp_rtt"])
    found = analysis(copy)
    assert all(run.traffic.response_less_rtt_ms is None for run in found.runs)
    assert all("no reading of TCP_INFO" in " ".join(run.notes) for run in found.runs)
    assert {verdict.passed for verdict in verdicts(found, "response_less_rtt")} == {False}


def test_only_some_testers_have_a_reading(results: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(results, copy)
    for path in (copy / "runs").glob("*/metrics.parquet"):
        edited(path, lambda rows: [row for row in rows if row["metric"] != "tcp_rtt" or row["tester"] == 0])
    for run in analysis(copy).runs:
        less = run.traffic.response_less_rtt_ms
        assert less is not None and 0 < less.count < run.traffic.response_ms.count
        assert any("no round trip was measured" in note for note in run.notes)


def test_round_trips_below_a_millisecond_are_not_subtracted_unasked(results: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(results, copy)
    plan = json.loads((copy / "plan.json").read_text())
    plan |= {"responses": [{"metric": "throughput", "scale": "linear"}], "thresholds": []}
    (copy / "plan.json").write_text(json.dumps(plan))
    assert all(run.traffic.response_less_rtt_ms is None for run in analysis(copy).runs)
    for path in (copy / "runs").glob("*/metrics.parquet"):
        edited(
            path, lambda rows: [row | {"value": 0.002} if row["metric"] == "tcp_rtt" else row for row in rows]
        )
    assert all(run.traffic.response_less_rtt_ms is not None for run in analysis(copy).runs)


def test_a_usable_capacity_by_the_utilization_of_a_service(found: Analysis) -> None:
    (line,) = found.saturation
    (usable,) = [capacity for capacity in line.capacities if capacity.kind == CapacityKind.USABLE]
    busy = {
        load: statistics.fmean(
            value
            for run in found.runs
            if float(run.cell["zip"]) + 1 == load
            and (value := metric_value(run, "utilization.gateway")) is not None
        )
        for load in (1.0, 6.0)
    }
    assert busy[1.0] < 0.032 < busy[6.0], "the rule separates the two loads"
    assert (usable.load, usable.reached) == (1.0, True)
    assert usable.definition == (
        "highest mean throughput at a load that meets response p(50)<100s and utilization.gateway avg<3.2%"
    )
    assert (
        "utilization.gateway avg<3.2%: the estimate meets the rule, but its upper bound does not"
        in usable.remark
    )
    assert "a load of 6 breaks utilization.gateway avg<3.2%" in usable.remark


def test_the_document_has_the_parts_but_no_single_values(found: Analysis) -> None:
    document = as_document(found)
    run = document["runs"][0]
    assert {part["operation"] for part in run["at_peak"]["operations"]} == {"a", "b"}
    assert "throughput_per_s" in run["at_peak"]["operations"][0]
    assert "values" not in run["metrics"][0] and "values" not in run["at_peak"]["metrics"][0]
    json.dumps(document, allow_nan=False)
