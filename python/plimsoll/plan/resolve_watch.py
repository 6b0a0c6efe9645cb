"""Resolves `watch:` of a target: which exporters are read while its runs go on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from plimsoll.plan import model
from plimsoll.plan.drivers import Where
from plimsoll.plan.raw_services import TargetRaw
from plimsoll.plan.raw_watch import WatchRaw
from plimsoll.plan.secret import carries_credentials
from plimsoll.plan.source import KeyPath

OURS: Final = ("host", "testers", "monitor")
"""Names that components of the results have already."""
_CREDENTIALS: Final = (
    "a URL must not hold a user, a password or a key: it is stored; give a header with a secret"
)


def resolve_watch(target: str, raw: TargetRaw, where: Where) -> tuple[model.Watched, ...]:
    """What is watched of a target."""
    found: list[model.Watched] = []
    for index, one in enumerate(raw.watch):
        at: KeyPath = ("targets", target, "watch", index)
        if one.name in OURS:
            where.wrong((*at, "name"), f"{one.name} is the name of something that is watched anyway")
        if one.name in (other.name for other in found):
            where.wrong((*at, "name"), f"two of this list have the name {one.name}")
        found.append(_watched(one, at, where))
    return tuple(found)


def _watched(raw: WatchRaw, at: KeyPath, where: Where) -> model.Watched:
    here: KeyPath = (*at, "prometheus")
    return model.Watched(
        name=raw.name,
        kind=raw.kind or "other",
        url=raw.prometheus,
        shown=where.as_written(here, raw.prometheus),
        host=_host(raw.prometheus, here, where),
        metrics=tuple(raw.metrics),
        every_ns=raw.every,
        headers=dict(raw.headers),
        optional=raw.optional,
    )


def _host(address: str, at: KeyPath, where: Where) -> str:
    try:
        url = urlsplit(address)
        host, _ = url.hostname, url.port
    except ValueError:
        # What is wrong with it may be a part of a password, so it is not quoted.
        where.wrong(at, "this is not a URL")
        return ""
    if "@" in address or any(carries_credentials(name) for name, _ in parse_qsl(url.query)):
        where.wrong(at, _CREDENTIALS)
    elif url.scheme not in ("http", "https") or not host:
        shown = where.as_written(at, address)
        where.wrong(at, f'"{shown}" is not the URL of an exporter: http://HOST:PORT/metrics')
    return host or ""


def check_watched(
    workloads: Sequence[model.Workload],
    services: Collection[str],
    targets: Mapping[str, TargetRaw],
    where: Where,
) -> None:
    """In the results a name means one thing: no service, and no two of what is watched in a run, share one."""
    known: dict[str, model.Watched] = {}
    for target in {work.target.name: work.target for work in workloads}.values():
        for index, one in enumerate(target.watch if target.name in targets else ()):
            at: KeyPath = ("targets", target.name, "watch", index, "name")
            if one.name in services:
                where.wrong(at, f"{one.name} is a service of this file: give what is watched another name")
            elif known.setdefault(one.name, one) != one:
                where.wrong(at, f"{one.name} is watched of another target too, in another way")
