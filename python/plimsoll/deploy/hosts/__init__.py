"""Hosts for testers: they are checked and prepared, the engine starts agents on them, and they are cleaned up.

Each kind of hosts is one file with a class that implements `HostBackend`; `kinds.py` selects it. The engine starts
the agents and communicates with them; this package describes how.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal, Protocol

from plimsoll.deploy.hosts.calls import CommandResult
from plimsoll.errors import EngineError
from plimsoll.plan.hosts.spread import Place, places
from plimsoll.plan.model_hosts import Host
from plimsoll.plan.source.secret import Secret


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent for the engine.

    `start`: {"kind": "local"}, {"kind": "command", "argv": [...]} whose stdin and stdout are the link, or
    {"kind": "joined"}; `watch`: what an agent of a target's host looks at; `files`: local name to the name there.
    """

    name: str
    host: str
    site: str
    start: Mapping[str, Any]
    role: Literal["testers", "watch"] = "testers"
    watch: tuple[Mapping[str, Any], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As the engine takes it."""
        return {
            "name": self.name,
            "host": self.host,
            "site": self.site,
            "role": self.role,
            "start": dict(self.start),
            "watch": [dict(one) for one in self.watch],
            "files": dict(self.files),
        }


@dataclass(frozen=True, slots=True)
class Ready:
    """A host after it was made ready. `reason`: why it is not, in one line; empty where it is. `architecture`: as
    `uname -m` says it; `directory`, `engine`: where our things lie there; `files`: local name to the name there."""

    host: Host
    reason: str = ""
    architecture: str = ""
    directory: str = ""
    engine: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def answers(self) -> bool:
        """Whether agents can be started there."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A host after we left. `kept`: what stays because it holds something that was measured, or is in use; `left`: what
    could not be removed; `reason`: why nobody could look."""

    host: Host
    kept: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    reason: str = ""

    @property
    def proven(self) -> bool:
        """Whether it was seen that nothing is left but what is kept."""
        return not self.left and not self.reason

    @property
    def kept_because(self) -> list[str]:
        """What is kept, and why, for people."""
        return [
            f"{path} (in use by others)"
            if PurePath(path).name.startswith("engine-")
            else f"{path} (contains data that was not collected; `plimsoll hosts clean --discard` removes it)"
            for path in self.kept
        ]


class Door(Protocol):
    """The engine that listens for agents: the one that carries out the runs, as an agent belongs to the engine that it
    dials."""

    def listen(self, address: str, ports: tuple[int, int], experiment: str, *, quic: bool) -> Secret:
        """Opens a port; returns the token, a JSON text. Raises EngineError."""

    def joined(self, wait_s: float) -> Mapping[str, Mapping[str, Any]]:
        """The facts of the hosts of all agents that have dialled in; waits for a new agent, at most
        `wait_s`."""

    def turned_away(self) -> Sequence[str]:
        """The reasons why agents were refused, as texts, in order of time."""

    def ask(self, command: Mapping[str, Any], last: str, timeout_s: float) -> Iterator[dict[str, Any]]:
        """Sends a command and yields its events up to the one of type `last`. Raises EngineError."""


class HostBackend(ABC):
    """A kind of hosts. No method raises for one host that fails: the reason is returned with that host.

    The first three methods are what every kind must have. The others have defaults for hosts on which the engine
    starts the agents.
    """

    @abstractmethod
    def prepare(self, files: Sequence[Path] = ()) -> list[Ready]:
        """Asks every host, in parallel and within bounded time, and puts the engine and `files` there."""

    @abstractmethod
    def agents(self, ready: Sequence[Ready]) -> list[Agent]:
        """The agents of hosts that are ready, in the order in which testers are dealt."""

    @abstractmethod
    def clean(self, *, everything: bool = False, discard: bool = False) -> list[Cleaned]:
        """Ends the agents on the hosts, removes what `keep` does not name, and verifies the result. `everything`: also
        of other experiments, and the engine; `discard`: also measurements that were not collected."""

    @property
    def door(self) -> Door | None:
        """The engine that the agents have dialled: only it can ask them. None: any engine can start them. Raises
        EngineError if agents dial in and `prepare` was not called."""
        return None

    def agents_by_host(self, ready: Sequence[Ready]) -> dict[str, list[Agent]]:
        """The agents that a check asks, by the name of the host: one of each host, as all of a host answer the same."""
        first: dict[str, list[Agent]] = {}
        for agent in self.agents(ready):
            first.setdefault(agent.host, [agent])
        return first

    def restart(self, names: Collection[str]) -> list[Ready] | None:
        """Starts the agents of hosts that were lost and returns all hosts. None: the engine starts them again."""
        return None

    def coming(self) -> list[Agent]:
        """Agents that may take part in a run that has begun without them."""
        return []

    def located(self, agents: Sequence[Agent]) -> list[Agent]:
        """The agents of a run that has ended, with the hosts of those that connected during it."""
        return list(agents)

    def run_command(self, ready: Sequence[Ready], line: str, timeout_s: float) -> list[CommandResult]:
        """Runs a line of shell on the hosts, in parallel. Raises EngineError if this kind of hosts runs no commands:
        the plan refuses such a file."""
        raise EngineError("commands cannot be run on hosts of this kind")


def agents_on(ready: Sequence[Ready], start: Mapping[str, Mapping[str, Any]]) -> list[Agent]:
    """An agent for each place on the hosts that are ready. `start`: by the agent's name."""
    found: tuple[Place, ...] = places([one.host for one in ready if one.answers])
    files = {name: one.files for one in ready for name in one.host.agent_names}
    return [
        Agent(one.name, one.host, one.site, start[one.name], files=files.get(one.name, {})) for one in found
    ]
