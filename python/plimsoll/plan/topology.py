"""The topology of an experiment: who sends requests to whom, on which hosts, over which links. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from plimsoll.plan.links import describe_levels
from plimsoll.plan.model.cell import Config, Service, Via, Workload
from plimsoll.plan.model.hosts import LOCAL, Host
from plimsoll.plan.model.links import Link
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.tiers import proxies_of

Role = Literal["testers", "service", "system"]
"""`system`: an existing system, which Plimsoll did not start."""
MAX_TESTER_SITES: Final = 6
"""Sites of one workload that have a component of their own; the others are one component together."""


@dataclass(frozen=True, slots=True)
class Component:
    """Testers of a workload at one site, a service, or an existing system. `name`: as in metrics, unique; `kind`: of
    the service; `place`: its hosts, empty for the host of the lab; `tier`: 0 for testers, otherwise one more than the
    highest tier of the components that send requests to it."""

    name: str
    role: Role
    kind: str
    place: str
    tier: int


@dataclass(frozen=True, slots=True)
class Connection:
    """Requests from one component to another. `link`: name and properties of the link of the testbed on the path, empty
    if there is none. A round trip or rate that differs between cells is a range."""

    source: str
    to: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class Topology:
    """The components by tier, in the order of the file within a tier, and their connections."""

    components: tuple[Component, ...]
    connections: tuple[Connection, ...]

    def to_json(self) -> dict[str, Any]:
        """As in plan.json."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Topology:
        """The topology of a plan.json. Raises TypeError or KeyError if it is malformed."""
        return cls(
            tuple(Component(**each) for each in document["components"]),
            tuple(Connection(**each) for each in document["connections"]),
        )


@dataclass(frozen=True, slots=True)
class _Draft:
    """A component before its tier is known. `site`: of its host, None for the host of the lab."""

    name: str
    role: Role
    kind: str
    place: str
    site: str | None


def topology(config: Config, others: Sequence[Config] = ()) -> Topology:
    """The topology of a cell. `others`: further cells, in which links may have other properties."""
    links: dict[str, list[Link]] = {}
    for cell in (config, *others):
        for link in cell.hosts.links:
            links.setdefault(link.name, []).append(link)
    drafts: dict[str, _Draft] = {}
    pairs: dict[tuple[str, str], None] = {}
    for work in config.workloads:
        for draft in _testers(work, config):
            drafts[draft.name] = draft
            for first in _entries(work, drafts):
                pairs[draft.name, first] = None
        for proxy in _proxies(work):
            for endpoint in _endpoints(work):
                pairs[proxy, endpoint] = None
    for service in config.services:
        drafts[service.name] = _service(service, config)
        for need in _sends_to(service):
            pairs[service.name, need] = None
    tiers = _tiers(drafts, pairs)
    components = tuple(
        Component(draft.name, draft.role, draft.kind, draft.place, tiers[draft.name])
        for draft in sorted(drafts.values(), key=lambda draft: tiers[draft.name])
    )
    connections = tuple(
        Connection(source, to, _link(drafts[source], drafts[to], config, links))
        for source, to in pairs
        if to in drafts
    )
    return Topology(components, connections)


def _testers(work: Workload, config: Config) -> Iterator[_Draft]:
    """The testers of a workload, by site."""
    name = "testers" if len(config.workloads) == 1 else f"testers of {work.name}"
    hosts = config.hosts
    if not hosts.named or not hosts.hosts:
        place = "" if not hosts.elsewhere else f"{hosts.kind} hosts"
        yield _Draft(name, "testers", "", place, None)
        return
    sites = [site for site in hosts.sites if not work.sites or site in work.sites]
    shown = sites if len(sites) <= MAX_TESTER_SITES else sites[: MAX_TESTER_SITES - 1]
    for site in shown:
        of_site = [host for host in hosts.hosts if host.site == site]
        single = len(sites) == 1
        yield _Draft(name if single else f"{name} at {site}", "testers", "", _hosts_text(of_site), site)
    if len(shown) < len(sites):
        rest = [host for host in hosts.hosts if host.site in sites[len(shown) :]]
        place = f"{len(rest)} hosts at {len(sites) - len(shown)} sites"
        yield _Draft(f"{name} at other sites", "testers", "", place, None)


def _hosts_text(hosts: list[Host]) -> str:
    if len(hosts) == 1:
        return "" if hosts[0].name == LOCAL else f"host {hosts[0].name}"
    return f"{len(hosts)} hosts, {hosts[0].name} to {hosts[-1].name}"


def _entries(work: Workload, drafts: dict[str, _Draft]) -> Iterable[str]:
    """What the testers connect to: the proxies, otherwise the endpoints. Adds existing systems to `drafts`."""
    for system in (*_proxies(work), *_endpoints(work)):
        drafts.setdefault(system, _Draft(system, "system", "", "", None))
    return _proxies(work) or _endpoints(work)


def _proxies(work: Workload) -> list[str]:
    return [proxy.service if isinstance(proxy, Via) else _host_of(proxy) for proxy in proxies_of(work)]


def _endpoints(work: Workload) -> list[str]:
    return [
        endpoint.service or _shown_name(endpoint.name, endpoint.url)
        for endpoint in work.target.endpoints
        if endpoint.service or not str(endpoint.url).endswith(":") or isinstance(endpoint.url, Secret)
    ]


def _shown_name(name: str, url: str | Secret | None) -> str:
    return name or _host_of(url or "")


def _host_of(url: str | Secret) -> str:
    return "a server" if isinstance(url, Secret) else urlsplit(url).netloc.rpartition("@")[2] or "a server"


def _service(service: Service, config: Config) -> _Draft:
    placed = config.service_hosts.hosts if config.service_hosts is not None else ()
    host = next((host for host in placed if host.name == service.host), None)
    if host is None:
        return _Draft(service.name, "service", service.kind, "", None)
    return _Draft(service.name, "service", service.kind, f"host {host.name}", host.site)


def _sends_to(service: Service) -> tuple[str, ...]:
    """The services to which it sends requests. A cache with parents does not send them to its origin."""
    parents = tuple(service.settings.get("parents") or ())
    if parents:
        return parents
    siblings = set(service.settings.get("siblings") or ())
    return tuple(need for need in service.needs if need not in siblings)


def _tiers(drafts: dict[str, _Draft], pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The longest path from the testers to each component. Connections contain no circle: a service needs only services
    above it in the file."""
    tiers = {name: 0 if draft.role == "testers" else 1 for name, draft in drafts.items()}
    for _ in drafts:
        for source, to in pairs:
            if to in tiers:
                tiers[to] = max(tiers[to], tiers[source] + 1)
    return tiers


def _link(source: _Draft, to: _Draft, config: Config, levels: Mapping[str, Sequence[Link]]) -> str:
    """The links between the sites of two components: the direct one, otherwise those over the lab's site. `levels`:
    each link by name, as it is in the cells."""
    hosts = config.hosts
    if not hosts.links:
        return ""
    one, other = (draft.site or hosts.lab_site for draft in (source, to))
    if one == other:
        return ""
    by_sites = {frozenset((link.first, link.second)): link for link in hosts.links}
    direct = by_sites.get(frozenset((one, other)))
    path = [direct] if direct else [by_sites.get(frozenset((site, hosts.lab_site))) for site in (one, other)]
    words = (describe_levels(levels[link.name]) for link in path if link is not None)
    return ", then ".join(each.removeprefix("link ") for each in words)
