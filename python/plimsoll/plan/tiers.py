"""The tiers of an experiment: for each service that counts its requests, who sends them.

A tier is left out if one of its clients sends an unknown number of requests: a program, a cache next to it, a gateway
that purges objects. A comparison that is not correct is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from plimsoll.plan.model.cell import Config, Service, Via, WatchedExporter, Workload
from plimsoll.plan.services.section import SentBytes
from plimsoll.plan.services.table import SERVICE_KINDS

COUNTED_DRIVERS: Final = {
    "broker": "http",
    "catalogue": "catalogue",
    "http": "http",
    "frontier": "http",
    "ftp": "ftp",
    "ldap": "ldap",
    "sql": "sql",
}
"""Drivers whose transactions consist of a known number of requests, with what they send. A broker counts requests of
its binary protocol as those over HTTP."""
_PROTOCOLS: Final = {"catalogue": "catalogue", "gridftp": "ftp", "rucio": "catalogue", "slapd": "ldap"}
"""Kinds of services that are neither databases nor speak HTTP, with what is sent to them, as in `COUNTED_DRIVERS`."""
UNKNOWN_CLIENTS: Final = ("exec", "replay")
"""Drivers whose programs may send requests to any service."""
WATCHED_COUNTER: Final = "client_http.requests"
"""The counter of requests of a watched Squid."""
_CHANGES_COUNT: Final = (
    "proxy_cache",
    "proxy_store",
    "proxy_next_upstream",
    "limit_",
    "mirror",
    "auth_request",
)
"""Directives with which nginx sends more or fewer requests to its origin than it receives."""
_SELECT: Final = re.compile(r"\s*\(*\s*(select|with)\b[^;]*;?\s*", re.IGNORECASE)
"""A query that databases count as one SELECT."""
_PLACE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A query that is replaced by a value."""
_COUNTERS: Final = "/plimsoll/"
"""Paths at which Plimsoll's services return their counters, without counting these requests."""
_OF_LAST_MODIFIED: Final = ("last_modified_table", "validate_last_modified", "invalidation")
"""Settings with which a gateway sends queries of its own."""


@dataclass(frozen=True, slots=True)
class TesterRequests:
    """Requests of testers: `each` requests in each transaction of a workload at these endpoints. `is_whole`: the
    workload has no others."""

    workload: str
    endpoints: tuple[str, ...]
    each: int = 1
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class ServiceRequests:
    """Requests that a service sends, by its own counter. `errors`: the counter of those that may not have been counted
    behind it; `sessions`: the counter of the receiver's connections, each of which may begin with a request that
    `counter` lacks. Empty: there is none."""

    service: str
    counter: str
    errors: str = ""
    sessions: str = ""


@dataclass(frozen=True, slots=True)
class Tier:
    """A service, the counter of its requests, and all clients that are known. `through`: what is between and does not
    count, from the clients on: names of services, or URLs of proxies. `is_watched`: Plimsoll did not start it, so it
    may have other clients. `sent_bytes`: its counter of bytes, if all its clients are testers that record the same.
    `others`: further services of the tier, whose counts are added: a balancer counts only all of its requests."""

    service: str
    counter: str
    testers: tuple[TesterRequests, ...] = ()
    services: tuple[ServiceRequests, ...] = ()
    through: tuple[str, ...] = ()
    is_watched: bool = False
    sent_bytes: SentBytes | None = None
    others: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The entry of run.json."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Client:
    """A known client of a service, and what is between the two."""

    requests: TesterRequests | ServiceRequests
    through: tuple[str, ...] = ()


_Clients = list[_Client] | None
"""All clients of a service; None: there is one whose number of requests is not known."""


def tiers_of(config: Config) -> tuple[Tier, ...]:
    """The tiers whose counts can be compared with those of the tier before, the services that start last first: that is
    the order from the testers on."""
    if any(action.hook is not None for action in config.actions):
        return ()  # its command may send requests to any service
    return (*_started(config), *_watched(config))


def _started(config: Config) -> Iterator[Tier]:
    for service in reversed(config.services):
        yield from _alone(service, config)
        yield from _balanced(service, config)


def _alone(service: Service, config: Config) -> Iterator[Tier]:
    """The tier of one service."""
    counter = _arrival_counter(service)
    clients = _clients(service, config) if counter is not None else None
    if counter is not None and clients:
        testers = tuple(client.requests for client in clients if isinstance(client.requests, TesterRequests))
        services = tuple(
            client.requests for client in clients if isinstance(client.requests, ServiceRequests)
        )
        through = tuple(dict.fromkeys(name for client in clients for name in client.through))
        is_direct = not services and not through and all(part.each == 1 for part in testers)
        is_read = not any(map(_uploads, config.workloads))
        sent_bytes = SERVICE_KINDS[service.kind].sent_bytes if is_direct and is_read else None
        yield Tier(service.name, counter, testers, services, through, sent_bytes=sent_bytes)


def _balanced(balancer: Service, config: Config) -> Iterator[Tier]:
    """The tier of equal services behind a balancer, which is the only client of each of them."""
    names: list[str] = balancer.settings["origins"] if balancer.kind == "nginx" else []
    origins = [config.service(name) for name in names]
    counter = _arrival_counter(origins[0]) if len({origin.kind for origin in origins}) == 1 else None
    if len(origins) < 2 or counter is None or _changes_count(balancer):
        return
    if all(_clients(origin, config, besides=balancer) == [] for origin in origins):
        senders = tuple(
            client.requests
            for client in _forwards(balancer) or ()
            if isinstance(client.requests, ServiceRequests)
        )
        yield Tier(names[0], counter, services=senders, others=tuple(names[1:]))


def _arrival_counter(service: Service) -> str | None:
    return SERVICE_KINDS[service.kind].arrival_counter if service.scheme != "tcp" else None


def _watched(config: Config) -> Iterator[Tier]:
    for exporter in config.watched:
        users = [work for work in config.workloads if exporter in work.target.watch]
        if exporter.kind != "squid" or not all(_is_only_address(exporter, work) for work in users):
            continue
        testers = tuple(_all_requests(work) for work in users)
        yield Tier(exporter.name, WATCHED_COUNTER, testers, is_watched=True)


def _is_only_address(exporter: WatchedExporter, work: Workload) -> bool:
    """Whether the requests of a workload have only one first receiver, so that it is the watched cache."""
    first = proxies_of(work) or work.target.endpoints
    return COUNTED_DRIVERS.get(work.driver) == "http" and _has_one_way(work) and len(first) == 1


def _has_one_way(work: Workload) -> bool:
    """Whether each request goes to the endpoint of its transaction, through at most one proxy."""
    return work.settings.get("failover") != "client" and len(proxies_of(work)) < 2


def _is_counted(work: Workload) -> bool:
    """Whether services count the requests of a workload: not those for their counters, only SELECT statements, no
    searches by pages, whose number depends on the entries, one call of a catalogue for each transaction, and the same
    number of files in each."""
    if any(operation.request.get("page_size") for operation in work.operations):
        return False
    if work.driver == "catalogue" and not _is_one_call(work):
        return False
    if len(_numbers_of_files(work)) > 1:
        return False
    paths = [operation.request.get("path") for operation in work.operations]
    return has_only_selects(work) and not any(str(path).startswith(_COUNTERS) for path in paths)


def _uploads(work: Workload) -> bool:
    """Whether the payload of a workload contains bytes that the service receives."""
    return any(operation.request.get("transfer") == "upload" for operation in work.operations)


def has_only_selects(work: Workload) -> bool:
    """Whether the queries of a workload, if it has any, are single SELECT statements."""
    texts: list[Any] = []
    for operation in work.operations:
        request = operation.request
        texts += [request["query"]] if "query" in request else list(request.get("queries") or ())
    return all(isinstance(text, str) and _SELECT.fullmatch(text) for text in _whole(texts, work))


def _whole(texts: Iterable[Any], work: Workload) -> Iterator[Any]:
    """The queries. One that consists of a place is each item of its list: `repeat` sends earlier queries again."""
    for text in texts:
        place = _PLACE.fullmatch(text) if isinstance(text, str) else None
        values = work.values.get(place[1]) if place is not None else None
        if values is not None and values.kind == "list":
            yield from values.items
        else:
            yield text


def proxies_of(work: Workload) -> tuple[Any, ...]:
    """The proxies of a workload: those of its target, else that of its section."""
    own = work.settings.get("proxies")
    return tuple(work.target.proxies or (own if isinstance(own, list) else ()))


def _all_requests(work: Workload) -> TesterRequests:
    return _requests(work, (endpoint.name for endpoint in work.target.endpoints))


def _requests(work: Workload, endpoints: Iterable[str]) -> TesterRequests:
    chatter = work.settings.get("chatter")
    before = chatter["requests"] if isinstance(chatter, dict) else 0
    names = tuple(endpoints)
    each = max(_numbers_of_files(work), default=1) + int(before)
    return TesterRequests(work.name, names, each, len(names) == len(work.target.endpoints))


def _numbers_of_files(work: Workload) -> set[int]:
    """How many files a transaction of the driver `ftp` transfers; empty for other drivers."""
    lists = (operation.request.get("paths") for operation in work.operations if work.driver == "ftp")
    return {len(paths) for paths in lists if isinstance(paths, (list, tuple))}


def _clients(service: Service, config: Config, besides: Service | None = None) -> _Clients:
    """The clients of a service, without `besides`."""
    found: list[_Client] = []
    sources = (_testers(service, work, config) for work in config.workloads)
    senders = (
        _sent_by(other, service, config)
        for other in config.services
        if service.name in other.needs and other is not besides
    )
    for clients in (*sources, *senders, _purges(service, config)):
        if clients is None:
            return None
        found += clients
    return found


def _purges(service: Service, config: Config) -> _Clients:
    """The requests with which gateways purge objects of a cache are as many as there are changes and failures."""
    for other in config.services:
        invalidation = other.settings.get("invalidation")
        if isinstance(invalidation, dict) and service.name in invalidation["caches"]:
            return None
    return []


def _is_one_call(work: Workload) -> bool:
    """Whether each transaction of the driver `catalogue` is one request, and none prepares or verifies it."""
    settings = work.settings
    names = {operation.request["operation"] for operation in work.operations}
    verified = settings["verify"] > 0 and "insert" in names
    made_before = any(operation.request["by"] == "link" for operation in work.operations)
    single = names <= {"query", "insert", "forbidden", "get-acl"} and not verified and not made_before
    return single and settings["round_trips"] == "one" and not settings["transactions"]


def _testers(service: Service, work: Workload, config: Config) -> _Clients:
    """The requests of a workload to a service: directly, or through proxies that do not count."""
    if work.driver in UNKNOWN_CLIENTS:
        return None
    proxies = proxies_of(work)
    proxy = proxies[0] if len(proxies) == 1 else None
    own = [endpoint.name for endpoint in work.target.endpoints if endpoint.service == service.name]
    is_proxy = Via(service.name) in proxies
    if not own and not is_proxy:
        return []
    if (
        COUNTED_DRIVERS.get(work.driver) != _received(service)
        or not _has_one_way(work)
        or not _is_counted(work)
    ):
        return None
    if is_proxy:
        return [_Client(_all_requests(work))]
    if not isinstance(proxy, Via):
        return [_Client(_requests(work, own), () if proxy is None else ("the proxy of the target",))]
    between = config.service(proxy.service)
    if service.name in between.needs:
        return []  # the requests are among those that the proxy sends
    if between.kind == "command":
        return [_Client(_requests(work, own), (between.name,))]
    return _behind_forward_proxy(between, service, config)


def _received(service: Service) -> str:
    """What the requests to a service are, as in `COUNTED_DRIVERS`."""
    if (protocol := _PROTOCOLS.get(service.kind)) is not None:
        return protocol
    return "http" if service.database_kind is None else "sql"


def _behind_forward_proxy(proxy: Service, service: Service, config: Config) -> _Clients:
    """The requests of a forward proxy that counts what it sends, if it sends all to one service. Each workload that
    uses the proxy would return them: only the first does."""
    counter = SERVICE_KINDS[proxy.kind].forward_counter
    users = [work for work in config.workloads if Via(proxy.name) in proxies_of(work)]
    receivers = {endpoint.service for work in users for endpoint in work.target.endpoints}
    if counter is None or receivers != {service.name} or proxy.needs or len(users) > 1:
        return None
    return [_Client(ServiceRequests(proxy.name, counter))]


def _sent_by(other: Service, service: Service, config: Config) -> _Clients:
    """The requests that another service sends to this one."""
    settings = other.settings
    match other.kind:
        case "command":
            return _forwarded(other, service, config)
        case "squid":
            parents, siblings = list(settings["parents"]), settings["siblings"]
            receivers = parents or [settings["origin"]]
            if siblings or len(receivers) > 1:
                return None
            # A cache with parents does not connect to the origin itself.
            return _forwards(other) if receivers == [service.name] else []
        case "nginx":
            # It counts the requests to all of its origins together (`_balanced`).
            return None if _changes_count(other) or len(settings["origins"]) > 1 else _forwards(other)
        case "frontier" if not any(settings.get(key) for key in _OF_LAST_MODIFIED):
            readers = [work for work in config.workloads if work.driver == "frontier"]
            if not all(map(has_only_selects, readers)):
                return None
            # The gateway asks a MariaDB for the number of each new session, to be able to cancel its queries.
            sessions = "Connections" if service.database_kind == "mariadb" else ""
            return _forwards(other, "database_errors", sessions)
        case "broker":
            # Decision points do not count the exchanges with others.
            return _forwards(other) if service.kind == "grid" else []
        case "postgres":
            return []  # a replica reads the write-ahead log, which is no statement
        case _:
            return None


def _changes_count(nginx: Service) -> bool:
    """Whether it sends more or fewer requests than it receives."""
    return any(line.lstrip().startswith(_CHANGES_COUNT) for line in nginx.settings["settings"])


def _forwards(other: Service, errors: str = "", sessions: str = "") -> _Clients:
    counter = SERVICE_KINDS[other.kind].forward_counter
    return None if counter is None else [_Client(ServiceRequests(other.name, counter, errors, sessions))]


def _forwarded(other: Service, service: Service, config: Config) -> _Clients:
    """The clients of a program that knows the address of one service: it is taken to be a proxy, which sends each
    request on. A program that no known client addresses sends requests of its own."""
    if len(other.needs) != 1 or not (other.scheme == service.scheme == "http"):
        return None
    clients = _clients(other, config)
    if not clients:
        return None
    return [_Client(client.requests, (*client.through, other.name)) for client in clients]
