"""`kind: nginx`: a reverse proxy without a cache, or a server of files."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import urlsplit

from plimsoll.deploy.counters.nginx import NginxCounters, is_status_available
from plimsoll.deploy.ports import LOOPBACK, netloc
from plimsoll.deploy.programs import require, version_number, version_of
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.errors import ServiceError

STOP_S: Final = 5.0
CONNECTIONS: Final = 8192
"""The maximum number of connections of each worker. A proxied connection also needs one to the origin."""
TEMPORARY: Final = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
DEFAULTS: Final = (
    "sendfile on;",
    "tcp_nopush on;",
    "access_log off;",
    "default_type application/octet-stream;",
)
"""Lines that are omitted if a line of the file has the same directive."""


def start_nginx(running: RunningService, site: Site) -> None:
    """Writes the configuration and starts nginx. Raises ServiceError."""
    service = running.spec
    name, settings, host = service.name, service.settings, site.host
    program = require(name, "nginx", ("nginx",), "nginx-light", host.programs)
    root = settings["root"]
    if root is not None and not host.may_enter(site.account, PurePath(root)):
        raise ServiceError(
            f"service {name}: nginx runs as {site.account.name}, which cannot enter {root}: run `chmod "
            f"o+x` on its parent directories, or move the files"
        )
    directory = running.directory / "nginx"
    host.make_directory(directory, 0o755, site.account)
    port = host.free_port(address=site.listen)
    status_address = LOOPBACK if host.is_here else site.listen
    status_port = host.free_port(address=status_address)
    while status_port == port:
        status_port = host.free_port(address=status_address)
    status = Status(netloc(status_address, status_port), () if host.is_here else site.administrators)
    origins = [site.addresses[origin][0] for origin in settings["origins"]]
    text = configuration(settings, directory, netloc(site.listen, port), status, origins, host.file_limit())
    file = running.directory / "nginx.conf"
    host.write(file, text, mode=0o644)
    running.stop_signal, running.stop_s = (
        signal.SIGQUIT,
        STOP_S,
    )  # completes requests in progress; SIGTERM drops them
    readable = LOOPBACK if host.is_here else site.address
    site.start(
        running,
        [program, "-p", directory, "-c", file],
        lambda: is_status_available(status_port, readable),
    )
    running.version = version_number(version_of([program, "-v"], host.programs))
    running.configuration = f"# nginx {running.version}\n{text.rstrip()}"
    running.urls = [f"http://{netloc(site.address, port)}"]
    running.counters = lambda: NginxCounters(status_port, readable)


@dataclass(frozen=True, slots=True)
class Status:
    """Where the counters are served. `listen`: address and port. `clients`: the addresses that may read them;
    empty: all that reach the address, for loopback."""

    listen: str
    clients: tuple[str, ...] = ()

    @property
    def server(self) -> str:
        """The server block."""
        allowed = "".join(f"allow {client}; " for client in self.clients)
        access = f"{allowed}deny all; " if self.clients else ""
        return f"server {{ listen {self.listen}; access_log off; location / {{ {access}stub_status; }} }}"


def configuration(
    settings: Mapping[str, Any],
    directory: PurePath,
    listen: str,
    status: Status,
    origins: Sequence[str],
    files: int,
) -> str:
    """The whole nginx.conf; that of the host is not read. `listen`: address and port. `origins`: their URLs; nginx
    balances over them by round robin. Empty: it serves files. `files`: the maximum number of file descriptors."""
    http = [f"{kind}_temp_path {directory / kind};" for kind in TEMPORARY]
    http += remaining_defaults(DEFAULTS, settings["settings"])
    http += settings["settings"]
    serves = f'root "{settings["root"]}";'
    if origins:
        servers = " ".join(f"server {urlsplit(origin).netloc};" for origin in origins)
        http.append(f"upstream origin {{ {servers} keepalive 64; }}")
        serves = (
            'proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; '
            "proxy_set_header Host $http_host;"
        )
    http.append(f"server {{ listen {listen}; location / {{ {serves} }} }}")
    http.append(status.server)
    lines = [
        "daemon off;",
        f"worker_processes {settings['workers']};",
        f"worker_rlimit_nofile {files};",
        f"pid {directory / 'nginx.pid'};",
        "error_log stderr warn;",
        f"events {{ worker_connections {min(CONNECTIONS, files)}; }}",
        "http {",
        *(f"    {line}" for line in http),
        "}",
    ]
    return "\n".join(lines) + "\n"


def remaining_defaults(defaults: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The lines of Plimsoll whose directive is not in the file, as most directives are allowed only once."""
    taken = {line.split(None, 1)[0].rstrip(";") for line in lines if line.strip()}
    return [line for line in defaults if line.split(None, 1)[0] not in taken]
