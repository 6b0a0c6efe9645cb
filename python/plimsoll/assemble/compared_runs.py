"""The runs of a results directory, as a comparison reads them: values of metrics, and how they were measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.metrics import at, metric_value
from plimsoll.collect.results import Results
from plimsoll.compare.metrics import GENERATOR
from plimsoll.compare.sides import CellConfiguration, ComparedRun, QueueLength, Setup, cell_key, metric_names

_GIB: Final = 1 << 30


def directory_setup(results: Results) -> Setup:
    """How the runs of a directory were measured."""
    return Setup(
        name=str(results.path),
        experiment=str(results.plan["experiment"]["name"]),
        planned=len(results.due_without_controls),
        finished=sum(run.id not in results.controls for run in results.runs),
        configurations=_configurations(results),
        circumstances=_circumstances(results),
    )


def compared_runs(runs: Iterable[RunResult], also: Sequence[str] = ()) -> tuple[ComparedRun, ...]:
    """Analysed runs, invalid ones included. `also`: further metrics, such as those that a change cannot affect."""
    return tuple(_compared(run, also) for run in runs)


def _compared(run: RunResult, also: Sequence[str]) -> ComparedRun:
    services = tuple(dict.fromkeys(used.component for used in run.utilization if used.role == "service"))
    metrics = [*metric_names(services), *GENERATOR]
    trials = {one.metric: at(run, one.trials, {}) for one in metrics if one.trials}
    return ComparedRun(
        cell=dict(run.cell),
        order=run.order,
        block=run.block,
        is_valid=run.valid,
        values={name: metric_value(run, name) for name in (*(one.metric for one in metrics), *also)},
        trials={name: count for name, count in trials.items() if count is not None},
        services=services,
        queue=_queue(run),
    )


def _queue(run: RunResult) -> QueueLength | None:
    """Only the queues of an open load have no limit."""
    services = [used for used in run.utilization if used.role == "service"]
    busiest = max(services, key=lambda used: used.mean, default=None)
    if busiest is None or run.open_load != "all":
        return None
    traffic = run.traffic
    return QueueLength(traffic.window_s, traffic.throughput_per_s, busiest.component, busiest.mean)


def _configurations(results: Results) -> tuple[CellConfiguration, ...]:
    """The effective configuration of each cell, from the first of its runs."""
    out: dict[tuple[tuple[str, str], ...], CellConfiguration] = {}
    for run in results.runs:
        cell: Mapping[str, str] = run.record["cell"]
        out.setdefault(cell_key(cell), CellConfiguration(dict(cell), run.record.get("effective", {})))
    return tuple(out.values())


def _circumstances(results: Results) -> dict[str, Any]:
    """Design, hosts and versions, in the sections that `compare.configuration` distinguishes."""
    design, environment = results.plan["design"], results.environment
    host, cpu = environment.get("host", {}), environment.get("cpu", {})
    return {
        "design": {
            **{
                key: design.get(key)
                for key in ("kind", "repetitions", "order", "block", "loop", "until", "pair")
            },
            "factors": {factor["name"]: factor["levels"] for factor in results.plan["factors"]},
        },
        "host": {
            "name": host.get("name"),
            "architecture": host.get("architecture"),
            # The kernel reserves a part of the memory, which changes with its version.
            "memory_gib": round(host.get("memory_bytes", 0) / _GIB),
            "cpu": {key: cpu.get(key) for key in ("model", "cores", "usable")},
        },
        "hosts": {
            named["name"]: {key: named.get("facts", {}).get(key) for key in ("cores", "architecture")}
            for named in environment.get("hosts", ())
        },
        "versions": {
            **environment.get("versions", {}),
            "system": host.get("system"),
            "kernel": host.get("kernel"),
            "services": _service_versions(results),
        },
    }


def _service_versions(results: Results) -> dict[str, str]:
    return {
        service["name"]: service["version"]
        for run in results.runs[:1]
        for service in run.record.get("services", ())
        if service.get("version")
    }
