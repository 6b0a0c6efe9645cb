"""`kind: squid`: a reverse proxy before an origin, or a forward proxy; alone, below parents, or beside siblings."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from plimsoll.deploy.account import Account, account_of
from plimsoll.deploy.counters.squid import SquidCounters, manager
from plimsoll.deploy.ports import CachePorts, netloc
from plimsoll.deploy.process import run_to_end
from plimsoll.deploy.programs import require, version_number, version_of
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site, file_limit
from plimsoll.errors import ServiceError

STOP_S: Final = 10.0
DISK_S: Final = 60.0
SHARED: Final = Path("/dev/shm")
STATE: Final = Path("/run/squid")
"""Where Squid's workers keep the sockets on which they speak with each other: compiled in."""


def start_squid(running: RunningService, site: Site) -> None:
    """Raises ServiceError."""
    service = running.wanted
    name, told = service.name, service.settings
    program = require(name, "Squid", ("squid", "squid3"), "squid")
    account = _account(running, site) if told["workers"] > 1 else site.account
    place = running.directory / "squid"
    place.mkdir()
    account.give(place, 0o755)
    ports = site.ports.of(name)
    peers = {one: site.ports.of(one) for one in (*told["parents"], *told["siblings"])}
    origin = None if told["origin"] is None else site.addresses[told["origin"]][0]
    lines = peer_lines(told, site.address, ports, origin, peers)
    text = configuration(name, told, place, site.address, ports, lines, file_limit(), others=site.others)
    file = running.directory / "squid.conf"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o644)
    # Shared memory is named after the instance, and two of one name destroy each other's.
    instance = f"plimsoll{secrets.token_hex(5)}"
    running.sweep = lambda: _sweep(instance)
    common: list[str | Path] = [program, "-n", instance, "-f", file, "-d", "1"]
    if told["cache"]["disk"]:
        _make_disk(running, site, account, [*common, "-N", "-z"])
    running.stop_signal, running.stop_s = signal.SIGINT, STOP_S  # SIGTERM waits for clients that are kept
    mode = "-N" if told["workers"] == 1 else "--foreground"
    site.start(running, [*common, mode], lambda: _answers(site.address, ports.forward), account=account)
    running.version = version_number(version_of([program, "-v"]))
    running.configuration = f"# Squid {running.version}, started with -n {instance}\n{text.rstrip()}"
    port = ports.forward if told["origin"] is None else ports.reverse
    running.urls = [f"http://{netloc(site.address, port)}"]
    running.logs = {"access.log": place / "access.log"} if told["log"] else {}
    running.counters = lambda: SquidCounters(site.address, ports.forward)


def configuration(
    name: str,
    told: Mapping[str, Any],
    place: Path,
    address: str,
    ports: CachePorts,
    peers: Sequence[str],
    files: int,
    *,
    others: bool = False,
) -> str:
    """squid.conf, for clients of this host, or also of `others`. The file of the host is not read;
    settings that are missing here have Squid's defaults."""
    cache = told["cache"]
    lines = [f"http_port {netloc(address, ports.forward)}", *peers]
    lines += [
        f"acl here src 127.0.0.0/8 {'' if address.startswith('127.') else address}".rstrip(),
        "acl purge method PURGE",  # without a rule that names it, nobody may
        "http_access allow purge here",
        "http_access allow here",
        *(["http_access deny purge", "http_access deny manager", "http_access allow all"] if others else []),
        "http_access deny all",
        f"visible_hostname {name.replace('_', '-').lower()}-{ports.forward}.plimsoll",
        f"workers {told['workers']}",
        f"max_filedescriptors {files}",
        f"cache_mem {cache['memory']} bytes",
        f"maximum_object_size_in_memory {cache['object_in_memory']} bytes",
        f"maximum_object_size {cache['largest']} bytes",
        *_disk(cache["disk"], told["workers"], place),
        f"collapsed_forwarding {'on' if told['collapsed_forwarding'] else 'off'}",
        *told["refresh"].splitlines(),
        f"access_log {f'stdio:{place}/access.log !manager' if told['log'] else 'none'}",
        "cache_log /dev/null",  # -d 1 has the same on stderr, and so in the log of the service
        "cache_store_log none",
        f"pid_filename {place / 'squid.pid'}",
        f"coredump_dir {place}",
        "netdb_filename none",
        "pinger_enable off",
        "digest_generation off",
        "shutdown_lifetime 1 seconds",
        *told["settings"],
    ]
    return "\n".join(lines) + "\n"


def peer_lines(
    told: Mapping[str, Any],
    address: str,
    own: CachePorts,
    origin: str | None,
    peers: Mapping[str, CachePorts],
) -> list[str]:
    """The reverse port, the origin or the parents, the siblings. `origin`: URL; `peers`: ports of parents and siblings.

    The reverse port has the origin with its port for its site, so that an object has one key on whichever port it was
    asked for: peers then speak of the same thing. A cache with parents does not go past them.
    """
    lines = []
    if origin is not None:
        host, port = urlsplit(origin).hostname, urlsplit(origin).port or 80
        site = netloc(str(host), port)
        lines.append(f"http_port {netloc(address, own.reverse)} accel defaultsite={site} no-vhost")
        if not told["parents"]:
            lines.append(f"cache_peer {host} parent {port} 0 no-query no-digest originserver name=origin")
    if told["parents"]:
        several = " round-robin" if len(told["parents"]) > 1 else ""
        lines += [
            f"cache_peer {address} parent {peers[one].forward} 0 no-query no-digest{several} name={one}"
            for one in told["parents"]
        ]
        lines.append("never_direct allow all")
    if not told["siblings"]:
        return [*lines, "icp_port 0"]
    lines += [
        f"http_port {own.address}:{own.forward}",
        f"icp_port {own.icp}",
        f"udp_incoming_address {own.address}",
        "icp_access allow all",
    ]
    return lines + [
        f"cache_peer {peer.address} sibling {peer.forward} {peer.icp} no-digest proxy-only name={one}"
        for one in told["siblings"]
        for peer in [peers[one]]
    ]


def _disk(size: int, workers: int, place: Path) -> list[str]:
    if not size:
        return []
    mib = max(1, math.ceil(size / 2**20))
    # A directory is for 256 files: 16 x 16 of them for 65,536 objects, and made in no time.
    inner = 16 if mib <= 1024 else 256
    # aufs cannot be shared by workers, rock can.
    return [
        f"cache_dir rock {place}/disk {mib}"
        if workers > 1
        else f"cache_dir aufs {place}/disk {mib} 16 {inner}"
    ]


def _make_disk(running: RunningService, site: Site, account: Account, command: list[str | Path]) -> None:
    run_to_end(
        running.wanted.name,
        site.engine,
        account.command(command, {"HOME": str(running.directory), "LC_ALL": "C"}),
        log=running.directory / "disk.log",
        what=f"service {running.wanted.name}: its cache directory could not be created (squid -z)",
        check_interrupt=site.check_interrupt,
        timeout_s=DISK_S,
        cwd=running.directory,
    )


def _answers(address: str, port: int) -> bool:
    try:
        return b"client_http.requests" in manager(address, port, "counters")
    except OSError:
        return False


def _account(running: RunningService, site: Site) -> Account:
    """The account that can run several workers: it must be able to create sockets in the directory
    of Squid."""
    if not site.account.change:
        if not os.access(STATE, os.W_OK):
            raise ServiceError(
                f"service {running.wanted.name}: several Squid workers need sockets in {STATE}, where "
                f"{site.account.name} cannot write: use `workers: 1`, or run Plimsoll as root"
            )
        return site.account
    STATE.mkdir(mode=0o755, exist_ok=True)
    owner = STATE.stat().st_uid
    if owner == 0:
        site.account.give(STATE)
        return site.account
    return account_of(owner)


def _sweep(instance: str) -> None:
    """What a Squid that was killed leaves outside its directory; the name is that of one instance only."""
    for place in (SHARED, STATE):
        for left in place.glob(f"{instance}-*"):
            with contextlib.suppress(OSError):
                left.unlink()
