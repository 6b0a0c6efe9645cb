"""Agents that dial in: what the kinds whose hosts come by themselves have in common.

The engine that will carry out the runs listens and gives a token; an agent that has the token and reaches this host is
one of ours. How agents are brought to be started elsewhere is all that differs: each such kind is one file with a class
that does what `Bringer` says.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from plimsoll.deploy.hosts import Agent, Cleaned, Door, HostBackend, Ready
from plimsoll.errors import BadInput, EngineError, Problem
from plimsoll.plan.model_hosts import Host, Hosts
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.source.units import about_duration

POLL_S: Final = 0.2
LOOK_S: Final = 2.0
"""How often a batch system is asked what became of its jobs."""
TELL_S: Final = 5.0
"""How often it is said how many have come."""
MAX_NAME: Final = 100
_NO_WORD: Final = re.compile(r"[^A-Za-z0-9._+-]")
"""Characters that are not allowed in a name in a token."""


@dataclass(frozen=True, slots=True)
class Lab:
    """What kinds that dial in need of the lab.

    `directory`: where private files of the experiment may lie, made when it is needed; `door`: the engine of now, which
    is another one where the first was lost; `say`: tells people, a word and a text; `cluster`: an object that a script
    gave instead of an address; `close`: ends what was made for this alone.
    """

    experiment: str
    directory: Path
    door: Callable[[], Door]
    say: Callable[[str, str], None]
    cluster: object | None = None
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of agents from where they were brought to.

    `seats`: (host, site) by the agent's name, where that is known better than by what the agent says itself; `coming`:
    names of those that are still expected; `why`: by name, why one will not come; `over`: why nobody else will come,
    empty while somebody may.
    """

    seats: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    coming: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    over: str = ""


class Bringer(Protocol):
    """Brings agents of one kind to be started, and sees to their end."""

    @property
    def site(self) -> str:
        """The site of agents of which nothing better is known."""

    def bring(self, token: Secret, files: Sequence[Path]) -> int:
        """Starts agents that read `token` from a file or standard input, if possible with `files`
        beside them; returns their number. Must not wait for them. Raises BadInput with what to
        correct if it cannot start them."""

    def files(self, agent: str) -> Mapping[str, str]:
        """What files are called where an agent runs, by their names here; those that are missing have the same name
        there, or are not there."""

    def look(self, here: Collection[str]) -> Outlook:
        """What became of them. `here`: names of those that have dialled in."""

    def end(self, *, everything: bool, discard: bool) -> list[Cleaned]:
        """Ends the agents in any state, and removes the files of Plimsoll. As `HostBackend.clean`;
        may be called again, and without `bring`."""


class Doorkeeper(HostBackend):
    """What kinds whose agents dial have in common: the engine that they dial."""

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

    def agents_by_host(self, ready: Sequence[Ready]) -> dict[str, list[Agent]]:
        """All agents, as the engine cannot start one that is gone."""
        by_host: dict[str, list[Agent]] = {}
        for agent in self.agents(ready):
            by_host.setdefault(agent.host, []).append(agent)
        return by_host

    def _token_of_new_door(self, end_former: Callable[[], object]) -> Secret | None:
        """Opens the door of an engine that has none yet: the first, or another one where the first is gone, and who
        had dialled it with it. None where agents can go on with the door that they know."""
        door, hosts = self._lab.door(), self._hosts
        if door is self._door:
            return None
        if self._door is not None:
            end_former()
        assert hosts.controller is not None, "the plan refuses such a file"
        self._door = door
        name = _NO_WORD.sub("_", self._lab.experiment)[:MAX_NAME] or "experiment"
        return door.listen(hosts.controller, hosts.ports or (0, 0), name, quic=hosts.link == "quic")


class DialIn(Doorkeeper):
    """A kind of hosts (`HostBackend`) whose agents dial in. Each "host" is an agent: its hosts are
    not known before."""

    def __init__(
        self, hosts: Hosts, lab: Lab, bringer: Bringer, check_interrupt: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(hosts, lab, check_interrupt)
        self._bringer = bringer
        self._expected = 0
        self._outlook = Outlook()
        self._here: frozenset[str] = frozenset()
        self._looked = 0.0
        self._waited = False

    def prepare(self, files: Sequence[Path] = ()) -> list[Ready]:
        """Those that have come, and why others have not. The first call has them started and waits until all are there,
        or `wait` is over; later ones see who has come since."""
        token = self._token_of_new_door(lambda: self._bringer.end(everything=False, discard=False))
        if token is not None:
            self._waited = False
            self._expected = self._bringer.bring(token, files)
        if not self._waited:
            self._wait(self.door)
            self._waited = True
        here = self.door.joined(0.0)
        self._look(here)
        return self._ready(here)

    def agents(self, ready: Sequence[Ready]) -> list[Agent]:
        """They are started already."""
        return [
            Agent(one.host.name, one.host.address, one.host.site, {"kind": "joined"}, files=one.files)
            for one in ready
            if one.answers
        ]

    def agents_by_host(self, ready: Sequence[Ready]) -> dict[str, list[Agent]]:
        """Each agent counts as a host."""
        return {agent.name: [agent] for agent in self.agents(ready)}

    def coming(self) -> list[Agent]:
        """See `HostBackend`. Their hosts are not known yet."""
        return [
            Agent(name, name, self._bringer.site, {"kind": "joined"}, files=self._bringer.files(name))
            for name in sorted(set(self._outlook.coming) - self._here, key=in_order)
        ]

    def located(self, agents: Sequence[Agent]) -> list[Agent]:
        """See `HostBackend`. If the engine has ended, the agents as they were known."""
        try:
            here = self.door.joined(0.0)
        except EngineError:
            return list(agents)
        self._look(here)
        hosts = {one.host.name: one.host for one in self._ready(here) if one.answers}
        return [
            replace(one, host=hosts[one.name].address, site=hosts[one.name].site)
            if one.name in hosts
            else one
            for one in agents
        ]

    def clean(self, *, everything: bool = False, discard: bool = False) -> list[Cleaned]:
        """See `HostBackend`. The engine that they dialled has ended by then, and they with it."""
        self._door = None
        self._lab.close()
        return self._bringer.end(everything=everything, discard=discard)

    def _wait(self, door: Door) -> None:
        deadline = time.monotonic() + self._hosts.wait_ns / 1e9
        told, tell_at = -1, 0.0
        while True:
            self._check_interrupt()
            here = door.joined(POLL_S)
            self._look(here)
            now = time.monotonic()
            if len(here) != told and (now >= tell_at or len(here) >= self._expected):
                told, tell_at = len(here), now + TELL_S
                self._lab.say("agents", f"{told} of {self._expected} agents connected")
            if len(here) >= self._expected or self._outlook.over or now >= deadline:
                return

    def _look(self, here: Collection[str]) -> None:
        """Limits the rate of requests to the batch system, but always asks if an unknown agent is
        connected."""
        now = time.monotonic()
        self._here = frozenset(here)
        if now >= self._looked + LOOK_S or not self._outlook.seats.keys() >= set(here):
            self._looked = now
            self._outlook = self._bringer.look(here)

    def _ready(self, here: Mapping[str, Mapping[str, Any]]) -> list[Ready]:
        found = []
        for name in sorted(here, key=in_order):
            host, site = self._outlook.seats.get(name, ("", self._bringer.site))
            said = str(here[name].get("hostname") or name)
            machine = str(here[name].get("architecture") or "")
            files = self._bringer.files(name)
            found.append(Ready(Host(name, host or said, site), "", machine, files=files))
        waited = about_duration(self._hosts.wait_ns)
        late = f"it did not connect within {waited} (`wait` sets this limit)"
        why = self._outlook.over or "; but ".join([late, *self.door.turned_away()[-1:]])
        return found + [
            Ready(Host(name, name, self._bringer.site), self._outlook.why.get(name, why))
            for name in self._missing(here)
        ]

    def _missing(self, here: Collection[str]) -> list[str]:
        """Names of those that are not here; numbers where names are their own choice."""
        names = sorted({*self._outlook.coming, *self._outlook.why} - set(here), key=in_order)
        rest = self._expected - len(here) - len(names)
        first = self._expected - rest + 1
        return names + [f"agent {number} of {self._expected}" for number in range(first, first + rest)]


def in_order(name: str) -> tuple[object, ...]:
    """Sorts slurm.2 before slurm.10."""
    parts = re.split(r"(\d+)", name)
    return tuple(int(part) if index % 2 else part for index, part in enumerate(parts))


def refused(message: str, path: str) -> BadInput:
    """What is to be mended, at a key of the file."""
    return BadInput([Problem(message, path)])
