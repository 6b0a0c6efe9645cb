"""Words for components and their utilization, for the sentences on saturation and on cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.answer.reasons import figure, memory_words
from plimsoll.analyse.components.bottleneck import is_limited
from plimsoll.analyse.components.utilization import CPU_LIMIT
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import Utilization
from plimsoll.analyse.results.verdicts import BottleneckReason, Reason, ResourceKind
from plimsoll.analyse.results.wording import at_percent_range, number, percent_range, plural

_OF_CPU: Final = {
    ResourceKind.CPU: "CPU",
    ResourceKind.CPU_OF_PROCESS: "CPU of its process",
    ResourceKind.CPU_OF_LIMIT: "CPU of its limit",
}


def component_words(name: str, utilizations: Sequence[Utilization]) -> str:
    """A component in a sentence: `the gateway service`. `utilizations`: those of the component in any number of
    runs."""
    role = utilizations[0].role if utilizations else ""
    if role == "service":
        return name if "service" in name else f"the {name} service"
    if role == "testers":
        return "the testers" if is_limited(utilizations[0]) else "the load generator itself"
    return f"the host {name}" if role == "host" and "host" not in name else f"the {name}"


def limiting(component: str, runs: Sequence[RunResult]) -> str:
    """A bottleneck in a sentence, with the evidence for it: that memory was short, or its utilization, as a range over
    the runs."""
    utilizations = _of(component, runs)
    return memory_of(component, runs) or f"{component_words(component, utilizations)}{evidence(utilizations)}"


def memory_of(component: str, runs: Sequence[RunResult]) -> str:
    """The memory of a bottleneck, with the evidence that it was short; empty if that is not the reason in most of the
    runs in which it is the bottleneck."""
    reasons = [run.bottleneck_why for run in runs if run.bottleneck == component and run.bottleneck_why]
    by_memory = [reason for reason in reasons if reason.code == BottleneckReason.MEMORY]
    if 2 * len(by_memory) <= len(reasons):
        return ""
    strongest = max(by_memory, key=lambda reason: (_known(reason, "oom_kills"), _known(reason, "mean")))
    words = memory_words(strongest.values)
    most = f"in {plural(len(by_memory), 'run')}, at most: " if len(by_memory) > 1 else ""
    return f"the memory of {component_words(component, _of(component, runs))} ({most}{words})"


def _of(component: str, runs: Sequence[RunResult]) -> list[Utilization]:
    return [used for run in runs for used in run.utilization if used.component == component]


def _known(reason: Reason, name: str) -> float:
    value = figure(reason.values, name)
    return value if value == value else 0.0


def evidence(utilizations: Sequence[Utilization]) -> str:
    """The utilization of a bottleneck, as a range over the runs, with a warning if the component is the testers or
    the emulation of links."""
    if not utilizations:
        return ""
    shown = at_percent_range(
        min(utilization.mean for utilization in utilizations),
        max(utilization.mean for utilization in utilizations),
        2,
    )
    used = most_used(utilizations)
    parts = ", ".join(part for part in (f"{_resource(utilizations[0], shown)}", used) if part)
    role = utilizations[0].role
    is_of_lab = role == "emulator" or (role == "testers" and not is_limited(utilizations[0]))
    return f" ({parts})" + (": the target may serve more" if is_of_lab else "")


def _resource(utilization: Utilization, shown: str) -> str:
    if utilization.kind == ResourceKind.BUSIEST_THREAD:
        return f"its busiest thread {shown} of a core"
    cores = "core" if utilization.cores == 1 else f"{utilization.cores} cores"
    match utilization.kind:
        case ResourceKind.CPU_OF_CORES:
            name = f"CPU of its {cores}"
        case ResourceKind.CPU_OF_LIMIT:
            whose = "their" if utilization.role == "testers" else "its"
            name = f"CPU of {whose} limit of {number(utilization.detail[CPU_LIMIT])} cores"
        case ResourceKind.CPU_OF_SHARED_CORES:
            name = f"CPU of the {cores} that they share"
        case _:
            name = _OF_CPU.get(utilization.kind, utilization.resource)
    return f"{name} {shown}"


def most_used(utilizations: Sequence[Utilization]) -> str:
    """For cores that services share: the service with the greatest use of them; empty for other components."""
    if utilizations[0].role != "cores" or not utilizations[0].detail:
        return ""
    busiest = max(
        utilizations[0].detail,
        key=lambda name: sum(utilization.detail.get(name, 0.0) for utilization in utilizations),
    )
    shares = [utilization.detail.get(busiest, 0.0) for utilization in utilizations]
    return f"{percent_range(min(shares), max(shares), 2)} by {busiest}"
