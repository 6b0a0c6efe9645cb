"""Facts of the load of a run that the analysis needs, as in run.json."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import accumulate
from typing import Any

from plimsoll.plan.model.cell import (
    MAX_OPERATIONS,
    ClosedLoad,
    Config,
    OpenLoad,
    PeriodicLoad,
    RampLoad,
    RecordedLoad,
    StagedLoad,
    Workload,
)
from plimsoll.plan.tester_time import NEVER_NS, active_pieces, stage_periods
from plimsoll.plan.tiers import tiers_of


def stages_of(config: Config) -> list[dict[str, Any]]:
    """Name, start and end (seconds from the run's zero) of each stage, and whether the load changes within
    it. Empty if no load has stages.

    If populations have different stages, those of the first one apply, since the stages of a run are one time
    axis.
    """
    for workload in config.workloads:
        if isinstance(workload.load, StagedLoad):
            ends = list(accumulate(stage.for_ns for stage in workload.load.stages))
            starts = [0, *ends[:-1]]
            return [
                {
                    "name": stage.name,
                    "start_s": start / 1e9,
                    "end_s": end / 1e9,
                    "changes": stage.rate is not None and stage.rate[0] != stage.rate[1],
                }
                for stage, start, end in zip(workload.load.stages, starts, ends, strict=True)
            ]
    return []


def is_load_changing(config: Config) -> bool:
    """Whether a load of the run changes as planned, so that no steady state can be expected."""
    for workload in config.workloads:
        match workload.load:
            case RampLoad():
                return True
            case StagedLoad(stages=stages) as load:
                levels = {(stage.testers, stage.rate) for stage in stages}
                if (
                    load.life_ns is not None
                    or len(levels) > 1
                    or any(rate[0] != rate[1] for _, rate in levels if rate is not None)
                ):
                    return True
            case ClosedLoad() | PeriodicLoad() | OpenLoad():
                pass
    return False


def load_profile(config: Config) -> dict[str, Any]:
    """`load_profile`: the planned load of the only workload over time, if it changes: `unit` (rate: starts
    per second, or testers) and `pieces`, linear from `first` at `start_s` to `last` at `end_s`; of a ramp also `joins`:
    tester i (of `testers`) joins at i times `every_s` and stays for `life_s` (null: to the end of the run). Empty if
    several workloads share the target, or if testers and rates alternate."""
    if len(config.workloads) != 1 or not is_load_changing(config):
        return {}
    load = config.workloads[0].load
    if isinstance(load, RampLoad):
        joins = {
            "testers": load.testers,
            "every_s": load.every_ns / 1e9,
            "life_s": None if load.life_ns is None else load.life_ns / 1e9,
        }
        return {"load_profile": {"unit": "testers", "pieces": _ramp_pieces(load), "joins": joins}}
    if not isinstance(load, StagedLoad):
        return {}
    closed = [stage.testers is not None for stage in load.stages]
    if any(closed) != all(closed):
        return {}
    if all(closed):
        steps = [_piece(start, end, float(n), float(n)) for _, start, end, n in active_pieces(load)]
        return {"load_profile": {"unit": "testers", "pieces": steps}}
    pieces = [
        _piece(start, end, *stage.rate)
        for stage, (start, end) in zip(load.stages, stage_periods(load), strict=True)
        if stage.rate is not None and stage.for_ns > 0
    ]
    return {"load_profile": {"unit": "rate", "pieces": pieces}}


def _ramp_pieces(load: RampLoad) -> list[dict[str, float]]:
    """Testers join one after the other from 1 on, and leave in the same order when their life ends."""
    joined = (load.testers - 1) * load.every_ns
    life = NEVER_NS if load.life_ns is None else load.life_ns
    max_testers = min(load.testers, -(-life // load.every_ns)) if load.every_ns else load.testers
    full = (max_testers - 1) * load.every_ns
    leaving = max(life, joined)
    pieces = [_piece(0, full, 1, max_testers), _piece(full, leaving, max_testers, max_testers)]
    if load.life_ns is not None:
        pieces.append(_piece(leaving, joined + life, max_testers, 1))
    return [piece for piece in pieces if piece["end_s"] > piece["start_s"]]


def _piece(start: int, end: int, first: float, last: float) -> dict[str, float]:
    return {"start_s": start / 1e9, "end_s": end / 1e9, "first": first, "last": last}


def planned_starts(config: Config) -> dict[str, bool]:
    """`plans_starts`: whether a load has a schedule. `drops_on_request`: whether starts that find no free
    slot are omitted because the file says so (`when_full: drop`)."""
    plans = drops = False
    for workload in config.workloads:
        match workload.load:
            case OpenLoad() | RecordedLoad() as load:
                plans, drops = True, drops or load.when_full == "drop"
            case StagedLoad() as load:
                is_open = any(stage.rate is not None for stage in load.stages)
                plans = plans or is_open or load.slots is not None
                drops = drops or (is_open and load.when_full == "drop")
            case PeriodicLoad():
                plans = True
            case RampLoad() as load:
                plans = plans or load.slots is not None
            case ClosedLoad():
                pass
    return {"plans_starts": plans, "drops_on_request": drops}


def operations_of(config: Config) -> dict[str, Any]:
    """`operations`: names of the operations of each workload, if a workload has several and none has too
    many."""
    names_by_workload = {
        workload.name: [operation.name for operation in workload.operations] for workload in config.workloads
    }
    max_operations = max(len(names) for names in names_by_workload.values())
    return {"operations": names_by_workload} if 1 < max_operations <= MAX_OPERATIONS else {}


def versions_of(config: Config) -> dict[str, Any]:
    """`versions`: whether an operation reads versions of objects (from a replica or not) or writes them, by workload;
    empty if none does."""
    replicas = {service.name for service in config.services if service.settings.get("replica_of") is not None}
    versions = {
        workload.name: {
            operation.name: _role_of(workload, version, replicas)
            for operation in workload.operations
            if isinstance(version := operation.request.get("version"), Mapping)
            and (version.get("written") is not None or version.get("column") is not None)
        }
        for workload in config.workloads
    }
    return {"versions": versions} if any(versions.values()) else {}


def _role_of(workload: Workload, version: Mapping[str, Any], replicas: Collection[str]) -> str:
    if version.get("written") is not None:
        return "write"
    endpoints = workload.target.endpoints
    return "read-replica" if endpoints and all(each.service in replicas for each in endpoints) else "read"


def compared_tiers(config: Config) -> dict[str, Any]:
    """`tiers`: services whose counts of requests can be compared with those of their clients; empty if there are
    none."""
    tiers = [tier.to_json() for tier in tiers_of(config)]
    return {"tiers": tiers} if tiers else {}
