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
"""Of names, by unit."""

Record = Mapping[str, Any]
"""run.json"""


def run_columns(
    factors: Mapping[str, Sequence[str]], records: Sequence[Record], results: Mapping[str, RunResult]
) -> list[RunColumn]:
    """The columns, a row per record in their order. `factors`: labels of the levels by factor; `results`: by run id,
    without runs that have no measurement."""
    found = [results.get(record["id"]) for record in records]
    return [
        *_plan(factors, records, found),
        *_covariates(records, found),
        *_responses(found),
    ]


def _plan(
    factors: Mapping[str, Sequence[str]], records: Sequence[Record], found: Sequence[RunResult | None]
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
                for record, run in zip(records, found, strict=True)
            ],
        ),
        of("valid", "bool", [run is not None and run.valid for run in found]),
        of("doubtful", "bool", [None if run is None else bool(run.doubtful_reasons) for run in found]),
        of(
            "reasons",
            "text",
            [
                None if run is None else "; ".join((*run.invalid_reasons, *run.doubtful_reasons))
                for run in found
            ],
        ),
    ]


def _level(name: str, labels: Sequence[str], records: Sequence[Record]) -> RunColumn:
    """Of one factor: numbers where each of its levels is one, of one unit."""
    shown = f"level.{name}" if name in (*FIXED, "cell", "reasons") else name
    given = [record["cell"].get(name) for record in records]
    values = [record["values"].get(name) for record in records]
    units = {level_unit(label) for label in labels}
    is_number = all(
        value is not None for label, value in zip(given, values, strict=True) if label is not None
    )
    if not is_number or len(units) != 1 or None in units:
        return RunColumn(shown, "text", given, "plan")
    (unit,) = units
    assert unit is not None
    return RunColumn(f"{shown}{SUFFIXES.get(unit, '')}", "float", values, "plan", unit)


def _start(record: Record) -> int | None:
    """The zero of the run, or where it has none, when it began."""
    if record.get("t0_unix_ns") is not None:
        return int(record["t0_unix_ns"]) // 1000
    began = record.get("began")
    return None if not began else round(datetime.datetime.fromisoformat(began).timestamp() * 1e6)


def _covariates(records: Sequence[Record], found: Sequence[RunResult | None]) -> list[RunColumn]:
    def of(name: str, type_: Type, values: Sequence[Any], unit: str = "") -> RunColumn:
        return RunColumn(name, type_, values, "covariate", unit)

    columns = [
        of("agents", "int", [len(record.get("agents") or ()) for record in records]),
        of("warmup_s", "float", [record.get("warmup_s") for record in records], "s"),
        of("window_s", "float", [run and run.traffic.window_s for run in found], "s"),
        of("bottleneck", "text", [run and run.bottleneck for run in found]),
        of("monitor_cpu", "float", [run and run.monitor_cpu for run in found]),
        of("steal", "float", [_detail(run, "cpu.steal") for run in found]),
        of("iowait", "float", [_detail(run, "cpu.iowait") for run in found]),
    ]
    names = dict.fromkeys(each["name"] for record in records for each in record.get("services", ()))
    versions = [{each["name"]: each for each in record.get("services", ())} for record in records]
    for name in names:
        mine = [each.get(name, {}) for each in versions]
        if any(each.get("version") for each in mine):
            columns.append(of(f"version.{name}", "text", [each.get("version") or None for each in mine]))
        columns.append(of(f"pid.{name}", "int", [each.get("pid") for each in mine]))
    busy = [{each.component: each.mean for each in run.utilization} if run else {} for run in found]
    components = dict.fromkeys(name for each in busy for name in each)
    columns += [of(f"utilization.{name}", "float", [each.get(name) for each in busy]) for name in components]
    return columns


def _detail(run: RunResult | None, name: str) -> float | None:
    """Of the host of the lab."""
    here = (each for each in run.utilization if each.component == "host") if run else ()
    return next((each.detail.get(name) for each in here), None)


def _responses(found: Sequence[RunResult | None]) -> list[RunColumn]:
    """Counts over the whole run, and every response of the table of metrics that has a value in some run."""
    columns = [
        RunColumn(
            name, "int", [None if run is None else getattr(run.counts, name) for run in found], "response"
        )
        for name in ("started", "succeeded", "failed", "in_flight_at_end", "dropped", "missed")
    ]
    for named in catalogue.METRICS.results:
        values = [None if run is None else metric_value(run, named.name) for run in found]
        if any(value is not None for value in values):
            unit = KINDS[named.metric.kind].unit if named.metric.kind != "share" else ""
            columns.append(RunColumn(named.name, "float", values, "response", named.metric.unit or unit))
    return columns
