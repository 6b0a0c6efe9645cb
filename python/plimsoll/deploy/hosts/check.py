"""Determines the facts of hosts, through agents of the engine, and selects the hosts that satisfy the
requirements."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from plimsoll.deploy.hosts import Agent, Door, HostBackend, ReadyHost
from plimsoll.deploy.network import lab_sink, measure_paths
from plimsoll.deploy.talk import EngineTalk
from plimsoll.plan.model.hosts import Host, Hosts, Requirement
from plimsoll.plan.sections.baseline import LAB, PathEnd, PathFigures, shortcoming
from plimsoll.plan.source.units import NS, about_duration, about_size

CHECK_S: Final = 60.0
"""The time for agents to start and to answer, without the baseline."""
BASELINE_NS: Final = NS["s"]
"""The duration of the measurement of each figure of the baseline."""
BASELINE_S: Final = 15.0
"""The maximum time for the baseline of one host. The hosts may be measured one after the other."""
LOOPBACK: Final = "127.0.0.1"
MAX_DEVIATION: Final = 0.10
"""Hosts that deviate more from the median get a remark."""
FIGURES: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = {
    "cpu_per_s": ("CPU", lambda value: f"{value / 1e6:,.4g} M/s"),
    "disk_write_bytes_s": ("disk writes", lambda value: f"{about_size(value)}/s"),
    "disk_read_bytes_s": ("disk reads", lambda value: f"{about_size(value)}/s"),
    "network_bytes_s": ("network", lambda value: f"{about_size(value)}/s"),
}
"""The figures of the baseline: name and format of each in texts."""
NETWORK: Final = "network_bytes_s"
_AgentFacts = tuple[Mapping[str, Any] | None, str]
"""The facts that an agent reports of its host, or None and the reason."""


@dataclass(frozen=True, slots=True)
class CheckedHost:
    """A host after the check. `facts`: as the engine returns them; None if the host does not answer.
    `reason`: why the host is left out; empty if it is used. `remarks`: texts for a comparison of hosts.
    `role`: the role of its agent."""

    host: Host
    facts: Mapping[str, Any] | None
    reason: str = ""
    remarks: tuple[str, ...] = ()
    role: Literal["testers", "watch", "services"] = "testers"

    @property
    def taken(self) -> bool:
        """Whether an experiment may use the host."""
        return not self.reason

    def to_json(self) -> dict[str, Any]:
        """The host for `--json` and environment.json."""
        return {
            "name": self.host.name,
            "site": self.host.site,
            "role": self.role,
            "link_bytes_s": self.host.link_bytes_s,
            "answers": self.facts is not None,
            "taken": self.taken,
            "reason": self.reason,
            "remarks": list(self.remarks),
            "facts": None if self.facts is None else dict(self.facts),
        }


def check(
    kind: HostBackend,
    hosts: Hosts,
    engine: Path,
    *,
    files: Sequence[Path] = (),
    ready: Sequence[ReadyHost] | None = None,
    baseline: bool = False,
    network: bool = False,
    check_interrupt: Callable[[], None] = lambda: None,
) -> list[CheckedHost]:
    """Prepares all hosts (unless `ready` is given) and requests the facts of each through the engine. `baseline`: also
    the speed of its CPU and disk; `network`: also of its path to this host, if its address is known. The caller's
    `clean` ends the agents that were started. Raises EngineError if the engine on this host fails.
    The failure of another host is reported with that host."""
    if ready is None:
        ready = kind.prepare(files)
    agents_by_host = kind.agents_by_host(ready)
    agents = [agent for host_agents in agents_by_host.values() for agent in host_agents]
    facts: dict[str, _AgentFacts] = {}
    paths: dict[str, PathFigures] = {}
    if agents:
        with _session(kind, engine, check_interrupt) as talk:
            measure = {"for_ns": BASELINE_NS} if baseline else None
            descriptions = [agent.to_json() for agent in agents]
            timeout = CHECK_S + (BASELINE_S * len(agents) if baseline else 0.0)
            for event in talk.ask(
                {"type": "check", "agents": descriptions, "baseline": measure}, "checked", timeout
            ):
                if event.get("type") == "host":
                    facts[str(event["name"])] = (event.get("facts"), str(event.get("error") or ""))
            paths = _paths_to_lab(talk, hosts, engine, first_agents(agents_by_host)) if network else {}
    checked = []
    for ready_host in ready:
        answers = [
            facts.get(agent.name, (None, "no answer"))
            for agent in agents_by_host.get(ready_host.host.name, ())
        ]
        # The facts are those of its first agent. If any of its agents does not answer, the host does not answer.
        worst = next((answer for answer in answers if answer[0] is None), None)
        checked_host = _checked(ready_host, *(worst or [*answers, (None, "")][0]), hosts)
        path = paths.get(ready_host.host.name)
        checked.append(checked_host if path is None else _with_network(checked_host, path, hosts))
    return with_deviations(checked)


def first_agents(agents_by_host: Mapping[str, Sequence[Agent]]) -> dict[str, Agent]:
    """One agent of each host, by the name of the host: all agents of a host have the same network."""
    return {name: agents[0] for name, agents in agents_by_host.items() if agents}


def _paths_to_lab(
    talk: Door, hosts: Hosts, engine: Path, agents: Mapping[str, Agent]
) -> dict[str, PathFigures]:
    """The path from each host to this host, by the name of the host; empty if the address of this host is not known."""
    address = hosts.controller if hosts.elsewhere else LOOPBACK
    if address is None:
        return {}
    ends = {agent.name: (PathEnd(LAB, "lab"),) for agent in agents.values()}
    with (
        tempfile.TemporaryDirectory(prefix="plimsoll-") as work,
        lab_sink(engine, Path(work) / "sink", address, hosts.ports) as reached,
    ):
        measured = measure_paths(talk, list(agents.values()), ends, {LAB: reached})
    return {
        name: next(iter(measured[agent.name].paths), PathFigures(LAB, error=measured[agent.name].error))
        for name, agent in agents.items()
        if agent.name in measured
    }


def _with_network(checked: CheckedHost, path: PathFigures, hosts: Hosts) -> CheckedHost:
    """Adds the throughput of the path, and whether it satisfies the requirement."""
    if checked.facts is None:
        return checked
    figures = {**(checked.facts.get("baseline") or {}), NETWORK: path.throughput_bytes_s}
    reasons = filter(None, [checked.reason, shortcoming(hosts.require, [path])])
    return replace(checked, facts={**checked.facts, "baseline": figures}, reason="; ".join(reasons))


def _session(
    kind: HostBackend, engine: Path, check_interrupt: Callable[[], None]
) -> contextlib.AbstractContextManager[EngineTalk | Door]:
    """A separate engine, or the one that the agents have dialled."""
    if kind.door is not None:
        return contextlib.nullcontext(kind.door)
    return EngineTalk(engine, check_interrupt)


def _checked(ready: ReadyHost, facts: Mapping[str, Any] | None, error: str, hosts: Hosts) -> CheckedHost:
    if not ready.is_ready:
        return CheckedHost(ready.host, None, ready.reason)
    if facts is None:
        problem = (
            "its agent disconnected" if hosts.dials_in or hosts.dials_back else "its agent cannot be started"
        )
        return CheckedHost(ready.host, None, f"{problem}: {error or 'no answer'}")
    return CheckedHost(ready.host, facts, "; ".join(shortcomings(facts, hosts.require, hosts.architecture)))


def shortcomings(
    facts: Mapping[str, Any], required: Sequence[Requirement], architecture: str | None
) -> list[str]:
    """The requirements that a host does not satisfy, as texts, except `network` (`baseline.shortcoming`)."""
    problems = []
    if architecture is not None and facts.get("architecture") != architecture:
        problems.append(f"its architecture is {facts.get('architecture')}; required is {architecture}")
    clock = facts.get("clock") or {}
    values = {
        "cores": facts.get("cores"),
        "memory": facts.get("memory_bytes"),
        "rtt": (facts.get("rtt_ns") or {}).get("min"),
        "clock_bound": 0 if clock.get("same") else clock.get("bound_ns"),
    }
    for requirement in required:
        if requirement.what not in values:  # it is measured later
            continue
        value = values[requirement.what]
        if value is None:
            problems.append(f"its {WORDS[requirement.what]} is not known; required is {requirement.text}")
        elif not requirement.holds(float(value)):
            problems.append(
                f"its {WORDS[requirement.what]} is {_shown(requirement.what, float(value))}; "
                f"required is {requirement.text}"
            )
    return problems


WORDS: Final = {
    "cores": "number of cores",
    "memory": "memory",
    "rtt": "round-trip time",
    "clock_bound": "clock bound",
}
"""The names of the requirements in texts."""


def _shown(quantity: str, value: float) -> str:
    match quantity:
        case "memory":
            return about_size(value)
        case "rtt" | "clock_bound":
            return about_duration(value)
        case _:
            return f"{value:g}"


def with_deviations(checked: Sequence[CheckedHost]) -> list[CheckedHost]:
    """Adds a remark to hosts that deviate more than 10 % from the median of the usable hosts, for each figure
    of the baseline. A declared `link` replaces the measured network figure."""
    figures = {checked_host.host.name: _figures(checked_host) for checked_host in checked}
    result = []
    for checked_host in checked:
        remarks = list(checked_host.remarks)
        for name, (words, show) in FIGURES.items():
            others = [
                value for other in checked if other.taken and (value := figures[other.host.name].get(name))
            ]
            own_value = figures[checked_host.host.name].get(name)
            if own_value is None or len(others) < 2:
                continue
            median = statistics.median(others)
            deviation = own_value / median - 1
            if abs(deviation) > MAX_DEVIATION:
                direction = "above" if deviation > 0 else "below"
                remarks.append(
                    f"{words}: {show(own_value)}, {abs(deviation):.0%} {direction} the median of {show(median)}"
                )
        result.append(replace(checked_host, remarks=tuple(remarks)))
    return result


def _figures(checked: CheckedHost) -> dict[str, float]:
    measured = (checked.facts or {}).get("baseline") or {}
    figures = {name: float(measured[name]) for name in FIGURES if measured.get(name)}
    if checked.host.link_bytes_s is not None and measured:
        figures[NETWORK] = checked.host.link_bytes_s
    return figures
