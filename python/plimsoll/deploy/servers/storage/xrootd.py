"""`kind: xrootd`: an XRootD server, the redirector of a cluster, or one of its data servers.

The daemons have no option for the address on which they listen: they listen on all addresses of their host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from plimsoll.deploy.counters.storage.xrootd import XrootdConnection, XrootdCounters
from plimsoll.deploy.ports import netloc
from plimsoll.deploy.programs import require, version_number, version_of
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.storage.files import make_files
from plimsoll.plan.source.units import NS

PACKAGE: Final = "xrootd-server xrootd-server-plugins"
"""The plugins contain HTTP and the checksums."""
EXPORT: Final = "/data"
"""The path at which clients see the files."""
STARTUP_S: Final = 1
"""How long a redirector waits for further data servers after its start (XRootD's own default is 90 s). Plimsoll waits
until each of them is in the cluster."""
LOOKUP_S: Final = 2
"""How long a redirector waits for data servers to answer that they have a file. A new file waits for all of it."""
SOCKETS: Final = len("/admin/server/.olb/olbd.notes")
"""Length of the longest path of a socket below the directory of a server."""
_CLUSTER_SCRIPT: Final = """\
rm -f "$2"
"$1" "$3" "$4" -n server -l "$5" -s "$6" -I v4 &
attempt=0
while [ ! -e "$2" ] && [ "$attempt" -lt 200 ]; do sleep 0.05; attempt=$((attempt + 1)); done
shift 6
exec "$@"
"""
"""Starts the cluster manager, and the server when the socket exists at which the manager waits for it: the server tries
only once every 10 s."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a server listens. `cluster_port`: of the cluster manager of a redirector. `manager`: address and port of
    the redirector's cluster manager; None: the server is alone."""

    directory: PurePath
    port: int
    cluster_port: int
    manager: tuple[str, int] | None = None

    @property
    def cluster_log(self) -> PurePath:
        """The log of the cluster manager, which is put into a directory with the name of the server."""
        return self.directory / "server" / "cmsd.log"


def start_xrootd(running: RunningService, site: Site) -> None:
    """Makes the files, writes the configuration and starts the server. Raises ServiceError."""
    service, settings, host = running.spec, running.spec.settings, site.host
    server = require(service.name, "XRootD server", ("xrootd",), PACKAGE, host.programs)
    manager = require(service.name, "XRootD cluster manager", ("cmsd",), PACKAGE, host.programs)
    layout = _layout(running, site)
    if settings["role"] == "server":
        make_files(running, site, running.directory / EXPORT[1:], settings["files"])
    for name in ("admin", "server"):
        host.make_directory(running.directory / name, 0o755, site.account)
    text = configuration(settings, layout)
    file = running.directory / "xrootd.cfg"
    host.write(file, text, mode=0o644)
    words = _words(server, file, layout.directory, "xrootd")
    if layout.manager is not None:
        socket = layout.directory / "admin/server/.olb/olbd.admin"
        words = ["sh", "-c", _CLUSTER_SCRIPT, "sh", manager, socket, *_cluster_words(file, layout), *words]
    site.start(running, words, _readiness(site, layout, settings["redirector"]))
    if layout.manager is not None:
        running.logs = {"cmsd.log": layout.cluster_log}
    running.counters = lambda: XrootdCounters(site.address, layout.port)
    running.version = version_number(version_of([server, "-v"], host.programs))
    running.configuration = f"# xrootd {running.version}\n{text.rstrip()}"
    path = f"/{EXPORT}" if service.scheme == "root" else EXPORT
    running.urls = [f"{service.scheme}://{netloc(site.address, layout.port)}{path}"]


def _layout(running: RunningService, site: Site) -> Layout:
    settings, name = running.spec.settings, running.spec.name
    if settings["redirector"] is not None:
        redirector = site.ports.ports_of(settings["redirector"])
        port = site.host.free_port()
        return Layout(running.directory, port, 0, (redirector.reach, redirector.reverse))
    # Data servers need the two ports of a redirector, also after it was restarted.
    ports = site.ports.ports_of(name)
    own = (site.address, ports.reverse) if settings["role"] == "redirector" else None
    return Layout(running.directory, ports.forward, ports.reverse, own)


def _words(program: PurePath, file: PurePath, directory: PurePath, name: str) -> list[str | PurePath]:
    pid = directory / "admin" / f"{name}.pid"  # XRootD writes a further file beside it, otherwise to /tmp
    # It logs to its standard error, so that the message about a failed start has its last lines.
    return [program, "-c", file, "-n", "server", "-s", pid, "-I", "v4"]


def _cluster_words(file: PurePath, layout: Layout) -> list[str | PurePath]:
    return ["-c", file, layout.directory / "cmsd.log", layout.directory / "admin" / "cmsd.pid"]


def _readiness(site: Site, layout: Layout, redirector: str | None) -> Callable[[], bool]:
    """A server is ready when it answers. A data server must be in the cluster of its redirector too."""
    entry = f"{site.address}]:{layout.port} "
    ports = None if redirector is None else site.ports.ports_of(redirector)

    def ready() -> bool:
        try:
            with XrootdConnection(site.address, layout.port) as server:
                server.statistics()
            if ports is None:
                return True
            with XrootdConnection(ports.reach, ports.forward) as manager:
                return entry in manager.servers()
        except (OSError, ValueError):
            return False

    return ready


def configuration(settings: Mapping[str, Any], layout: Layout) -> str:
    """The configuration file of the server and its cluster manager."""
    admin = layout.directory / "admin"
    lines = [
        "xrd.allow host *",
        f"all.adminpath {admin}",
        f"all.pidpath {admin}",
        f"all.export {EXPORT}",
        "xrd.protocol http libXrdHttp.so",
        "http.listingdeny no",
        "http.desthttps no",
        "xrootd.chksum max 2 adler32",
        f"xrd.port {layout.port} if exec xrootd",
    ]
    if settings["role"] == "server":
        lines.append(f"oss.localroot {layout.directory}")
    if layout.manager is not None:
        lookup = LOOKUP_S if settings["lookup"] is None else settings["lookup"] // NS["s"]
        is_manager = settings["role"] == "redirector"
        lines += [
            f"all.role {'manager' if is_manager else 'server'}",
            f"all.manager {layout.manager[0]}:{layout.manager[1]}",
            f"xrd.port {layout.cluster_port if is_manager else 'any'} if exec cmsd",
            "cms.allow host *",
            f"cms.delay startup {STARTUP_S} servers 1 lookup {lookup}",
            "cms.space min 10m 20m",
        ]
    return "\n".join([*lines, *settings["settings"]]) + "\n"
