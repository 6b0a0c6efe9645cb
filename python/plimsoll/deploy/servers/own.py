"""The services of the engine: `plimsoll-engine serve KIND`."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Final

from plimsoll.deploy.counters.ours import OwnCounters
from plimsoll.deploy.ports import netloc
from plimsoll.deploy.process import Program, ServiceProcess
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.storage.gsi import make_credentials
from plimsoll.errors import ServiceError
from plimsoll.plan.model.cell import Service
from plimsoll.plan.services.section import Addresses
from plimsoll.plan.services.table import SERVICE_KINDS
from plimsoll.plan.source.secret import HIDDEN, Secret

COPIED: Final = ("key_file", "cert_file", "ca_file")
"""Files of this host that a service on another host gets a copy of."""
POLL_S: Final = 0.01


def start_own(running: RunningService, site: Site) -> None:
    """Starts the service and waits until it has printed its address. Raises ServiceError."""
    service = running.spec
    addresses = Addresses(site.addresses, _caches(service, site))
    config = SERVICE_KINDS[service.kind].engine_config(service, addresses)
    directory = ""  # of the certificates of clients, as a part of the URL
    if config.get("security") == "tls" and config["cert_file"] is None:
        credentials = make_credentials(running, site).directory
        names = {"cert_file": "host.pem", "key_file": "host.key", "ca_file": "ca.pem"}
        config |= {key: str(credentials / name) for key, name in names.items()}
        directory = str(credentials)
    elif not site.host.is_here:
        config = _with_copied_files(config, running, site)
    running.configuration = json.dumps(shown_config(service, config), indent=1)
    output = running.directory / "address"
    # Not port 0: a restart must use the same port.
    listen = netloc(site.listen, site.host.free_port(address=site.listen))
    running.process = process = site.host.start(
        Program(
            service.name,
            [site.host.engine, "serve", service.kind, "--config", "-", "--listen", listen],
            running.directory / "log",
            stdout=output,
            cpus=running.cpus,
            limits=running.spec.limits,
            first_line=json.dumps(config),
            remove=running.directory,
        )
    )
    port = _read_port(process, site, output, service.ready_timeout_ns / 1e9)
    running.ready_check = lambda: partial(_has_printed_again, site, output, site.host.size(output))
    running.urls = [f"{service.scheme}://{netloc(site.address, port)}{directory}"]
    if service.scheme == "http" or SERVICE_KINDS[service.kind].serves_counters:
        running.counters = lambda: OwnCounters(site.address, port)


def _with_copied_files(config: Mapping[str, Any], running: RunningService, site: Site) -> dict[str, Any]:
    """The configuration with the paths of keys and certificates on the host, to which they are copied."""
    copied = dict(config)
    for key in COPIED:
        if config.get(key) is not None:
            target = running.directory / key
            try:
                text = Path(config[key]).read_text(encoding="ascii")
            except (OSError, UnicodeDecodeError) as error:
                raise ServiceError(
                    f"service {running.spec.name}: {config[key]} cannot be read: {error}"
                ) from error
            site.host.write(target, text, mode=0o600)
            copied[key] = str(target)
    return copied


def shown_config(service: Service, config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as it may be stored: without a database URL that is secret."""
    secret = isinstance(service.settings.get("database"), Secret)
    return {**config, "database": HIDDEN} if secret else dict(config)


def _caches(service: Service, site: Site) -> dict[str, str]:
    """URLs of the caches that a gateway notifies of changes. They start after the gateway, so their ports are
    reserved here."""
    invalidation = service.settings.get("invalidation") or {}
    return {
        cache: f"http://{netloc(ports.reach, ports.forward)}"
        for cache in invalidation.get("caches", ())
        for ports in [site.ports.ports_of(cache)]
    }


def _has_printed_again(site: Site, output: PurePath, begin: int) -> bool:
    """Whether the service has printed its address since its output had `begin` bytes."""
    with contextlib.suppress(OSError):
        return site.host.read(output, begin).endswith(b"\n")
    return False


def _read_port(process: ServiceProcess, site: Site, output: PurePath, timeout_s: float) -> int:
    """The port from the first line of the service. Raises ServiceError."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        site.check_interrupt()
        has_ended = process.has_ended()  # before the reading, so that its last output is read
        with contextlib.suppress(OSError):
            line, newline, _ = site.host.read(output).partition(b"\n")
            if newline:
                return int(str(json.loads(line)["listening"]).rpartition(":")[2])
        if has_ended:
            raise ServiceError(process.end_message())
        process.wait(POLL_S)
    raise ServiceError(f"service {process.name} was not ready after {timeout_s:g} s{process.last_lines()}")
