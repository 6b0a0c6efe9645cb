"""`kind: gridftp`: the GridFTP server of the Globus (Grid Community) Toolkit."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from plimsoll.deploy.counters.logs.gridftp import TransferCounters
from plimsoll.deploy.ports import netloc
from plimsoll.deploy.programs import require, version_number, version_of
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.storage.files import make_files
from plimsoll.deploy.servers.storage.gsi import make_credentials
from plimsoll.plan.services.addresses import FILES

PACKAGE: Final = "globus-gridftp-server-progs"
PROBE_TIMEOUT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the server listens, its account and its files. `listen`: an address; `name`: in its certificate."""

    listen: str
    port: int
    name: str
    account: str
    directory: PurePath

    @property
    def transfers(self) -> PurePath:
        """The log with a line for each transfer."""
        return self.directory / "transfers.log"


def start_gridftp(running: RunningService, site: Site) -> None:
    """Makes the files and certificates, writes the configuration and starts the server. Raises ServiceError."""
    service, settings, host = running.spec, running.spec.settings, site.host
    program = require(service.name, "GridFTP server", ("globus-gridftp-server",), PACKAGE, host.programs)
    make_files(running, site, running.directory / FILES, settings["files"])
    environment = {}
    if settings["security"] == "gsi":
        environment = make_credentials(running, site).server_environment()
    port = host.free_port(address=site.listen)
    layout = Layout(site.listen, port, site.address, site.account.name, running.directory)
    text = configuration(settings, layout)
    file = running.directory / "gridftp.conf"
    host.write(file, text, mode=0o644)
    host.write(layout.transfers, "", owner=site.account)

    def ready() -> bool:
        return is_greeting(site.address, port)

    site.start(running, [program, "-c", file], ready, environment)
    begin = 0  # of the transfers of this process in the log

    def new_check() -> Callable[[], bool]:
        nonlocal begin
        begin = host.size(layout.transfers)
        return ready

    running.ready_check = new_check
    running.counters = lambda: TransferCounters(lambda offset: host.read(layout.transfers, offset), begin)
    running.logs = {"transfers.log": layout.transfers}
    running.version = version_number(version_of([program, "-version"], host.programs))
    running.configuration = f"# globus-gridftp-server {running.version}\n{text.rstrip()}"
    running.urls = [f"{service.scheme}://{netloc(site.address, port)}{running.directory / FILES}"]


def configuration(settings: Mapping[str, Any], layout: Layout) -> str:
    """The whole configuration file; that of the host is not read."""
    access = {"allow_anonymous": "1", "anonymous_user": layout.account}
    if settings["security"] == "gsi":
        # An account without a login shell, such as nobody, counts as disabled.
        access = {"hostname": layout.name, "allow_disabled_login": "1"}
    values = {
        "detach": "0",
        "control_interface": layout.listen,
        "data_interface": layout.listen,
        "port": str(layout.port),
        **access,
        "restrict_paths": str(layout.directory / FILES),
        "log_level": "ERROR,WARN",
        "log_single": "/dev/stderr",
        "log_transfer": str(layout.transfers),
        "disable_usage_stats": "1",
        **({} if settings["connections"] is None else {"connections_max": str(settings["connections"])}),
        **settings["settings"],
    }
    return "".join(f'{key} "{value}"\n' for key, value in values.items())


def is_greeting(address: str, port: int) -> bool:
    """Whether a server greets a new connection with code 220."""
    try:
        with socket.create_connection((address, port), timeout=PROBE_TIMEOUT_S) as connection:
            return connection.recv(3, socket.MSG_WAITALL) == b"220"
    except OSError:
        return False
