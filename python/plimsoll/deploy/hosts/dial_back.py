"""`kind: ssh` with `link: tcp` or `link: quic`: ssh starts the agents, which then dial this host and need it no more.

The token goes through ssh's standard input. While testers run there is no connection of ssh at all: none may break, and
none costs processes here for each host. Rejected: a forwarded port of ssh, which is the very stream over TCP of
`link: ssh`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from plimsoll.deploy.hosts import Agent, Cleaned, Door, Ready, agents_on, remote
from plimsoll.deploy.hosts.calls import CommandResult
from plimsoll.deploy.hosts.dial_in import POLL_S, Doorkeeper, Lab
from plimsoll.deploy.hosts.ssh import SshHosts
from plimsoll.plan.model_hosts import Hosts
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.source.units import about_duration

DIAL_NS: Final = 25_000_000_000
"""For an agent that has its token to dial in. An agent says after 20 s why it cannot."""
LOG: Final = "plimsoll-engine agent: "


class DialBack(Doorkeeper):
    """Hosts reached over ssh whose agents dial back (`HostBackend`). `over_ssh`: the same hosts for everything else."""

    def __init__(
        self, hosts: Hosts, lab: Lab, over_ssh: SshHosts, check_interrupt: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(hosts, lab, check_interrupt)
        self.over_ssh = over_ssh
        self._files: Sequence[Path] = ()
        self._token = Secret("")
        self._ready: list[Ready] = []

    def prepare(self, files: Sequence[Path] = ()) -> list[Ready]:
        """See `HostBackend`. The first call starts the agents and waits until they have connected;
        so does the first call after the engine that they dialled was replaced."""
        self._files = files or self._files
        token = self._token_of_new_door(self.over_ssh.clean)
        if token is not None:
            self._token = token
            self._ready = self.over_ssh.prepare(self._files)
            self._start([one for one in self._ready if one.answers])
        return self._ready

    def restart(self, names: Collection[str]) -> list[Ready]:
        """See `HostBackend`. With `link: ssh`, the engine attaches to the agents again instead."""
        self._start([one for one in self._ready if one.answers and one.host.name in names])
        return self._ready

    def agents(self, ready: Sequence[Ready]) -> list[Agent]:
        """They are started already."""
        names = [name for one in ready if one.answers for name in one.host.agent_names]
        return agents_on(ready, {name: {"kind": "joined"} for name in names})

    def clean(self, *, everything: bool = False, discard: bool = False) -> list[Cleaned]:
        """See `HostBackend`. The engine that they dialled has ended by then, and they with it."""
        self._door = None
        self._lab.close()
        return self.over_ssh.clean(everything=everything, discard=discard)

    def run_command(self, ready: Sequence[Ready], line: str, timeout_s: float) -> list[CommandResult]:
        """See `HostBackend`."""
        return self.over_ssh.run_command(ready, line, timeout_s)

    def _start(self, ready: Sequence[Ready]) -> None:
        """Starts all agents of these hosts and waits for them; who does not come is not ready any more."""
        before = self.door.joined(0.0)
        token = self._token.reveal()
        assert "\\" not in token, "the remote shell's echo would take it for a sign of its own"
        done = self.over_ssh.each(ready, self._starting, said=f"{token}\n".encode())
        why = {
            one.host.name: f"its agents cannot be started: {remote.reason(call)}"
            for one, call in zip(ready, done, strict=True)
            if "done" not in remote.answers(call.out)
        }
        started = [one for one in ready if one.host.name not in why]
        why |= self._mute(started, self._wait(self.door, started, before))
        self._ready = [replace(one, reason=why.get(one.host.name, one.reason)) for one in self._ready]

    def _starting(self, one: Ready) -> str:
        return remote.start(one.engine, one.directory, self.over_ssh.token, one.host.agent_names)

    def _wait(self, door: Door, started: Sequence[Ready], before: Mapping[str, Any]) -> set[str]:
        """Names of agents that have not connected in time. An agent that was connected before must
        identify itself again."""
        wanted = {name for one in started for name in one.host.agent_names}
        deadline = time.monotonic() + min(DIAL_NS, self._hosts.wait_ns) / 1e9
        while True:
            self._check_interrupt()
            here = door.joined(POLL_S if wanted else 0.0)
            wanted = {name for name in wanted if here.get(name) is before.get(name)}
            if not wanted or time.monotonic() >= deadline:
                return wanted

    def _mute(self, started: Sequence[Ready], missing: set[str]) -> dict[str, str]:
        """Why hosts whose agents are missing do not come, by what these say."""
        mute = [one for one in started if missing & set(one.host.agent_names)]

        def asked(one: Ready) -> str:
            names = [name for name in one.host.agent_names if name in missing]
            return remote.last_words(one.directory, self.over_ssh.token, names)

        waited = about_duration(min(DIAL_NS, self._hosts.wait_ns))
        return {
            one.host.name: f"its agent did not connect to {self._hosts.controller} within {waited}: {_last(done)}"
            for one, done in zip(mute, self.over_ssh.each(mute, asked), strict=True)
        }


def _last(done: CommandResult) -> str:
    """The last thing that an agent said."""
    said = [line for line in remote.answers(done.out).get("log", ()) if line]
    return said[0].removeprefix(LOG)[:500] if said else "no output"
