"""Resolves `watch:` of a target: which exporters are read while its runs go on, and which hosts are looked at."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from plimsoll.plan import model
from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model_hosts import LOCAL, Host, Hosts, Ssh, WatchedHost, WatchedProcess
from plimsoll.plan.schema.targets import TargetRaw
from plimsoll.plan.schema.watch import WatchHostRaw, WatchRaw
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.secret import carries_credentials

OURS: Final = ("host", "testers", "monitor", "lab")
"""Names that components of the results have already."""
SITE: Final = "target"
"""Of hosts that are watched: no testers are there."""
_CREDENTIALS: Final = (
    "the URL contains a user, a password or a key, and URLs are stored: use a header with a secret"
)


def resolve_watch(
    target: str, raw: TargetRaw, context: Context
) -> tuple[tuple[model.Watched, ...], tuple[WatchedHost, ...]]:
    """What is watched of a target: exporters, hosts."""
    exporters: list[model.Watched] = []
    hosts: list[WatchedHost] = []
    names: set[str] = set()
    for index, one in enumerate(raw.watch):
        at: KeyPath = ("targets", target, "watch", index)
        name, here = _name(one, at)
        if name in OURS:
            context.wrong(
                here,
                f"the name {name} is reserved for a component that is always watched: choose another name",
            )
        if name in names:
            context.wrong(here, f"two entries of this list have the name {name}")
        names.add(name)
        if isinstance(one, WatchRaw):
            exporters.append(_watched(one, at, context))
        else:
            hosts.append(_watched_host(one, at, context))
    return tuple(exporters), tuple(hosts)


def _name(raw: WatchRaw | WatchHostRaw, at: KeyPath) -> tuple[str, KeyPath]:
    """Its name in the results, and the path of that name in the file."""
    if isinstance(raw, WatchHostRaw) and raw.name is None:
        return raw.host, (*at, "host")
    if isinstance(raw, WatchHostRaw) and raw.host == LOCAL and raw.name not in OURS:
        return f"{LOCAL} {raw.name}", (*at, "name")  # of a process: this host has its name
    return raw.name or "", (*at, "name")


def _watched_host(raw: WatchHostRaw, at: KeyPath, context: Context) -> WatchedHost:
    name, _ = _name(raw, at)
    if set(name) & set(":%"):
        context.wrong(
            at, f"{name} is not valid in a file name: give the host a name, {{host: '{name}', name: ...}}"
        )
    processes = (
        *(WatchedProcess("process", one) for one in raw.process),
        *(WatchedProcess("pid", str(one)) for one in raw.pid),
        *(WatchedProcess("unit", one) for one in raw.unit),
    )
    if raw.host == LOCAL and raw.name is not None and len(processes) == 1:
        processes = (replace(processes[0], called=raw.name),)
    named = [one.name for one in processes]
    for twice in dict.fromkeys(each for each in named if named.count(each) > 1):
        context.wrong(at, f"{twice} is listed twice")
    if raw.host == LOCAL:
        _here(raw, at, context)
    ssh = None
    if raw.ssh is not None:
        file = None if raw.ssh.config is None else context.file(raw.ssh.config, (*at, "ssh", "config"))
        ssh = Ssh(file, tuple(raw.ssh.options), raw.ssh.unknown_host_keys == "accept")
    directory = None if raw.directory is None else raw.directory.rstrip("/")
    host = Host(name, raw.host, SITE, user=raw.user, port=raw.port, link_bytes_s=raw.link)
    return WatchedHost(host, processes, ssh, directory, raw.optional)


def _here(raw: WatchHostRaw, at: KeyPath, context: Context) -> None:
    """This host is always watched, without a login."""
    one_process = len([*raw.process, *raw.pid, *raw.unit]) == 1
    if raw.name is not None and not one_process:
        context.wrong((*at, "name"), "name applies to one process: give exactly one process, pid or unit")
    for key in ("user", "port", "link", "ssh", "directory", "optional"):
        if not getattr(raw, key):
            continue
        context.wrong(
            (*at, key),
            f"host: {LOCAL} is this machine: only process, pid, unit and, for a single "
            f"process, name are allowed",
        )
    if not (raw.process or raw.pid or raw.unit):
        context.wrong(
            at, "this machine is always watched: give process, pid or unit to watch a process on it"
        )


def _watched(raw: WatchRaw, at: KeyPath, context: Context) -> model.Watched:
    here: KeyPath = (*at, "prometheus")
    return model.Watched(
        name=raw.name,
        kind=raw.kind or "other",
        url=raw.prometheus,
        shown=context.as_written(here, raw.prometheus),
        host=_host(raw.prometheus, here, context),
        metrics=tuple(raw.metrics),
        every_ns=raw.every,
        headers=dict(raw.headers),
        optional=raw.optional,
    )


def _host(address: str, at: KeyPath, context: Context) -> str:
    try:
        url = urlsplit(address)
        host, _ = url.hostname, url.port
    except ValueError:
        # What is wrong with it may be a part of a password, so it is not quoted.
        context.wrong(at, "this is not a URL")
        return ""
    if "@" in address or any(carries_credentials(name) for name, _ in parse_qsl(url.query)):
        context.wrong(at, _CREDENTIALS)
    elif url.scheme not in ("http", "https") or not host:
        shown = context.as_written(at, address)
        context.wrong(at, f'"{shown}" is not the URL of an exporter: http://HOST:PORT/metrics')
    return host or ""


def check_watched(
    workloads: Sequence[model.Workload],
    services: Collection[str],
    targets: Mapping[str, TargetRaw],
    hosts: Hosts,
    context: Context,
) -> None:
    """In the results a name means one thing: no service, no host of testers, and no two of what is watched in a run,
    share one."""
    known: dict[str, model.Watched | WatchedHost] = {}
    testers = {name for host in hosts.hosts for name in (host.name, *host.agent_names)} if hosts.named else ()
    for target in {work.target.name: work.target for work in workloads}.values():
        if target.name not in targets:
            continue
        resolved = {one.name: one for one in target.watch} | {one.host.name: one for one in target.hosts}
        for index, raw in enumerate(targets[target.name].watch):
            name, at = _name(raw, ("targets", target.name, "watch", index))
            one = resolved[name]
            host = one if isinstance(one, WatchedHost) else None
            if host is not None and host.is_here:
                _no_services(host, services, at, context)
                name = f"{target.name} {name}"
            elif name in services:
                context.wrong(
                    at, f"{name} is a service of this file: choose another name for what is watched"
                )
            elif host is not None and name in testers:
                context.wrong(
                    at, f"testers run on a host with the name {name}: choose another name for what is watched"
                )
            if known.setdefault(name, one) != one:
                context.wrong(at, f"{name} is also watched for another target, with different settings")


def _no_services(one: WatchedHost, services: Collection[str], at: KeyPath, context: Context) -> None:
    for process in one.processes:
        if process.name in services:
            context.wrong(at, f"{process.name} is a service of this file, and services are always watched")
