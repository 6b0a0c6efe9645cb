"""Resolves `hosts:` of kind testbed: its hosts that run testers, the links that the file changes, and the address of
its host `lab`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from plimsoll.errors import BadInput
from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.hosts.testbed import LAB, TestbedSpec, load_testbed
from plimsoll.plan.model_hosts import LOCAL, Host, Hosts
from plimsoll.plan.model_links import Link, link_problems
from plimsoll.plan.schema.hosts import HostRaw, HostsRaw
from plimsoll.plan.schema.links import LinkChangesRaw
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
        return tuple(Host(host.name, host.name, host.site, raw.agents) for host in available.values())
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
    """The links whose properties the file changes, with all their properties, in the order of the testbed file."""
    by_name = {link.name: link for link in spec.links}
    changed = {}
    for name, changes in (raw.links or {}).items():
        at: KeyPath = (*AT, "links", name)
        if name not in by_name:
            known = ", ".join(by_name) or "it has none"
            context.wrong(
                at, f'the testbed {spec.name} has no link "{name}" (links: {known})', nearest(name, by_name)
            )
            continue
        changed[name] = changed_link(by_name[name], changes)
        for key, message in link_problems(changed[name]).items():
            context.wrong((*at, key) if getattr(changes, key) is not None else at, message)
    return tuple(changed[name] for name in by_name if name in changed)


def changed_link(link: Link, changes: LinkChangesRaw) -> Link:
    """The link with the properties that are given. A queue of the testbed file that is not given is kept only if rate
    and rtt are, too: it was chosen for them."""
    rate = changes.rate
    keeps_queue = changes.queue is None and rate is None and changes.rtt is None
    return replace(
        link,
        rtt_ns=link.rtt_ns if changes.rtt is None else changes.rtt,
        jitter_ns=link.jitter_ns if changes.jitter is None else changes.jitter,
        asymmetry_ns=link.asymmetry_ns if changes.asymmetry is None else changes.asymmetry,
        forward_bit_s=link.forward_bit_s if rate is None else rate.forward,
        backward_bit_s=link.backward_bit_s if rate is None else rate.backward,
        loss=link.loss if changes.loss is None else changes.loss,
        queue_bytes=link.queue_bytes if keeps_queue else changes.queue,
    )


def lab_address(spec: TestbedSpec, raw: HostsRaw, context: Context) -> str:
    """The address of the host `lab`, which has only one. Another address in the file is reported."""
    address = raw.controller.address if raw.controller else spec.lab.address
    if address != spec.lab.address:
        message = f"the host lab of the testbed {spec.name} has only the address {spec.lab.address}"
        context.wrong((*AT, "controller", "address"), message)
    return spec.lab.address
