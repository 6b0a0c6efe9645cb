"""What hosts are, as the engine finds out by its agents there, and which of them an experiment takes."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from plimsoll.deploy.hosts import Door, HostBackend, Ready
from plimsoll.deploy.hosts.sink import sink
from plimsoll.deploy.talk import EngineTalk
from plimsoll.plan.model_hosts import Host, Hosts, Requirement
from plimsoll.plan.source.units import NS, about_duration, about_size

CHECK_S: Final = 60.0
"""For agents to be started and to answer, beside the base line."""
BASELINE_NS: Final = NS["s"]
"""Of each figure of the base line."""
BASELINE_S: Final = 15.0
"""For the base line of one host at most, should they be measured one after the other."""
LOOPBACK: Final = "127.0.0.1"
FAR_OFF: Final = 0.10
"""Hosts further off the median than this are named."""
FIGURES: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = {
    "cpu_per_s": ("CPU", lambda value: f"{value / 1e6:,.4g} M/s"),
    "disk_write_bytes_s": ("disk writes", lambda value: f"{about_size(value)}/s"),
    "disk_read_bytes_s": ("disk reads", lambda value: f"{about_size(value)}/s"),
    "network_bytes_s": ("network", lambda value: f"{about_size(value)}/s"),
}
"""Of the base line: what people call each, and how it is shown."""
NETWORK: Final = "network_bytes_s"
_Found = tuple[Mapping[str, Any] | None, str]
"""What an agent says of its host, or why it says nothing."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A host after the check. `facts`: as the engine gives them, None where it does not answer; `reason`: why it is
    left out, empty where it is taken; `remarks`: what somebody who compares hosts should know; `role`: what an
    agent does there."""

    host: Host
    facts: Mapping[str, Any] | None
    reason: str = ""
    remarks: tuple[str, ...] = ()
    role: Literal["testers", "watch"] = "testers"

    @property
    def taken(self) -> bool:
        """Whether an experiment may use it."""
        return not self.reason

    def to_json(self) -> dict[str, Any]:
        """For `--json` and environment.json."""
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
    ready: Sequence[Ready] | None = None,
    baseline: bool = False,
    check_interrupt: Callable[[], None] = lambda: None,
) -> list[Checked]:
    """Makes all hosts ready (`ready`: they are), and asks the engine about each. Agents that were started for it are
    ended by the caller's `clean`. Raises EngineError where this host's engine fails; a host that fails is told with
    that host."""
    if ready is None:
        ready = kind.prepare(files)
    asked = kind.agents_by_host(ready)
    agents = [agent for some in asked.values() for agent in some]
    facts: dict[str, _Found] = {}
    if agents:
        with _other_end(hosts, baseline) as place, _talk(kind, engine, check_interrupt) as talk:
            measure = {"for_ns": BASELINE_NS, "sink": place} if baseline else None
            told = [one.to_json() for one in agents]
            timeout = CHECK_S + (BASELINE_S * len(agents) if baseline else 0.0)
            for event in talk.ask({"type": "check", "agents": told, "baseline": measure}, "checked", timeout):
                if event.get("type") == "host":
                    facts[str(event["name"])] = (event.get("facts"), str(event.get("error") or ""))
    found = []
    for one in ready:
        answers = [facts.get(agent.name, (None, "no answer")) for agent in asked.get(one.host.name, ())]
        # A host is as its first agent says, but one of whose agents any is gone is not there.
        worst = next((answer for answer in answers if answer[0] is None), None)
        found.append(_checked(one, *(worst or [*answers, (None, "")][0]), hosts))
    return with_deviations(found)


def _talk(
    kind: HostBackend, engine: Path, check_interrupt: Callable[[], None]
) -> contextlib.AbstractContextManager[EngineTalk | Door]:
    """An engine of its own, or the one that agents have dialled."""
    if kind.door is not None:
        return contextlib.nullcontext(kind.door)
    return EngineTalk(engine, check_interrupt)


@contextlib.contextmanager
def _other_end(hosts: Hosts, wanted: bool) -> Iterator[str | None]:
    """What agents send bytes to, where it is known how they reach this host."""
    address = hosts.controller if hosts.elsewhere else LOOPBACK
    if not wanted or address is None:
        yield None
        return
    with sink(address, hosts.ports) as place:
        yield place


def _checked(ready: Ready, facts: Mapping[str, Any] | None, error: str, hosts: Hosts) -> Checked:
    if not ready.answers:
        return Checked(ready.host, None, ready.reason)
    if facts is None:
        what = (
            "its agent disconnected" if hosts.dials_in or hosts.dials_back else "its agent cannot be started"
        )
        return Checked(ready.host, None, f"{what}: {error or 'no answer'}")
    return Checked(ready.host, facts, "; ".join(shortcomings(facts, hosts.require, hosts.architecture)))


def shortcomings(
    facts: Mapping[str, Any], required: Sequence[Requirement], architecture: str | None
) -> list[str]:
    """What of a host is not as required, in words."""
    found = []
    if architecture is not None and facts.get("architecture") != architecture:
        found.append(f"its architecture is {facts.get('architecture')}; required is {architecture}")
    clock = facts.get("clock") or {}
    values = {
        "cores": facts.get("cores"),
        "memory": facts.get("memory_bytes"),
        "rtt": (facts.get("rtt_ns") or {}).get("min"),
        "clock_bound": 0 if clock.get("same") else clock.get("bound_ns"),
    }
    for one in required:
        value = values[one.what]
        if value is None:
            found.append(f"its {WORDS[one.what]} is not known; required is {one.text}")
        elif not one.holds(float(value)):
            found.append(f"its {WORDS[one.what]} is {_shown(one.what, float(value))}; required is {one.text}")
    return found


WORDS: Final = {
    "cores": "number of cores",
    "memory": "memory",
    "rtt": "round-trip time",
    "clock_bound": "clock bound",
}
"""What can be required, for people."""


def _shown(what: str, value: float) -> str:
    match what:
        case "memory":
            return about_size(value)
        case "rtt" | "clock_bound":
            return about_duration(value)
        case _:
            return f"{value:g}"


def with_deviations(checked: Sequence[Checked]) -> list[Checked]:
    """Names hosts that are more than 10 % off the median of the hosts that are taken, for each figure of the base line.
    A declared `link` takes the place of what was measured of the network."""
    figures = {one.host.name: _figures(one) for one in checked}
    found = []
    for one in checked:
        remarks = list(one.remarks)
        for name, (words, show) in FIGURES.items():
            others = [
                value for other in checked if other.taken and (value := figures[other.host.name].get(name))
            ]
            own = figures[one.host.name].get(name)
            if own is None or len(others) < 2:
                continue
            median = statistics.median(others)
            off = own / median - 1
            if abs(off) > FAR_OFF:
                way = "above" if off > 0 else "below"
                remarks.append(f"{words}: {show(own)}, {abs(off):.0%} {way} the median of {show(median)}")
        found.append(replace(one, remarks=tuple(remarks)))
    return found


def _figures(one: Checked) -> dict[str, float]:
    measured = (one.facts or {}).get("baseline") or {}
    found = {name: float(measured[name]) for name in FIGURES if measured.get(name)}
    if one.host.link_bytes_s is not None and measured:
        found[NETWORK] = one.host.link_bytes_s
    return found
