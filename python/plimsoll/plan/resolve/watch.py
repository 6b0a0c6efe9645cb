"""Resolves `watch:` of a target: the systems that are read, and the hosts that are monitored, during its runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from plimsoll.plan.drivers.common import tls_settings
from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model import cell as model
from plimsoll.plan.model.hosts import LOCAL, Host, Hosts, Ssh, WatchedHost, WatchedProcess
from plimsoll.plan.queries import database_url
from plimsoll.plan.schema.targets import TargetRaw
from plimsoll.plan.schema.watch import (
    AnyWatch,
    WatchDatabaseRaw,
    WatchGroupRaw,
    WatchHostRaw,
    WatchRaw,
    steps_of,
)
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.secret import HIDDEN, Secret, is_credential_name

SCHEMES: Final = {"postgres": ("postgresql", "postgres"), "mariadb": ("mariadb", "mysql")}
"""Schemes of the URLs of databases."""
OURS: Final = ("host", "testers", "monitor", "lab")
"""Names of components of the results that always exist."""
SITE: Final = "target"
"""The site of watched hosts, which have no testers."""
_CREDENTIALS: Final = (
    "the URL contains a user, a password or a key, and URLs are stored: use a header with a secret"
)


def resolve_watch(
    target: str, raw: TargetRaw, context: Context
) -> tuple[tuple[model.WatchedSystem, ...], tuple[WatchedHost, ...]]:
    """The watched systems and hosts of a target."""
    systems: list[model.WatchedSystem] = []
    hosts: list[WatchedHost] = []
    names: set[str] = set()
    for step, entry in steps_of(raw.watch):
        at: KeyPath = ("targets", target, "watch", step)
        name, here = _name_and_path(entry, at)
        if not name:
            context.wrong((*at, "name"), "required key missing")
        if isinstance(step, str) and entry.name != step:
            context.wrong((*at, "name"), f"the name of this entry is its key, {step}: leave `name` out")
        if name in OURS:
            context.wrong(
                here,
                f"the name {name} is reserved for a component that is always watched: choose another name",
            )
        if name in names:
            context.wrong(here, f"two entries of this list have the name {name}")
        names.add(name)
        match entry:
            case WatchHostRaw():
                hosts.append(_watched_host(entry, at, context))
            case WatchDatabaseRaw():
                systems.append(_watched_database(entry, at, context))
            case WatchGroupRaw():
                systems.append(
                    model.WatchedGroup(
                        entry.name, entry.cgroup or "", entry.container or "", entry.every, entry.optional
                    )
                )
            case WatchRaw():
                systems.append(_watched(entry, at, context))
    return tuple(systems), tuple(hosts)


def _watched_database(raw: WatchDatabaseRaw, at: KeyPath, context: Context) -> model.WatchedDatabase:
    kind: Literal["postgres", "mariadb"] = "postgres" if raw.mariadb is None else "mariadb"
    here: KeyPath = (*at, kind)
    address = raw.postgres if raw.mariadb is None else raw.mariadb
    assert address is not None  # the raw model has one of them
    written = address.reveal() if isinstance(address, Secret) else address
    expected = f"{SCHEMES[kind][0]}://USER@HOST:PORT/DATABASE"
    if "://" not in written:  # not quoted: it may contain a password
        context.wrong(here, f"this is not a URL: expected {expected}")
        written = ""
    schemes = SCHEMES[kind]
    endpoint = (
        database_url.endpoint(address, raw.name, here, schemes, context, is_watched=True) if written else None
    )
    known = "" if endpoint is None or endpoint.url is None else endpoint.url
    url = urlsplit(known.reveal() if isinstance(known, Secret) else known)
    database = unquote(url.path.strip("/"))
    if kind == "postgres" and url.hostname and not database:
        context.wrong(here, f"the URL names no database: expected {expected}")
    if raw.password is not None and url.password is not None:
        context.wrong((*at, "password"), "the URL also contains a password: give only one")
    if raw.tls is not None and "sslmode=disable" in url.query:
        context.wrong((*at, "tls"), "the URL contains sslmode=disable: give only one")
    return model.WatchedDatabase(
        name=raw.name,
        kind=kind,
        url=known,
        shown=HIDDEN if isinstance(address, Secret) else context.as_written(here, address),
        host=url.hostname or "",
        database=database,
        every_ns=raw.every,
        password=database_url.password(raw.password, (*at, "password"), context),
        tls=None if raw.tls is None else tls_settings(raw.tls, (*at, "tls"), context),
        optional=raw.optional,
    )


def _name_and_path(raw: AnyWatch, at: KeyPath) -> tuple[str, KeyPath]:
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
    known: dict[str, model.WatchedSystem | WatchedHost] = {}
    testers = {name for host in hosts.hosts for name in (host.name, *host.agent_names)} if hosts.named else ()
    for target in {work.target.name: work.target for work in workloads}.values():
        if target.name not in targets:
            continue
        resolved: dict[str, model.WatchedSystem | WatchedHost] = {
            system.name: system for system in target.watch
        }
        resolved |= {host.host.name: host for host in target.hosts}
        for step, raw in steps_of(targets[target.name].watch):
            name, at = _name_and_path(raw, ("targets", target.name, "watch", step))
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
