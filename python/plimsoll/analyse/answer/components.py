"""Components and how busy they were, as the sentences on saturation and on cells name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.results.run import Utilization
from plimsoll.analyse.results.verdicts import ResourceKind
from plimsoll.analyse.results.wording import at_percent_range, percent_range

_OF_CPU: Final = {
    ResourceKind.CPU: "CPU",
    ResourceKind.CPU_OF_PROCESS: "CPU of its process",
}


def component_words(name: str, seen: Sequence[Utilization]) -> str:
    """A component in a sentence: `the gateway service`. `seen`: its utilizations, of any number of runs."""
    role = seen[0].role if seen else ""
    if role == "service":
        return name if "service" in name else f"the {name} service"
    if role == "testers":
        return "the load generator itself"
    return f"the host {name}" if role == "host" and "host" not in name else f"the {name}"


def evidence(seen: Sequence[Utilization]) -> str:
    """The utilization behind a bottleneck, as a range over the runs; a warning where it was the testers."""
    if not seen:
        return ""
    shown = at_percent_range(min(one.mean for one in seen), max(one.mean for one in seen), 2)
    used = most_used(seen)
    said = ", ".join(part for part in (f"{_resource(seen[0], shown)}", used) if part)
    return f" ({said})" + (": the target may serve more" if seen[0].role == "testers" else "")


def _resource(one: Utilization, shown: str) -> str:
    if one.kind == ResourceKind.BUSIEST_THREAD:
        return f"its busiest thread {shown} of a core"
    cores = "core" if one.cores == 1 else f"{one.cores} cores"
    match one.kind:
        case ResourceKind.CPU_OF_CORES:
            name = f"CPU of its {cores}"
        case ResourceKind.CPU_OF_SHARED_CORES:
            name = f"CPU of the {cores} that they share"
        case _:
            name = _OF_CPU.get(one.kind, one.resource)
    return f"{name} {shown}"


def most_used(seen: Sequence[Utilization]) -> str:
    """Of cores that services share: the service that used most of them; empty for anything else."""
    if seen[0].role != "cores" or not seen[0].detail:
        return ""
    most = max(seen[0].detail, key=lambda name: sum(one.detail.get(name, 0.0) for one in seen))
    shares = [one.detail.get(most, 0.0) for one in seen]
    return f"{percent_range(min(shares), max(shares), 2)} by {most}"
