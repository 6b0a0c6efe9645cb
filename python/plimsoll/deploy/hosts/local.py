"""`kind: local`: agents on this machine, one for each host of the file."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from plimsoll.deploy.hosts import Agent, CleanedHost, HostBackend, ReadyHost, agents_on
from plimsoll.plan.model.hosts import Hosts


class LocalHosts(HostBackend):
    """The engine starts its own agents, and they end with it. Nothing is copied."""

    def __init__(self, hosts: Hosts, engine: Path) -> None:
        self._hosts = hosts
        self._engine = engine

    def prepare(self, files: Sequence[Path] = ()) -> list[ReadyHost]:
        """This machine, once for each host."""
        names = {str(file): str(file) for file in files}
        return [
            ReadyHost(host, "", platform.machine(), "", str(self._engine), names)
            for host in self._hosts.hosts
        ]

    def agents(self, ready: Sequence[ReadyHost]) -> list[Agent]:
        """The agents, which the engine starts."""
        names = [name for ready_host in ready if ready_host.is_ready for name in ready_host.host.agent_names]
        return agents_on(ready, {name: {"kind": "local"} for name in names})

    def clean(self, *, everything: bool = False, discard: bool = False) -> list[CleanedHost]:
        """There is nothing to remove."""
        return [CleanedHost(host) for host in self._hosts.hosts]
