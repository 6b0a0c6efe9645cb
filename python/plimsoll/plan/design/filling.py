"""What is asked before a run so that caches hold what the run will ask for (`cache: warm`). Pure.

The requests are those of the workload, made by the same engine and drivers, so that a cache knows them by the same key.
Rejected: to send them from here, which would mean a second encoder of Frontier's URLs; and to keep a cache from an
earlier run, which is warm with what that run asked for, and so makes the order of the runs a hidden factor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Any, Final

from plimsoll.plan.drivers.http_log import LOG_METHOD
from plimsoll.plan.model.cell import (
    ClosedLoad,
    Config,
    Endpoint,
    FixedTime,
    Generator,
    OnError,
    Operation,
    RunSettings,
    Target,
    Via,
    Workload,
)
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.source.units import NS

MAX_VALUES: Final = 1000
"""The number of values requested of each generator: all if there are no more, otherwise the first
of a range or a list, and the most frequent of a Zipf law."""
MAX_OBJECTS: Final = 100_000
"""The number of objects requested of a table with versions."""
AT_ONCE: Final = 8
"""Operations in progress at the same time: a service must not be flooded by what only prepares a run."""
MAX_NS: Final = 60 * NS["s"]
"""The longest duration of a filling run."""
_DRAIN_NS: Final = 5 * NS["s"]
_IDEMPOTENT: Final = ("GET", "HEAD")
_PLACE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


Proxies = tuple[str | Secret | Via, ...]


def warm_caches(config: Config) -> frozenset[str]:
    """Names of the caches that are to be warm."""
    return _caches(config, "warm")


def _caches(config: Config, start: str) -> frozenset[str]:
    return frozenset(
        one.name for one in config.services if one.kind == "squid" and one.settings["cache"]["start"] == start
    )


def fillings(config: Config) -> tuple[Config, ...]:
    """Runs that fill the warm caches, one after the other; none where no request passes a warm cache.

    Each has one population of one tester for each operation, endpoint and proxy. What would pass a cold cache is not
    asked for: it would be cold no longer.
    """
    if not warm_caches(config):
        return ()
    wanted = [one for work in config.workloads for one in _requests(work, config)]
    return tuple(_run(config, wanted[at : at + AT_ONCE]) for at in range(0, len(wanted), AT_ONCE))


def _run(config: Config, works: Sequence[Workload]) -> Config:
    named = tuple(replace(work, name=f"fill-{number}") for number, work in enumerate(works, 1))
    times = max(_times(work) for work in works)
    settings = RunSettings(0, MAX_NS, times, None, _DRAIN_NS, 0, "summaries", 0)
    return replace(config, workloads=named, run=settings, ceiling=(), before_run=(), after_run=())


def _requests(work: Workload, config: Config) -> Iterator[Workload]:
    warm, cold = warm_caches(config), _caches(config, "cold")
    for endpoint in work.target.endpoints:
        ways: list[Proxies] = [(one,) for one in work.target.proxies]
        for proxies in ways or [()]:
            passed = _passed(endpoint, proxies, config)
            if not warm & passed or cold & passed:
                continue
            for operation in work.operations:
                method = operation.request.get("method", "GET")
                if method == LOG_METHOD:  # a response to GET is also that to HEAD
                    operation = replace(operation, request={**operation.request, "method": "GET"})
                if method in (*_IDEMPOTENT, LOG_METHOD):
                    yield _one(work, endpoint, proxies, operation)


def _one(work: Workload, endpoint: Endpoint, proxies: Proxies, operation: Operation) -> Workload:
    settings = _filling(work.settings)
    used = {*_places(operation.request), *_places(settings)}
    values = {name: one for name, one in work.values.items() if name in used}
    if operation.request.get("version") is None:
        values = {name: _in_turn(one) for name, one in values.items()}
    else:
        values = _objects(values)
    return replace(
        work,
        target=Target(work.target.name, (endpoint,), proxies=proxies),
        on_error=OnError(),
        settings=settings,
        operations=(replace(operation, weight=1.0, first=0),),
        values=values,
        load=ClosedLoad(1, FixedTime(0)),
    )


def _filling(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under which a request leaves what the run will ask for: no key of its own, and all of the chatter."""
    found = dict(settings)
    if found.get("uncached"):
        found["uncached"] = 0.0
    if found.get("chatter", {}).get("requests"):
        found["chatter"] = {**found["chatter"], "requests": len(found["chatter"]["queries"])}
    return found


def _passed(endpoint: Endpoint, proxies: Proxies, config: Config) -> set[str]:
    """Every service that a request may pass."""
    found = {one.service for one in proxies if isinstance(one, Via)}
    found |= {endpoint.service} if endpoint.service is not None else set()
    while more := {need for name in found for need in config.service(name).needs} - found:
        found |= more
    return found


def _places(value: Any) -> Iterator[str]:
    """Names in braces in all texts of a request."""
    if isinstance(value, str):
        yield from _PLACE.findall(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _places(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _places(item)


def _in_turn(values: Generator) -> Generator:
    match values.kind:
        case "uniform":
            last = min(values.high, values.low + MAX_VALUES - 1)
            items = tuple(str(number) for number in range(values.low, last + 1))
        case "zipf":
            items = tuple(str(rank) for rank in range(1, min(values.n, MAX_VALUES) + 1))
        case "list" | "weighted" | "recorded":
            items = values.items[:MAX_VALUES]
    return Generator("list", items=items, order="round-robin")


def _objects(values: Mapping[str, Generator]) -> dict[str, Generator]:
    """Every object once: lists of the same length, which one tester goes through in step."""
    lists = [one.items or _in_turn(one).items for one in values.values()]
    found = list(islice(product(*lists), MAX_OBJECTS))
    return {
        name: Generator("list", items=tuple(one[at] for one in found), order="round-robin")
        for at, name in enumerate(values)
    }


def _times(work: Workload) -> int:
    return max((len(values.items) for values in work.values.values()), default=1)
