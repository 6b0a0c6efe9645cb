"""`hosts.baseline`: measures the network paths from the hosts of testers before the first run and after the last one,
and stores both in baseline.json."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from plimsoll.deploy.hosts import Agent
from plimsoll.deploy.hosts.check import CheckedHost
from plimsoll.deploy.network import MeasuredAgent, lab_sink, measure_paths, sink
from plimsoll.drive.directory import BASELINE, BASELINE_FILE, write_json
from plimsoll.drive.resources import Resources
from plimsoll.drive.run.execution import now
from plimsoll.drive.tester_hosts import one_of_each_set
from plimsoll.errors import DamagedResults, PlimsollError, ServiceError
from plimsoll.plan.model.cell import Config
from plimsoll.plan.sections.baseline import LAB, TRIES, PathEnd, PathFigures, path_ends, shortcoming, worse

Paths = dict[str, MeasuredAgent]
"""The measured paths, by the name of the agent."""


class NetworkBaseline:
    """The measurements of an experiment. `address`: of the host of the lab; `work`: a directory for logs of sinks."""

    def __init__(self, resources: Resources, address: str, work: Path) -> None:
        self._resources = resources
        self._address = address
        self._work = work
        self._configs = [run.config for run in resources.plan.runs if run.config.hosts.baseline]
        self._first: Paths = {}
        self._is_measured = False

    def before(self) -> list[CheckedHost]:
        """Measures, over the links of the first run. Returns the hosts that do not satisfy `require: {network: ...}`,
        which are left out. Raises PlimsollError if that cannot be measured, or too few hosts remain."""
        left_out: list[CheckedHost] = []
        if self._is_measured:
            return left_out
        self._is_measured = True
        found: list[dict[str, Any]] = []
        for config in one_of_each_set(self._configs):
            agents = self._resources.hosts.agents_to_measure(config)
            self._note(f"{_some_hosts(agents)} measured before the first run")
            measured = self._measure_on_links(config, agents)
            self._first |= measured
            found += _entries(agents, measured)
            reasons = {
                name: _reason(measured[agent.name], config)
                for name, agent in agents.items()
                if agent.name in measured
            }
            left_out += self._resources.hosts.leave_out(config, reasons)
        if self._configs:
            self._store("before", found)
        return left_out

    def after(self, last: Config) -> None:
        """Measures again, over the links of the first run, except for properties that have changed during the last run
        (`last`) without the plan of the links. A failure or an interrupt is only reported: the run is complete."""
        if not self._configs:
            return
        found: list[dict[str, Any]] = []
        try:
            first = self._configs[0]
            for link in first.hosts.links:
                if link not in last.hosts.links:
                    self._resources.hosts.change_link(first, link)
            for config in one_of_each_set(self._configs):
                agents = self._resources.hosts.agents_to_measure(config)
                self._note(f"{_some_hosts(agents)} measured after the last run")
                measured = self._measure(config, agents, self._has_become_worse)
                found += _entries(agents, measured)
            self._store("after", found)
        except PlimsollError as error:
            self._note(f"the network of the hosts was not measured after the last run: {error}")

    def _measure_on_links(self, config: Config, agents: Mapping[str, Agent]) -> Paths:
        hosts = self._resources.hosts
        hosts.change_links(self._configs[0])
        try:
            return self._measure(config, agents, lambda _, found: bool(_reason(found, config)))
        finally:
            with contextlib.suppress(ServiceError):
                hosts.reset_links(self._configs[0])

    def _measure(
        self, config: Config, agents: Mapping[str, Agent], is_suspect: Callable[[str, MeasuredAgent], bool]
    ) -> Paths:
        """Measures every host once, and those that are suspect again, up to `TRIES` times in all."""
        known = {host.name: host for host in config.hosts.hosts}
        ends = {agent.name: path_ends(self._configs, known.get(name)) for name, agent in agents.items()}
        door = self._resources.engine.session()
        with contextlib.ExitStack() as stack:
            addresses = self._sinks({end for of_agent in ends.values() for end in of_agent}, config, stack)
            measured = measure_paths(door, list(agents.values()), ends, addresses)
            for _ in range(TRIES - 1):
                again = [
                    agent
                    for agent in agents.values()
                    if agent.name in measured and is_suspect(agent.name, measured[agent.name])
                ]
                if not again:
                    break
                repeated = measure_paths(door, again, ends, addresses)
                measured |= {name: _best(measured[name], found) for name, found in repeated.items()}
        return measured

    def _sinks(self, ends: Iterable[PathEnd], config: Config, stack: contextlib.ExitStack) -> dict[str, str]:
        """Starts a sink at each end to which data is transferred; returns their addresses by the name of the end."""
        resources, check = self._resources, self._resources.stop.check
        addresses: dict[str, str] = {}
        for name in {end.name for end in ends if end.has_transfer}:
            if name == LAB:
                engine = resources.engine.binary
                reached = lab_sink(engine, self._work, self._address, config.hosts.ports, check)
            else:
                placing, service = next(
                    (each, service)
                    for each in self._configs
                    for service in each.services
                    if service.host == name
                )
                host = resources.hosts.service_hosts.host(placing, name)
                reached = sink(host, host.address, service.address or host.address, check)
            addresses[name] = stack.enter_context(reached)
        return addresses

    def _has_become_worse(self, agent: str, found: MeasuredAgent) -> bool:
        earlier = {path.to: path for path in self._first.get(agent, MeasuredAgent()).paths}
        return any(path.to in earlier and worse(earlier[path.to], path) for path in found.paths)

    def _store(self, when: str, hosts: Sequence[Mapping[str, Any]]) -> None:
        path = self._resources.directory.path / BASELINE_FILE
        measurements = [*_measurements(path), {"when": when, "at": now(), "hosts": list(hosts)}]
        write_json(path, {"format": BASELINE, "measurements": measurements})

    def _note(self, text: str) -> None:
        self._resources.listener.note("baseline", text)


def _some_hosts(agents: Mapping[str, Agent]) -> str:
    number = len(agents)
    return f"the network of {number} {'host' if number == 1 else 'hosts'} is"


def _measurements(path: Path) -> list[Any]:
    """The measurements before the experiment was resumed. Raises DamagedResults."""
    try:
        return list(json.loads(path.read_text(encoding="utf-8"))["measurements"])
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedResults(f"{path} cannot be read: {error}") from error


def _reason(found: MeasuredAgent, config: Config) -> str:
    """Why a host does not satisfy the requirement of its network; empty if it does."""
    paths = found.paths or (PathFigures(LAB, error=found.error),)
    return shortcoming(config.hosts.require, paths)


def _best(first: MeasuredAgent, again: MeasuredAgent) -> MeasuredAgent:
    by_end = {path.to: path for path in again.paths}
    paths = (path.best_with(by_end[path.to]) if path.to in by_end else path for path in first.paths)
    return replace(first, paths=tuple(paths))


def _entries(agents: Mapping[str, Agent], measured: Paths) -> list[dict[str, Any]]:
    """The hosts as stored."""
    return [
        {
            "host": agent.host,
            "agent": agent.name,
            "site": agent.site,
            "error": measured[agent.name].error,
            "paths": [asdict(path) for path in measured[agent.name].paths],
        }
        for agent in agents.values()
        if agent.name in measured
    ]
