"""`kind: squid`: a reverse proxy before an origin, or a forward proxy; alone, below parents, or next to
siblings."""

from __future__ import annotations

import math
import secrets
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import urlsplit

from plimsoll.deploy.account import Account
from plimsoll.deploy.counters.squid import SquidCounters, manager
from plimsoll.deploy.ports import CachePorts, netloc
from plimsoll.deploy.process import Program
from plimsoll.deploy.programs import require, version_number, version_of
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.service_hosts import ServiceHost
from plimsoll.errors import ServiceError

STOP_S: Final = 10.0
DISK_S: Final = 60.0
SHARED: Final = PurePath("/dev/shm")
STATE: Final = PurePath("/run/squid")
"""The directory of the sockets over which Squid's workers communicate. Its path is compiled in."""


def start_squid(running: RunningService, site: Site) -> None:
    """Writes the configuration and starts Squid. Raises ServiceError."""
    service = running.spec
    name, settings, host = service.name, service.settings, site.host
    program = require(name, "Squid", ("squid", "squid3"), "squid", host.programs)
    account = _account(running, site) if settings["workers"] > 1 else site.account
    directory = running.directory / "squid"
    host.make_directory(directory, 0o755, account)
    ports = site.ports.ports_of(name)
    peers = {peer: site.ports.ports_of(peer) for peer in (*settings["parents"], *settings["siblings"])}
    origin = None if settings["origin"] is None else site.addresses[settings["origin"]][0]
    lines = peer_lines(settings, site.listen, ports, origin, peers)
    clients = Clients(site.has_remote_clients, site.administrators)
    text = configuration(name, settings, directory, site.listen, ports, lines, host.file_limit(), clients)
    file = running.directory / "squid.conf"
    host.write(file, text, mode=0o644)
    # Shared memory is named after the instance. Two instances with the same name destroy each other's memory.
    instance = f"plimsoll{secrets.token_hex(5)}"
    running.sweep = lambda: _sweep(host, instance)
    common: list[str | PurePath] = [program, "-n", instance, "-f", file, "-d", "1"]
    if settings["cache"]["disk"]:
        _make_disk(running, site, account, [*common, "-N", "-z"])
    running.stop_signal, running.stop_s = signal.SIGINT, STOP_S  # SIGTERM waits for persistent connections
    mode = "-N" if settings["workers"] == 1 else "--foreground"
    site.start(running, [*common, mode], lambda: _is_answering(site.address, ports.forward), account=account)
    # A restart begins without the shared memory of the processes that were killed.
    running.ready_check = lambda: _new_check(
        host, instance, lambda: _is_answering(site.address, ports.forward)
    )
    running.version = version_number(version_of([program, "-v"], host.programs))
    running.configuration = f"# Squid {running.version}, started with -n {instance}\n{text.rstrip()}"
    port = ports.forward if settings["origin"] is None else ports.reverse
    running.urls = [f"http://{netloc(site.address, port)}"]
    running.logs = {"access.log": directory / "access.log"} if settings["log"] else {}
    running.counters = lambda: SquidCounters(site.address, ports.forward)


@dataclass(frozen=True, slots=True)
class Clients:
    """The clients of a cache, in addition to those of its own host. `others`: whether clients of all hosts may
    send requests. `administrators`: addresses that may also purge objects and read counters."""

    others: bool = False
    administrators: tuple[str, ...] = ()


def configuration(
    name: str,
    settings: Mapping[str, Any],
    directory: PurePath,
    address: str,
    ports: CachePorts,
    peers: Sequence[str],
    files: int,
    clients: Clients = Clients(),
) -> str:
    """The whole squid.conf. The file of the host is not read. Settings that are missing here have Squid's
    defaults. `peers`: lines for the other caches. `files`: the maximum number of file descriptors."""
    cache = settings["cache"]
    own = [] if address.startswith("127.") else [address]
    here = " ".join(["127.0.0.0/8", *dict.fromkeys([*own, *clients.administrators])])
    lines = [f"http_port {netloc(address, ports.forward)}", *peers]
    lines += [
        f"acl here src {here}",
        "acl purge method PURGE",  # without a rule that names PURGE, Squid rejects it
        "http_access allow purge here",
        "http_access allow here",
        *(
            ["http_access deny purge", "http_access deny manager", "http_access allow all"]
            if clients.others
            else []
        ),
        "http_access deny all",
        f"visible_hostname {name.replace('_', '-').lower()}-{ports.forward}.plimsoll",
        f"workers {settings['workers']}",
        f"max_filedescriptors {files}",
        f"cache_mem {cache['memory']} bytes",
        f"maximum_object_size_in_memory {cache['object_in_memory']} bytes",
        f"maximum_object_size {cache['largest']} bytes",
        *_disk(cache["disk"], settings["workers"], directory),
        f"collapsed_forwarding {'on' if settings['collapsed_forwarding'] else 'off'}",
        *settings["refresh"].splitlines(),
        f"access_log {f'stdio:{directory}/access.log !manager' if settings['log'] else 'none'}",
        "cache_log /dev/null",  # -d 1 writes the same to stderr, and so to the log of the service
        "cache_store_log none",
        f"pid_filename {directory / 'squid.pid'}",
        f"coredump_dir {directory}",
        "netdb_filename none",
        "pinger_enable off",
        "digest_generation off",
        "shutdown_lifetime 1 seconds",
        *settings["settings"],
    ]
    return "\n".join(lines) + "\n"


def peer_lines(
    settings: Mapping[str, Any],
    address: str,
    own_ports: CachePorts,
    origin: str | None,
    peers: Mapping[str, CachePorts],
) -> list[str]:
    """The lines for the reverse port, for the origin or the parents, and for the siblings. `origin`: URL.
    `peers`: ports of parents and siblings.

    The site of the reverse port is the origin with its port. So an object has the same key on both ports, and
    peers refer to the same object. A cache with parents does not connect to the origin itself.
    """
    lines = []
    if origin is not None:
        host, port = urlsplit(origin).hostname, urlsplit(origin).port or 80
        site = netloc(str(host), port)
        lines.append(f"http_port {netloc(address, own_ports.reverse)} accel defaultsite={site} no-vhost")
        if not settings["parents"]:
            lines.append(f"cache_peer {host} parent {port} 0 no-query no-digest originserver name=origin")
    if settings["parents"]:
        several = " round-robin" if len(settings["parents"]) > 1 else ""
        lines += [
            f"cache_peer {peers[name].reach} parent {peers[name].forward} 0 no-query no-digest{several} name={name}"
            for name in settings["parents"]
        ]
        lines.append("never_direct allow all")
    if not settings["siblings"]:
        return [*lines, "icp_port 0"]
    lines += [
        f"http_port {own_ports.address}:{own_ports.forward}",
        f"icp_port {own_ports.icp}",
        f"udp_incoming_address {own_ports.address}",
        "icp_access allow all",
    ]
    return lines + [
        f"cache_peer {peer.address} sibling {peer.forward} {peer.icp} no-digest proxy-only name={name}"
        for name in settings["siblings"]
        for peer in [peers[name]]
    ]


def _disk(size: int, workers: int, directory: PurePath) -> list[str]:
    if not size:
        return []
    mib = max(1, math.ceil(size / 2**20))
    # A directory holds 256 files. 16 x 16 directories are enough for 65,536 objects, and are created quickly.
    inner = 16 if mib <= 1024 else 256
    # Workers can share rock, but not aufs.
    return [
        f"cache_dir rock {directory}/disk {mib}"
        if workers > 1
        else f"cache_dir aufs {directory}/disk {mib} 16 {inner}"
    ]


def _make_disk(running: RunningService, site: Site, account: Account, command: list[str | PurePath]) -> None:
    as_account = site.host.command_as(account, command, {"HOME": str(running.directory), "LC_ALL": "C"})
    log = running.directory / "disk.log"
    site.host.run_to_end(
        Program(running.spec.name, as_account, log, directory=running.directory),
        failure=f"service {running.spec.name}: its cache directory could not be created (squid -z)",
        check_interrupt=site.check_interrupt,
        timeout_s=DISK_S,
    )


def _new_check(host: ServiceHost, instance: str, check: Callable[[], bool]) -> Callable[[], bool]:
    _sweep(host, instance)
    return check


def _is_answering(address: str, port: int) -> bool:
    try:
        return b"client_http.requests" in manager(address, port, "counters")
    except OSError:
        return False


def _account(running: RunningService, site: Site) -> Account:
    """The account that can run several workers. It must be able to create sockets in the directory of
    Squid."""
    host = site.host
    if not site.account.change:
        code, _ = host.programs.output(["test", "-w", STATE])
        if code != 0:
            raise ServiceError(
                f"service {running.spec.name}: several Squid workers need sockets in {STATE}, where "
                f"{site.account.name} cannot write: use `workers: 1`, or run Plimsoll as root"
            )
        return site.account
    owner = host.owner_of(STATE)
    if not owner:
        host.make_directory(STATE, 0o755, site.account)
        return site.account
    return host.account_of(owner)


def _sweep(host: ServiceHost, instance: str) -> None:
    """Removes the files that a killed Squid leaves outside its directory. The name belongs to this instance
    only."""
    for directory in (SHARED, STATE):
        names = [name for name in host.names_in(directory) if name.startswith(f"{instance}-")]
        host.remove(*(directory / name for name in names))
