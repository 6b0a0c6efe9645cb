"""`kind: command`: any server binary, unmodified."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from plimsoll.deploy.ports import free_port, netloc
from plimsoll.deploy.process import GuardedProcess, wait_until
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.plan.source.secret import hidden, revealed

PROBE_TIMEOUT_S = 2.0


def start_command(running: RunningService, site: Site) -> None:
    """Starts the program on a free port and waits until it is ready. Raises ServiceError.

    `{address}`, `{port}` and `{dir}` are replaced in its arguments, environment, working directory and URL.
    `{NAME.port}` and `{NAME.url}`, of another service of the experiment, are replaced in its arguments and
    environment.
    """
    service = running.spec
    settings = service.settings
    address = site.address
    port = free_port(address=address)

    def filled(text: str) -> str:
        for other in service.needs:
            url = site.addresses[other][0]
            text = text.replace(f"{{{other}.url}}", url).replace(f"{{{other}.port}}", str(urlsplit(url).port))
        text = text.replace("{address}:{port}", netloc(address, port)).replace("{address}", address)
        return text.replace("{port}", str(port)).replace("{dir}", str(running.directory))

    running.configuration = "\n".join(
        [" ".join(filled(part) for part in hidden(settings["command"]))]
        + [f"{name}={filled(value)}" for name, value in hidden(dict(settings["env"])).items()]
    )
    cwd = settings.get("cwd")
    running.process = process = GuardedProcess(
        service.name,
        site.engine,
        [filled(part) for part in revealed(list(settings["command"]))],
        log=running.directory / "log",
        cpus=running.cpus,
        cwd=Path(filled(cwd)) if cwd else running.directory,
        env={name: filled(value) for name, value in revealed(dict(settings["env"])).items()},
        grace_s=settings["stop_timeout"] / 1e9,
    )

    def new_check(start: int | None = None) -> Callable[[], bool]:
        """A check of the readiness. A line in the log of an earlier start does not count."""
        begin = process.log.stat().st_size if start is None else start
        return _check(settings["ready"], address, port, process.log, begin)

    running.ready_check = new_check
    check = new_check(0)

    def ready() -> bool:
        site.check_interrupt()
        return check()

    wait_until(process, ready, service.ready_timeout_ns / 1e9)
    running.urls = [filled(settings["url"])]


def _check(
    ready: dict[str, object], address: str, port: int, log: Path, begin: int = 0
) -> Callable[[], bool]:
    """`begin`: the size of the log before the start."""
    if ready.get("log") is not None:
        pattern = re.compile(str(ready["log"]).encode())
        return lambda: log.exists() and pattern.search(log.read_bytes(), begin) is not None
    if ready.get("http") is not None:
        return lambda: _is_answering(f"http://{netloc(address, port)}{ready['http']}")
    return lambda: _is_accepting(address, port)


def _is_accepting(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=PROBE_TIMEOUT_S):
            return True
    except OSError:
        return False


def _is_answering(url: str) -> bool:
    try:
        # The request must not use a proxy of the environment.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=PROBE_TIMEOUT_S) as answer:
            return 200 <= int(answer.status) < 400
    except (OSError, urllib.error.URLError, ValueError):
        return False
