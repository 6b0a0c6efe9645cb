"""The parts that all kinds of hosts share whose agents dial in.

The engine that carries out the runs listens and creates a token. An agent that has the token and reaches this
host is accepted. The kinds differ only in how they have the agents started. Each such kind is one file with a
class that implements `AgentStarter`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from plimsoll.deploy.hosts import Agent, CleanedHost, Door, HostBackend, ReadyHost
from plimsoll.errors import BadInput, EngineError, Problem
from plimsoll.plan.model.hosts import Host, Hosts
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.source.units import about_duration

POLL_S: Final = 0.2
LOOK_S: Final = 2.0
"""The time between two requests to a batch system for the state of its jobs."""
TELL_S: Final = 5.0
"""The time between two reports of the number of connected agents."""
MAX_NAME: Final = 100
_NO_WORD: Final = re.compile(r"[^A-Za-z0-9._+-]")
"""Characters that are not allowed in a name in a token."""


@dataclass(frozen=True, slots=True)
class Lab:
    """The parts of the lab that kinds need whose agents dial in.

    `directory`: a path for private files of the experiment, created when it is needed. `door`: returns the
    current engine, which is another one after the first was lost. `say`: shows a word and a text to the user.
    `cluster`: an object that a script has passed instead of an address. `close`: ends what was created only
    for this object.
    """

    experiment: str
    directory: Path
    door: Callable[[], Door]
    say: Callable[[str, str], None]
    cluster: object | None = None
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Outlook:
    """The state of the agents as known where they are started.

    `locations`: (host, site) by the agent's name, if it is known better than from the agent itself. `coming`:
    names of agents that are still expected. `why`: by name, why an agent will not connect. `over`: why no
    other agent will connect; empty while one may.
    """

    locations: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    coming: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    over: str = ""


class AgentStarter(Protocol):
    """Has agents of one kind started, and ends them."""

    @property
    def site(self) -> str:
        """The site of agents whose site is not known otherwise."""

    def start_agents(self, token: Secret, files: Sequence[Path]) -> int:
        """Starts agents that read `token` from a file or standard input, if possible with `files` in
        addition; returns their number. Must not wait for them. Raises BadInput with what to correct if it
        cannot start them."""

    def files(self, agent: str) -> Mapping[str, str]:
        """Maps local names of files to their names where an agent runs. A file that is not listed has the
        same name there, or does not exist there."""

    def outlook(self, connected: Collection[str]) -> Outlook:
        """The state of the agents. `connected`: names of those that have dialled in."""

    def end(self, *, everything: bool, discard: bool) -> list[CleanedHost]:
        """Ends the agents in any state, and removes the files of Plimsoll. The arguments are those of
        `HostBackend.clean`. It may be called again, and without `start_agents`."""


class DialingHosts(HostBackend):
    """The part that all kinds share whose agents dial: the engine that they have dialled."""

    def __init__(self, hosts: Hosts, lab: Lab, check_interrupt: Callable[[], None]) -> None:
        self._hosts = hosts
        self._lab = lab
        self._check_interrupt = check_interrupt
        self._door: Door | None = None

    @property
    def door(self) -> Door:
        """See `HostBackend`."""
        if self._door is None:
            raise EngineError("the engine does not listen for agents yet")
        return self._door

    def agents_by_host(self, ready: Sequence[ReadyHost]) -> dict[str, list[Agent]]:
        """All agents, as the engine cannot start an agent that has ended."""
        by_host: dict[str, list[Agent]] = {}
        for agent in self.agents(ready):
            by_host.setdefault(agent.host, []).append(agent)
        return by_host

    def _token_of_new_door(self, end_former: Callable[[], object]) -> Secret | None:
        """Opens the door of an engine that has none yet: of the first engine, or of its replacement. Before a
        replacement is opened, the agents of the former engine are ended. Returns None if the agents can
        continue with the door that they have dialled."""
        door, hosts = self._lab.door(), self._hosts
        if door is self._door:
            return None
        if self._door is not None:
            end_former()
        assert hosts.controller is not None, "the plan rejects such a file"
        self._door = door
        name = _NO_WORD.sub("_", self._lab.experiment)[:MAX_NAME] or "experiment"
        return door.listen(hosts.controller, hosts.ports or (0, 0), name, quic=hosts.link == "quic")


class DialIn(DialingHosts):
    """A kind of hosts (`HostBackend`) whose agents dial in. Each "host" is an agent: its hosts are
    not known before."""

    def __init__(
        self,
        hosts: Hosts,
        lab: Lab,
        starter: AgentStarter,
        check_interrupt: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(hosts, lab, check_interrupt)
        self._starter = starter
        self._expected = 0
        self._outlook = Outlook()
        self._connected: frozenset[str] = frozenset()
        self._updated_at = 0.0
        self._has_waited = False

    def prepare(self, files: Sequence[Path] = ()) -> list[ReadyHost]:
        """The agents that have connected, and why others have not. The first call has them started and waits
        until all are connected, at most for `wait`. Later calls include agents that have connected since
        then."""
        token = self._token_of_new_door(lambda: self._starter.end(everything=False, discard=False))
        if token is not None:
            self._has_waited = False
            self._expected = self._starter.start_agents(token, files)
        if not self._has_waited:
            self._wait(self.door)
            self._has_waited = True
        connected = self.door.joined_agents(0.0)
        self._update_outlook(connected)
        return self._ready(connected)

    def agents(self, ready: Sequence[ReadyHost]) -> list[Agent]:
        """The agents, which are already started."""
        return [
            Agent(
                ready_host.host.name,
                ready_host.host.address,
                ready_host.host.site,
                {"kind": "joined"},
                files=ready_host.files,
            )
            for ready_host in ready
            if ready_host.is_ready
        ]

    def agents_by_host(self, ready: Sequence[ReadyHost]) -> dict[str, list[Agent]]:
        """Each agent counts as a host."""
        return {agent.name: [agent] for agent in self.agents(ready)}

    def expected_agents(self) -> list[Agent]:
        """See `HostBackend`. Their hosts are not known yet."""
        return [
            Agent(name, name, self._starter.site, {"kind": "joined"}, files=self._starter.files(name))
            for name in sorted(set(self._outlook.coming) - self._connected, key=natural_key)
        ]

    def with_known_hosts(self, agents: Sequence[Agent]) -> list[Agent]:
        """See `HostBackend`. If the engine has ended, the agents are returned unchanged."""
        try:
            connected = self.door.joined_agents(0.0)
        except EngineError:
            return list(agents)
        self._update_outlook(connected)
        hosts = {
            ready_host.host.name: ready_host.host
            for ready_host in self._ready(connected)
            if ready_host.is_ready
        }
        return [
            replace(agent, host=hosts[agent.name].address, site=hosts[agent.name].site)
            if agent.name in hosts
            else agent
            for agent in agents
        ]

    def clean(self, *, everything: bool = False, discard: bool = False) -> list[CleanedHost]:
        """See `HostBackend`. The engine that the agents have dialled has ended before, and they have ended
        with it."""
        self._door = None
        self._lab.close()
        return self._starter.end(everything=everything, discard=discard)

    def _wait(self, door: Door) -> None:
        deadline = time.monotonic() + self._hosts.wait_ns / 1e9
        reported, next_report = -1, 0.0
        while True:
            self._check_interrupt()
            connected = door.joined_agents(POLL_S)
            self._update_outlook(connected)
            now = time.monotonic()
            if len(connected) != reported and (now >= next_report or len(connected) >= self._expected):
                reported, next_report = len(connected), now + TELL_S
                self._lab.say("agents", f"{reported} of {self._expected} agents connected")
            if len(connected) >= self._expected or self._outlook.over or now >= deadline:
                return

    def _update_outlook(self, connected: Collection[str]) -> None:
        """Limits the rate of requests to the batch system, but always asks if an unknown agent is
        connected."""
        now = time.monotonic()
        self._connected = frozenset(connected)
        if now >= self._updated_at + LOOK_S or not self._outlook.locations.keys() >= set(connected):
            self._updated_at = now
            self._outlook = self._starter.outlook(connected)

    def _ready(self, connected: Mapping[str, Mapping[str, Any]]) -> list[ReadyHost]:
        ready = []
        for name in sorted(connected, key=natural_key):
            host, site = self._outlook.locations.get(name, ("", self._starter.site))
            hostname = str(connected[name].get("hostname") or name)
            machine = str(connected[name].get("architecture") or "")
            files = self._starter.files(name)
            ready.append(ReadyHost(Host(name, host or hostname, site), "", machine, files=files))
        waited = about_duration(self._hosts.wait_ns)
        late = f"it did not connect within {waited} (`wait` sets this limit)"
        why = self._outlook.over or "; but ".join([late, *self.door.refusal_reasons()[-1:]])
        return ready + [
            ReadyHost(Host(name, name, self._starter.site), self._outlook.why.get(name, why))
            for name in self._missing(connected)
        ]

    def _missing(self, connected: Collection[str]) -> list[str]:
        """Names of the agents that are not connected; numbers if agents choose their own names."""
        names = sorted({*self._outlook.coming, *self._outlook.why} - set(connected), key=natural_key)
        rest = self._expected - len(connected) - len(names)
        first = self._expected - rest + 1
        return names + [f"agent {number} of {self._expected}" for number in range(first, first + rest)]


def natural_key(name: str) -> tuple[object, ...]:
    """A sort key with which slurm.2 is before slurm.10."""
    parts = re.split(r"(\d+)", name)
    return tuple(int(part) if index % 2 else part for index, part in enumerate(parts))


def host_error(message: str, path: str) -> BadInput:
    """An error at a key of the file of hosts."""
    return BadInput([Problem(message, path)])
