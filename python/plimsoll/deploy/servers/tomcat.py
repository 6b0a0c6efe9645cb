"""`kind: tomcat`: an Apache Tomcat with a web application of the user."""

from __future__ import annotations

import http.client
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Final

from plimsoll.deploy.counters.tomcat import TomcatCounters, is_status_available
from plimsoll.deploy.ports import LOOPBACK, netloc
from plimsoll.deploy.process import Program
from plimsoll.deploy.programs import ProgramSearch, version_of
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.java import java_program, tomcat_home
from plimsoll.deploy.servers.tomcat_files import (
    LOADER,
    LOGGING,
    SCAN,
    STATUS_RULES,
    STATUS_XML,
    WEB_XML,
    Addresses,
    Layout,
    context_xml,
    properties_text,
    server_xml,
)
from plimsoll.errors import ServiceError
from plimsoll.plan.services.filled import with_addresses
from plimsoll.plan.source.secret import hidden, revealed

COPY_S: Final = 120.0
"""The maximum time to copy the web application."""
PROBE_TIMEOUT_S: Final = 10.0
"""A servlet may connect to its database at its first request."""
OPENED: Final = (
    *("java.lang", "java.io", "java.util", "java.util.concurrent"),
    "java.rmi/sun.rmi.transport",
)
"""Packages that Tomcat's own scripts open to it."""
_COPY: Final = (
    'target=$1; owner=$2; shift 2; cp -rL -- "$@" "$target" && chmod -R u+rwX,go+rX "$target" && '
    '{ [ -z "$owner" ] || chown -R "$owner" "$target"; }'
)
"""Copies files or a directory, so that the account of the server can read them wherever the user keeps them."""
_FAILED: Final = re.compile(
    rb"Context \[[^]]*\] startup failed|Error deploying (?:deployment|web application)"
)
"""What Tomcat logs if it continues without the web application."""


def start_tomcat(running: RunningService, site: Site) -> None:
    """Copies the web application, writes the configuration and starts Tomcat. Raises ServiceError."""
    service, settings, host = running.spec, running.spec.settings, site.host
    java = java_program(service.name, settings["java"], host.programs)
    home = settings["home"]
    layout = Layout(
        PurePath(home) if home else tomcat_home(service.name, host.programs), running.directory / "tomcat"
    )
    _check_readable(running, site, layout.home)
    urls = {other: site.addresses[other][0] for other in service.needs}
    addresses = _addresses(site)
    _make_base(running, site, layout)
    properties = {key: with_addresses(text, urls) for key, text in revealed(settings["properties"]).items()}
    server = server_xml(settings, layout, addresses)
    resources = [with_addresses(line, urls) for line in settings["resources"]]
    for path, text in (
        ("conf/server.xml", server),
        ("conf/web.xml", WEB_XML),
        ("conf/Catalina/localhost/context.xml.default", context_xml(resources)),
        ("conf/logging.properties", LOGGING),
        ("status/WEB-INF/web.xml", STATUS_XML),
        ("status/WEB-INF/rewrite.config", STATUS_RULES),
    ):
        host.write(layout.base / path, text, mode=0o644)
    host.write(
        layout.base / "conf/catalina.properties",
        properties_text({"common.loader": LOADER, **SCAN, **properties}),
        mode=0o600,  # it may contain secrets, which a command line must not
        owner=site.account,
    )
    options = [with_addresses(option, urls) for option in settings["java_options"]]
    command = command_line(java, layout, settings["heap"], options)
    environment = {name: with_addresses(value, urls) for name, value in settings["env"].items()}
    _start(running, site, command, addresses, environment)
    _describe(running, site, layout, java)
    running.configuration += "\n".join(
        [
            " ".join(str(word) for word in command),
            *(f"{name}={value}" for name, value in environment.items()),
            *(
                f"{name}={with_addresses(text, urls)}"
                for name, text in hidden(settings["properties"]).items()
            ),
            *resources,
            server.rstrip(),
        ]
    )
    running.urls = [f"http://{netloc(site.address, addresses.clients[1])}"]
    running.logs = {"access.log": layout.base / "logs/access.log"} if settings["log"] else {}


def _check_readable(running: RunningService, site: Site, home: PurePath) -> None:
    """Raises ServiceError if the account of the server cannot read Tomcat: its archive, unpacked by root, cannot be
    read by others."""
    for file in (home / "bin/bootstrap.jar", home / "lib/catalina.jar"):
        test = site.host.command_as(site.account, ["test", "-r", file], {})
        if site.host.programs.output(test)[0] != 0:
            raise ServiceError(
                f"service {running.spec.name}: {file} does not exist, or {site.account.name} cannot read it: "
                f"expected the directory of a Tomcat; run `chmod -R a+rX {home}` if it is one"
            )


def _addresses(site: Site) -> Addresses:
    host = site.host
    port = host.free_port(address=site.listen)
    address = LOOPBACK if host.is_here else site.listen
    status = host.free_port(address=address)
    while status == port:
        status = host.free_port(address=address)
    return Addresses(
        (site.listen, port), (address, status), () if host.is_here else ("127.0.0.1", *site.administrators)
    )


def _make_base(running: RunningService, site: Site, layout: Layout) -> None:
    """The directories of this Tomcat, with copies of the web application and of the libraries."""
    host, settings = site.host, running.spec.settings
    host.make_directory(layout.base, 0o755, site.account)
    for name in ("conf", "conf/Catalina", "conf/Catalina/localhost", "status", "status/WEB-INF"):
        host.make_directory(layout.base / name)
    for name in ("lib", "logs", "temp", "work", "webapps"):
        host.make_directory(layout.base / name, 0o755, site.account)
    is_directory = host.programs.output(["test", "-d", settings["war"]])[0] == 0
    name = settings["context"].strip("/").replace("/", "#") or "ROOT"  # as Tomcat names the files
    application = layout.base / "webapps" / (name if is_directory else f"{name}.war")
    _copy(running, site, [settings["war"]], application)
    if settings["libraries"]:
        _copy(running, site, settings["libraries"], layout.base / "lib")


def _copy(running: RunningService, site: Site, sources: Sequence[str], target: PurePath) -> None:
    owner = f"{site.account.uid}:{site.account.gid}" if site.account.change else ""
    site.host.run_to_end(
        Program(
            running.spec.name,
            ["sh", "-c", _COPY, "sh", target, owner, *sources],
            running.directory / "copy.log",
            directory=running.directory,
        ),
        failure=f"service {running.spec.name}: {', '.join(sources)} could not be copied for Tomcat",
        check_interrupt=site.check_interrupt,
        timeout_s=COPY_S,
    )


def _start(
    running: RunningService,
    site: Site,
    command: Sequence[str | PurePath],
    addresses: Addresses,
    environment: Mapping[str, str],
) -> None:
    settings, (_, port) = running.spec.settings, addresses.clients
    status_address = LOOPBACK if site.host.is_here else site.address
    status_port = addresses.status[1]
    path = settings["ready"] or settings["context"].rstrip("/") + "/"

    def is_ready() -> bool:
        # The connectors accept requests only after the web application was started.
        if not is_status_available(status_port, status_address):
            return False
        _check_application(running)
        return _is_answering(site.address, port, path, must_succeed=settings["ready"] is not None)

    # Java 17 takes the default encoding of texts from the locale.
    site.start(running, command, is_ready, {"LC_ALL": "C.UTF-8", **environment})
    running.counters = lambda: TomcatCounters(status_port, port, status_address)


def _check_application(running: RunningService) -> None:
    """Raises ServiceError if Tomcat has logged that the web application failed."""
    assert running.process is not None
    try:
        log = running.host.read(running.process.log)
    except OSError:
        return
    if _FAILED.search(log):
        raise ServiceError(
            f"service {running.spec.name}: Tomcat could not start {running.spec.settings['war']}"
            f"{running.process.last_lines()}"
        )


def _is_answering(address: str, port: int, path: str, *, must_succeed: bool) -> bool:
    connection = http.client.HTTPConnection(address, port, timeout=PROBE_TIMEOUT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status < 400 or not must_succeed
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _describe(running: RunningService, site: Site, layout: Layout, java: PurePath) -> None:
    """The versions, and the checksum of the web application: a factor may compare two of them."""
    search, war = site.host.programs, running.spec.settings["war"]
    about = version_of(
        [java, "-cp", layout.home / "lib/catalina.jar", "org.apache.catalina.util.ServerInfo"], search
    )
    tomcat = re.search(r"Apache Tomcat/(\S+)", about)
    jvm = re.search(r"JVM Version:\s*(\S+)", about)
    running.version = tomcat[1] if tomcat else ""
    running.configuration = (
        f"# Tomcat {running.version}, Java {jvm[1] if jvm else 'of unknown version'}\n"
        f"# {war}{_checksum(war, search)}\n"
    )


def _checksum(war: str, search: ProgramSearch) -> str:
    """Empty for a directory."""
    code, output = search.output(["sha256sum", war])
    return f", SHA-256 {output.split()[0].lstrip(chr(92))}" if code == 0 else ""


def command_line(java: PurePath, layout: Layout, heap: int, options: Sequence[str]) -> list[str | PurePath]:
    """The command of Tomcat. Its script `catalina.sh` is not used: a shell would split options, and it reads the
    host's own settings (setenv.sh)."""
    home, base = layout.home, layout.base
    return [
        java,
        f"-Xmx{max(1, heap // 1024)}k",
        "-XX:-UsePerfData",  # otherwise a process that is killed leaves a file in /tmp
        *(f"--add-opens={name if '/' in name else f'java.base/{name}'}=ALL-UNNAMED" for name in OPENED),
        *options,
        "-cp",
        f"{home}/bin/bootstrap.jar:{home}/bin/tomcat-juli.jar",
        "-Djava.util.logging.manager=org.apache.juli.ClassLoaderLogManager",
        f"-Djava.util.logging.config.file={base}/conf/logging.properties",
        f"-Djava.io.tmpdir={base}/temp",
        f"-Dcatalina.home={home}",
        f"-Dcatalina.base={base}",
        "org.apache.catalina.startup.Bootstrap",
        "start",
    ]
