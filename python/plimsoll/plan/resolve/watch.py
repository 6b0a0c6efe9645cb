"""Resolves `watch:` of a target: the exporters that are read, and the hosts that are monitored, during its runs."""

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
from plimsoll.plan.source.secret import is_credential_name

OURS: Final = ("host", "testers", "monitor", "lab")
"""Names of components of the results that always exist."""
SITE: Final = "target"
"""The site of watched hosts, which have no testers."""
_CREDENTIALS: Final = (
    "the URL contains a user, a password or a key, and URLs are stored: use a header with a secret"
)


def resolve_watch(
    target: str, raw: TargetRaw, context: Context
) -> tuple[tuple[model.WatchedExporter, ...], tuple[WatchedHost, ...]]:
    """The watched exporters and hosts of a target."""
    exporters: list[model.WatchedExporter] = []
    hosts: list[WatchedHost] = []
    names: set[str] = set()
    for index, entry in enumerate(raw.watch):
        at: KeyPath = ("targets", target, "watch", index)
        name, here = _name_and_path(entry, at)
        if name in OURS:
            context.wrong(
                here,
                f"the name {name} is reserved for a component that is always watched: choose another name",
            )
        if name in names:
            context.wrong(here, f"two entries of this list have the name {name}")
        names.add(name)
        if isinstance(entry, WatchRaw):
            exporters.append(_watched(entry, at, context))
        else:
            hosts.append(_watched_host(entry, at, context))
    return tuple(exporters), tuple(hosts)


def _name_and_path(raw: WatchRaw | WatchHostRaw, at: KeyPath) -> tuple[str, KeyPath]:
    """Its name in the results, and the path of that name in the file."""
    if isinstance(raw, WatchHostRaw) and raw.name is None:
        return raw.host, (*at, "host")
    if isinstance(raw, WatchHostRaw) and raw.host == LOCAL and raw.name not in OURS:
        return f"{LOCAL} {raw.name}", (*at, "name")  # `name` is that of a process
    return raw.name or "", (*at, "name")


def _watched_host(raw: WatchHostRaw, at: KeyPath, context: Context) -> WatchedHost:
    name, _ = _name_and_path(raw, at)
    if set(name) & set(":%"):
        context.wrong(
            at, f"{name} is not valid in a file name: give the host a name, {{host: '{name}', name: ...}}"
        )
    processes = (
        *(WatchedProcess("process", value) for value in raw.process),
        *(WatchedProcess("pid", str(value)) for value in raw.pid),
        *(WatchedProcess("unit", value) for value in raw.unit),
    )
    if raw.host == LOCAL and raw.name is not None and len(processes) == 1:
        processes = (replace(processes[0], called=raw.name),)
    named = [process.name for process in processes]
    for duplicate in dict.fromkeys(process_name for process_name in named if named.count(process_name) > 1):
        context.wrong(at, f"{duplicate} is listed twice")
    if raw.host == LOCAL:
        _check_this_host(raw, at, context)
    ssh = None
    if raw.ssh is not None:
        file = None if raw.ssh.config is None else context.file(raw.ssh.config, (*at, "ssh", "config"))
        ssh = Ssh(file, tuple(raw.ssh.options), raw.ssh.unknown_host_keys == "accept")
    directory = None if raw.directory is None else raw.directory.rstrip("/")
    host = Host(name, raw.host, SITE, user=raw.user, port=raw.port, link_bytes_s=raw.link)
    return WatchedHost(host, processes, ssh, directory, raw.optional)


def _check_this_host(raw: WatchHostRaw, at: KeyPath, context: Context) -> None:
    """Reports keys that do not apply to this machine, which is always monitored, without a login."""
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


def _watched(raw: WatchRaw, at: KeyPath, context: Context) -> model.WatchedExporter:
    here: KeyPath = (*at, "prometheus")
    return model.WatchedExporter(
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
        # The invalid part may belong to a password, so it is not quoted.
        context.wrong(at, "this is not a URL")
        return ""
    if "@" in address or any(is_credential_name(name) for name, _ in parse_qsl(url.query)):
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
    """Reports names of watched exporters and hosts that are not unique in the results: they must differ from each
    other, from services, and from hosts of testers."""
    known: dict[str, model.WatchedExporter | WatchedHost] = {}
    testers = {name for host in hosts.hosts for name in (host.name, *host.agent_names)} if hosts.named else ()
    for target in {work.target.name: work.target for work in workloads}.values():
        if target.name not in targets:
            continue
        resolved = {exporter.name: exporter for exporter in target.watch} | {
            host.host.name: host for host in target.hosts
        }
        for index, raw in enumerate(targets[target.name].watch):
            name, at = _name_and_path(raw, ("targets", target.name, "watch", index))
            watched = resolved[name]
            host = watched if isinstance(watched, WatchedHost) else None
            if host is not None and host.is_here:
                _check_no_services(host, services, at, context)
                name = f"{target.name} {name}"
            elif name in services:
                context.wrong(
                    at, f"{name} is a service of this file: choose another name for what is watched"
                )
            elif host is not None and name in testers:
                context.wrong(
                    at, f"testers run on a host with the name {name}: choose another name for what is watched"
                )
            if known.setdefault(name, watched) != watched:
                context.wrong(at, f"{name} is also watched for another target, with different settings")


def _check_no_services(host: WatchedHost, services: Collection[str], at: KeyPath, context: Context) -> None:
    for process in host.processes:
        if process.name in services:
            context.wrong(at, f"{process.name} is a service of this file, and services are always watched")
