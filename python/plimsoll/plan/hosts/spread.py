"""The hosts that are used, the agents that run a workload, and the number of testers of each. Pure.

The engine assigns testers to the agents of a workload in turn. This module must produce the same assignment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from plimsoll.plan.model.cell import (
    ClosedLoad,
    Config,
    Load,
    OpenLoad,
    PeriodicLoad,
    RampLoad,
    RecordedLoad,
    StagedLoad,
    Workload,
)
from plimsoll.plan.model.hosts import Host, Hosts


@dataclass(frozen=True, slots=True)
class Place:
    """An agent, planned or present: its name, the name of its host, and its site."""

    name: str
    host: str
    site: str


def chosen(hosts: Hosts, answering: Collection[str] | None = None) -> tuple[Host, ...]:
    """The hosts that are used, in the order of the file. `answering`: names of the responding hosts (None: all).

    `use` selects hosts from the sites in turn, so that a few hosts are also spread over all sites. Rejected: the first
    hosts of the file. A factor `hosts.use` would then also change the sites.
    """
    available = [host for host in hosts.hosts if answering is None or host.name in answering]
    if hosts.use is None:
        return tuple(available)
    by_site = [[host for host in available if host.site == site] for site in hosts.sites]
    in_turn = [host for host in chain.from_iterable(zip_longest(*by_site)) if host is not None]
    names = {host.name for host in in_turn[: hosts.use]}
    return tuple(host for host in available if host.name in names)


def fewest(hosts: Hosts) -> int:
    """The minimum number of responding hosts with which the experiment starts; of agents, if they dial in."""
    return hosts.at_least or hosts.use or len(hosts.hosts) or hosts.expected or 1


def usable_words(hosts: Hosts, usable: int, checked: int, required: int, *, use: str = "used") -> str:
    """How many of the checked hosts can be used, and how many are required; of agents, if they dial in."""
    noun = "agents" if hosts.dials_in else "hosts"
    return f"{usable} of {checked} {noun} can be {use}, at least {required} are required"


def places(hosts: Sequence[Host]) -> tuple[Place, ...]:
    """The agents of hosts: the first of each host, then the second of each. Testers are assigned in this order, so that
    they are spread over all hosts first."""
    rounds = zip_longest(
        *([Place(name, host.name, host.site) for name in host.agent_names] for host in hosts)
    )
    return tuple(agent for agent in chain.from_iterable(rounds) if agent is not None)


def expected_agents(hosts: Hosts) -> tuple[Place, ...]:
    """Placeholders for agents that will dial in, each on its own host, if their number is known: for the plan."""
    expected = min(hosts.use or hosts.expected or 0, hosts.expected or 0)
    return tuple(
        Place(f"{hosts.kind}.{number}", f"{hosts.kind}.{number}", hosts.kind)
        for number in range(1, expected + 1)
    )


def carriers(work: Workload, agents: Sequence[Place]) -> tuple[Place, ...]:
    """The agents that run a workload: those of its sites, or all."""
    return tuple(agent for agent in agents if not work.sites or agent.site in work.sites)


def of_hosts(load: Load, agents: Sequence[Place]) -> Load:
    """The load on these agents: with `per_host`, its number of testers follows from their hosts."""
    hosts = len({agent.host for agent in agents})
    if isinstance(load, (ClosedLoad, PeriodicLoad, RampLoad)) and load.per_host is not None:
        return replace(load, testers=load.per_host * hosts)
    if isinstance(load, StagedLoad):
        stages = tuple(
            stage if stage.per_host is None else replace(stage, testers=stage.per_host * hosts)
            for stage in load.stages
        )
        return replace(load, stages=stages)
    return load


def shares(slots: int, agents: Sequence[Place]) -> dict[str, int]:
    """The number of testers of each agent: they differ by at most one."""
    whole, rest = divmod(slots, len(agents)) if agents else (0, 0)
    return {agent.name: whole + (index < rest) for index, agent in enumerate(agents)}


def slots_of(load: Load) -> int:
    """Maximum number of testers of a load; of slots if the load is open."""
    match load:
        case ClosedLoad() | PeriodicLoad() | RampLoad():
            return load.testers
        case OpenLoad() | RecordedLoad():
            return load.in_flight
        case StagedLoad():
            counts = [stage.testers if stage.testers is not None else load.in_flight for stage in load.stages]
            return max(counts)


@dataclass(frozen=True, slots=True)
class Spread:
    """The hosts of a run that `plan` prints, if all of them respond.

    `hosts`: names of the hosts in use, by site; `of`: number of hosts in the file; `agents`: names, in the order in
    which testers are assigned; `testers`: number of testers by workload and agent; `expected`: number of agents that
    dial in, of which nothing else is known.
    """

    kind: str
    hosts: Mapping[str, tuple[str, ...]]
    of: int
    at_least: int
    agents: tuple[str, ...]
    expected: int | None
    testers: Mapping[str, Mapping[str, int]]


def spread(config: Config) -> Spread:
    """The hosts, agents and testers of a configuration."""
    hosts = config.hosts
    used = chosen(hosts)
    agents = places(used)
    return Spread(
        kind=hosts.kind,
        hosts={
            site: tuple(host.name for host in used if host.site == site)
            for site in hosts.sites
            if any(host.site == site for host in used)
        },
        of=len(hosts.hosts),
        at_least=fewest(hosts),
        agents=tuple(agent.name for agent in agents),
        expected=hosts.expected,
        testers={work.name: shares(slots_of(work.load), carriers(work, agents)) for work in config.workloads},
    )
