"""What agents try before the first run: a short run of the engine that connects to each target once from each host.

It finds what only the hosts of the testers can know (names, routes, firewalls, trust), and what only the driver can do
(the login to a database). Pure, but for `read`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from plimsoll.drive.probe.wanted import SAFE_METHODS, Visit, visit_of, way_to
from plimsoll.plan.design.filling import Proxies
from plimsoll.plan.hosts.spread import Place, carriers
from plimsoll.plan.model import (
    Closed,
    Config,
    Endpoint,
    Fixed,
    OnError,
    Operation,
    RunSettings,
    Target,
    Via,
    Workload,
)

LIMIT_NS: Final = 5_000_000_000
"""For everything of one connection."""
AT_ONCE: Final = 32
_SETTINGS: Final = RunSettings(0, LIMIT_NS + 1_000_000_000, 1, None, 1_000_000_000, 0, "all", 0)
_CONNECT_ONLY: Final = Operation("connect", 1.0, {"send": "", "expect": {"kind": "bytes", "count": 0}})
_HOSTS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """One connection to be tried from each host that carries `work`."""

    visit: Visit
    work: Workload


@dataclass(frozen=True, slots=True)
class Tried:
    """The outcome and code of a trial from one agent (`plimsoll_model::Outcome`)."""

    trial: Trial
    agent: str
    outcome: str
    code: str


def trials(config: Config) -> tuple[Trial, ...]:
    """Those of a run. The lab has looked at everything but the login to databases where testers run on its own host."""
    found: dict[Visit, Trial] = {}
    for work in config.workloads:
        for one in _of_workload(work, config):
            found.setdefault(one.visit, one)
    return tuple(found.values())


def _of_workload(work: Workload, config: Config) -> Iterator[Trial]:
    if work.driver == "sql":
        for endpoint in work.target.endpoints:
            if (visit := visit_of(endpoint)) is not None:
                yield Trial(visit, _login(work, endpoint))
    elif config.hosts.elsewhere:
        for endpoint, proxies in _routes(work):
            visit = way_to(endpoint, proxies)
            if visit is not None:
                yield Trial(visit, _connection(work, endpoint, proxies, visit))


def _routes(work: Workload) -> Iterator[tuple[Endpoint, Proxies]]:
    if work.driver not in ("http", "frontier", "tcp"):
        return
    proxies = tuple(work.target.proxies or work.settings.get("proxies", ()))
    if any(isinstance(one, Via) for one in proxies):
        return  # the way there is not up yet
    if work.driver == "frontier" and len(proxies) + len(work.target.endpoints) > 1:
        return  # the driver fails over
    for endpoint in work.target.endpoints:
        for one in proxies or (None,):
            yield endpoint, () if one is None else (one,)


def _login(work: Workload, endpoint: Endpoint) -> Workload:
    asked = Operation("login", 1.0, {"query": "SELECT 1", "version": None})
    return _once(work, Target(work.target.name, (endpoint,)), asked, work.settings)


def _connection(work: Workload, endpoint: Endpoint, proxies: Proxies, visit: Visit) -> Workload:
    """A request where one changes nothing; else a connection."""
    safe = next((one for one in work.operations if _is_safe(work, one)), None)
    if safe is not None:
        settings = {**work.settings, "proxies": list(proxies)}
        target = Target(work.target.name, (endpoint,), proxies=proxies)
        return _once(work, target, replace(safe, weight=1.0, first=0), settings)
    url = f"tcp://{(visit.proxy or visit.address).shown}"
    target = Target(work.target.name, (Endpoint(endpoint.name, url, None),))
    return _once(replace(work, driver="tcp"), target, _CONNECT_ONLY, {"connection": "per-request"})


def _is_safe(work: Workload, operation: Operation) -> bool:
    asked = operation.request
    return (
        work.driver == "http"
        and asked["method"] in SAFE_METHODS
        and asked["body"] is None
        and asked["body_file"] is None
    )


def _once(work: Workload, target: Target, operation: Operation, settings: Mapping[str, Any]) -> Workload:
    return replace(
        work,
        target=target,
        timeout_ns=min(work.timeout_ns, LIMIT_NS) or LIMIT_NS,
        on_error=OnError(),
        settings=settings,
        operations=(operation,),
        load=Closed(1, Fixed(0)),
    )


def runs(
    config: Config, wanted: Sequence[Trial], agents: Sequence[Place]
) -> Iterator[tuple[Config, dict[str, Trial]]]:
    """Runs that try them, with the trial of each workload: one tester on each agent that carries it."""
    for start in range(0, len(wanted), AT_ONCE):
        named = {f"probe-{number}": one for number, one in enumerate(wanted[start : start + AT_ONCE], 1)}
        works = tuple(
            replace(one.work, name=name, load=Closed(max(1, len(carriers(one.work, agents))), Fixed(0)))
            for name, one in named.items()
        )
        yield (
            replace(config, workloads=works, run=_SETTINGS, ceiling=(), before_run=(), after_run=()),
            named,
        )


def read(transactions: Path, named: Mapping[str, Trial]) -> list[Tried]:
    """What came of them."""
    import pyarrow.parquet as pq  # takes a third of a second, and most experiments have no trials

    rows = pq.read_table(transactions, columns=["agent", "workload", "outcome", "code"]).to_pylist()
    return [Tried(named[row["workload"]], row["agent"], row["outcome"], row["code"] or "") for row in rows]


def failures(tried: Iterable[Tried], hosts: Mapping[str, str], notes: Sequence[str]) -> list[str]:
    """A line for each target that cannot be measured from some host. `hosts`: by agent; `notes`: of the driver, such as
    the words of a database."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in tried:
        why = _why(one)
        if why is not None:
            found.setdefault((_shown(one.trial.visit), why), []).append(hosts.get(one.agent, ""))
    said = f" ({'; '.join(dict.fromkeys(notes))})" if notes else ""
    return [f"{shown}: {_from(names)}{why}{said}" for (shown, why), names in found.items()]


def _shown(visit: Visit) -> str:
    return visit.shown if visit.proxy is None else f"{visit.shown} through the proxy {visit.proxy.shown}"


def _why(one: Tried) -> str | None:
    """None where the driver can measure the target, whatever that answers."""
    if one.code.startswith("tls "):
        return f"the TLS handshake failed: {one.code.removeprefix('tls ')}"
    if one.outcome == "timeout" and one.code == "timeout connect":
        return f"no connection within {LIMIT_NS // 1_000_000_000} s; check the route and the firewall"
    if one.outcome != "refused":
        return None
    if one.trial.work.driver == "sql" and one.code not in ("refused", "unreachable"):
        return f"login failed: {one.code}; check user, password and database"
    return f"no connection: {one.code}; check the address, and that the service runs"


def _from(hosts: Sequence[str]) -> str:
    names = [name for name in dict.fromkeys(hosts) if name]
    if not names:
        return ""
    more = len(names) - _HOSTS_SHOWN
    return f"from {', '.join(names[:_HOSTS_SHOWN])}{f' and {more} more hosts' if more > 0 else ''}: "
