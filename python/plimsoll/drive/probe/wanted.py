"""Derives the visits before an experiment from its resolved runs. Pure.

The outcome on this host is final only if this host measures, and if nothing can start the target later. In
other cases `excuse` states why an unreachable target is only a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from plimsoll.plan.design.filling import Proxies
from plimsoll.plan.model.cell import Config, Endpoint, Generator, Via, Workload
from plimsoll.plan.source.addresses import DEFAULT_PORTS
from plimsoll.plan.source.secret import Secret, revealed
from plimsoll.plan.tiers import proxies_of

SAFE_METHODS: Final = ("GET", "HEAD")
"""Requests that change nothing at the target: only these are sent (RFC 9110, section 9.2.1)."""
_PLACE: Final = re.compile(r"\{\{(\w+)\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
"""A name in double braces, which is written in single braces, or a name that is replaced by a value."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address to which a connection is made."""

    host: str
    port: int

    @property
    def shown(self) -> str:
        """The address as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Tls:
    """Settings of TLS, as in the driver. The probe presents the certificate itself, and no proxy of it."""

    ca_file: str | None
    ca_dir: str | None
    cert: str | None
    key: str | None
    verify: bool


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request that is sent once. `name`: of its operation. `target`: of the request line. `expected`: the
    statuses that the file declares as successful."""

    name: str
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    token_file: str | None
    expected: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Visit:
    """A connection to an endpoint. `proxy`: the proxy through which it leads.
    `excuse`: why a failure does not prevent the experiment; empty if it does."""

    shown: str
    address: Address
    proxy: Address | None = None
    tls: Tls | None = None
    request: HttpRequest | None = None
    excuse: str = ""

    @property
    def is_tunnel(self) -> bool:
        """Whether the proxy only forwards bytes."""
        return self.proxy is not None and self.tls is not None


@dataclass(frozen=True, slots=True)
class ProgramVisit:
    """A program that `exec` starts. `path`: PATH of its environment; None: that of this process."""

    program: str
    path: str | None
    cwd: str | None
    excuse: str = ""


AnyVisit = Visit | ProgramVisit


def visits_of(configs: Iterable[Config]) -> tuple[AnyVisit, ...]:
    """All targets to which the workloads of these runs connect, and programs that they start, each once."""
    visits: dict[AnyVisit, None] = {}
    for config in configs:
        for work in config.workloads:
            visits.update(dict.fromkeys(_of_workload(work, config)))
    return tuple(visits)


def _of_workload(work: Workload, config: Config) -> Iterator[AnyVisit]:
    excuse = _excuse(config)
    match work.driver:
        case "exec":
            if not config.hosts.elsewhere:  # programs on other hosts cannot be checked from here
                yield from _programs(work, excuse)
        case "http" | "frontier":
            yield from _web(work, excuse)
        case "broker" | "catalogue" | "ftp" | "ldap" | "sql" | "tcp":
            for endpoint in work.target.endpoints:
                url = _url(endpoint)
                if url is not None:
                    yield _visit(url, excuse)


def _excuse(config: Config) -> str:
    if config.hosts.elsewhere:
        return "testers run on other hosts, where the result may differ"
    return excuse_here(config)


def excuse_here(config: Config) -> str:
    """Why a target that is down may be up later, as seen from the testers; empty if nothing can start it."""
    if config.before_run:
        return "a command of before_run may change this"
    if any(service.kind == "command" for service in config.services):
        return "a service of kind command may change this"
    return ""


def _url(endpoint: Endpoint) -> SplitResult | None:
    """The URL of an endpoint; None for a service of the experiment, for a file, and if there is no
    address."""
    if endpoint.service is not None or endpoint.url is None:
        return None
    url = urlsplit(endpoint.url.reveal() if isinstance(endpoint.url, Secret) else endpoint.url)
    return url if url.hostname and (url.port or url.scheme in DEFAULT_PORTS) else None


def _address(url: SplitResult) -> Address:
    return Address(url.hostname or "", url.port or DEFAULT_PORTS[url.scheme])


def _visit(url: SplitResult, excuse: str) -> Visit:
    address = _address(url)
    return Visit(f"{url.scheme}://{address.shown}", address, excuse=excuse)


def visit_of(endpoint: Endpoint) -> Visit | None:
    """A connection to the endpoint itself; None if it has no address yet."""
    url = _url(endpoint)
    return None if url is None else _visit(url, "")


def route_to(endpoint: Endpoint, proxies: Proxies) -> Visit | None:
    """A connection to the endpoint through the first of the proxies, if there is one."""
    visit = visit_of(endpoint)
    if visit is None or not proxies or isinstance(proxies[0], Via):
        return visit
    return replace(visit, proxy=_address(urlsplit(revealed(proxies[0]))))


def _web(work: Workload, excuse: str) -> Iterator[Visit]:
    proxies = proxies_of(work)
    named = [proxy for proxy in proxies if not isinstance(proxy, Via)]
    if len(named) < len(proxies):
        return  # the proxy is not started yet
    if work.driver == "frontier" and len(named) + len(work.target.endpoints) > 1:
        excuse = excuse or "the driver fails over"
    routes: list[Address | None] = [_address(urlsplit(revealed(proxy))) for proxy in named]
    for endpoint in work.target.endpoints:
        url = _url(endpoint)
        if url is None:
            continue
        tls = _tls(work.settings.get("tls")) if url.scheme == "https" else None
        for proxy in routes or [None]:
            request = _request(work, endpoint, url, proxy) if work.driver == "http" else None
            address = _address(url)
            shown = f"{url.scheme}://{address.shown}{'' if url.path == '/' else url.path}"
            yield Visit(shown, address, proxy, tls, request, excuse)


def _tls(settings: Mapping[str, Any] | None) -> Tls | None:
    return Tls(**{key: settings[key] for key in Tls.__slots__}) if settings else None


def _request(
    work: Workload, endpoint: Endpoint, url: SplitResult, proxy: Address | None
) -> HttpRequest | None:
    """The first of the workload's requests that changes nothing, as the driver would send it."""
    for operation in work.operations:
        request: Mapping[str, Any] = revealed(dict(operation.request))
        bodies = request["body"] is not None or request["body_file"] is not None
        values = {name: _first(generator) for name, generator in work.values.items()}
        method = _filled(str(request["method"]), values)
        if method not in SAFE_METHODS or bodies:
            continue
        values |= {"tester": "0", "n": "0", "endpoint": endpoint.name, "now_us": "0"}
        headers = [(name, _filled(str(text), values)) for name, text in request["headers"]]
        given_names = {name.lower() for name, _ in headers}
        defaults = {"Host": url.netloc.rpartition("@")[2], "User-Agent": "plimsoll", "Accept": "*/*"}
        defaults["Connection"] = "close"
        headers = [
            (name, text) for name, text in defaults.items() if name.lower() not in given_names
        ] + headers
        target = _path(url, _filled(str(request["path"]), values))
        if proxy is not None and url.scheme == "http":
            target = f"http://{url.netloc}{target}"
        token = work.settings["token_file"]
        by_default = operation.name == f"{method} /" and url.path not in ("", "/")
        return HttpRequest(
            method if by_default else operation.name,
            method,
            target,
            tuple(headers),
            token,
            tuple(request["expect"]["status"]),
        )
    return None


def _path(url: SplitResult, path: str) -> str:
    """Joins the paths as the driver does: the path of the URL precedes that of the request. A request path
    "/" adds nothing to it."""
    base = "" if url.path == "/" else url.path
    if url.query:
        base = f"{url.path or '/'}?{url.query}"
    if path == "/" and base:
        return base
    if path.startswith("/"):
        base = base.removesuffix("/")
    joined = base + path
    return joined if joined.startswith("/") else f"/{joined}"


def _first(values: Generator) -> str:
    match values.kind:
        case "uniform":
            return str(values.low)
        case "zipf":
            return "1"
        case "recorded":
            return values.items[values.sequence[0]] if values.sequence else ""
        case "list" | "weighted":
            return values.items[0] if values.items else ""


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda at: f"{{{at[1]}}}" if at[1] else values.get(at[2], at[0]), text)


def _programs(work: Workload, excuse: str) -> Iterator[ProgramVisit]:
    environment = revealed(dict(work.settings["env"]))
    for operation in work.operations:
        program = str(revealed(operation.request["command"][0]))
        if not _PLACE.search(program):
            yield ProgramVisit(program, environment.get("PATH"), work.settings["cwd"], excuse)
