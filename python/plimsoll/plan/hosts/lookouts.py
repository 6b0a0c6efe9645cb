"""Hosts of targets at which agents look while a run goes on, as hosts that ssh reaches. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from plimsoll.plan.model import Config
from plimsoll.plan.model_hosts import Host, Hosts, Ssh, WatchedHost

OF_SSH = ("local", "ssh", "testbed")
"""Kinds of testers' hosts whose `directory` is one of any host; that of others may be shared with those alone."""


def lookouts(config: Config) -> tuple[Hosts, ...]:
    """The watched hosts of a run, but this one: an entry for each way of reaching them. How that is done is said with
    the host, else by `ssh` and `directory` of `hosts`."""
    by_way: dict[tuple[Ssh | None, str], list[Host]] = {}
    for one in config.watched_hosts:
        if not one.is_here:
            by_way.setdefault(_way(one, config.hosts), []).append(one.host)
    return tuple(
        replace(
            Hosts(
                kind="testbed" if ssh is None else "ssh",
                hosts=tuple(hosts),
                ssh=ssh or Ssh(),
                testbed=config.hosts.testbed if ssh is None else None,
                directory=directory,
            ),
            keep=config.hosts.keep,
            controller=config.hosts.controller,
            ports=config.hosts.ports,
            clock=config.hosts.clock,
            link_grace_ns=config.hosts.link_grace_ns,
        )
        for (ssh, directory), hosts in by_way.items()
    )


def _way(one: WatchedHost, hosts: Hosts) -> tuple[Ssh | None, str]:
    """How ssh is called, None: as the testbed of the testers has it."""
    usual = hosts.directory if hosts.kind in OF_SSH else Hosts().directory
    return one.ssh or (None if hosts.kind == "testbed" else hosts.ssh), one.directory or usual


def required(configs: Iterable[Config]) -> frozenset[str]:
    """Names of hosts that must be had before the first run."""
    return frozenset(
        one.host.name
        for config in configs
        for one in config.watched_hosts
        if not one.optional and not one.is_here
    )
