"""What services, and what was watched, counted of themselves, and the few figures that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from plimsoll.analyse.results.run import CountedService, Statement


def counted_services(told: Iterable[Mapping[str, Any]]) -> tuple[CountedService, ...]:
    """Of the services and of what was watched in a run.json, those that counted."""
    return tuple(
        CountedService(
            name=one["name"],
            kind=one["kind"],
            version=one.get("version", ""),
            derived=derived(one["kind"], one["counters"]),
            counters=dict(one["counters"]),
            gauges=dict(one.get("gauges", {})),
            statements=tuple(_statement(each) for each in one.get("statements", ())),
            means=dict(one.get("means", {})),
            peaks=dict(one.get("peaks", {})),
        )
        for one in told
        if "counters" in one
    )


def derived(kind: str, counters: Mapping[str, float]) -> dict[str, float | None]:
    """Figures by name; ratios are fractions of 1.

    Squid: `hit_ratio` is hits / requests of clients, `byte_hit_ratio` what hits sent / all that was sent to clients,
    both as its cache manager counts them (an object that the origin said is unchanged is a hit), `origin_requests` how
    often it asked a server or a peer. PostgreSQL: `buffer_hit_ratio` is blks_hit / (blks_hit + blks_read); MariaDB:
    1 - buffer pool reads / read requests. What the operating system answered from its own cache was read, in both.
    """
    value = counters.get
    match kind:
        case "squid":
            return {
                "hit_ratio": _ratio(value("client_http.hits"), value("client_http.requests")),
                "byte_hit_ratio": _ratio(
                    value("client_http.hit_kbytes_out"), value("client_http.kbytes_out")
                ),
                "origin_requests": value("server.all.requests"),
            }
        case "postgres":
            hit, read = value("blks_hit", 0.0), value("blks_read", 0.0)
            return {"buffer_hit_ratio": _ratio(hit, hit + read)}
        case "mariadb":
            asked, read = (
                value("Innodb_buffer_pool_read_requests", 0.0),
                value("Innodb_buffer_pool_reads", 0.0),
            )
            return {"buffer_hit_ratio": _ratio(asked - read, asked)}
        case _:
            return {}


def _ratio(part: float | None, whole: float | None) -> float | None:
    if part is None or not whole or whole < 0:
        return None
    # Readings of two counters are not of one instant: a share of more than all is all.
    return min(max(part / whole, 0.0), 1.0)


def _statement(told: Mapping[str, Any]) -> Statement:
    calls, total = int(told["calls"]), float(told["total_s"])
    return Statement(
        statement=str(told["statement"]),
        calls=calls,
        total_s=total,
        mean_ms=total * 1000 / calls if calls else None,
        rows=int(told["rows"]),
    )
