"""A driver's section of a workload, with the entries of `mix`, turned into settings and operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.drivers.table import DRIVERS
from plimsoll.plan.model import Generator, Json, Operation
from plimsoll.plan.queries.query import QuerySet, log_queries
from plimsoll.plan.queries.sections import TableWork
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
    def _asked(self) -> MixEntry:
        if self.weight == 0 and self.first == 0:
            raise PydanticCustomError(
                "weight", "weight must be greater than 0, unless `first` is greater than 0"
            )
        return self


@dataclass(frozen=True, slots=True)
class Section:
    """What a workload asks. `values`: generators that its queries need; `at_ns`: times of a log to replay; `remarks`:
    for people."""

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
    """Settings and operations of a workload. `section`: the driver's section as plain data; `at`: the
    workload's path; `made`: queries in place of those of the section (None), and of entries of `mix` by their index."""
    here = (*at, driver)
    kind = DRIVERS[driver]
    parsed = _parse(driver, section, here, section, context)
    if parsed is None:
        return Section()
    settings = kind.settings(parsed, here, context)
    given = made or {}
    if mix is not None:
        if section.get("from_log") is not None:
            context.wrong((*here, "from_log"), "give mix or from_log, not both: each defines the requests")
        found: NamedRequests = []
        for index, entry in enumerate(mix):
            found += _entry(driver, section, entry, (*at, "mix", index), context, given.get(index))
        if found and all(weight == 0 for _, weight, _, _ in found):
            context.wrong((*at, "mix"), "at least one weight must be greater than 0")
        values = {name: one for asked in given.values() for name, one in asked.values.items()}
        return Section(settings, _named(found), values)
    asked = given.get(None) or _from_log(parsed, here, context)
    if asked is not None and kind.asking is not None:
        _alone(parsed, asked, here, context)
        found = [(one.name, one.weight, one.first, kind.asking(parsed, one)) for one in asked.queries]
        return Section(settings, _named(found), asked.values, asked.at_ns, asked.remarks)
    requests = kind.requests(parsed, here, context)
    return Section(settings, _named([(name, 1.0 / len(requests), 0, request) for name, request in requests]))


def _alone(section: Any, made: QuerySet, at: KeyPath, context: Context) -> None:
    """A version is that of one query, not of a batch."""
    if getattr(section, "batch", 1) > 1 and any(query.version is not None for query in made.queries):
        context.wrong((*at, "batch"), "queries with versions cannot be batched: give batch: 1")


def _from_log(section: Any, at: KeyPath, context: Context) -> QuerySet | None:
    """The queries of the log that a section names."""
    raw = getattr(section, "from_log", None)
    if raw is None:
        return None
    if section.queries:
        context.wrong((*at, "from_log"), "give queries or from_log, not both")
    path = (*at, "from_log", "file")
    log = context.request_log(raw.file, path)
    return QuerySet(()) if log is None else log_queries(raw, log, context.as_written(path, raw.file))


def _entry(
    driver: str,
    section: Mapping[str, Any],
    entry: MixEntry,
    at: KeyPath,
    context: Context,
    made: QuerySet | None,
) -> NamedRequests:
    """The operations of one entry of `mix`: the section with the keys of the entry in place of its own. `made`: queries
    in place of those of both."""
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
    if made is not None and kind.asking is not None:
        _alone(parsed, made, at, context)
        requests = [(one.name, kind.asking(parsed, one)) for one in made.queries]
    elif entry.table is not None:
        return []  # what is wrong with it was told
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
    """What an entry of `mix` may hold."""
    keys = {info.alias or name for name, info in DRIVERS[driver].section.model_fields.items()}
    return (keys - DRIVERS[driver].shared_keys) | set(MixEntry.model_fields)


def _parse(driver: str, data: Mapping[str, Any], at: KeyPath, tree: Any, context: Context) -> Raw | None:
    try:
        return DRIVERS[driver].section.model_validate(dict(data))
    except ValidationError as error:
        context.invalid(error, tree, DRIVERS[driver].section, at)
        return None


def _named(found: NamedRequests) -> tuple[Operation, ...]:
    """Operations with names of their own: a second "GET /" becomes "GET / (2)"."""
    seen: dict[str, int] = {}
    operations = []
    for name, weight, first, request in found:
        seen[name] = seen.get(name, 0) + 1
        own = name if seen[name] == 1 else f"{name} ({seen[name]})"
        operations.append(Operation(own, weight, request, first))
    return tuple(operations)
