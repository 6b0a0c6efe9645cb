"""Hosts of targets that are watched: made ready once, before the first run, and left clean after the last.

They carry no testers, so nothing that happens to them ends a run: what cannot be had later is told with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from plimsoll.deploy.hosts import Agent, Cleaned, HostBackend, Ready
from plimsoll.deploy.hosts.check import Checked, check
from plimsoll.deploy.hosts.kinds import hosts_of_kind
from plimsoll.errors import ServiceError
from plimsoll.plan.hosts.lookouts import lookouts, required
from plimsoll.plan.model import Config
from plimsoll.plan.model_hosts import LOCAL, Hosts, WatchedHost

ROLE: Final = "watch"
HERE: Final = Agent(name=LOCAL, host=LOCAL, site=LOCAL, start={"kind": "local"})
"""The agent with the testers, where no others are named."""
WATCHER: Final = Agent(name="lab", host="lab", site="lab", start={"kind": "local"}, role=ROLE)
"""The agent that watches this host where the testers are on others."""


class Lookouts:
    """The watched hosts of an experiment."""

    def __init__(self, binary: Path, token: str, check_interrupt: Callable[[], None]) -> None:
        self._binary = binary
        self._token = token
        self._check_interrupt = check_interrupt
        self._kinds: dict[Hosts, HostBackend] = {}
        self._asked: dict[Hosts, tuple[list[Ready], list[Checked]]] = {}

    def muster(self, configs: Iterable[Config], *, insist: bool = True) -> list[Checked]:
        """Prepares each host and reads its facts. Raises ServiceError with the hosts that cannot be
        watched, except optional ones (`insist` False: these are reported as well)."""
        runs = list(configs)
        told: list[Checked] = []
        for hosts in dict.fromkeys(each for config in runs for each in lookouts(config)):
            if hosts not in self._asked:
                told += self._ask(hosts)
        must = required(runs) if insist else frozenset()
        wrong = [f"{one.host.name}: {one.reason}" for one in told if one.reason and one.host.name in must]
        if wrong:
            raise ServiceError(
                f"hosts under `watch` cannot be watched: {'; '.join(wrong)} (with `optional: true` the "
                f"experiment continues without them)"
            )
        return told

    def _ask(self, hosts: Hosts) -> list[Checked]:
        # Noted before anything is done there: it is left even if that fails.
        kind = self._kinds[hosts] = hosts_of_kind(hosts, self._binary, self._token, self._check_interrupt)
        ready = kind.prepare()
        found = check(kind, hosts, self._binary, ready=ready, check_interrupt=self._check_interrupt)
        checked = [replace(one, role=ROLE) for one in found]
        self._asked[hosts] = (ready, checked)
        return checked

    def agents(self, config: Config) -> list[Agent]:
        """Those of a run, one on each host that was there."""
        watched = {one.host.name: one for one in config.watched_hosts}
        found = []
        for hosts in lookouts(config):
            ready, checked = self._asked[hosts]
            there = {one.host.name for one in checked if one.taken}
            for agent in self._kinds[hosts].agents([one for one in ready if one.host.name in there]):
                processes = sought(watched[agent.host])
                found.append(replace(agent, role=ROLE, watch=processes))
        return found

    def missing(self, config: Config) -> dict[str, str]:
        """Why hosts of a run were left out, by name."""
        return {
            one.host.name: one.reason
            for hosts in lookouts(config)
            for one in self._asked[hosts][1]
            if one.reason
        }

    def clean(self) -> list[Cleaned]:
        """Leaves every host."""
        found = [one for kind in self._kinds.values() for one in kind.clean()]
        self._kinds, self._asked = {}, {}
        return found


def sought(one: WatchedHost) -> tuple[Mapping[str, Any], ...]:
    """Its processes, as the engine looks for them."""
    return tuple(
        {"name": each.name, each.by: int(each.value) if each.by == "pid" else each.value}
        for each in one.processes
    )


def manned(testers: Sequence[Agent], watching: Sequence[Agent], config: Config) -> list[Agent]:
    """All agents of a run. One agent must monitor this host, its services and its watched
    processes. Empty if only the agent of this host is needed, which needs no description."""
    here = [each for one in config.watched_hosts if one.is_here for each in sought(one)]
    if not testers and not watching and not here:
        return []
    agents = list(testers) or [HERE]
    if not any(_is_local(one) for one in agents):
        agents.append(WATCHER)
    first = next(at for at, one in enumerate(agents) if _is_local(one))
    agents[first] = replace(agents[first], watch=tuple(here))
    return [*agents, *watching]


def _is_local(agent: Agent) -> bool:
    return bool(agent.start["kind"] == "local")


def watched_hosts_record(
    config: Config, missing: Mapping[str, str], events: Sequence[tuple[float, str]]
) -> dict[str, Any]:
    """What run.json says of them. `events`: seconds from the run's zero, and what happened to hosts and processes."""
    hosts = [
        {
            "name": one.host.name,
            "address": one.host.address,
            "processes": [each.name for each in one.processes],
            "link_bytes_s": one.host.link_bytes_s,
            "missing": missing.get(one.host.name, ""),
        }
        for one in config.watched_hosts
    ]
    told = [{"t_s": round(t_s, 3), "text": text} for t_s, text in events]
    return {"watched_hosts": hosts, "watch_events": told} if hosts else {}
