"""Which hosts are used, which agents run a workload, and how many testers each has. Pure.

The engine assigns testers to the agents of a workload in turn; the result here must be the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from plimsoll.errors import AgentsLost
from plimsoll.plan.model import Closed, Config, Every, Load, Open, Ramp, Recorded, Staged, Workload
from plimsoll.plan.model_hosts import Host, Hosts


@dataclass(frozen=True, slots=True)
class Place:
    """An agent to be: its name, its host's name, its site."""

    name: str
    host: str
    site: str


def chosen(hosts: Hosts, answering: Collection[str] | None = None) -> tuple[Host, ...]:
    """The hosts that are used, of those whose names are in `answering` (None: all), in the order of the file.

    `use` takes them from the sites in turn, so that few hosts are still spread over all sites. Rejected: the first of
    the file, with which a factor `hosts.use` would be one of sites too.
    """
    there = [host for host in hosts.hosts if answering is None or host.name in answering]
    if hosts.use is None:
        return tuple(there)
    by_site = [[host for host in there if host.site == site] for site in hosts.sites]
    in_turn = [host for host in chain.from_iterable(zip_longest(*by_site)) if host is not None]
    taken = {host.name for host in in_turn[: hosts.use]}
    return tuple(host for host in there if host.name in taken)


def fewest(hosts: Hosts) -> int:
    """With fewer hosts that answer there is no experiment; fewer agents, where they come by themselves."""
    return hosts.at_least or hosts.use or len(hosts.hosts) or hosts.expected or 1


def taken(hosts: Hosts, left_out: Mapping[str, str]) -> tuple[Host, ...]:
    """The hosts of an experiment. `left_out`: name of a host to the reason; empty ones are none. Raises AgentsLost
    where fewer are left than are needed."""
    gone = {name: reason for name, reason in left_out.items() if reason}
    answering = [host.name for host in hosts.hosts if host.name not in gone]
    if len(answering) < fewest(hosts):
        reasons = "".join(f"\n  {host.name}: {gone[host.name]}" for host in hosts.hosts if host.name in gone)
        count = f"{len(answering)} of {len(hosts.hosts)} hosts can be used"
        raise AgentsLost(f"{count}, at least {fewest(hosts)} are required:{reasons}")
    return chosen(hosts, answering)


def places(hosts: Sequence[Host]) -> tuple[Place, ...]:
    """Their agents: the first of each host, then the second, so that testers dealt to them in turn are spread over the
    hosts before they share one."""
    rounds = zip_longest(
        *([Place(name, host.name, host.site) for name in host.agent_names] for host in hosts)
    )
    return tuple(place for place in chain.from_iterable(rounds) if place is not None)


def come_themselves(hosts: Hosts) -> tuple[Place, ...]:
    """Stand-ins for agents that will come, each on a host of its own, where their number is known: for the plan."""
    expected = min(hosts.use or hosts.expected or 0, hosts.expected or 0)
    return tuple(
        Place(f"{hosts.kind}.{number}", f"{hosts.kind}.{number}", hosts.kind)
        for number in range(1, expected + 1)
    )


def carriers(work: Workload, agents: Sequence[Place]) -> tuple[Place, ...]:
    """The agents that run a workload: those of its sites, or all."""
    return tuple(one for one in agents if not work.sites or one.site in work.sites)


def of_hosts(load: Load, agents: Sequence[Place]) -> Load:
    """The load as these agents carry it: `per_host` makes its testers."""
    if isinstance(load, (Closed, Every)) and load.per_host is not None:
        return replace(load, testers=load.per_host * len({one.host for one in agents}))
    return load


def shares(slots: int, agents: Sequence[Place]) -> dict[str, int]:
    """The number of testers of each agent: they differ by at most one."""
    whole, rest = divmod(slots, len(agents)) if agents else (0, 0)
    return {one.name: whole + (index < rest) for index, one in enumerate(agents)}


def slots_of(load: Load) -> int:
    """Testers of a load at its greatest; slots where it is open."""
    match load:
        case Closed() | Every() | Ramp():
            return load.testers
        case Open() | Recorded():
            return load.in_flight
        case Staged():
            each = [stage.testers if stage.testers is not None else load.in_flight for stage in load.stages]
            return max(each)


@dataclass(frozen=True, slots=True)
class Spread:
    """What `plan` says of the hosts of a run, if all of them answer.

    `hosts`: those that are used, by their site; `of`: so many are named; `agents`: names, in the order in which testers
    are dealt; `testers`: of each workload by agent. Of agents that come by themselves their number alone is known.
    """

    kind: str
    hosts: Mapping[str, tuple[str, ...]]
    of: int
    at_least: int
    agents: tuple[str, ...]
    expected: int | None
    testers: Mapping[str, Mapping[str, int]]


def spread(config: Config) -> Spread:
    """Of a run's configuration."""
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
        agents=tuple(one.name for one in agents),
        expected=hosts.expected,
        testers={work.name: shares(slots_of(work.load), carriers(work, agents)) for work in config.workloads},
    )
