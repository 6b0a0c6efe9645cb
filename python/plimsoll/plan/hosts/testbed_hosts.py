"""Resolves `hosts:` of kind testbed: which of a testbed's hosts carry testers, and where these reach its host `lab`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from plimsoll.errors import BadInput
from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.hosts.testbed import LAB, TestbedSpec, load_testbed
from plimsoll.plan.model_hosts import Host
from plimsoll.plan.schema.hosts import HostRaw, HostsRaw
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.near import nearest

AT: KeyPath = ("hosts",)


def testbed_of(raw: HostsRaw, context: Context) -> TestbedSpec | None:
    """The testbed that the hosts are of; None, and every problem told, where its file is wrong."""
    if raw.testbed is None:
        return None
    at: KeyPath = (*AT, "testbed")
    file = context.file(raw.testbed, at)
    if not Path(file).exists():
        return None  # told already
    try:
        return load_testbed(file)
    except BadInput as error:
        for problem in error.problems:
            context.wrong(at, str(replace(problem, file=context.as_written(at, raw.testbed))))
    return None


def hosts_of(spec: TestbedSpec, raw: HostsRaw, context: Context) -> tuple[Host, ...]:
    """All of its hosts but `lab`, or those that the file names."""
    there = {host.name: host for host in spec.hosts if host.name != LAB}
    if not there:
        context.wrong((*AT, "testbed"), f"the testbed {spec.name} has no hosts for testers")
    if raw.hosts is None and raw.sites is None:
        return tuple(Host(host.name, host.name, host.site, raw.agents) for host in there.values())
    found = []
    for site, at, one in _named(spec, raw, context):
        host = there.get(one.host)
        if host is None:
            message = f"the testbed {spec.name} has no host {one.host} for testers"
            context.wrong(at, message, nearest(one.host, there))
        elif site not in (None, host.site):
            context.wrong(
                at, f"in the testbed {spec.name} the host {one.host} belongs to the site {host.site}"
            )
        elif one.user is not None or one.port is not None:
            context.wrong(at, "the testbed sets the user and the port of its hosts: leave this key out")
        else:
            agents = one.agents or raw.agents
            found.append(Host(one.name or one.host, one.host, host.site, agents, link_bytes_s=one.link))
    return tuple(found)


def _named(
    spec: TestbedSpec, raw: HostsRaw, context: Context
) -> Iterator[tuple[str | None, KeyPath, HostRaw]]:
    """Hosts that the file names, each with the site below which it stands, if it does."""
    for index, one in enumerate(raw.hosts or ()):
        yield None, (*AT, "hosts", index), one
    for site, listed in (raw.sites or {}).items():
        at: KeyPath = (*AT, "sites", site)
        if site not in spec.sites:
            context.wrong(at, f"the testbed {spec.name} has no site {site}", nearest(site, spec.sites))
            continue
        for index, one in enumerate(listed):
            yield site, (*at, index), one


def lab_address(spec: TestbedSpec, raw: HostsRaw, context: Context) -> str:
    """At which address testers reach what runs on `lab`: it has only one."""
    told = raw.controller.address if raw.controller else spec.lab.address
    if told != spec.lab.address:
        message = f"the host lab of the testbed {spec.name} has only the address {spec.lab.address}"
        context.wrong((*AT, "controller", "address"), message)
    return spec.lab.address
