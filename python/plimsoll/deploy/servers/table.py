"""How each kind of services is started: one row for each kind of `plan/services`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.command import start_command
from plimsoll.deploy.servers.jobs import gram, slurm
from plimsoll.deploy.servers.jobs.gram import start_gram
from plimsoll.deploy.servers.jobs.slurm import start_slurm
from plimsoll.deploy.servers.mariadb import start_mariadb
from plimsoll.deploy.servers.nginx import start_nginx
from plimsoll.deploy.servers.own import start_own
from plimsoll.deploy.servers.postgres import start_postgres
from plimsoll.deploy.servers.slapd import start_slapd
from plimsoll.deploy.servers.sqlite import start_sqlite
from plimsoll.deploy.servers.squid import start_squid
from plimsoll.deploy.servers.storage import xrootd
from plimsoll.deploy.servers.storage.gridftp import start_gridftp
from plimsoll.deploy.servers.storage.rucio import start_rucio
from plimsoll.deploy.servers.storage.xrootd import start_xrootd
from plimsoll.deploy.servers.tomcat import start_tomcat
from plimsoll.plan.services.table import SERVICE_KINDS


@dataclass(frozen=True, slots=True)
class Start:
    """`start` fills in URLs, process and configuration of the service; it raises ServiceError. `unprivileged`: the
    program must not run as root, so it gets an account and a directory that this account can enter. `sockets`: length
    of the longest path of a Unix socket that it makes below its directory; 0: none, or elsewhere."""

    start: Callable[[RunningService, Site], None]
    unprivileged: bool = False
    sockets: int = 0


STARTS: Final[Mapping[str, Start]] = {
    **{kind: Start(start_own) for kind, section in SERVICE_KINDS.items() if section.runs_in_engine},
    "command": Start(start_command),
    "gram": Start(start_gram, unprivileged=True, sockets=gram.SOCKETS),
    "gridftp": Start(start_gridftp, unprivileged=True),
    "mariadb": Start(start_mariadb, unprivileged=True),
    "nginx": Start(start_nginx, unprivileged=True),
    "postgres": Start(start_postgres, unprivileged=True),
    "rucio": Start(start_rucio),
    "slapd": Start(start_slapd, unprivileged=True),
    "slurm": Start(start_slurm, unprivileged=True, sockets=slurm.SOCKETS),
    "sqlite": Start(start_sqlite),
    "squid": Start(start_squid, unprivileged=True),
    "tomcat": Start(start_tomcat, unprivileged=True),
    "xrootd": Start(start_xrootd, unprivileged=True, sockets=xrootd.SOCKETS),
}
