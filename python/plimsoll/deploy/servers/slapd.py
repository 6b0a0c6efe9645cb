"""`kind: slapd`: OpenLDAP with the GLUE schema and a generated site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from plimsoll.deploy.counters.slapd import SlapdCounters, is_answering
from plimsoll.deploy.ports import netloc
from plimsoll.deploy.process import Program
from plimsoll.deploy.programs import ProgramSearch, not_installed, require, version_number, version_of
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.glue_site import SUFFIX, ldif
from plimsoll.deploy.servers.storage.gsi import make_credentials
from plimsoll.errors import ServiceError

PACKAGE: Final = "slapd"
SCHEMA_PACKAGE: Final = "glue-schema"
SCHEMA: Final = PurePath("/etc/ldap/schema")
SCHEMAS: Final = ("core", "cosine", "nis", "Glue-CORE", "Glue-MDS", "Glue-CE")
MODULES: Final = ("/usr/lib/ldap", "/usr/lib64/openldap", "/usr/libexec/openldap")
"""The directories in which Debian, Red Hat and others install the modules."""
INDEXED: Final = ("objectClass", "GlueCEUniqueID", "GlueCEAccessControlBaseRule")
LOAD_S: Final = 120.0
MAP_BYTES: Final = 64 * 2**20
MAP_BYTES_PER_ENTRY: Final = 16 * 2**10
"""The size of the database's memory map. It is only reserved."""


def start_slapd(running: RunningService, site: Site) -> None:
    """Writes the configuration and the site, loads the site, and starts slapd. Raises ServiceError."""
    service = running.spec
    name, settings, host = service.name, service.settings, site.host
    program = require(name, "OpenLDAP server", ("slapd",), PACKAGE, host.programs)
    loader = require(name, "slapadd", ("slapadd",), PACKAGE, host.programs)
    if not has_schema(host.programs):
        raise not_installed(name, "the GLUE schema", SCHEMA_PACKAGE, host.programs)
    directory = running.directory / "slapd"
    host.make_directory(directory, 0o755, site.account)
    host.make_directory(directory / "db", 0o700, site.account)
    tls = None if settings["tls"] is None else _certificate(running, site)
    modules = next((path for path in MODULES if host.programs.matching(f"{path}/back_mdb*.so")), None)
    text = configuration(settings, directory, modules, tls)
    file = directory / "slapd.conf"
    host.write(file, text, mode=0o644)
    entries = directory / "site.ldif"
    host.write(entries, ldif(settings["entries"], settings["seed"]), mode=0o644)
    _run(
        running,
        site,
        [loader, "-q", "-f", file, "-l", entries],
        "its entries could not be loaded (slapadd)",
        LOAD_S,
    )
    host.remove(entries)
    port = host.free_port(address=site.listen)
    urls = [f"ldap://{netloc(site.listen, port)}"]
    secure_port = port
    if settings["protocol"] == "ldaps":
        while secure_port == port:
            secure_port = host.free_port(address=site.listen)
        urls.append(f"ldaps://{netloc(site.listen, secure_port)}")
    # With a debug level, slapd stays in the foreground; 0 logs only errors of its start.
    site.start(
        running,
        [program, "-d", "0", "-f", file, "-h", " ".join(urls)],
        lambda: is_answering(site.address, port),
    )
    running.version = version_number(version_of([program, "-VV"], host.programs))
    running.configuration = (
        f"# OpenLDAP {running.version}, started with -h '{' '.join(urls)}'\n{text.rstrip()}"
    )
    reached = port if settings["protocol"] == "ldap" else secure_port
    # The driver ldap finds the certificates of clients by this part of the URL.
    made = "" if tls is None or tls.made is None else str(tls.made)
    running.urls = [f"{settings['protocol']}://{netloc(site.address, reached)}{made}"]
    running.counters = lambda: SlapdCounters(site.address, port)


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """Files of the server's certificate. `ca_file`: the authorities of client certificates; None: clients have
    none. `is_required`: clients without certificate are refused. `made`: the directory of certificates that were made
    for the server and its clients; None: the server has files of the user."""

    cert: PurePath
    key: PurePath
    ca_file: PurePath | None = None
    is_required: bool = False
    made: PurePath | None = None


def has_schema(search: ProgramSearch) -> bool:
    """Whether the GLUE schema is installed on a host."""
    return bool(search.matching(f"{SCHEMA}/{SCHEMAS[-1]}*.schema"))


def configuration(
    settings: Mapping[str, Any], directory: PurePath, modules: str | None, tls: ServerCertificate | None
) -> str:
    """The whole slapd.conf; that of the host is not read. `modules`: the directory of the modules; None: they are part
    of the program."""
    loaded = (
        [] if modules is None else [f"modulepath {modules}", "moduleload back_mdb", "moduleload back_monitor"]
    )
    secured = []
    if tls is not None:
        secured = [f"TLSCertificateFile {tls.cert}", f"TLSCertificateKeyFile {tls.key}"]
        if tls.ca_file is not None:
            verified = "demand" if tls.is_required else "try"
            secured += [f"TLSCACertificateFile {tls.ca_file}", f"TLSVerifyClient {verified}"]
    lines = [
        *(f"include {SCHEMA / schema}.schema" for schema in SCHEMAS),
        *loaded,
        f"pidfile {directory / 'slapd.pid'}",
        f"argsfile {directory / 'slapd.args'}",
        f"threads {settings['threads']}",
        "sizelimit unlimited",
        "timelimit unlimited",
        *secured,
        *settings["settings"],
        "database mdb",
        f'suffix "{SUFFIX}"',
        f"directory {directory / 'db'}",
        f"maxsize {MAP_BYTES + settings['entries'] * MAP_BYTES_PER_ENTRY}",
        *(f"index {attribute} eq" for attribute in INDEXED),
        "database monitor",
    ]
    return "\n".join(lines) + "\n"


def _certificate(running: RunningService, site: Site) -> ServerCertificate:
    """The files of the file, or a certificate of a new authority for the address of the service."""
    name, tls, host = running.spec.name, running.spec.settings["tls"], site.host
    is_required = tls["clients"] == "required"
    ca_file = None if tls["ca_file"] is None else PurePath(tls["ca_file"])
    if tls["cert"] is not None:
        for part in ("cert", "key"):
            if not host.may_enter(site.account, PurePath(tls[part]).parent):
                raise ServiceError(
                    f"service {name}: slapd runs as {site.account.name}, which cannot enter the directory of "
                    f"tls.{part}: {tls[part]}: move the file, or run `chmod o+x` on its parent directories"
                )
        return ServerCertificate(PurePath(tls["cert"]), PurePath(tls["key"]), ca_file, is_required)
    made = make_credentials(running, site).directory
    if tls["clients"] != "none" and ca_file is None:
        ca_file = made / "ca.pem"
    return ServerCertificate(made / "host.pem", made / "host.key", ca_file, is_required, made)


def _run(
    running: RunningService, site: Site, command: Sequence[str | PurePath], failure: str, timeout_s: float
) -> None:
    """Runs a program under the account of the service. Raises ServiceError with `failure`."""
    name, directory = running.spec.name, running.directory
    as_account = site.host.command_as(site.account, command, {"HOME": str(directory), "LC_ALL": "C"})
    site.host.run_to_end(
        Program(name, as_account, directory / "prepare.log", directory=directory),
        failure=f"service {name}: {failure}",
        check_interrupt=site.check_interrupt,
        timeout_s=timeout_s,
    )
