"""Replicas: databases whose tables are those of another service, by `replica_of`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.services.section import Services, check_order, find_service, kind_of
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Name, shown

Replication = Literal["streaming", "logical"]
"""Of PostgreSQL. `streaming`: the replica is a copy of the whole server, from its write-ahead log; `logical`: an own
server, which gets the changes of the rows."""
KEY: Final = "replica_of"


def _one_source(value: object) -> object:
    if isinstance(value, (list, dict)):
        raise PydanticCustomError(
            "replica_of",
            "expected the name of one service, got {shown}: a replica has one source",
            {"shown": shown(value)},
        )
    return value


ReplicaOf = Annotated[Name | None, BeforeValidator(_one_source)]
"""The service whose tables a replica has."""


def sources_of(name: str, services: Services) -> list[str]:
    """The services that a replica replicates, from its own source to the server that accepts writes. A circle ends
    before its first repetition."""
    chain: list[str] = []
    section = services.get(name)
    while section is not None and section.replicates is not None and section.replicates not in chain:
        chain.append(section.replicates)
        section = services.get(section.replicates)
    return chain


def replicas_of(name: str, services: Services) -> list[str]:
    """The services that replicate the service `name` directly, in the order of the file."""
    return [other for other, section in services.items() if section.replicates == name]


def check_replica(name: str, services: Services, context: Context) -> tuple[str, ...]:
    """Checks `replica_of` of a service; returns the services that it needs."""
    at: KeyPath = ("services", name, KEY)
    own = services[name]
    source = own.replicates
    if source is None:
        return ()
    chain = sources_of(name, services)
    if name in chain:
        circle = " of ".join([name, *chain[: chain.index(name) + 1]])
        context.wrong(at, f"circle: {circle}. Remove `{KEY}` from the service that testers write to")
        return ()
    section = find_service(source, services, at, context)
    if section is None:
        return ()
    kinds = kind_of(type(own)), kind_of(type(section))
    if kinds[0] != kinds[1]:
        context.wrong(
            at,
            f"{source} is a service of kind {kinds[1]}: a {kinds[0]} service can only replicate one of its kind",
        )
    check_order(name, source, services, at, context)
    return (source,)


def check_same_as_source(
    name: str, keys: tuple[str, ...], default: str, services: Services, context: Context
) -> None:
    """Reports keys of a replica with another value than in its sources. `default`: a value that is not one."""
    for source in sources_of(name, services)[-1:]:
        for key in keys:
            value, expected = (getattr(services.get(each), key, None) for each in (name, source))
            if value not in (None, default, expected):
                context.wrong(
                    ("services", name, key), f"a replica has the {key} of {source}: remove this key"
                )


def inherited_settings(name: str, services: Services) -> Mapping[str, str]:
    """The parameters of a database, with those of its sources for a replica. Its own take precedence: a replica of
    PostgreSQL does not start with fewer connections than its source."""
    settings: dict[str, str] = {}
    for each in (*reversed(sources_of(name, services)), name):
        if each in services:
            settings |= getattr(services[each], "settings", {})
    return settings


def check_replication_settings(
    name: str, reserved: frozenset[str], services: Services, context: Context
) -> None:
    """Reports parameters that Plimsoll sets for replication."""
    for key in getattr(services[name], "settings", {}):
        if key.lower().replace("-", "_") in reserved:
            context.wrong(
                ("services", name, "settings", key),
                f"Plimsoll sets this for replication: use `{KEY}` of the replicas, and remove this parameter",
            )
