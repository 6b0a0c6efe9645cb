"""The services of the engine: `plimsoll-engine serve KIND`."""

from __future__ import annotations

import json
import select
import time
from collections.abc import Callable, Mapping
from typing import Any

from plimsoll.deploy.counters.ours import OwnCounters
from plimsoll.deploy.ports import free_port, netloc
from plimsoll.deploy.process import GuardedProcess
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.errors import ServiceError
from plimsoll.plan.model import Service
from plimsoll.plan.services.section import Addresses
from plimsoll.plan.services.table import SERVICE_KINDS
from plimsoll.plan.source.secret import HIDDEN, Secret


def start_own(running: RunningService, site: Site) -> None:
    """Starts the service and waits until it has printed its address. Raises ServiceError."""
    service = running.spec
    addresses = Addresses(site.addresses, _caches(service, site))
    config = SERVICE_KINDS[service.kind].engine_config(service, addresses)
    running.configuration = json.dumps(shown_config(service, config), indent=1)
    # Not port 0: a restart must use the same port.
    listen = netloc(site.address, free_port(address=site.address))
    running.process = process = GuardedProcess(
        service.name,
        site.engine,
        [site.engine, "serve", service.kind, "--config", "-", "--listen", listen],
        log=running.directory / "log",
        cpus=running.cpus,
        first_line=json.dumps(config),
        pipe_stdout=True,
    )
    running.ready_check = lambda: (
        lambda: bool(select.select([process.stdout], [], [], 0)[0] and process.stdout.readline())
    )
    address = _read_address(process, service.ready_timeout_ns / 1e9, site.check_interrupt)
    running.urls = [f"{service.scheme}://{address}"]
    if service.scheme == "http":
        port = int(address.rpartition(":")[2])
        running.counters = lambda: OwnCounters(site.address, port)


def shown_config(service: Service, config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as it may be stored: without a database URL that is secret."""
    secret = isinstance(service.settings.get("database"), Secret)
    return {**config, "database": HIDDEN} if secret else dict(config)


def _caches(service: Service, site: Site) -> dict[str, str]:
    """URLs of the caches that a gateway notifies of changes. They start after the gateway, so their ports are
    reserved here."""
    invalidation = service.settings.get("invalidation") or {}
    return {
        cache: f"http://{netloc(site.address, site.ports.ports_of(cache).forward)}"
        for cache in invalidation.get("caches", ())
    }


def _read_address(process: GuardedProcess, timeout_s: float, check_interrupt: Callable[[], None]) -> str:
    """HOST:PORT from the first line of the service. Raises ServiceError."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        check_interrupt()
        if select.select([process.stdout], [], [], 0.1)[0]:
            line = process.stdout.readline()
            if not line:
                process.wait(1.0)
                raise ServiceError(process.end_message())
            return str(json.loads(line)["listening"])
    raise ServiceError(f"service {process.name} was not ready after {timeout_s:g} s{process.last_lines()}")
