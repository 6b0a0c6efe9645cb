"""`kind: rucio`: the server of Rucio below gunicorn, over a PostgreSQL of the experiment.

Its programs are not packages of the distribution: they are in a virtual environment of their own, because Rucio needs
certain versions of about sixty packages.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from typing import Final

from plimsoll.deploy.counters.logs.rucio import RucioCounters
from plimsoll.deploy.ports import netloc
from plimsoll.deploy.process import Program
from plimsoll.deploy.programs import ProgramSearch
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.storage.gsi import make_credentials
from plimsoll.deploy.servers.storage.rucio_files import (
    ALEMBIC,
    PERMISSION,
    PREPARE,
    READY,
    gunicorn_config,
    rucio_config,
)
from plimsoll.errors import ServiceError
from plimsoll.plan.drivers.catalogue import ACCOUNT, PASSWORD, USER

PLACE: Final = "plimsoll/rucio"
"""The environment, below the user's cache directory."""
PACKAGES: Final = "'rucio[postgresql]' gunicorn"
APPLICATION: Final = "rucio.web.rest.flaskapi.v1.main:application"
PREPARE_S: Final = 1800.0
"""The maximum time to create the tables and to register the entries of a data set."""
PROBE_TIMEOUT_S: Final = 5.0
_HOME: Final = 'printf %s "${XDG_CACHE_HOME:-$HOME/.cache}"'
_VERSIONS: Final = (
    "import gunicorn, rucio, psycopg; from importlib.metadata import version; "
    "print(version('rucio'), version('gunicorn'))"
)


def start_rucio(running: RunningService, site: Site) -> None:
    """Creates the tables, registers the entries of a data set in the same database, and starts the server. Raises
    ServiceError."""
    service, settings, host = running.spec, running.spec.settings, site.host
    python = PurePath(settings["python"] or environment_python(host.programs))
    versions = versions_of(python, host.programs)
    if versions is None:
        raise ServiceError(f"service {service.name}: {missing_rucio(host.programs, python)}")
    directory = running.directory
    database = site.addresses[settings["database"]][0].replace("postgresql://", "postgresql+psycopg://", 1)
    port = host.free_port(address=site.listen)
    text = rucio_config(directory, database, threads=settings["threads"])
    access_log = directory / "access.log"
    certificate, made = _certificate(running, site)
    server = gunicorn_config(
        netloc(site.listen, port),
        access_log,
        workers=settings["workers"],
        threads=settings["threads"],
        certificate=certificate,
    )
    host.make_directory(directory / "policy" / "plimsoll_policy")
    for name, content in (
        ("rucio.cfg", text),
        ("alembic.ini", ALEMBIC.format(database=database)),
        ("gunicorn.conf.py", server),
        ("prepare.py", PREPARE),
        ("policy/plimsoll_policy/permission.py", PERMISSION),
    ):
        host.write(directory / name, content, mode=0o644)
    environment = {
        "RUCIO_CONFIG": str(directory / "rucio.cfg"),
        "PYTHONPATH": str(directory / "policy"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(directory),
        "LC_ALL": "C.UTF-8",
    }
    host.run_to_end(
        Program(
            service.name,
            host.command_as(site.account, [python, directory / "prepare.py"], environment),
            directory / "prepare.log",
            directory=directory,
        ),
        failure=f"service {service.name}: the tables of Rucio could not be created",
        check_interrupt=site.check_interrupt,
        timeout_s=PREPARE_S,
    )
    site.running[settings["database"]].settle()
    new_check = partial(_new_check, running, site, port)
    words: list[str | PurePath] = [
        python,
        "-m",
        "gunicorn",
        "--config",
        directory / "gunicorn.conf.py",
        APPLICATION,
    ]
    site.start(running, words, new_check(), environment)
    running.ready_check = new_check
    begin = host.size(access_log)
    running.counters = lambda: RucioCounters(lambda offset: host.read(access_log, offset), begin)
    running.logs = {"access.log": access_log}
    running.version = versions[0]
    running.configuration = f"# Rucio {versions[0]}, gunicorn {versions[1]}\n{server}\n{text.rstrip()}"
    # The driver verifies the server with the authority in the directory of the URL.
    running.urls = [f"{service.scheme}://{netloc(site.address, port)}{made}"]


def _certificate(running: RunningService, site: Site) -> tuple[tuple[PurePath, PurePath] | None, str]:
    """The files of certificate and key, None without TLS; and the directory of the certificates that were made, empty
    if none were. Raises ServiceError."""
    settings = running.spec.settings
    if settings["security"] == "none":
        return None, ""
    if settings["cert_file"] is not None:
        return (PurePath(settings["cert_file"]), PurePath(settings["key_file"])), ""
    directory = make_credentials(running, site).directory
    return (directory / "host.pem", directory / "host.key"), str(directory)


def environment_python(search: ProgramSearch) -> PurePath:
    """Where the Python of the environment is expected on a host."""
    code, cache = search.output(["sh", "-c", _HOME])
    return PurePath(cache if code == 0 else "/nonexistent") / PLACE / "bin" / "python"


def versions_of(python: PurePath, search: ProgramSearch) -> tuple[str, str] | None:
    """The versions of Rucio and gunicorn in an environment; None if one of them is missing."""
    code, output = search.output([python, "-c", _VERSIONS])
    words = output.split()
    return (words[-2], words[-1]) if code == 0 and len(words) >= 2 else None


def missing_rucio(search: ProgramSearch, python: PurePath | None = None) -> str:
    """A text that names the missing packages, and the command that installs them."""
    place = f" on {search.host}" if search.host else ""
    python = python or environment_python(search)
    environment = python.parent.parent
    return (
        f"Rucio was not found{place} (the packages rucio and gunicorn for {python}): "
        f"python3 -m venv {environment} && {environment}/bin/pip install {PACKAGES}"
    )


def _new_check(running: RunningService, site: Site, port: int) -> Callable[[], bool]:
    """A check of the readiness: all workers have loaded the application, and one of them has issued a token."""
    log = running.directory / "log"
    begin, workers = site.host.size(log), running.spec.settings["workers"]

    def ready() -> bool:
        try:
            text = site.host.read(log, begin)
        except OSError:
            return False
        is_secure = running.spec.settings["security"] == "tls"
        return text.count(READY.encode()) >= workers and _issues_tokens(site.address, port, is_secure)

    return ready


def _issues_tokens(address: str, port: int, is_secure: bool) -> bool:
    connection: http.client.HTTPConnection
    if is_secure:
        # The readiness of the server is checked, not its certificate: the testers do that.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(address, port, timeout=PROBE_TIMEOUT_S, context=context)
    else:
        connection = http.client.HTTPConnection(address, port, timeout=PROBE_TIMEOUT_S)
    headers = {"X-Rucio-Account": ACCOUNT, "X-Rucio-Username": USER, "X-Rucio-Password": PASSWORD}
    try:
        connection.request("GET", "/auth/userpass", headers=headers)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
