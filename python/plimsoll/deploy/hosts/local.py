"""`kind: local`: agents on this machine, as many as the file names hosts."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from plimsoll.deploy.hosts import Agent, Cleaned, HostBackend, Ready, agents_on
from plimsoll.plan.model_hosts import Hosts


class LocalHosts(HostBackend):
    """The engine starts its agents itself, and they end with it: nothing is put anywhere."""

    def __init__(self, hosts: Hosts, engine: Path) -> None:
        self._hosts = hosts
        self._engine = engine

    def prepare(self, files: Sequence[Path] = ()) -> list[Ready]:
        """This machine is there."""
        names = {str(file): str(file) for file in files}
        return [
            Ready(host, "", platform.machine(), "", str(self._engine), names) for host in self._hosts.hosts
        ]

    def agents(self, ready: Sequence[Ready]) -> list[Agent]:
        """Started by the engine."""
        names = [name for one in ready if one.answers for name in one.host.agent_names]
        return agents_on(ready, {name: {"kind": "local"} for name in names})

    def clean(self, *, everything: bool = False, discard: bool = False) -> list[Cleaned]:
        """There is nothing to remove."""
        return [Cleaned(host) for host in self._hosts.hosts]
