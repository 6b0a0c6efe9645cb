"""Resolves `hosts:`, and the keys of workloads and loads that refer to hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.hosts.spread import carriers, chosen, expected_agents, of_hosts, places
from plimsoll.plan.hosts.testbed import TestbedSpec
from plimsoll.plan.hosts.testbed_hosts import hosts_of, lab_address, links_of, testbed_of
from plimsoll.plan.hosts.tester_limits import check_section, host_limits, section_limits
from plimsoll.plan.model import cell as model
from plimsoll.plan.model.hosts import (
    DIAL_IN_KINDS,
    LOCAL,
    WATCHER,
    Gram,
    Host,
    HostClock,
    Hosts,
    Join,
    Requirement,
    Slurm,
    Ssh,
)
from plimsoll.plan.schema.hosts import BOUNDS, HostRaw, HostsRaw, SshRaw, read_bound
from plimsoll.plan.schema.load import LoadRaw, WorkloadRaw
from plimsoll.plan.source.document import MAX_TEXT, KeyPath
from plimsoll.plan.source.near import nearest

AT: Final[KeyPath] = ("hosts",)
DEFAULT_SITE: Final = "site"
"""Name of the site if a file lists hosts without sites."""
SECTION_EXAMPLES: Final[Mapping[str, str]] = {
    "slurm": "{tasks: 4, partition: NAME, time: 30m}",
    "dask": "{address: 'tcp://HOST:8786'}",
    "gram": "{contact: 'HOST:2119/jobmanager-fork', agents: 4}",
    "join": "{agents: 10}, with submit and template if Plimsoll submits the job",
    "testbed": "the path of a testbed file",
}
"""An example of the section, for each kind that needs the section of its name."""


def resolve_hosts(raw: HostsRaw, context: Context) -> Hosts:
    """All hosts of the file, with defaults; those with `agents: 0` run only services. Problems are reported."""
    missing = raw.kind in SECTION_EXAMPLES and getattr(raw, raw.kind) is None
    if missing:
        context.wrong(AT, f"hosts of kind {raw.kind} need the key {raw.kind}: {SECTION_EXAMPLES[raw.kind]}")
    if raw.hosts is not None and raw.sites is not None:
        context.wrong((*AT, "hosts"), "give hosts (of one site) or sites, not both")
    testbed = testbed_of(raw, context) if raw.kind == "testbed" else None
    if raw.links and raw.kind != "testbed":
        context.wrong(
            (*AT, "links"), f"hosts of kind {raw.kind} have no emulated links: only kind testbed has"
        )
    check_section(raw, context)
    hosts = () if missing else _hosts(raw, testbed, context)
    _check_unique_names(raw, hosts, context)
    if raw.link == "ssh" and raw.kind in DIAL_IN_KINDS:
        context.wrong((*AT, "link"), f"agents of kind {raw.kind} dial in: tcp or quic")
    if raw.controller is None and raw.kind in DIAL_IN_KINDS and not missing:
        message = f"agents of kind {raw.kind} dial in: give the address of this host that they connect to, "
        context.wrong(AT, message + "controller: {address: ...}")
    if raw.controller is None and raw.kind == "ssh" and raw.link in ("tcp", "quic"):
        message = f"with link: {raw.link} agents dial this host: give the address that they connect to, "
        context.wrong((*AT, "link"), message + "controller: {address: ...}, or leave link out")
    if raw.require and raw.require.network is not None and not raw.baseline:
        message = "the throughput of a host is known only if it is measured: add baseline: true"
        context.wrong((*AT, "require", "network"), message)
    resolved = Hosts(
        kind=raw.kind,
        hosts=hosts,
        agents=raw.agents,
        use=raw.use,
        at_least=raw.at_least,
        require=_requirements(raw),
        baseline=raw.baseline,
        architecture=raw.require.architecture if raw.require else None,
        ssh=_ssh(raw.ssh or SshRaw(), context),
        slurm=Slurm(raw.slurm.tasks, raw.slurm.partition, raw.slurm.time, tuple(raw.slurm.options))
        if raw.slurm
        else None,
        dask=raw.dask.address if raw.dask else None,
        gram=Gram(raw.gram.contact, raw.gram.agents, raw.gram.request or "", raw.gram.scratch)
        if raw.gram
        else None,
        join=_join(raw, context),
        testbed=context.file(raw.testbed, (*AT, "testbed")) if testbed and raw.testbed else None,
        links=links_of(testbed, raw, context) if testbed else (),
        lab_site=testbed.lab.site if testbed else "",
        directory=(raw.directory or "~/.cache/plimsoll").rstrip("/"),
        keep=raw.keep or "engine",
        link=raw.link or ("tcp" if raw.kind in DIAL_IN_KINDS else "ssh"),
        controller=_controller(raw, testbed, context),
        ports=raw.controller.ports if raw.controller else None,
        wait_ns=raw.wait,
        link_grace_ns=raw.link_grace,
        on_agent_loss=raw.on_agent_loss,
        clock=HostClock(raw.clock.physical_min_rtt, raw.clock.max_rate_error_ppm),
    )
    _check_counts(resolved, context)
    return resolved


def testers_of(hosts: Hosts) -> Hosts:
    """The hosts on which testers run: those without `agents: 0`. If there are none, the testers run on this host."""
    testers = tuple(host for host in hosts.hosts if host.agents)
    if testers == hosts.hosts:
        return hosts
    if testers:
        return replace(hosts, hosts=testers)
    return Hosts(
        controller=hosts.controller,
        ports=hosts.ports,
        link_grace_ns=hosts.link_grace_ns,
        baseline=hosts.baseline,
    )


def _controller(raw: HostsRaw, testbed: TestbedSpec | None, context: Context) -> str | None:
    if testbed is not None:
        return lab_address(testbed, raw, context)
    return raw.controller.address if raw.controller else None


def _hosts(raw: HostsRaw, testbed: TestbedSpec | None, context: Context) -> tuple[Host, ...]:
    if raw.kind == "testbed":
        return () if testbed is None else hosts_of(testbed, raw, context)
    sites: Mapping[str, Sequence[HostRaw]] = raw.sites or {}
    at: KeyPath = (*AT, "sites")
    if raw.hosts is not None:
        sites, at = {DEFAULT_SITE: raw.hosts}, AT
    if raw.kind in DIAL_IN_KINDS:
        if sites:
            message = f"hosts of kind {raw.kind} are not listed in the file: leave this key out"
            context.wrong(at if raw.sites else (*AT, "hosts"), message)
        return ()
    if not sites and raw.kind == LOCAL:
        return (Host(LOCAL, "", LOCAL, raw.agents, limits=section_limits(raw)),)
    if not sites:
        example = "sites: {NAME: [HOST, ...]} or hosts: [HOST, ...]"
        context.wrong(AT, f"hosts of kind {raw.kind} must be listed: {example}")
    hosts = []
    for site, listed in sites.items():
        for index, raw_host in enumerate(listed):
            host_at: KeyPath = (*at, "hosts", index) if raw.hosts is not None else (*at, site, index)
            hosts.append(_host(raw_host, site, raw, host_at, context))
    return tuple(hosts)


def _host(raw: HostRaw, site: str, section: HostsRaw, at: KeyPath, context: Context) -> Host:
    name = raw.name or raw.host
    if set(name) & set(":%"):
        context.wrong(
            at, f"{name} is not valid in a file name: give the host a name, {{host: '{name}', name: ...}}"
        )
    count = section.agents if raw.agents is None else raw.agents
    limits = host_limits(raw, section, count, at, context)
    return Host(name, raw.host, site, count, raw.user, raw.port, raw.link, limits)


def _file(name: str | None, at: KeyPath, context: Context) -> str | None:
    return None if name is None else context.file(name, at)


def _check_unique_names(raw: HostsRaw, hosts: Sequence[Host], context: Context) -> None:
    """The names of hosts and of agents must be unique: both are in the results."""
    at: KeyPath = (*AT, "sites") if raw.sites is not None else (*AT, "hosts")
    for name, times in Counter(host.name for host in hosts).items():
        if times > 1:
            context.wrong(
                at, f"the host {name} is listed twice: use `agents: 2` for several agents on one host"
            )
            return
    for name, times in Counter(name for host in hosts for name in host.agent_names).items():
        if times > 1:
            context.wrong(at, f"two agents have the name {name}: rename one of the hosts")


def _requirements(raw: HostsRaw) -> tuple[Requirement, ...]:
    texts = {quantity: getattr(raw.require, quantity) for quantity in BOUNDS} if raw.require else {}
    return tuple(
        Requirement(quantity, *read_bound(quantity, text), text)
        for quantity, text in texts.items()
        if text is not None
    )


def _ssh(raw: SshRaw, context: Context) -> Ssh:
    config = _file(raw.config, (*AT, "ssh", "config"), context)
    return Ssh(config, tuple(raw.options), raw.unknown_host_keys == "accept")


def _join(raw: HostsRaw, context: Context) -> Join | None:
    if raw.join is None:
        return None
    at: KeyPath = (*AT, "join")
    if (raw.join.submit is None) != (raw.join.template is None):
        context.wrong(
            at,
            "submit and template must be given together: submit is the command that submits "
            "the filled template",
        )
    submit = tuple(raw.join.submit or ())
    if submit and not any("{file}" in str(part) for part in submit):
        context.wrong((*at, "submit"), 'one argument must contain "{file}", the path of the filled template')
    template = raw.join.template
    if raw.kind == "join" and template is not None:
        template = context.file(template, (*at, "template"))
        _check_template(template, (*at, "template"), context)
    return Join(raw.join.agents, submit, template)


def _check_template(path: str, at: KeyPath, context: Context) -> None:
    """Reports a template that cannot be read, or that does not pass the token to the agents."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(MAX_TEXT + 1)
    except FileNotFoundError:
        return  # already reported
    except (OSError, UnicodeDecodeError) as error:
        context.wrong(at, f"the template cannot be read: {getattr(error, 'strerror', None) or error}")
        return
    if len(text) > MAX_TEXT:
        context.wrong(at, f"the template has more than {MAX_TEXT:,} characters")
    elif "{token}" not in text:
        context.wrong(at, 'the template must contain "{token}", the path of the token file that agents need')


def _check_counts(hosts: Hosts, context: Context) -> None:
    """Reports `use` and `at_least` that exceed the number of hosts with testers, or of agents."""
    idle = [host.name for host in hosts.hosts if not host.agents]
    if idle and hosts.kind == LOCAL:
        message = (
            f"{idle[0]} has no testers: only hosts of kind ssh and testbed can run services without testers"
        )
        context.wrong((*AT, "hosts"), message)
        return
    most = len(hosts.hosts) - len(idle) if hosts.hosts else hosts.expected
    unit = ("hosts with testers" if idle else "hosts") if hosts.hosts else "agents"
    if hosts.use is not None and most is not None and hosts.use > most:
        context.wrong((*AT, "use"), f"use is {hosts.use}, but there are only {most} {unit}")
    elif hosts.at_least is not None and most is not None and hosts.at_least > most:
        context.wrong((*AT, "at_least"), f"at_least is {hosts.at_least}, but there are only {most} {unit}")


def check_reach(
    hosts: Hosts,
    services: Mapping[str, model.Service],
    workloads: Sequence[tuple[model.Workload, KeyPath]],
    context: Context,
) -> None:
    """Reports services on this machine that testers on other hosts use but cannot reach."""
    if not hosts.elsewhere:
        return
    if any(service.starts_process and service.host is None for service in services.values()) and any(
        WATCHER in host.agent_names for host in hosts.hosts
    ):
        context.wrong(
            AT,
            f"the name {WATCHER} is reserved for the agent that watches the services on this machine: "
            f"rename the host {WATCHER}",
        )
    for work, at in workloads:
        names = [endpoint.service for endpoint in work.target.endpoints]
        used = [
            services[name]
            for name in names
            if name is not None and name in services and services[name].host is None
        ]
        if any(not service.starts_process for service in used):
            context.wrong(
                (*at, "target"),
                "the SQLite file is on this host, and the testers run on other hosts: use a database server",
            )
        elif used and hosts.kind != "testbed" and not hosts.dials_in and hosts.controller is None:
            context.wrong(
                AT,
                f"testers on other hosts use {used[0].name}, which runs on this host: give the address of "
                f"this host, "
                "controller: {address: ...}",
            )


def on_hosts(
    work: model.Workload,
    raw: WorkloadRaw,
    load: LoadRaw,
    at: KeyPath,
    load_at: KeyPath,
    hosts: Hosts,
    context: Context,
) -> model.Workload:
    """The workload with its sites, and with the number of testers that follows from `per_host`."""
    per_host = load.per_host_keys
    if raw.site is None and not per_host:
        return work
    sites = tuple(raw.site or ())
    for site in sites:
        if hosts.sites and site not in hosts.sites:
            near = nearest(site, hosts.sites)
            context.wrong(
                (*at, "site"),
                f"there is no site {site}; the sites of hosts are {', '.join(hosts.sites)}",
                near,
            )
            return work
    if sites and not hosts.sites:
        context.wrong(
            (*at, "site"),
            f"the sites of hosts of kind {hosts.kind} are not known before the run: leave site out",
        )
        return work
    placed = replace(work, sites=sites)
    used = chosen(hosts)
    agents = carriers(placed, places(used) or expected_agents(hosts))
    if used and not agents:
        context.wrong(
            (*at, "site"), f"none of the {len(used)} hosts in use belongs to the site {' or '.join(sites)}"
        )
        return placed
    if not per_host:
        return placed
    if not hosts.hosts and hosts.expected is None:
        context.wrong(
            (*load_at, *per_host[0]),
            f"the number of hosts of kind {hosts.kind} is not known before the run: give testers instead "
            f"of per_host",
        )
    if len({host.agents for host in used if not sites or host.site in sites}) > 1:
        context.wrong(
            (*load_at, *per_host[0]),
            "per_host needs the same number of agents on each host, and the numbers differ: give each host "
            "the same `agents`",
        )
    return replace(placed, load=of_hosts(placed.load, agents))
