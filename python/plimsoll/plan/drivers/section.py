"""Settings and operations of a workload, from the section of its driver and the entries of `mix`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.drivers.table import DRIVERS
from plimsoll.plan.model.cell import Generator, Json, Operation
from plimsoll.plan.queries.query import QuerySet, log_queries
from plimsoll.plan.queries.sections import HttpFromLog, TableWork
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Label, Raw
from plimsoll.plan.source.near import nearest


class MixEntry(Raw):
    """One kind of request. Its share is weight / sum of the weights; each tester begins with
    `first` of them. `table`: in place of queries. Other keys are those of the section of the
    driver."""

    model_config = ConfigDict(extra="allow")

    weight: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = 1.0
    first: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    name: Label | None = None
    table: TableWork | None = None

    @model_validator(mode="after")
    def _check_weight(self) -> MixEntry:
        if self.weight == 0 and self.first == 0:
            raise PydanticCustomError(
                "weight", "weight must be greater than 0, unless `first` is greater than 0"
            )
        return self


@dataclass(frozen=True, slots=True)
class Section:
    """The settings and requests of a workload. `values`: generators that its queries need; `at_ns`: times of a log to
    replay; `remarks`: texts that `plan` prints."""

    settings: dict[str, Json] = field(default_factory=dict)
    operations: tuple[Operation, ...] = ()
    values: Mapping[str, Generator] = field(default_factory=dict)
    at_ns: tuple[int, ...] | None = None
    remarks: tuple[str, ...] = ()


NamedRequests = list[tuple[str, float, int, dict[str, Json]]]
"""Name, weight, `first` and request of each operation."""


def read_section(
    driver: str,
    section: Mapping[str, Any],
    mix: list[MixEntry] | None,
    at: KeyPath,
    context: Context,
    made: Mapping[int | None, QuerySet] | None = None,
) -> Section:
    """Settings and operations of a workload. `section`: the driver's section as plain data; `at`: path of the workload;
    `made`: queries of the lab that replace those of the section (key None) and of entries of `mix` (key: index)."""
    here = (*at, driver)
    kind = DRIVERS[driver]
    parsed = _parse(driver, section, here, section, context)
    if parsed is None:
        return Section()
    settings = kind.settings(parsed, here, context)
    query_sets = made or {}
    if mix is not None:
        if section.get("from_log") is not None:
            context.wrong((*here, "from_log"), "give mix or from_log, not both: each defines the requests")
        named_requests: NamedRequests = []
        for index, entry in enumerate(mix):
            named_requests += _entry_requests(
                driver, section, entry, (*at, "mix", index), context, query_sets.get(index)
            )
        if named_requests and all(weight == 0 for _, weight, _, _ in named_requests):
            context.wrong((*at, "mix"), "at least one weight must be greater than 0")
        values = {
            name: generator
            for query_set in query_sets.values()
            for name, generator in query_set.values.items()
        }
        return Section(settings, _named_operations(named_requests), values)
    query_set = query_sets.get(None) or _from_log(parsed, here, context)
    if query_set is not None and kind.query_request is not None:
        _check_batch(parsed, query_set, here, context)
        named_requests = [
            (query.name, query.weight, query.first, kind.query_request(parsed, query))
            for query in query_set.queries
        ]
        return Section(
            settings, _named_operations(named_requests), query_set.values, query_set.at_ns, query_set.remarks
        )
    if kind.log_requests is not None and (log := kind.log_requests(parsed, here, context)) is not None:
        named_requests = [(name, weight, 0, request) for name, weight, request in log.requests]
        return Section(settings, _named_operations(named_requests), log.values, log.at_ns, log.remarks)
    requests = kind.requests(parsed, here, context)
    return Section(
        settings, _named_operations([(name, 1.0 / len(requests), 0, request) for name, request in requests])
    )


def _check_batch(section: Any, made: QuerySet, at: KeyPath, context: Context) -> None:
    """Reports batches of queries with versions: a version belongs to one query."""
    if getattr(section, "batch", 1) > 1 and any(query.version is not None for query in made.queries):
        context.wrong((*at, "batch"), "queries with versions cannot be batched: give batch: 1")


def _from_log(section: Any, at: KeyPath, context: Context) -> QuerySet | None:
    """The queries of the log of a section; None if it has no log of queries."""
    raw = getattr(section, "from_log", None)
    if raw is None or isinstance(raw, HttpFromLog):
        return None
    if section.queries:
        context.wrong((*at, "from_log"), "give queries or from_log, not both")
    path = (*at, "from_log", "file")
    log = context.request_log(raw.file, path)
    return QuerySet(()) if log is None else log_queries(raw, log, context.as_written(path, raw.file))


def _entry_requests(
    driver: str,
    section: Mapping[str, Any],
    entry: MixEntry,
    at: KeyPath,
    context: Context,
    made: QuerySet | None,
) -> NamedRequests:
    """The requests of one entry of `mix`: keys of the entry replace those of the section. `made`: queries that replace
    those of both."""
    own = dict(entry.__pydantic_extra__ or {})
    shared = sorted(DRIVERS[driver].shared_keys & set(own))
    if shared:
        context.wrong(
            (*at, shared[0]), f"{shared[0]} applies to all requests of a workload: move it to `{driver}`"
        )
        return []
    known = _request_keys(driver)
    for key in sorted(set(own) - known):
        near = nearest(key, known)
        context.wrong(
            (*at, key),
            "unknown key" if near else f"unknown key; expected one of {', '.join(sorted(known))}",
            near,
        )
    if set(own) - known:
        return []
    merged = {**section, **own}
    for first, second in DRIVERS[driver].one_of:
        for key, other in ((first, second), (second, first)):
            if key in own and other not in own:
                merged.pop(other, None)
    parsed = _parse(driver, merged, at, own, context)
    if parsed is None:
        return []
    kind = DRIVERS[driver]
    if made is not None and kind.query_request is not None:
        _check_batch(parsed, made, at, context)
        requests = [(query.name, kind.query_request(parsed, query)) for query in made.queries]
    elif entry.table is not None:
        return []  # already reported
    else:
        requests = kind.requests(parsed, at, context)
    weight = entry.weight / len(requests) if requests else 0.0
    if entry.name is None:
        return [(name, weight, entry.first, request) for name, request in requests]
    several = len(requests) > 1
    return [
        (f"{entry.name}-{number}" if several else entry.name, weight, entry.first, request)
        for number, (_, request) in enumerate(requests, 1)
    ]


def _request_keys(driver: str) -> set[str]:
    """The keys that an entry of `mix` may have."""
    keys = {info.alias or name for name, info in DRIVERS[driver].section.model_fields.items()}
    return (keys - DRIVERS[driver].shared_keys) | set(MixEntry.model_fields)


def _parse(driver: str, data: Mapping[str, Any], at: KeyPath, tree: Any, context: Context) -> Raw | None:
    try:
        return DRIVERS[driver].section.model_validate(dict(data))
    except ValidationError as error:
        context.invalid(error, tree, DRIVERS[driver].section, at)
        return None


def _named_operations(requests: NamedRequests) -> tuple[Operation, ...]:
    """Operations with unique names: a second "GET /" becomes "GET / (2)"."""
    seen: dict[str, int] = {}
    operations = []
    for name, weight, first, request in requests:
        seen[name] = seen.get(name, 0) + 1
        own = name if seen[name] == 1 else f"{name} ({seen[name]})"
        operations.append(Operation(own, weight, request, first))
    return tuple(operations)
