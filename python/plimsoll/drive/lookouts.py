"""The hosts of targets that are watched. They are prepared once before the first run, and cleaned after the
last one.

They run no testers, so their failure never ends a run. Missing data is reported with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from plimsoll.deploy.hosts import Agent, CleanedHost, HostBackend, ReadyHost
from plimsoll.deploy.hosts.check import CheckedHost, check
from plimsoll.deploy.hosts.kinds import hosts_of_kind
from plimsoll.deploy.running import RunningService
from plimsoll.errors import ServiceError
from plimsoll.plan.hosts.lookouts import lookouts, required
from plimsoll.plan.model.cell import Config
from plimsoll.plan.model.hosts import LOCAL, Hosts, WatchedHost

ROLE: Final = "watch"
HERE: Final = Agent(name=LOCAL, host=LOCAL, site=LOCAL, start={"kind": "local"})
"""The agent of this host that runs the testers, if no other hosts are named."""
WATCHING_AGENT: Final = Agent(name="lab", host="lab", site="lab", start={"kind": "local"}, role=ROLE)
"""The agent that watches this host if the testers run on other hosts."""


class Lookouts:
    """The watched hosts of an experiment."""

    def __init__(self, binary: Path, token: str, check_interrupt: Callable[[], None]) -> None:
        self._binary = binary
        self._token = token
        self._check_interrupt = check_interrupt
        self._kinds: dict[Hosts, HostBackend] = {}
        self._host_sets: dict[Hosts, tuple[list[ReadyHost], list[CheckedHost]]] = {}

    def prepare(self, configs: Iterable[Config], *, is_required: bool = True) -> list[CheckedHost]:
        """Prepares each host and reads its facts. Raises ServiceError with the hosts that cannot be watched,
        except optional ones. `is_required` False: no host is required, and the reasons are only returned."""
        runs = list(configs)
        checked: list[CheckedHost] = []
        for hosts in dict.fromkeys(target_hosts for config in runs for target_hosts in lookouts(config)):
            if hosts not in self._host_sets:
                checked += self._check_hosts(hosts)
        required_names = required(runs) if is_required else frozenset()
        wrong = [
            f"{checked_host.host.name}: {checked_host.reason}"
            for checked_host in checked
            if checked_host.reason and checked_host.host.name in required_names
        ]
        if wrong:
            raise ServiceError(
                f"hosts under `watch` cannot be watched: {'; '.join(wrong)} (with `optional: true` the "
                f"experiment continues without them)"
            )
        return checked

    def _check_hosts(self, hosts: Hosts) -> list[CheckedHost]:
        # Stored before the preparation, so that the hosts are cleaned even if it fails.
        kind = self._kinds[hosts] = hosts_of_kind(hosts, self._binary, self._token, self._check_interrupt)
        ready = kind.prepare()
        unmarked = check(kind, hosts, self._binary, ready=ready, check_interrupt=self._check_interrupt)
        checked = [replace(checked_host, role=ROLE) for checked_host in unmarked]
        self._host_sets[hosts] = (ready, checked)
        return checked

    def agents(self, config: Config) -> list[Agent]:
        """The agents of a run, one on each host that can be watched."""
        watched = {watched_host.host.name: watched_host for watched_host in config.watched_hosts}
        agents = []
        for hosts in lookouts(config):
            ready, checked = self._host_sets[hosts]
            usable = {checked_host.host.name for checked_host in checked if checked_host.taken}
            for agent in self._kinds[hosts].agents(
                [ready_host for ready_host in ready if ready_host.host.name in usable]
            ):
                processes = process_selectors(watched[agent.host])
                agents.append(replace(agent, role=ROLE, watch=processes))
        return agents

    def missing(self, config: Config) -> dict[str, str]:
        """Why hosts of a run were left out, by name."""
        return {
            checked_host.host.name: checked_host.reason
            for hosts in lookouts(config)
            for checked_host in self._host_sets[hosts][1]
            if checked_host.reason
        }

    def clean(self) -> list[CleanedHost]:
        """Ends the agents and removes Plimsoll's files on every host."""
        cleaned = [cleaned_host for kind in self._kinds.values() for cleaned_host in kind.clean()]
        self._kinds, self._host_sets = {}, {}
        return cleaned


def process_selectors(watched_host: WatchedHost) -> tuple[Mapping[str, Any], ...]:
    """The processes of a watched host, as the engine searches them."""
    return tuple(
        {"name": process.name, process.by: int(process.value) if process.by == "pid" else process.value}
        for process in watched_host.processes
    )


def watching_services(agents: Sequence[Agent], services: Sequence[RunningService]) -> list[Agent]:
    """The agents of a run. On each other host with services, one of them monitors these services."""
    result = list(agents)
    for service in services:
        if service.host.is_here or service.process is None:
            continue
        for index, agent in enumerate(result):
            if agent.host == service.host.name:
                selector = {"name": service.spec.name, "pid": service.process.pid}
                result[index] = replace(agent, watch=(*agent.watch, selector))
                break
    return result


def agents_of_run(testers: Sequence[Agent], watching: Sequence[Agent], config: Config) -> list[Agent]:
    """All agents of a run. One agent monitors this host, its services and its watched processes. Empty if
    only the agent of this host is needed, which needs no description."""
    local_processes = [
        selector
        for watched_host in config.watched_hosts
        if watched_host.is_here
        for selector in process_selectors(watched_host)
    ]
    if not testers and not watching and not local_processes:
        return []
    agents = list(testers) or [HERE]
    if not any(_is_local(agent) for agent in agents):
        agents.append(WATCHING_AGENT)
    first = next(index for index, agent in enumerate(agents) if _is_local(agent))
    agents[first] = replace(agents[first], watch=tuple(local_processes))
    return [*agents, *watching]


def _is_local(agent: Agent) -> bool:
    return bool(agent.start["kind"] == "local")


def watched_hosts_record(
    config: Config, missing: Mapping[str, str], events: Sequence[tuple[float, str]]
) -> dict[str, Any]:
    """The entries of run.json for watched hosts. `events`: seconds from the run's zero, and text of an event
    of hosts and processes."""
    hosts = [
        {
            "name": watched_host.host.name,
            "address": watched_host.host.address,
            "processes": [process.name for process in watched_host.processes],
            "link_bytes_s": watched_host.host.link_bytes_s,
            "missing": missing.get(watched_host.host.name, ""),
        }
        for watched_host in config.watched_hosts
    ]
    recorded = [{"t_s": round(t_s, 3), "text": text} for t_s, text in events]
    return {"watched_hosts": hosts, "watch_events": recorded} if hosts else {}
