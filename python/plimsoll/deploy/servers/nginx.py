"""`kind: nginx`: a reverse proxy that caches nothing, or a server of files."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from plimsoll.deploy.counters.nginx import NginxCounters, status_answers
from plimsoll.deploy.ports import free_port, netloc
from plimsoll.deploy.programs import require, version_number, version_of
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site, file_limit
from plimsoll.errors import ServiceError

STOP_S: Final = 5.0
CONNECTIONS: Final = 8192
"""Of each worker; the origin takes one more for each."""
TEMPORARY: Final = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
DEFAULTS: Final = (
    "sendfile on;",
    "tcp_nopush on;",
    "access_log off;",
    "default_type application/octet-stream;",
)
"""Lines that give way to lines of the file about the same."""


def start_nginx(running: RunningService, site: Site) -> None:
    """Raises ServiceError."""
    service = running.wanted
    name, told = service.name, service.settings
    program = require(name, "nginx", ("nginx",), "nginx-light")
    root = told["root"]
    if root is not None and not site.account.may_enter(Path(root)):
        raise ServiceError(
            f"service {name}: nginx runs as {site.account.name}, which cannot enter {root}: run `chmod "
            f"o+x` on its parent directories, or move the files"
        )
    place = running.directory / "nginx"
    place.mkdir()
    site.account.give(place, 0o755)
    port, status = free_port(address=site.address), free_port()
    origin = None if told["origin"] is None else site.addresses[told["origin"]][0]
    text = configuration(told, place, netloc(site.address, port), status, origin, file_limit())
    file = running.directory / "nginx.conf"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o644)
    running.stop_signal, running.stop_s = (
        signal.SIGQUIT,
        STOP_S,
    )  # answers what it has begun; SIGTERM drops it
    site.start(running, [program, "-p", place, "-c", file], lambda: status_answers(status))
    running.version = version_number(version_of([program, "-v"]))
    running.configuration = f"# nginx {running.version}\n{text.rstrip()}"
    running.urls = [f"http://{netloc(site.address, port)}"]
    running.counters = lambda: NginxCounters(status)


def configuration(
    told: Mapping[str, Any], place: Path, listen: str, status: int, origin: str | None, files: int
) -> str:
    """nginx.conf, whole: the host's own is not read. `listen`: address and port; `status`: a port of loopback."""
    http = [f"{kind}_temp_path {place / kind};" for kind in TEMPORARY]
    http += given_way(DEFAULTS, told["settings"])
    http += told["settings"]
    serves = f'root "{told["root"]}";'
    if origin is not None:
        http.append(f"upstream origin {{ server {urlsplit(origin).netloc}; keepalive 64; }}")
        serves = (
            'proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; '
            "proxy_set_header Host $http_host;"
        )
    http.append(f"server {{ listen {listen}; location / {{ {serves} }} }}")
    http.append(f"server {{ listen 127.0.0.1:{status}; access_log off; location / {{ stub_status; }} }}")
    lines = [
        "daemon off;",
        f"worker_processes {told['workers']};",
        f"worker_rlimit_nofile {files};",
        f"pid {place / 'nginx.pid'};",
        "error_log stderr warn;",
        f"events {{ worker_connections {min(CONNECTIONS, files)}; }}",
        "http {",
        *(f"    {line}" for line in http),
        "}",
    ]
    return "\n".join(lines) + "\n"


def given_way(defaults: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The lines of Plimsoll without those whose directive is in the file: most directives are
    allowed only once."""
    taken = {line.split(None, 1)[0].rstrip(";") for line in lines if line.strip()}
    return [line for line in defaults if line.split(None, 1)[0] not in taken]
