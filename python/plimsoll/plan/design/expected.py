"""How many transactions testers of closed loads are expected to make, if their response time is known. Pure.

A tester makes T / (R + Z) transactions in a time T, with the mean response time R and the mean think time Z (the
interactive response time law, Denning and Buzen 1978); with slots, T / max(every, R).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plimsoll.plan.design.estimate import mean_ns
from plimsoll.plan.hosts.spread import slots_of
from plimsoll.plan.model import cell as model
from plimsoll.plan.tester_time import tester_time_ns


@dataclass(frozen=True, slots=True)
class Expected:
    """Of one workload of a run. `per_tester`: transactions in the measured window, a mean over its `testers`; `total`:
    of all testers in the whole run; `needed_ns`: length of a window with `MIN_TRANSACTIONS` per tester."""

    workload: str
    testers: int
    response_ns: float
    per_tester: float
    total: float
    needed_ns: float


MIN_TRANSACTIONS = 10
"""Transactions of a tester below which its figures are mostly chance, as in the analysis of a run."""


def expected(config: model.Config, response_ns: Mapping[str, float]) -> list[Expected]:
    """The closed workloads of a run whose length is known. `response_ns`: mean response time by workload; others are
    left out, as are open loads, whose number of transactions does not depend on it."""
    end, warmup = config.run.end_ns, config.run.warmup_ns
    found = []
    for work in config.workloads:
        response = response_ns.get(work.name)
        cycle = None if response is None else _cycle_ns(work.load, response)
        if end is None or cycle is None or response is None or cycle <= 0:
            continue
        testers = slots_of(work.load)
        window = _tester_time(work.load, end) - _tester_time(work.load, warmup)
        each = config.run.each_tester
        per_tester, total = window / testers / cycle, _tester_time(work.load, end) / cycle
        if each is not None:
            per_tester, total = min(per_tester, each), min(total, each * testers)
        active = window / max(1, end - warmup) / testers
        needed = MIN_TRANSACTIONS * cycle / active if active > 0 else 0.0
        found.append(Expected(work.name, testers, response, per_tester, total, needed))
    return found


def _cycle_ns(load: model.Load, response: float) -> float | None:
    match load:
        case model.ClosedLoad():
            return response + mean_ns(load.think)
        case model.PeriodicLoad():
            return max(float(load.every_ns), response)
        case model.RampLoad() | model.StagedLoad():
            if isinstance(load, model.StagedLoad) and any(stage.rate is not None for stage in load.stages):
                return None
            slots = load.slots
            return response + mean_ns(load.think) if slots is None else max(float(slots.every_ns), response)
        case _:
            return None


def _tester_time(load: model.Load, end_ns: int) -> int:
    """The time of all testers up to a time of the run, ns."""
    if isinstance(load, (model.RampLoad, model.StagedLoad)):
        return tester_time_ns(load, end_ns) if end_ns > 0 else 0
    return slots_of(load) * end_ns
