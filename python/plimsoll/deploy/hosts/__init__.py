"""Hosts of testers. The lab checks and prepares them, the engine starts agents on them, and the lab cleans
them up.

Each kind of hosts is one file with a class that implements `HostBackend`; `kinds.py` selects it. The engine
starts the agents and communicates with them; this package describes how.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal, Protocol

from plimsoll.deploy.hosts.calls import CommandResult
from plimsoll.deploy.limits import LimitProof
from plimsoll.errors import EngineError
from plimsoll.plan.hosts.spread import Place, places
from plimsoll.plan.model.hosts import Host
from plimsoll.plan.model.limits import NO_LIMITS, Limits
from plimsoll.plan.model.links import Link
from plimsoll.plan.source.secret import Secret


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent for the engine.

    `start`: {"kind": "local"}, {"kind": "command", "argv": [...]} whose stdin and stdout are the link, or
    {"kind": "joined"}. `watch`: the processes that an agent on a target's host monitors. `files`: maps local
    names to names on the host. `limits`: of its process.
    """

    name: str
    host: str
    site: str
    start: Mapping[str, Any]
    role: Literal["testers", "watch"] = "testers"
    watch: tuple[Mapping[str, Any], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = NO_LIMITS

    def to_json(self) -> dict[str, Any]:
        """The agent as the engine reads it."""
        return {
            "name": self.name,
            "host": self.host,
            "site": self.site,
            "role": self.role,
            "start": dict(self.start),
            "watch": [dict(process) for process in self.watch],
            "files": dict(self.files),
            "limits": self.limits.to_json(),
        }


@dataclass(frozen=True, slots=True)
class ReadyHost:
    """A host after its preparation. `reason`: why it is not ready, in one line; empty if it is.
    `architecture`: as printed by `uname -m`. `directory`, `engine`: paths of Plimsoll's files on the host.
    `files`: maps local names to names on the host."""

    host: Host
    reason: str = ""
    architecture: str = ""
    directory: str = ""
    engine: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """Whether agents can be started on the host."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class CleanedHost:
    """A host after its cleanup. `kept`: what remains because it contains measurements, or is in use. `left`:
    what could not be removed. `reason`: why the host could not be checked."""

    host: Host
    kept: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    reason: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether the cleanup verified that nothing remains except `kept`."""
        return not self.left and not self.reason

    @property
    def kept_descriptions(self) -> list[str]:
        """What is kept, and why, as texts."""
        return [
            f"{path} (in use by others)"
            if PurePath(path).name.startswith("engine-")
            else f"{path} (contains data that was not collected; `plimsoll hosts clean --discard` removes it)"
            for path in self.kept
        ]


class Door(Protocol):
    """The engine that listens for agents. It also carries out the runs, as an agent belongs to the engine
    that it has dialled."""

    def listen(self, address: str, ports: tuple[int, int], experiment: str, *, quic: bool) -> Secret:
        """Opens a port; returns the token, a JSON text. Raises EngineError."""

    def joined_agents(self, wait_s: float) -> Mapping[str, Mapping[str, Any]]:
        """The facts of the hosts of all agents that have dialled in, by the name of the agent. Waits for a
        new agent, at most `wait_s`."""

    def refusal_reasons(self) -> Sequence[str]:
        """The reasons why agents were refused, as texts, in order of time."""

    def ask(self, command: Mapping[str, Any], last: str, timeout_s: float) -> Iterator[dict[str, Any]]:
        """Sends a command and yields its events up to the one of type `last`. Raises EngineError."""


class HostBackend(ABC):
    """A kind of hosts. No method raises for one host that fails: the reason is returned with that host.

    The first three methods are what every kind must have. The others have defaults for hosts on which the engine
    starts the agents.
    """

    @abstractmethod
    def prepare(self, files: Sequence[Path] = ()) -> list[ReadyHost]:
        """Requests the facts of every host, in parallel and within bounded time, and copies the engine and
        `files` to it."""

    @abstractmethod
    def agents(self, ready: Sequence[ReadyHost]) -> list[Agent]:
        """The agents of hosts that are ready, in the order in which testers are distributed."""

    @abstractmethod
    def clean(self, *, everything: bool = False, discard: bool = False) -> list[CleanedHost]:
        """Ends the agents on the hosts, removes the files that `keep` does not name, and verifies the result.
        `everything`: also of other experiments, and the engine. `discard`: also measurements that were not
        collected."""

    @property
    def door(self) -> Door | None:
        """The engine that the agents have dialled; only this engine can communicate with them. None: any
        engine can start them. Raises EngineError if agents dial in and `prepare` was not called."""
        return None

    def agents_by_host(self, ready: Sequence[ReadyHost]) -> dict[str, list[Agent]]:
        """The agents that a check starts, by the name of the host. One agent of each host is enough, as all
        agents of a host report the same facts."""
        first: dict[str, list[Agent]] = {}
        for agent in self.agents(ready):
            first.setdefault(agent.host, [agent])
        return first

    def restart(self, names: Collection[str]) -> list[ReadyHost] | None:
        """Starts the agents of hosts that were lost and returns all hosts. None: the engine starts them again."""
        return None

    def expected_agents(self) -> list[Agent]:
        """Agents that may join a run that has started without them."""
        return []

    def with_known_hosts(self, agents: Sequence[Agent]) -> list[Agent]:
        """The agents of a run that has ended. Agents that connected during the run get the names of their
        hosts."""
        return list(agents)

    @property
    def links(self) -> Sequence[Link]:
        """The emulated links as their file describes them."""
        return ()

    def change_links(self, links: Sequence[Link]) -> None:
        """Gives emulated links these properties. Hosts of other kinds have no such links. Raises ServiceError if the
        testbed does not answer."""
        assert not links, "the plan rejects links for hosts of other kinds"

    def run_command(self, ready: Sequence[ReadyHost], line: str, timeout_s: float) -> list[CommandResult]:
        """Runs a line of shell on the hosts, in parallel. Raises EngineError if this kind of hosts runs no
        commands; the plan rejects such a file."""
        raise EngineError("commands cannot be run on hosts of this kind")

    def prove_limits(self, ready: Sequence[ReadyHost], resources: Sequence[str]) -> list[LimitProof]:
        """Tests on each host whether limits hold, in parallel. On this host, the lab tests them for all kinds."""
        return [LimitProof({}) for _ in ready]


def agents_on(ready: Sequence[ReadyHost], start: Mapping[str, Mapping[str, Any]]) -> list[Agent]:
    """An agent for each place on the hosts that are ready. `start`: how each agent starts, by its name."""
    places_of_agents: tuple[Place, ...] = places(
        [ready_host.host for ready_host in ready if ready_host.is_ready]
    )
    files = {name: ready_host.files for ready_host in ready for name in ready_host.host.agent_names}
    return [
        Agent(place.name, place.host, place.site, start[place.name], files=files.get(place.name, {}))
        for place in places_of_agents
    ]
