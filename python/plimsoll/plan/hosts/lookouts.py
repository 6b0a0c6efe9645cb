"""Watched hosts of targets, as hosts on which ssh starts an agent. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from plimsoll.plan.model.cell import Config
from plimsoll.plan.model.hosts import Host, Hosts, Ssh, WatchedHost

SSH_KINDS = ("local", "ssh", "testbed")
"""Kinds of hosts whose `directory` is also valid on watched hosts. That of other kinds may be a directory that only
the hosts of the testers share."""


def lookouts(config: Config) -> tuple[Hosts, ...]:
    """The watched hosts of a run, without this one: an entry for each combination of ssh options and directory. These
    are those of the host itself, otherwise those of `hosts`."""
    by_way: dict[tuple[Ssh | None, str], list[Host]] = {}
    for watched in config.watched_hosts:
        if not watched.is_here:
            by_way.setdefault(_way(watched, config.hosts), []).append(watched.host)
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


def _way(watched: WatchedHost, hosts: Hosts) -> tuple[Ssh | None, str]:
    """The ssh options (None: those of the testbed of the testers) and the directory of a watched host."""
    usual = hosts.directory if hosts.kind in SSH_KINDS else Hosts().directory
    return watched.ssh or (None if hosts.kind == "testbed" else hosts.ssh), watched.directory or usual


def required(configs: Iterable[Config]) -> frozenset[str]:
    """Names of watched hosts that must respond before the first run."""
    return frozenset(
        watched.host.name
        for config in configs
        for watched in config.watched_hosts
        if not watched.optional and not watched.is_here
    )
