"""The hosts on which the commands of `before_run`, `after_run` and `actions` run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.hosts.spread import chosen
from plimsoll.plan.model.cell import HookHosts
from plimsoll.plan.model.hosts import Hosts
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.near import nearest


def check_hooks(
    hosts: Hosts, service_hosts: Hosts | None, on: Sequence[HookHosts], at: KeyPath, context: Context
) -> None:
    """Reports hooks that would run on hosts on which Plimsoll cannot start a command, or on hosts that are no part of
    the run. `hosts`: of testers; `service_hosts`: the other hosts of services; `on`: of each hook."""
    for index, location in enumerate(on):
        if location == "controller":
            continue
        path: KeyPath = (*at, index, "on")
        if not hosts.runs_commands:
            why = ", because their agents dial in" if hosts.dials_in else ""
            context.wrong(
                path,
                f"Plimsoll cannot start a command on hosts of kind {hosts.kind}{why}: leave "
                f"`on: {_shown(location)}` out, and run the command where the agents are started",
            )
        elif not isinstance(location, str):
            _check_names(location, hosts, service_hosts, path, context)


def _check_names(
    names: Sequence[str], hosts: Hosts, service_hosts: Hosts | None, path: KeyPath, context: Context
) -> None:
    testers = [host.name for host in chosen(hosts)] if hosts.elsewhere else []
    known = dict.fromkeys([*testers, *(host.name for host in (service_hosts.hosts if service_hosts else ()))])
    for name in names:
        if name not in known:
            listed = (
                f"its other hosts: {', '.join(known)}" if known else "it has no other hosts than this one"
            )
            context.wrong(
                path,
                f"no host with testers or services of the run has the name {name} ({listed}). Expected controller, "
                "hosts, all, or names of hosts",
                nearest(name, [*known, "controller", "hosts", "all"]),
            )


def _shown(location: HookHosts) -> str:
    return location if isinstance(location, str) else ", ".join(location)
