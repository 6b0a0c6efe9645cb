"""The programs that each kind of services needs on its host, for `plimsoll hosts check` and `plimsoll doctor`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from plimsoll.deploy.programs import HERE, ProgramSearch, find_on, missing_text, postgres_directory
from plimsoll.deploy.servers.java import JAVA_PACKAGE, TOMCAT_PACKAGE, tomcat_home
from plimsoll.deploy.servers.jobs.gram import FORK_PACKAGE, MANAGER_PACKAGE, has_fork
from plimsoll.deploy.servers.jobs.gram import PACKAGE as GRAM_PACKAGE
from plimsoll.deploy.servers.jobs.slurm import MUNGE_PACKAGE
from plimsoll.deploy.servers.jobs.slurm import PACKAGE as SLURM_PACKAGE
from plimsoll.deploy.servers.slapd import PACKAGE, SCHEMA_PACKAGE, has_schema
from plimsoll.deploy.servers.storage.gridftp import PACKAGE as GRIDFTP_PACKAGE
from plimsoll.deploy.servers.storage.rucio import PACKAGES as RUCIO_PACKAGES
from plimsoll.deploy.servers.storage.rucio import environment_python, missing_rucio, versions_of
from plimsoll.deploy.servers.storage.xrootd import PACKAGE as XROOTD_PACKAGE
from plimsoll.errors import ServiceError


@dataclass(frozen=True, slots=True)
class Need:
    """A program. `names`: alternatives, best first. `package`: of Debian."""

    title: str
    names: tuple[str, ...]
    package: str


NEEDS: Final[Mapping[str, tuple[Need, ...]]] = {
    "gram": (
        Need("GRAM gatekeeper", ("globus-gatekeeper",), GRAM_PACKAGE),
        Need("GRAM job manager", ("globus-job-manager",), MANAGER_PACKAGE),
        Need("the job manager fork", (), FORK_PACKAGE),
        Need("OpenSSL", ("openssl",), "openssl"),
    ),
    "gridftp": (
        Need("GridFTP server", ("globus-gridftp-server",), GRIDFTP_PACKAGE),
        Need("OpenSSL", ("openssl",), "openssl"),
    ),
    "mariadb": (
        Need("MariaDB server", ("mariadbd", "mysqld"), "mariadb-server"),
        Need("mariadb-install-db", ("mariadb-install-db", "mysql_install_db"), "mariadb-server"),
    ),
    "nginx": (Need("nginx", ("nginx",), "nginx-light"),),
    "postgres": (Need("PostgreSQL server", ("postgres",), "postgresql"),),
    "rucio": (Need("Rucio", (), RUCIO_PACKAGES),),
    "slapd": (
        Need("OpenLDAP server", ("slapd",), PACKAGE),
        Need("the GLUE schema", (), SCHEMA_PACKAGE),
    ),
    "slurm": (
        Need("munge", ("munged",), MUNGE_PACKAGE),
        *(Need(name, (name,), SLURM_PACKAGE) for name in ("slurmctld", "slurmd", "sinfo", "sdiag")),
    ),
    "squid": (Need("Squid", ("squid", "squid3"), "squid"),),
    "tomcat": (Need("Tomcat", ("catalina.sh",), TOMCAT_PACKAGE), Need("Java", ("java",), JAVA_PACKAGE)),
    "xrootd": (
        Need("XRootD server", ("xrootd",), XROOTD_PACKAGE),
        Need("XRootD cluster manager", ("cmsd",), XROOTD_PACKAGE),
        Need("OpenSSL", ("openssl",), "openssl"),
    ),
}
"""Kinds that need a program of the distribution. The other kinds need only the engine, or the program of the file."""


def missing_programs(kinds: Iterable[str], search: ProgramSearch = HERE) -> list[str]:
    """The programs that are missing for services of these kinds, as texts with the package that installs each. Rucio is
    not a program: its Python packages are in an environment of their own."""
    texts = []
    for kind in sorted(kinds):
        for need in NEEDS.get(kind, ()):
            if not _is_installed(kind, need, search):
                is_rucio = need.package == RUCIO_PACKAGES
                texts.append(
                    missing_rucio(search) if is_rucio else missing_text(need.title, need.package, search)
                )
    return texts


def _is_installed(kind: str, need: Need, search: ProgramSearch) -> bool:
    try:
        if kind == "postgres":
            postgres_directory("", "auto", search)
        elif need.package == TOMCAT_PACKAGE:
            tomcat_home("", search)
        elif need.package == SCHEMA_PACKAGE:
            return has_schema(search)
        elif need.package == FORK_PACKAGE:
            return has_fork(search)
        elif need.package == RUCIO_PACKAGES:
            return versions_of(environment_python(search), search) is not None
        else:
            return find_on(search, need.names) is not None
    except ServiceError:
        return False
    return True
