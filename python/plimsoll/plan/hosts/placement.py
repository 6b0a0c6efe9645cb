"""Places services on the hosts of the file: `host`, `site` and `address` of `services.NAME`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.hosts.resolve import SECTION_EXAMPLES
from plimsoll.plan.model.cell import Service
from plimsoll.plan.model.hosts import LOCAL, WATCHER, Host, Hosts
from plimsoll.plan.model.limits import NO_LIMITS
from plimsoll.plan.services.section import Services, ServiceSection, kind_of
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.near import nearest

KINDS = ("ssh", "testbed")
"""Kinds of hosts on which services can run: Plimsoll reaches them by itself, and they have an address."""
ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*|[0-9A-Fa-f:.]+")
"""A name, an IPv4 or an IPv6 address."""


def place_services(
    services: Sequence[Service], sections: Services, hosts: Hosts, context: Context
) -> tuple[tuple[Service, ...], Hosts | None]:
    """The services with their hosts, and the hosts on which services are placed (None: all run on this one).
    `hosts`: all hosts of the file, also those without testers. Problems are reported."""
    placed: list[Service] = []
    used: dict[str, Host] = {}
    for service in services:
        section = sections[service.name]
        host = _host_of(service, section, hosts, context)
        if host is not None:
            used[host.name] = host
            if host.name in (WATCHER, LOCAL):
                message = f"the name {host.name} is reserved for this host: rename the host under `hosts`"
                context.wrong(("services", service.name), message)
        _check_address(service, section, context)
        placed.append(replace(service, host=None if host is None else host.name, address=section.address))
    _check_relations({service.name: service for service in placed}, sections, hosts, context)
    if not used:
        return tuple(placed), None
    in_order = tuple(replace(host, agents=1, limits=NO_LIMITS) for host in hosts.hosts if host.name in used)
    return tuple(placed), replace(
        Hosts(
            kind=hosts.kind, hosts=in_order, ssh=hosts.ssh, testbed=hosts.testbed, directory=hosts.directory
        ),
        architecture=hosts.architecture,
        keep=hosts.keep,
        controller=hosts.controller,
        ports=hosts.ports,
        clock=hosts.clock,
        link_grace_ns=hosts.link_grace_ns,
    )


def _check_address(service: Service, section: ServiceSection, context: Context) -> None:
    at: KeyPath = ("services", service.name, "address")
    if section.address is None:
        return
    if not service.starts_process:
        context.wrong(at, "a file has no address: leave this key out")
    elif not ADDRESS.fullmatch(section.address):
        context.wrong(at, f'expected a name or a numeric address such as 192.0.2.7, got "{section.address}"')


def _host_of(service: Service, section: ServiceSection, hosts: Hosts, context: Context) -> Host | None:
    at: KeyPath = ("services", service.name)
    if not section.is_placed:
        return None
    key = "host" if section.host is not None else "site"
    if section.host is not None and section.site is not None:
        context.wrong((*at, "site"), "give one of host and site: a host belongs to one site")
    if not service.starts_process:
        context.wrong(
            (*at, key), "an SQLite file is on the host of the lab: leave this key out, or use a server"
        )
        return None
    if hosts.kind not in KINDS:
        context.wrong((*at, key), _wrong_kind(hosts))
        return None
    if section.host is not None:
        by_name = {host.name: host for host in hosts.hosts}
        if section.host not in by_name:
            message = f"no host under `hosts` has the name {section.host}"
            context.wrong((*at, key), message, nearest(section.host, by_name))
        return by_name.get(section.host)
    return _host_of_site(section.site or "", (*at, key), hosts, context)


def _wrong_kind(hosts: Hosts) -> str:
    if hosts.kind == LOCAL:
        return "the file names no other hosts: add hosts of kind ssh or testbed under `hosts`"
    why = "their agents dial in" if hosts.kind in SECTION_EXAMPLES else "Plimsoll does not log in there"
    return (
        f"services cannot run on hosts of kind {hosts.kind}, because {why}: use hosts of kind ssh or testbed"
    )


def _host_of_site(site: str, at: KeyPath, hosts: Hosts, context: Context) -> Host | None:
    if site not in hosts.sites:
        context.wrong(at, f"there is no site {site} under `hosts`", nearest(site, hosts.sites))
        return None
    of_site = [host for host in hosts.hosts if host.site == site]
    idle = next((host for host in of_site if not host.agents), None)
    if idle is None:
        names = ", ".join(host.name for host in of_site)
        context.wrong(
            at,
            f"all hosts of the site {site} run testers ({names}): give one of them `agents: 0`, or name a host, "
            f"`host: {of_site[0].name}`",
        )
    return idle


def _check_relations(
    services: Mapping[str, Service], sections: Services, hosts: Hosts, context: Context
) -> None:
    for service in services.values():
        at: KeyPath = ("services", service.name)
        settings = service.settings
        for other in settings.get("siblings") or ():
            if other in services and services[other].host != service.host:
                context.wrong(
                    at,
                    f"{other} is a sibling of {service.name} and runs on another host: siblings exchange queries "
                    "over loopback, so place both on one host",
                )
        notified = (settings.get("invalidation") or {}).get("caches", ())
        local = [
            services[name]
            for name in (*service.needs, *notified)
            if name in services and not services[name].host
        ]
        if service.host is None:
            continue
        if kind_of(type(sections[service.name])) in ("catalogue", "frontier"):
            _check_files(service, services, at, context)
        if any(one.starts_process for one in local) and hosts.kind == "ssh" and hosts.controller is None:
            context.wrong(
                at,
                f"{service.name} uses {local[0].name}, which runs on this host: give the address of this host, "
                "hosts: {controller: {address: ...}}, or place both on other hosts",
            )


def _check_files(service: Service, services: Mapping[str, Service], at: KeyPath, context: Context) -> None:
    """Files of this host that a gateway on another host cannot read."""
    database = service.settings.get("database")
    needed = services.get(database) if isinstance(database, str) else None
    is_file = isinstance(database, str) and needed is None and "://" not in database
    if is_file or (needed is not None and not needed.starts_process):
        context.wrong(
            (*at, "database"),
            f"the SQLite file is on the host of the lab, and {service.name} runs on {service.host}: use a database "
            "server",
        )
    if service.settings.get("files") is not None:
        context.wrong(
            (*at, "files"), f"the files are on the host of the lab, and {service.name} runs on {service.host}"
        )
