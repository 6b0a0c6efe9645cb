"""`kind: ssh` with `link: tcp` or `link: quic`: ssh starts the agents. The agents then dial this host and no
longer need ssh.

The token is sent through ssh's standard input. While testers run, there is no ssh connection, so none can
break and no processes for each host are needed here. Rejected: a forwarded port of ssh, which is the same
stream over TCP as with `link: ssh`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from plimsoll.deploy.hosts import Agent, CleanedHost, Door, ReadyHost, agents_on, remote
from plimsoll.deploy.hosts.calls import CommandResult
from plimsoll.deploy.hosts.dial_in import POLL_S, DialingHosts, Lab
from plimsoll.deploy.hosts.ssh import SshHosts
from plimsoll.deploy.limits import LimitProof
from plimsoll.plan.model.hosts import Hosts
from plimsoll.plan.model.links import Link
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.source.units import about_duration

DIAL_NS: Final = 25_000_000_000
"""The time for an agent that has its token to dial in. After 20 s without success, an agent reports the
reason."""
LOG: Final = "plimsoll-engine agent: "


class DialBack(DialingHosts):
    """Hosts reached over ssh whose agents dial back (`HostBackend`). `over_ssh`: the same hosts, for
    everything except the link."""

    def __init__(
        self, hosts: Hosts, lab: Lab, over_ssh: SshHosts, check_interrupt: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(hosts, lab, check_interrupt)
        self.over_ssh = over_ssh
        self._files: Sequence[Path] = ()
        self._token = Secret("")
        self._ready: list[ReadyHost] = []

    def prepare(self, files: Sequence[Path] = ()) -> list[ReadyHost]:
        """See `HostBackend`. The first call starts the agents and waits until they have connected;
        so does the first call after the engine that they dialled was replaced."""
        self._files = files or self._files
        token = self._token_of_new_door(self.over_ssh.clean)
        if token is not None:
            self._token = token
            self._ready = self.over_ssh.prepare(self._files)
            self._start([ready_host for ready_host in self._ready if ready_host.is_ready])
        return self._ready

    def restart(self, names: Collection[str]) -> list[ReadyHost]:
        """See `HostBackend`. With `link: ssh`, the engine attaches to the agents again instead."""
        self._start(
            [
                ready_host
                for ready_host in self._ready
                if ready_host.is_ready and ready_host.host.name in names
            ]
        )
        return self._ready

    def agents(self, ready: Sequence[ReadyHost]) -> list[Agent]:
        """The agents, which are already started."""
        names = [name for ready_host in ready if ready_host.is_ready for name in ready_host.host.agent_names]
        return agents_on(ready, {name: {"kind": "joined"} for name in names})

    def clean(self, *, everything: bool = False, discard: bool = False) -> list[CleanedHost]:
        """See `HostBackend`. The engine that the agents have dialled has ended before, and they have ended
        with it."""
        self._door = None
        self._lab.close()
        return self.over_ssh.clean(everything=everything, discard=discard)

    def run_command(self, ready: Sequence[ReadyHost], line: str, timeout_s: float) -> list[CommandResult]:
        """See `HostBackend`."""
        return self.over_ssh.run_command(ready, line, timeout_s)

    def prove_limits(self, ready: Sequence[ReadyHost], resources: Sequence[str]) -> list[LimitProof]:
        """See `HostBackend`."""
        return self.over_ssh.prove_limits(ready, resources)

    @property
    def links(self) -> Sequence[Link]:
        """See `HostBackend`."""
        return self.over_ssh.links

    def change_links(self, links: Sequence[Link]) -> None:
        """See `HostBackend`."""
        self.over_ssh.change_links(links)

    def _start(self, ready: Sequence[ReadyHost]) -> None:
        """Starts all agents of these hosts and waits for them. A host whose agents do not connect is no
        longer ready."""
        before = self.door.joined_agents(0.0)
        token = self._token.reveal()
        assert "\\" not in token, "the remote shell's echo would interpret a backslash"
        results = self.over_ssh.run_script(ready, self._start_script, stdin=f"{token}\n".encode())
        why = {
            ready_host.host.name: f"its agents cannot be started: {remote.failure_reason(call)}"
            for ready_host, call in zip(ready, results, strict=True)
            if "done" not in remote.parse_answers(call.out)
        }
        started = [ready_host for ready_host in ready if ready_host.host.name not in why]
        why |= self._silent_reasons(started, self._wait(self.door, started, before))
        self._ready = [
            replace(ready_host, reason=why.get(ready_host.host.name, ready_host.reason))
            for ready_host in self._ready
        ]

    def _start_script(self, ready_host: ReadyHost) -> str:
        return remote.start_script(
            ready_host.engine, ready_host.directory, self.over_ssh.token, ready_host.host.agent_names
        )

    def _wait(self, door: Door, started: Sequence[ReadyHost], before: Mapping[str, Any]) -> set[str]:
        """Names of agents that have not connected in time. An agent that was connected before must
        identify itself again."""
        missing = {name for ready_host in started for name in ready_host.host.agent_names}
        deadline = time.monotonic() + min(DIAL_NS, self._hosts.wait_ns) / 1e9
        while True:
            self._check_interrupt()
            connected = door.joined_agents(POLL_S if missing else 0.0)
            missing = {name for name in missing if connected.get(name) is before.get(name)}
            if not missing or time.monotonic() >= deadline:
                return missing

    def _silent_reasons(self, started: Sequence[ReadyHost], missing: set[str]) -> dict[str, str]:
        """Why the hosts of missing agents do not connect, from the last output of these agents."""
        silent = [ready_host for ready_host in started if missing & set(ready_host.host.agent_names)]

        def last_output_script(ready_host: ReadyHost) -> str:
            names = [name for name in ready_host.host.agent_names if name in missing]
            return remote.last_output_script(ready_host.directory, self.over_ssh.token, names)

        waited = about_duration(min(DIAL_NS, self._hosts.wait_ns))
        return {
            ready_host.host.name: f"its agent did not connect to {self._hosts.controller} within {waited}: "
            f"{_last_output(result)}"
            for ready_host, result in zip(
                silent, self.over_ssh.run_script(silent, last_output_script), strict=True
            )
        }


def _last_output(result: CommandResult) -> str:
    """The last line that an agent has written."""
    lines = [line for line in remote.parse_answers(result.out).get("log", ()) if line]
    return lines[0].removeprefix(LOG)[:500] if lines else "no output"
