"""`kind: command`: any server binary, unmodified."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import PurePath

from plimsoll.deploy.ports import netloc
from plimsoll.deploy.process import Program, wait_until
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.plan.services.filled import with_addresses
from plimsoll.plan.source.secret import hidden, revealed

PROBE_TIMEOUT_S = 2.0


def start_command(running: RunningService, site: Site) -> None:
    """Starts the program on a free port and waits until it is ready. Raises ServiceError.

    `{address}`, `{port}` and `{dir}` are replaced in its arguments, environment, working directory and URL.
    `{NAME.url}` and similar, of another service of the experiment, are replaced in its arguments and environment.
    """
    service = running.spec
    settings = service.settings
    port = site.host.free_port(address=site.listen)
    urls = {other: site.addresses[other][0] for other in service.needs}

    def filled(text: str) -> str:
        text = with_addresses(text, urls)
        text = text.replace("{address}:{port}", netloc(site.listen, port)).replace("{address}", site.listen)
        return text.replace("{port}", str(port)).replace("{dir}", str(running.directory))

    def url_for_clients() -> str:
        text = settings["url"].replace("{address}:{port}", netloc(site.address, port))
        return filled(text.replace("{address}", site.address))

    running.configuration = "\n".join(
        [" ".join(filled(part) for part in hidden(settings["command"]))]
        + [f"{name}={filled(value)}" for name, value in hidden(dict(settings["env"])).items()]
    )
    cwd = settings.get("cwd")
    running.process = process = site.host.start(
        Program(
            service.name,
            [filled(part) for part in revealed(list(settings["command"]))],
            running.directory / "log",
            cpus=running.cpus,
            limits=running.spec.limits,
            directory=PurePath(filled(cwd)) if cwd else running.directory,
            environment={name: filled(value) for name, value in revealed(dict(settings["env"])).items()},
            grace_s=settings["stop_timeout"] / 1e9,
            remove=running.directory,
        )
    )

    def new_check(begin: int) -> Callable[[], bool]:
        """A check of the readiness. `begin`: the size of the log before the start."""
        return _check(settings["ready"], site.address, port, partial(site.host.read, process.log, begin))

    running.ready_check = lambda: new_check(site.host.size(process.log))
    check = new_check(0)

    def ready() -> bool:
        site.check_interrupt()
        return check()

    wait_until(process, ready, service.ready_timeout_ns / 1e9)
    running.urls = [url_for_clients()]


def _check(
    ready: dict[str, object], address: str, port: int, read_log: Callable[[], bytes]
) -> Callable[[], bool]:
    if ready.get("log") is not None:
        pattern = re.compile(str(ready["log"]).encode())
        return lambda: _has_logged(pattern, read_log)
    if ready.get("http") is not None:
        return lambda: _is_answering(f"http://{netloc(address, port)}{ready['http']}")
    return lambda: _is_accepting(address, port)


def _has_logged(pattern: re.Pattern[bytes], read_log: Callable[[], bytes]) -> bool:
    try:
        return pattern.search(read_log()) is not None
    except OSError:
        return False


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
