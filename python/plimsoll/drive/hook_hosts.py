"""Runs the commands of hooks on the other hosts of a run: those of its testers, and those of its services."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.deploy.hosts.calls import CommandResult
from plimsoll.drive.tester_hosts import TesterHosts
from plimsoll.errors import PlimsollError
from plimsoll.plan.model.cell import Config, Hook


@dataclass(frozen=True, slots=True)
class HookRunner:
    """The hosts of a run with this configuration."""

    hosts: TesterHosts
    config: Config

    @property
    def has_testers(self) -> bool:
        """Whether testers run there, and not on this host."""
        return self.config.hosts.elsewhere

    def run(self, hook: Hook, line: str) -> list[tuple[str, CommandResult]]:
        """Runs a line of shell on the hosts of a hook, in parallel on those of the testers, then on the others; returns
        the results by the name of the host. Raises PlimsollError if a host that the hook names is not used."""
        names = None if isinstance(hook.on, str) else hook.on
        results = self.hosts.run_command(self.config, line, hook.timeout_ns / 1e9, names)
        missing = set(names or ()) - {name for name, _ in results}
        if missing:
            raise PlimsollError(
                f"`{hook.shown}`: this run does not use the hosts {', '.join(sorted(missing))}: see why `hosts check` "
                "leaves them out"
            )
        return results
