"""The runs of an experiment as a table: the planned levels, the covariates, and every response.

Levels that are numbers are numbers, in seconds, bytes, per second or fractions of 1; the name contains the unit, as in
all results (`think_s`, `size_bytes`, `rate_per_s`).
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.collect.run_table import RunColumn, Type
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.table import KINDS
from plimsoll.plan.source.units import level_unit

FIXED: Final = ("run", "order", "repetition", "block", "start", "status", "valid", "doubtful")
SUFFIXES: Final = {"s": "_s", "B": "_bytes", "1/s": "_per_s"}
"""Suffixes of column names, by unit."""

Record = Mapping[str, Any]
"""run.json"""


def run_columns(
    factors: Mapping[str, Sequence[str]],
    records: Sequence[Record],
    results: Mapping[str, RunResult],
    wanted: Sequence[str] = (),
) -> list[RunColumn]:
    """The columns, with one row per record, in the order of the records. `factors`: labels of the levels by factor;
    `results`: by run id; runs without a measurement are missing. `wanted`: the responses of the experiment, which may
    have open parts."""
    run_results = [results.get(record["id"]) for record in records]
    columns = [
        *_plan(factors, records, run_results),
        *_covariates(records, run_results),
        *_responses(run_results, wanted),
    ]
    return list({column.name: column for column in reversed(columns)}.values())[::-1]


def _plan(
    factors: Mapping[str, Sequence[str]], records: Sequence[Record], run_results: Sequence[RunResult | None]
) -> list[RunColumn]:
    def of(name: str, type_: Type, values: Sequence[Any], unit: str = "") -> RunColumn:
        return RunColumn(name, type_, values, "plan", unit)

    cells = [", ".join(f"{name}={label}" for name, label in record["cell"].items()) for record in records]
    blocks = [None if record["block"] is None else str(record["block"]) for record in records]
    return [
        of("run", "text", [record["id"] for record in records]),
        of("order", "int", [record["order"] for record in records]),
        of("cell", "text", cells),
        *(_level(name, labels, records) for name, labels in factors.items()),
        of("repetition", "int", [record["repetition"] for record in records]),
        of("block", "text", blocks),
        of("start", "time", [_start(record) for record in records]),
        of(
            "status",
            "text",
            [
                record["status"] if run is None else run.status
                for record, run in zip(records, run_results, strict=True)
            ],
        ),
        of("valid", "bool", [run is not None and run.valid for run in run_results]),
        of("doubtful", "bool", [None if run is None else bool(run.doubtful_reasons) for run in run_results]),
        of(
            "reasons",
            "text",
            [
                None if run is None else "; ".join((*run.invalid_reasons, *run.doubtful_reasons))
                for run in run_results
            ],
        ),
    ]


def _level(name: str, labels: Sequence[str], records: Sequence[Record]) -> RunColumn:
    """The column of one factor: numbers if all its levels are numbers of the same unit, else texts."""
    shown = f"level.{name}" if name in (*FIXED, "cell", "reasons") else name
    labels_of_runs = [record["cell"].get(name) for record in records]
    values = [record["values"].get(name) for record in records]
    units = {level_unit(label) for label in labels}
    is_number = all(
        value is not None for label, value in zip(labels_of_runs, values, strict=True) if label is not None
    )
    if not is_number or len(units) != 1 or None in units:
        return RunColumn(shown, "text", labels_of_runs, "plan")
    (unit,) = units
    assert unit is not None
    return RunColumn(f"{shown}{SUFFIXES.get(unit, '')}", "float", values, "plan", unit)


def _start(record: Record) -> int | None:
    """The zero of the run (µs since the Unix epoch); if it has none, the time at which it began."""
    if record.get("t0_unix_ns") is not None:
        return int(record["t0_unix_ns"]) // 1000
    began = record.get("began")
    return None if not began else round(datetime.datetime.fromisoformat(began).timestamp() * 1e6)


def _covariates(records: Sequence[Record], run_results: Sequence[RunResult | None]) -> list[RunColumn]:
    def of(name: str, type_: Type, values: Sequence[Any], unit: str = "") -> RunColumn:
        return RunColumn(name, type_, values, "covariate", unit)

    columns = [
        of("agents", "int", [len(record.get("agents") or ()) for record in records]),
        of("warmup_s", "float", [record.get("warmup_s") for record in records], "s"),
        of("window_s", "float", [run and run.traffic.window_s for run in run_results], "s"),
        of("bottleneck", "text", [run and run.bottleneck for run in run_results]),
        of("monitor_cpu", "float", [run and run.monitor_cpu for run in run_results]),
        of("steal", "float", [_detail(run, "cpu.steal") for run in run_results]),
        of("iowait", "float", [_detail(run, "cpu.iowait") for run in run_results]),
    ]
    names = dict.fromkeys(service["name"] for record in records for service in record.get("services", ()))
    versions = [{service["name"]: service for service in record.get("services", ())} for record in records]
    for name in names:
        of_service = [services.get(name, {}) for services in versions]
        if any(service.get("version") for service in of_service):
            columns.append(
                of(f"version.{name}", "text", [service.get("version") or None for service in of_service])
            )
        columns.append(of(f"pid.{name}", "int", [service.get("pid") for service in of_service]))
    busy = [
        {utilization.component: utilization.mean for utilization in run.utilization} if run else {}
        for run in run_results
    ]
    components = dict.fromkeys(name for utilizations in busy for name in utilizations)
    columns += [
        of(f"utilization.{name}", "float", [utilizations.get(name) for utilizations in busy])
        for name in components
    ]
    return columns


def _detail(run: RunResult | None, name: str) -> float | None:
    """A detail of the utilization of the lab's host; None if it was not watched."""
    hosts = (utilization for utilization in run.utilization if utilization.component == "host") if run else ()
    return next((utilization.detail.get(name) for utilization in hosts), None)


def _responses(run_results: Sequence[RunResult | None], wanted: Sequence[str]) -> list[RunColumn]:
    """Counts over the whole run, and every response of the table of metrics, and of `wanted`, with a value in at least
    one run."""
    columns = [
        RunColumn(
            name,
            "int",
            [None if run is None else getattr(run.counts, name) for run in run_results],
            "response",
        )
        for name in ("started", "succeeded", "failed", "in_flight_at_end", "dropped", "missed")
    ]
    named_metrics = {named.name: named for named in catalogue.METRICS.results}
    named_metrics |= {
        named.name: named for text in wanted if (named := catalogue.METRICS.find(text)) is not None
    }
    for named in named_metrics.values():
        values = [None if run is None else metric_value(run, named.name) for run in run_results]
        if any(value is not None for value in values):
            unit = KINDS[named.metric.kind].unit if named.metric.kind != "share" else ""
            columns.append(RunColumn(named.name, "float", values, "response", named.metric.unit or unit))
    return columns
