"""Resolves `hosts:`, and what workloads and loads want of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from plimsoll.plan import model
from plimsoll.plan.drivers import Where
from plimsoll.plan.model_hosts import (
    LOCAL,
    WATCHER,
    Host,
    HostClock,
    Hosts,
    Join,
    Requirement,
    Slurm,
    Ssh,
)
from plimsoll.plan.paths import nearest
from plimsoll.plan.raw_hosts import BOUNDS, HostRaw, HostsRaw, SshRaw, read_bound
from plimsoll.plan.raw_load import LoadRaw, WorkloadRaw
from plimsoll.plan.resolve_testbed import hosts_of, lab_address, testbed_of
from plimsoll.plan.source import LARGEST_TEXT, KeyPath
from plimsoll.plan.spread import carriers, chosen, come_themselves, of_hosts, places
from plimsoll.plan.testbed import TestbedSpec

AT: Final[KeyPath] = ("hosts",)
ONE_SITE: Final = "site"
"""Its name where a file lists hosts without saying where they are."""
COME_THEMSELVES: Final = ("slurm", "dask", "join")
"""Kinds whose hosts no file names."""
SECTIONS: Final = ("slurm", "dask", "join", "testbed")
"""Kinds that cannot do without the section of their name."""


def resolve_hosts(raw: HostsRaw, where: Where) -> Hosts:
    """Where testers run, with its defaults."""
    missing = raw.kind in SECTIONS and getattr(raw, raw.kind) is None
    if missing:
        where.wrong(AT, f"hosts of kind {raw.kind} need the key {raw.kind}: {_EXAMPLES[raw.kind]}")
    if raw.hosts is not None and raw.sites is not None:
        where.wrong((*AT, "hosts"), "give hosts (of one site) or sites, not both")
    testbed = testbed_of(raw, where) if raw.kind == "testbed" else None
    hosts = () if missing else _hosts(raw, testbed, where)
    _no_name_twice(raw, hosts, where)
    if raw.link == "ssh" and raw.kind in COME_THEMSELVES:
        where.wrong((*AT, "link"), f"agents of kind {raw.kind} dial in: tcp or quic")
    if raw.controller is None and raw.kind in COME_THEMSELVES and not missing:
        message = f"agents of kind {raw.kind} dial in: say at which address of this host, "
        where.wrong(AT, message + "controller: {address: ...}")
    if raw.controller is None and raw.kind == "ssh" and raw.link in ("tcp", "quic"):
        message = f"with link: {raw.link} agents dial this host: say at which of its addresses, "
        where.wrong((*AT, "link"), message + "controller: {address: ...}, or leave link out")
    found = Hosts(
        kind=raw.kind,
        hosts=hosts,
        agents=raw.agents,
        use=raw.use,
        at_least=raw.at_least,
        require=_requirements(raw),
        architecture=raw.require.architecture if raw.require else None,
        ssh=_ssh(raw.ssh or SshRaw(), where),
        slurm=Slurm(raw.slurm.tasks, raw.slurm.partition, raw.slurm.time, tuple(raw.slurm.options))
        if raw.slurm
        else None,
        dask=raw.dask.address if raw.dask else None,
        join=_join(raw, where),
        testbed=where.file(raw.testbed, (*AT, "testbed")) if testbed and raw.testbed else None,
        directory=(raw.directory or "~/.cache/plimsoll").rstrip("/"),
        keep=raw.keep or "engine",
        link=raw.link or ("tcp" if raw.kind in COME_THEMSELVES else "ssh"),
        controller=_controller(raw, testbed, where),
        ports=raw.controller.ports if raw.controller else None,
        wait_ns=raw.wait,
        link_grace_ns=raw.link_grace,
        on_agent_loss=raw.on_agent_loss,
        clock=HostClock(raw.clock.physical_min_rtt, raw.clock.max_rate_error_ppm),
    )
    _enough(found, where)
    return found


_EXAMPLES: Final = {
    "slurm": "{tasks: 4, partition: NAME, time: 30m}",
    "dask": "{address: 'tcp://HOST:8786'}",
    "join": "{agents: 10}, and submit and template where they are to be handed in",
    "testbed": "the file of a testbed",
}


def _controller(raw: HostsRaw, testbed: TestbedSpec | None, where: Where) -> str | None:
    if testbed is not None:
        return lab_address(testbed, raw, where)
    return raw.controller.address if raw.controller else None


def _hosts(raw: HostsRaw, testbed: TestbedSpec | None, where: Where) -> tuple[Host, ...]:
    if raw.kind == "testbed":
        return () if testbed is None else hosts_of(testbed, raw, where)
    sites: Mapping[str, Sequence[HostRaw]] = raw.sites or {}
    at: KeyPath = (*AT, "sites")
    if raw.hosts is not None:
        sites, at = {ONE_SITE: raw.hosts}, AT
    if raw.kind in COME_THEMSELVES:
        if sites:
            message = f"hosts of kind {raw.kind} are not named here: leave this out"
            where.wrong(at if raw.sites else (*AT, "hosts"), message)
        return ()
    if not sites and raw.kind == LOCAL:
        return (Host(LOCAL, "", LOCAL, raw.agents),)
    if not sites:
        example = "sites: {NAME: [HOST, ...]} or hosts: [HOST, ...]"
        where.wrong(AT, f"hosts of kind {raw.kind} are named: {example}")
    found = []
    for site, listed in sites.items():
        for index, one in enumerate(listed):
            place: KeyPath = (*at, "hosts", index) if raw.hosts is not None else (*at, site, index)
            found.append(_host(one, site, raw.agents, place, where))
    return tuple(found)


def _host(raw: HostRaw, site: str, agents: int, at: KeyPath, where: Where) -> Host:
    name = raw.name or raw.host
    if set(name) & set(":%"):
        where.wrong(at, f"{name} cannot stand in file names: give it a name, {{host: '{name}', name: ...}}")
    return Host(name, raw.host, site, raw.agents or agents, raw.user, raw.port, raw.link)


def _file(name: str | None, at: KeyPath, where: Where) -> str | None:
    return None if name is None else where.file(name, at)


def _no_name_twice(raw: HostsRaw, hosts: Sequence[Host], where: Where) -> None:
    """Hosts by name, agents by name: both stand in the results."""
    at: KeyPath = (*AT, "sites") if raw.sites is not None else (*AT, "hosts")
    for name, times in Counter(host.name for host in hosts).items():
        if times > 1:
            where.wrong(at, f"the host {name} stands twice: `agents: 2` puts several agents on one")
            return
    for name, times in Counter(name for host in hosts for name in host.agent_names).items():
        if times > 1:
            where.wrong(at, f"two agents would be called {name}: give one of the hosts another name")


def _requirements(raw: HostsRaw) -> tuple[Requirement, ...]:
    texts = {what: getattr(raw.require, what) for what in BOUNDS} if raw.require else {}
    return tuple(
        Requirement(what, *read_bound(what, text), text) for what, text in texts.items() if text is not None
    )


def _ssh(raw: SshRaw, where: Where) -> Ssh:
    config = _file(raw.config, (*AT, "ssh", "config"), where)
    return Ssh(config, tuple(raw.options), raw.unknown_host_keys == "accept")


def _join(raw: HostsRaw, where: Where) -> Join | None:
    if raw.join is None:
        return None
    at: KeyPath = (*AT, "join")
    if (raw.join.submit is None) != (raw.join.template is None):
        where.wrong(at, "submit and template belong together: the command that hands in the filled file")
    submit = tuple(raw.join.submit or ())
    if submit and not any("{file}" in str(part) for part in submit):
        where.wrong(
            (*at, "submit"), 'one of its arguments must hold "{file}": the name of the filled template'
        )
    template = raw.join.template
    if raw.kind == "join" and template is not None:
        template = where.file(template, (*at, "template"))
        _template(template, (*at, "template"), where)
    return Join(raw.join.agents, submit, template)


def _template(path: str, at: KeyPath, where: Where) -> None:
    """It can be filled, and hands the token on."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(LARGEST_TEXT + 1)
    except FileNotFoundError:
        return  # told already
    except (OSError, UnicodeDecodeError) as error:
        where.wrong(at, f"it cannot be read: {getattr(error, 'strerror', None) or error}")
        return
    if len(text) > LARGEST_TEXT:
        where.wrong(at, f"a template has at most {LARGEST_TEXT:,} signs")
    elif "{token}" not in text:
        where.wrong(at, 'it must hold "{token}", the name of the file without which no agent is let in')


def _enough(hosts: Hosts, where: Where) -> None:
    """`use` and `at_least` against what there can be."""
    most = len(hosts.hosts) or hosts.expected
    what = "hosts" if hosts.hosts else "agents"
    if hosts.use is not None and most is not None and hosts.use > most:
        where.wrong((*AT, "use"), f"{hosts.use} {what} are to be used, and there are {most}")
    elif hosts.at_least is not None and most is not None and hosts.at_least > most:
        where.wrong((*AT, "at_least"), f"at least {hosts.at_least} of {most} {what} cannot answer")


def check_reach(
    hosts: Hosts,
    services: Mapping[str, model.Service],
    workloads: Sequence[tuple[model.Workload, KeyPath]],
    where: Where,
) -> None:
    """Services run here: testers that run elsewhere must be able to reach those that they use."""
    if not hosts.elsewhere:
        return
    if any(service.starts_process for service in services.values()) and any(
        WATCHER in host.agent_names for host in hosts.hosts
    ):
        where.wrong(
            AT,
            f"the agent that watches the services here is called {WATCHER}: give the host {WATCHER} another name",
        )
    for work, at in workloads:
        asked = [one.service for one in work.target.endpoints]
        used = [services[name] for name in asked if name is not None and name in services]
        if any(not service.starts_process for service in used):
            where.wrong((*at, "target"), "an SQLite file lies on this host, and testers run on others")
        elif used and hosts.kind != "testbed" and not hosts.dials_in and hosts.controller is None:
            where.wrong(
                AT,
                f"{used[0].name} runs on this host and is asked from others: say at which of its addresses, "
                "controller: {address: ...}",
            )


def check_hooks(hosts: Hosts, on: Sequence[str], at: KeyPath, where: Where) -> None:
    """Commands on hosts need a way there. `on`: of each hook."""
    for index, what in enumerate(on):
        if what != "controller" and hosts.dials_in:
            where.wrong(
                (*at, index, "on"),
                f"nobody can start a command on hosts of kind {hosts.kind}, whose agents dial in: leave `on: {what}` "
                "out, and have whatever starts the agents do it",
            )


def on_hosts(
    work: model.Workload,
    raw: WorkloadRaw,
    load: LoadRaw,
    at: KeyPath,
    load_at: KeyPath,
    hosts: Hosts,
    where: Where,
) -> model.Workload:
    """The workload with its sites, and the testers that `per_host` makes."""
    if raw.site is None and load.per_host is None:
        return work
    sites = tuple(raw.site or ())
    for site in sites:
        if hosts.sites and site not in hosts.sites:
            near = nearest(site, hosts.sites)
            where.wrong((*at, "site"), f"there is no site {site}; hosts has {', '.join(hosts.sites)}", near)
            return work
    if sites and not hosts.sites:
        where.wrong((*at, "site"), f"nobody knows of what site hosts of kind {hosts.kind} will be")
        return work
    found = replace(work, sites=sites)
    used = chosen(hosts)
    agents = carriers(found, places(used) or come_themselves(hosts))
    if used and not agents:
        where.wrong((*at, "site"), f"of the {len(used)} hosts that are used none is of {' or '.join(sites)}")
        return found
    if load.per_host is None:
        return found
    if not hosts.hosts and hosts.expected is None:
        where.wrong((*load_at, "per_host"), f"nobody knows how many hosts of kind {hosts.kind} there will be")
    if len({host.agents for host in used if not sites or host.site in sites}) > 1:
        where.wrong(
            (*load_at, "per_host"),
            "the hosts carry different numbers of agents, to which testers are dealt in turn: give them the same",
        )
    return replace(found, load=of_hosts(found.load, agents))
