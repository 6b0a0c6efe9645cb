"""The JSON form of an analysis: `analysis.json` and `--json`.

The tree of `results`, with three changes for machine readers: the figures of a window are fields of their run, stage
or workload, utilization is a mapping by component, and fields for several agents are left out of runs with one.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from plimsoll.analyse.results.analysis import Analysis


def as_document(analysis: Analysis) -> dict[str, Any]:
    """Plain data for JSON, with the key `format` first; a number that is not finite becomes None."""
    tree = finite(asdict(analysis))
    runs = {key: [_run_document(run) for run in tree[key]] for key in ("runs", "controls")}
    return {"format": tree.pop("format"), **tree, **runs}


def _run_document(run: dict[str, Any]) -> dict[str, Any]:
    flat = _flattened(_without_hosts(run) if run["hosts"] is None else run)
    for rare in (
        "without_lost",
        "connections",
        "components",
        "component_series",
        "conditions",
        "few",
        "first",
        "at_peak",
        "tiers",
    ):
        if not flat.get(rare):
            flat.pop(rare, None)
    flat["metrics"] = _metrics(flat["metrics"])
    flat["services"] = [_service(service) for service in flat["services"]]
    if "at_peak" in flat:
        flat["at_peak"] = _peak_document(flat["at_peak"])
    if "first" in flat:
        flat["first"] = [_flattened(first) for first in flat["first"]]
    flat["utilization"] = {component.pop("component"): component for component in flat["utilization"]}
    flat["stages"] = [_flattened(stage) for stage in flat["stages"]]
    if flat["ramp"] is not None:
        for parts in ("bins", "steps"):
            flat["ramp"][parts] = [_flattened(part) for part in flat["ramp"][parts]]
    flat["workloads"] = [_flattened(workload) for workload in flat["workloads"]]
    flat["operations"] = [_flattened(operation) for operation in flat["operations"]]
    return flat


def _peak_document(peak: dict[str, Any]) -> dict[str, Any]:
    """The peak window, without the parts that it does not have."""
    peak["metrics"] = _metrics(peak["metrics"])
    parts = {name: list(map(_flattened, peak.pop(name))) for name in ("workloads", "operations", "first")}
    return _flattened(peak) | {name: of for name, of in parts.items() if of}


def _metrics(metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Named metrics without their single values."""
    return [{key: value for key, value in metric.items() if key != "values"} for metric in metrics]


def _service(service: dict[str, Any]) -> dict[str, Any]:
    """A service without the figures of the window that it does not have."""
    return {key: value for key, value in service.items() if value or not key.startswith("window")}


_PLACED = ("name", "response_ms_p50", "response_ms_p95", "rtt_ms", "response_less_rtt_ms")


def _without_hosts(run: dict[str, Any]) -> dict[str, Any]:
    """A run of one agent, without the fields for several hosts."""
    testers = [{key: tester[key] for key in tester if key not in _PLACED} for tester in run["testers"]]
    return {key: value for key, value in run.items() if key != "hosts"} | {"testers": testers}


_ANSWERS = ("first_byte_ms", "transfer_ms", "response_less_rtt_ms")
"""Figures of a window that not every driver and not every run has."""


def _flattened(holder: dict[str, Any]) -> dict[str, Any]:
    """The run, stage or workload with the figures of its window instead of the field `traffic`."""
    out: dict[str, Any] = {}
    for key, value in holder.items():
        out.update(_traffic(value) if key == "traffic" else {key: value})
    return out


def _traffic(figures: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in figures.items() if key not in _ANSWERS or value is not None}


def finite(value: Any) -> Any:
    """A copy of plain data without NaN and infinities, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
