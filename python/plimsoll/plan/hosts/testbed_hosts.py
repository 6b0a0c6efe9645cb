"""Resolves `hosts:` of kind testbed: its hosts that run testers, the links that the file changes, and the address of
its host `lab`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from plimsoll.errors import BadInput
from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.hosts.testbed import LAB, TestbedSpec, load_testbed
from plimsoll.plan.hosts.tester_limits import host_limits, section_limits
from plimsoll.plan.links import changed_link, report_link
from plimsoll.plan.model.hosts import LOCAL, Host, Hosts
from plimsoll.plan.model.links import Link
from plimsoll.plan.schema.hosts import HostRaw, HostsRaw
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.near import nearest

AT: KeyPath = ("hosts",)


def testbed_of(raw: HostsRaw, context: Context) -> TestbedSpec | None:
    """The testbed of the hosts. None if its file is missing or invalid, which is reported."""
    if raw.testbed is None:
        return None
    at: KeyPath = (*AT, "testbed")
    file = context.file(raw.testbed, at)
    if not Path(file).exists():
        return None  # already reported
    try:
        return load_testbed(file)
    except BadInput as error:
        for problem in error.problems:
            context.wrong(at, str(replace(problem, file=context.as_written(at, raw.testbed))))
    return None


def mixture_problem(hosts: Iterable[Hosts]) -> str | None:
    """Why one command cannot reach all hosts of an experiment; None if it can."""
    kinds, files = set(), set()
    for section in hosts:
        kinds |= {section.kind} if section.elsewhere else set()
        files |= {section.testbed} if section.testbed is not None else set()
    if len(files) > 1:
        return (
            f"the hosts belong to {len(files)} testbeds ({', '.join(sorted(files))}), and an experiment can use only "
            "one: to vary its links, set hosts.links.NAME.rate and so on; otherwise write one experiment for each"
        )
    if files and (others := kinds - {"testbed"}):
        return (
            f"hosts of kind testbed cannot be combined with {' and '.join(sorted(others))}: a testbed has no network "
            f"to the outside. Only {LOCAL} can be combined with it"
        )
    return None


def hosts_of(spec: TestbedSpec, raw: HostsRaw, context: Context) -> tuple[Host, ...]:
    """All hosts of the testbed except `lab`, or those that the file names."""
    available = {host.name: host for host in spec.hosts if host.name != LAB}
    if not available:
        context.wrong((*AT, "testbed"), f"the testbed {spec.name} has no hosts for testers")
    if raw.hosts is None and raw.sites is None:
        limits = section_limits(raw)
        return tuple(
            Host(host.name, host.name, host.site, raw.agents, limits=limits) for host in available.values()
        )
    hosts = []
    for site, at, raw_host in _listed_hosts(spec, raw, context):
        host = available.get(raw_host.host)
        if host is None:
            message = f"the testbed {spec.name} has no host {raw_host.host} for testers"
            context.wrong(at, message, nearest(raw_host.host, available))
        elif site not in (None, host.site):
            context.wrong(
                at, f"in the testbed {spec.name} the host {raw_host.host} belongs to the site {host.site}"
            )
        elif raw_host.user is not None or raw_host.port is not None:
            context.wrong(at, "the testbed sets the user and the port of its hosts: leave this key out")
        else:
            agents = raw.agents if raw_host.agents is None else raw_host.agents
            hosts.append(
                Host(
                    raw_host.name or raw_host.host,
                    raw_host.host,
                    host.site,
                    agents,
                    link_bytes_s=raw_host.link,
                    limits=host_limits(raw_host, raw, agents, at, context),
                )
            )
    return tuple(hosts)


def _listed_hosts(
    spec: TestbedSpec, raw: HostsRaw, context: Context
) -> Iterator[tuple[str | None, KeyPath, HostRaw]]:
    """Hosts that the file names, each with its site in the file (None: it has none) and its path."""
    for index, raw_host in enumerate(raw.hosts or ()):
        yield None, (*AT, "hosts", index), raw_host
    for site, listed in (raw.sites or {}).items():
        at: KeyPath = (*AT, "sites", site)
        if site not in spec.sites:
            context.wrong(at, f"the testbed {spec.name} has no site {site}", nearest(site, spec.sites))
            continue
        for index, raw_host in enumerate(listed):
            yield site, (*at, index), raw_host


def links_of(spec: TestbedSpec, raw: HostsRaw, context: Context) -> tuple[Link, ...]:
    """All links of the testbed, with the properties that the file changes."""
    links = {link.name: link for link in spec.links}
    for name, changes in (raw.links or {}).items():
        at: KeyPath = (*AT, "links", name)
        if name not in links:
            known = ", ".join(links) or "it has none"
            context.wrong(
                at, f'the testbed {spec.name} has no link "{name}" (links: {known})', nearest(name, links)
            )
            continue
        links[name] = changed_link(links[name], changes)
        report_link(links[name], changes, at, context.wrong)
    return tuple(links.values())


def lab_address(spec: TestbedSpec, raw: HostsRaw, context: Context) -> str:
    """The address of the host `lab`, which has only one. Another address in the file is reported."""
    address = raw.controller.address if raw.controller else spec.lab.address
    if address != spec.lab.address:
        message = f"the host lab of the testbed {spec.name} has only the address {spec.lab.address}"
        context.wrong((*AT, "controller", "address"), message)
    return spec.lab.address
