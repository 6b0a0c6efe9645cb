"""What a plan will take: time, restarts, disk. Estimates, with every assumption said."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.plan.design.changes import Changes
from plimsoll.plan.design.filling import fillings, warm_caches
from plimsoll.plan.model import cell as model
from plimsoll.plan.services.section import ServiceSection
from plimsoll.plan.services.table import SERVICE_KINDS
from plimsoll.plan.source.units import NS, about_duration, about_size
from plimsoll.plan.tester_time import active_pieces, slot_count, tester_time_ns

OWN_START_NS: Final = ServiceSection.start_ns
"""Assumed time to restart a service of Plimsoll, ns."""
FILL_NS: Final = 500 * NS["ms"]
"""Of each filling of a warm cache."""
RUN_OVERHEAD_NS: Final = 500 * NS["ms"]
"""Between two runs: agent, conversion, bookkeeping."""
WRITE_BYTES_PER_S: Final = 50_000_000
"""Of `data:` tables."""
TRANSACTION_BYTES: Final = 20
"""In Parquet, as the recorder promises."""
SEGMENT_BYTES: Final = 120
"""During a run, before conversion."""
SECOND_BYTES: Final = 6_000
"""Samples, histograms and live lines of one second of a run."""
RUN_BYTES: Final = 50_000
CLOSED_REQUEST_NS: Final = 500_000
"""Assumed request time of a closed load, whose rate is not known before it was measured."""
MAX_CLOSED_PER_S: Final = 50_000.0
"""And the most that all its testers together are assumed to reach."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of a whole plan. `time_ns` leaves out `unbounded` runs, which only counts end; `disk_peak_bytes` is
    what must be
    free: everything kept, and the segments of the largest run beside it."""

    time_ns: int
    run_ns: int
    restart_ns: int
    restarts: int
    loads: int
    unbounded: int
    transactions: float
    disk_bytes: int
    disk_peak_bytes: int
    assumptions: tuple[str, ...]


def estimate(configs: Sequence[model.Config], between: Sequence[Changes]) -> Estimate:
    """Of runs in their order; `between[i]` is what changes before run i."""
    run_ns = restart_ns = restarts = loads = unbounded = disk = largest = 0
    transactions = 0.0
    for config, change in zip(configs, between, strict=True):
        restart_ns += _restart_ns(config, change)
        restarts += sum(1 for name in change.start if config.service(name).starts_process)
        loads += len(change.load)
        if config.run.end_ns is None:
            unbounded += 1
        length = config.run.end_ns or 0
        run_ns += _run_ns(config)
        count = transactions_of(config)
        transactions += count
        kept = count * TRANSACTION_BYTES if config.run.keep == "all" else 0.0
        disk += round(kept + length / NS["s"] * SECOND_BYTES) + RUN_BYTES
        largest = max(largest, round(count * SEGMENT_BYTES))
    return Estimate(
        time_ns=run_ns + restart_ns,
        run_ns=run_ns,
        restart_ns=restart_ns,
        restarts=restarts,
        loads=loads,
        unbounded=unbounded,
        transactions=transactions,
        disk_bytes=disk,
        disk_peak_bytes=disk + largest,
        assumptions=_assumptions(configs, restarts, loads, unbounded),
    )


def run_times_ns(configs: Sequence[model.Config], between: Sequence[Changes]) -> tuple[int, ...]:
    """The time of each run with the restarts before it; their sum is `Estimate.time_ns`."""
    pairs = zip(configs, between, strict=True)
    return tuple(_run_ns(config) + _restart_ns(config, change) for config, change in pairs)


def _run_ns(config: model.Config) -> int:
    filling = len(fillings(config)) * FILL_NS
    return (config.run.end_ns or 0) + config.run.pause_ns + RUN_OVERHEAD_NS + filling


def _restart_ns(config: model.Config, change: Changes) -> int:
    start = sum(SERVICE_KINDS[config.service(name).kind].start_ns for name in change.start)
    written = sum(data.bytes for data in config.data if data.name in change.load)
    return start + round(written / WRITE_BYTES_PER_S * NS["s"])


def transactions_of(config: model.Config) -> float:
    """How many transactions a run is expected to start."""
    limit = config.run.transactions
    seconds = None if config.run.end_ns is None else config.run.end_ns / NS["s"]
    total = sum(_of_load(work.load, seconds, config.run.each_tester) for work in config.workloads)
    return float(limit) if limit is not None and (seconds is None or limit < total) else total


def _of_load(load: model.Load, seconds: float | None, each: int | None) -> float:
    match load:
        case model.OpenLoad():
            return load.rate * (seconds or 0.0)
        case model.PeriodicLoad():
            counted = None if seconds is None else load.testers * seconds * NS["s"] / load.every_ns
            return _least(counted, None if each is None else float(each * load.testers))
        case model.ClosedLoad():
            counted = None if seconds is None else _closed_per_s(load.testers, load.think) * seconds
            return _least(counted, None if each is None else float(each * load.testers))
        case model.RampLoad():
            counted = None if seconds is None else _of_ramp(load, round(seconds * NS["s"]))
            return _least(counted, None if each is None else float(each * load.testers))
        case model.RecordedLoad():
            end_ns = None if seconds is None else round(seconds * NS["s"])
            return float(len(load.at_ns) if end_ns is None else bisect_left(load.at_ns, end_ns))
        case model.StagedLoad():
            return _of_stages(load)


def _of_ramp(load: model.RampLoad, end_ns: int) -> float:
    if load.slots is not None:
        return float(slot_count(load, load.slots, end_ns))
    mean_testers = tester_time_ns(load, end_ns) / end_ns
    return _closed_per_s(mean_testers, load.think) * end_ns / NS["s"]


def _of_stages(load: model.StagedLoad) -> float:
    open_ = sum(
        sum(stage.rate) / 2 * stage.for_ns / NS["s"] for stage in load.stages if stage.rate is not None
    )
    if load.slots is not None:
        return open_ + slot_count(load, load.slots, sum(stage.for_ns for stage in load.stages))
    return open_ + sum(
        _closed_per_s(testers, load.think) * (end - start) / NS["s"]
        for _, start, end, testers in active_pieces(load)
    )


def _least(one: float | None, other: float | None) -> float:
    return min((value for value in (one, other) if value is not None), default=0.0)


def _closed_per_s(testers: float, think: model.Distribution) -> float:
    return min(MAX_CLOSED_PER_S, testers * NS["s"] / (mean_ns(think) + CLOSED_REQUEST_NS))


def mean_ns(drawn: model.Distribution) -> float:
    """Mean of a duration that may be drawn."""
    match drawn:
        case model.FixedTime():
            return float(drawn.ns)
        case model.ExponentialTime():
            return float(drawn.mean_ns)
        case model.UniformTime():
            return (drawn.from_ns + drawn.to_ns) / 2


def _has_unknown_rate(load: model.Load) -> bool:
    """Whether the rate of a load depends on the response times."""
    return isinstance(load, model.ClosedLoad) or (
        isinstance(load, (model.RampLoad, model.StagedLoad)) and load.slots is None
    )


def _assumptions(
    configs: Sequence[model.Config], restarts: int, loads: int, unbounded: int
) -> tuple[str, ...]:
    said = [f"{about_duration(RUN_OVERHEAD_NS)} of bookkeeping for each run"]
    if restarts:
        kinds = sorted(
            {
                service.kind
                for config in configs
                for service in config.services
                if service.starts_process and not SERVICE_KINDS[service.kind].runs_in_engine
            }
        )
        others = "".join(f", {about_duration(SERVICE_KINDS[kind].start_ns)} for {kind}" for kind in kinds)
        said.append(f"{about_duration(OWN_START_NS)} until a service of Plimsoll is ready{others}")
    if any(warm_caches(one) for one in configs):
        said.append(f"{about_duration(FILL_NS)} to warm the caches before a run")
    if loads:
        said.append(f"tables are written at {about_size(WRITE_BYTES_PER_S)}/s")
    if any(_has_unknown_rate(work.load) for one in configs for work in one.workloads):
        said.append(
            f"a request of a closed load takes {about_duration(CLOSED_REQUEST_NS)}, "
            f"and all testers together reach at most {MAX_CLOSED_PER_S:,.0f}/s"
        )
    said.append(f"a transaction takes {TRANSACTION_BYTES} B when kept, {SEGMENT_BYTES} B during its run")
    if unbounded:
        said.append(f"{unbounded} runs end only by counts: their time is not included")
    if any(one.before_run or one.after_run for one in configs):
        said.append("hooks take no time")
    return tuple(said)
