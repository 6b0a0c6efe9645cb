"""`kind: gram`: a GRAM gatekeeper with the job manager "fork", both of the Globus (Grid Community) Toolkit.

The gatekeeper authenticates a client and passes its request to the job manager of the client, which it starts if there
is none. This job manager continues in the background and starts the jobs, so its parent is the guard of the service,
which ends it with the service. The gatekeeper has no option for its address: it listens on all addresses of its host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from plimsoll.deploy.counters.logs.gram import GatekeeperCounters
from plimsoll.deploy.ports import netloc
from plimsoll.deploy.programs import (
    ProgramSearch,
    find_on,
    not_installed,
    require,
    version_number,
    version_of,
)
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.storage.gsi import make_credentials
from plimsoll.deploy.workplace import MAX_SOCKET_PATH
from plimsoll.errors import ServiceError

PACKAGE: Final = "globus-gatekeeper"
MANAGER_PACKAGE: Final = "globus-gram-job-manager"
FORK_PACKAGE: Final = "globus-gram-job-manager-fork"
FORK: Final = "/usr/share/perl5/Globus/GRAM/JobManager/fork*.pm"
TOOLKIT: Final = "6.2"
"""The version of the toolkit that the job manager reports to clients."""
_TAG_CHARACTERS: Final = len("fork.ffffffff.sock")
"""The longest name of the socket of a job manager: its tag is a hash of 32 bits of the subject of the client."""
SOCKETS: Final = len("/gram/state/") + 32 + len("/") + _TAG_CHARACTERS
"""Length of the longest path of a socket below the directory of a gatekeeper: 32 for its account and the first part of
the name of its host."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of a gatekeeper. `place`: belongs to its account. `host`: the name by which the job managers know their
    host."""

    place: PurePath
    certificates: PurePath
    host: str
    account: str

    @property
    def services(self) -> PurePath:
        """The directory with a file for each job manager."""
        return self.place / "services"

    @property
    def state(self) -> PurePath:
        """The state of the job managers and of their jobs."""
        return self.place / "state"

    @property
    def log(self) -> PurePath:
        """The log of the gatekeeper."""
        return self.place / "gatekeeper.log"

    @property
    def manager_log(self) -> PurePath:
        """The log of the job managers."""
        return self.place / "manager.log"

    @property
    def longest_path(self) -> int:
        """The length of the path of a job manager's socket."""
        directory = self.state / self.account / self.host.partition(".")[0]
        return len(str(directory)) + 1 + _TAG_CHARACTERS


def start_gram(running: RunningService, site: Site) -> None:
    """Makes the certificates, writes the configuration and starts the gatekeeper. Raises ServiceError."""
    service, settings, host = running.spec, running.spec.settings, site.host
    program = require(service.name, "GRAM gatekeeper", ("globus-gatekeeper",), PACKAGE, host.programs)
    manager = require(
        service.name, "GRAM job manager", ("globus-job-manager",), MANAGER_PACKAGE, host.programs
    )
    if not has_fork(host.programs):
        raise not_installed(service.name, "the job manager fork", FORK_PACKAGE, host.programs)
    credentials = make_credentials(running, site)
    certificates = credentials.directory / "certificates"
    layout = Layout(running.directory / "gram", certificates, site.address, site.account.name)
    _check_paths(service.name, layout)
    for directory in (layout.place, layout.services, layout.state):
        host.make_directory(directory, 0o755, site.account)
    for log in (layout.log, layout.manager_log):
        host.write(log, "", mode=0o644, owner=site.account)
    text = configuration(settings["settings"], layout)
    file = layout.place / "gram.conf"
    host.write(file, text, mode=0o644)
    entry = f"stderr_log,local_cred - {manager} globus-job-manager -conf {file} -type fork\n"
    host.write(layout.services / "jobmanager-fork", entry, mode=0o644)
    port = host.free_port(address=site.listen)
    environment = {
        "HOME": str(layout.place),
        "LOGNAME": layout.account,
        "USER": layout.account,
        "GLOBUS_HOSTNAME": layout.host,
        **credentials.server_environment(),
    }
    begin = 0  # of the lines of this process in the log

    def ready() -> bool:
        # A connection would be counted as one that failed.
        return b"GRAM contact: " in host.read(layout.log, begin)

    def new_check() -> Callable[[], bool]:
        nonlocal begin
        begin = host.size(layout.log)
        return ready

    site.start(running, _words(program, manager.parent, port, layout), ready, environment)
    running.ready_check = new_check
    running.counters = lambda: GatekeeperCounters(lambda offset: host.read(layout.log, offset), begin)
    running.logs = {"gatekeeper.log": layout.log, "manager.log": layout.manager_log}
    running.version = _toolkit_version(host.programs)
    running.configuration = (
        f"# Grid Community Toolkit {running.version}, service jobmanager-fork: {entry}{text.rstrip()}"
    )
    # The credentials are beside the directory of the URL.
    running.urls = [f"{service.scheme}://{netloc(site.address, port)}{layout.place}"]


def has_fork(search: ProgramSearch) -> bool:
    """Whether the scripts that start jobs as processes are installed on a host."""
    return bool(search.matching(FORK))


def configuration(lines: Sequence[str], layout: Layout) -> str:
    """The options of the job manager."""
    options = [
        f"-globus-toolkit-version {TOOLKIT}",
        f"-log-pattern {layout.manager_log}",
        "-log-levels FATAL|ERROR|WARN|INFO",
        # The job manager does not use the environment of the gatekeeper for this.
        f"-x509-cert-dir {layout.certificates}",
        f"-state-file-dir {layout.state}",
        f"-globus-job-dir {layout.state}",
    ]
    return "\n".join([*options, *lines]) + "\n"


def _toolkit_version(search: ProgramSearch) -> str:
    """The version of the toolkit; empty if its own program for this is not installed. The gatekeeper has no option for
    it."""
    program = find_on(search, ("globus-version",))
    return "" if program is None else version_number(version_of([program], search))


def _words(program: PurePath, managers: PurePath, port: int, layout: Layout) -> list[str | PurePath]:
    return [
        *(program, "-f", "-p", str(port), "-home", layout.place, "-e", managers),
        *("-l", layout.log, "-grid_services", layout.services),
    ]


def _check_paths(name: str, layout: Layout) -> None:
    """Reports a directory that is too long for the sockets of the job managers, which report it only to a client."""
    if layout.longest_path > MAX_SOCKET_PATH:
        raise ServiceError(
            f"service {name}: the path of the socket of a job manager below {layout.state} has "
            f"{layout.longest_path} characters, and {MAX_SOCKET_PATH} are possible: use --out with a shorter path"
        )
