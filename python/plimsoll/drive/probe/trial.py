"""The trials of agents before the first run: a short run of the engine that connects to each target once from
each host.

It checks what only the hosts of the testers can determine (names, routes, firewalls, trust), and what only
the driver can do (the login to a database). Pure, except for `read_results`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from plimsoll.drive.probe.wanted import SAFE_METHODS, Visit, route_to, visit_of
from plimsoll.plan.design.filling import Proxies
from plimsoll.plan.drivers.http_log import LOG_METHOD
from plimsoll.plan.hosts.spread import Place, carriers
from plimsoll.plan.model.cell import (
    ClosedLoad,
    Config,
    Endpoint,
    FixedTime,
    OnError,
    Operation,
    RunSettings,
    Target,
    Via,
    Workload,
)
from plimsoll.plan.tiers import proxies_of

LIMIT_NS: Final = 5_000_000_000
"""The time for one connection, with its request."""
MAX_PARALLEL: Final = 32
_SETTINGS: Final = RunSettings(0, LIMIT_NS + 1_000_000_000, 1, None, 1_000_000_000, 0, "all", 0)
_CONNECT_ONLY: Final = Operation("connect", 1.0, {"send": "", "expect": {"kind": "bytes", "count": 0}})
_HOSTS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """One connection that is tried from each host on which testers of `work` run."""

    visit: Visit
    work: Workload


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The outcome and code of a trial from one agent (`plimsoll_model::Outcome`)."""

    trial: Trial
    agent: str
    outcome: str
    code: str


def trials(config: Config) -> tuple[Trial, ...]:
    """The trials of a run. If testers run on the host of the lab, the lab has checked everything except the
    login to databases."""
    by_visit: dict[Visit, Trial] = {}
    for work in config.workloads:
        for trial in _of_workload(work, config):
            by_visit.setdefault(trial.visit, trial)
    return tuple(by_visit.values())


def _of_workload(work: Workload, config: Config) -> Iterator[Trial]:
    if work.driver == "sql":
        for endpoint in work.target.endpoints:
            if (visit := visit_of(endpoint)) is not None:
                yield Trial(visit, _login(work, endpoint))
    elif config.hosts.elsewhere:
        for endpoint, proxies in _routes(work):
            visit = route_to(endpoint, proxies)
            if visit is not None:
                yield Trial(visit, _connection(work, endpoint, proxies, visit))


def _routes(work: Workload) -> Iterator[tuple[Endpoint, Proxies]]:
    if work.driver not in ("broker", "catalogue", "http", "frontier", "ftp", "ldap", "tcp"):
        return
    proxies = proxies_of(work)
    if any(isinstance(proxy, Via) for proxy in proxies):
        return  # the proxy is not started yet
    if work.driver == "frontier" and len(proxies) + len(work.target.endpoints) > 1:
        return  # the driver fails over
    for endpoint in work.target.endpoints:
        for proxy in proxies or (None,):
            yield endpoint, () if proxy is None else (proxy,)


def _login(work: Workload, endpoint: Endpoint) -> Workload:
    query = Operation("login", 1.0, {"query": "SELECT 1", "version": None})
    return _single_request(work, Target(work.target.name, (endpoint,)), query, work.settings)


def _connection(work: Workload, endpoint: Endpoint, proxies: Proxies, visit: Visit) -> Workload:
    """A request if the workload has one that changes nothing; otherwise a connection."""
    safe = next((operation for operation in work.operations if _is_safe(work, operation)), None)
    if safe is not None:
        settings = {**work.settings, "proxies": list(proxies)}
        target = Target(work.target.name, (endpoint,), proxies=proxies)
        return _single_request(work, target, replace(safe, weight=1.0, first=0), settings)
    url = f"tcp://{(visit.proxy or visit.address).shown}"
    target = Target(work.target.name, (Endpoint(endpoint.name, url, None),))
    return _single_request(replace(work, driver="tcp"), target, _CONNECT_ONLY, {"connection": "per-request"})


def _is_safe(work: Workload, operation: Operation) -> bool:
    request = operation.request
    return (
        work.driver == "http"
        and request["method"] in (*SAFE_METHODS, LOG_METHOD)
        and request["body"] is None
        and request["body_file"] is None
    )


def _single_request(
    work: Workload, target: Target, operation: Operation, settings: Mapping[str, Any]
) -> Workload:
    return replace(
        work,
        target=target,
        timeout_ns=min(work.timeout_ns, LIMIT_NS) or LIMIT_NS,
        on_error=OnError(),
        settings=settings,
        operations=(operation,),
        load=ClosedLoad(1, FixedTime(0)),
    )


def runs(
    config: Config, pending: Sequence[Trial], agents: Sequence[Place]
) -> Iterator[tuple[Config, dict[str, Trial]]]:
    """Runs that carry out the trials, with the trial of each workload: one tester on each agent that runs
    testers of the workload."""
    for start in range(0, len(pending), MAX_PARALLEL):
        named = {
            f"probe-{number}": trial for number, trial in enumerate(pending[start : start + MAX_PARALLEL], 1)
        }
        works = tuple(
            replace(
                trial.work,
                name=name,
                load=ClosedLoad(max(1, len(carriers(trial.work, agents))), FixedTime(0)),
            )
            for name, trial in named.items()
        )
        yield (
            replace(config, workloads=works, run=_SETTINGS, ceiling=(), before_run=(), after_run=()),
            named,
        )


def read_results(transactions: Path, named: Mapping[str, Trial]) -> list[TrialResult]:
    """The outcomes of the trials, from the file of transactions."""
    import pyarrow.parquet as pq  # takes a third of a second, and most experiments have no trials

    rows = pq.read_table(transactions, columns=["agent", "workload", "outcome", "code"]).to_pylist()
    return [
        TrialResult(named[row["workload"]], row["agent"], row["outcome"], row["code"] or "") for row in rows
    ]


def failures(tried: Iterable[TrialResult], hosts: Mapping[str, str], notes: Sequence[str]) -> list[str]:
    """A line for each target that cannot be measured from some host. `hosts`: by agent. `notes`: of the
    driver, for example the message of a database."""
    hosts_by_failure: dict[tuple[str, str], list[str]] = {}
    for result in tried:
        why = _why(result)
        if why is not None:
            hosts_by_failure.setdefault((_shown(result.trial.visit), why), []).append(
                hosts.get(result.agent, "")
            )
    remark = f" ({'; '.join(dict.fromkeys(notes))})" if notes else ""
    return [f"{shown}: {_from_hosts(names)}{why}{remark}" for (shown, why), names in hosts_by_failure.items()]


def _shown(visit: Visit) -> str:
    return visit.shown if visit.proxy is None else f"{visit.shown} through the proxy {visit.proxy.shown}"


def _why(result: TrialResult) -> str | None:
    """Why the driver cannot measure the target; None if it can, for any answer."""
    if result.code.startswith("tls "):
        return f"the TLS handshake failed: {result.code.removeprefix('tls ')}"
    if result.outcome == "timeout" and result.code == "timeout connect":
        return f"no connection within {LIMIT_NS // 1_000_000_000} s; check the route and the firewall"
    if result.outcome != "refused":
        return None
    if result.trial.work.driver == "sql" and result.code not in ("refused", "unreachable"):
        return f"login failed: {result.code}; check user, password and database"
    return f"no connection: {result.code}; check the address, and that the service runs"


def _from_hosts(hosts: Sequence[str]) -> str:
    names = [name for name in dict.fromkeys(hosts) if name]
    if not names:
        return ""
    more = len(names) - _HOSTS_SHOWN
    return f"from {', '.join(names[:_HOSTS_SHOWN])}{f' and {more} more hosts' if more > 0 else ''}: "
