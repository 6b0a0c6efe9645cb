"""Requests that services counted, against those that the tier before them sent.

Both counts are of the whole run: the counters are read before the first request and after the last one has ended. The
warm-up is in both of them; readiness checks precede the first reading, and the readings themselves are subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plimsoll.analyse.results.run import SentAndReceived, TierCounts
from plimsoll.analyse.results.wording import count, listing
from plimsoll.collect.requests import RequestCounts

TESTERS = "testers"
"""The name of the testers among the tiers."""
MAX_NAMES = 3
"""A tier of more services is named by its first and last one."""
REFUSED = "refused"
"""The counter of invalid requests, which are not among those that a service of Plimsoll received."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Requests that were sent: at most this number; at least `certain` of them arrived."""

    most: int
    certain: int


Testers = Callable[[Mapping[str, Any]], RequestCounts | None]
"""The counts of the testers of an entry of `tiers[].testers`; None if they are not known."""


def tier_counts(
    tiers: Iterable[Mapping[str, Any]], services: Iterable[Mapping[str, Any]], testers: Testers, failed: int
) -> tuple[TierCounts, ...]:
    """The comparisons of a run. `tiers`: of run.json; `services`: entries of services and watched systems there;
    `failed`: number of all transactions of the run without a complete, expected response.

    A tier is left out if a count is missing: a counter could not be read, a service was restarted in the run, or
    requests still arrived at its first or last reading.
    """
    counters = {
        record["name"]: {**record.get("gauges", {}), **record["counters"]}
        for record in services
        if _is_whole(record)
    }
    compared = (_compared(tier, counters, testers, failed) for tier in tiers)
    return tuple(counts for counts in compared if counts is not None)


def _is_whole(record: Mapping[str, Any]) -> bool:
    breaks = ("counter_gaps", "counters_reset_s", "counters_unsettled", "gaps", "anew_s")
    return "counters" in record and not any(record.get(name) for name in breaks)


def _compared(
    tier: Mapping[str, Any], counters: Mapping[str, Mapping[str, float]], testers: Testers, failed: int
) -> TierCounts | None:
    names = (tier["service"], *tier.get("others", ()))
    counts = [counters.get(name, {}).get(tier["counter"]) for name in names]
    counted = [number for number in counts if number is not None]
    if len(counted) < len(names):
        return None
    sent = [_of_testers(testers(entry), entry["each"], bool(tier["through"])) for entry in tier["testers"]]
    sent += [
        _of_service(entry, counters.get(tier["service"], {}), counters, failed) for entry in tier["services"]
    ]
    known = [part for part in sent if part is not None]
    if not known or len(known) < len(sent):
        return None
    most, certain = sum(part.most for part in known), sum(part.certain for part in known)
    # Plimsoll's services count invalid requests separately.
    certain -= round(sum(counters[name].get(REFUSED, 0.0) for name in names))
    compared = compare(
        names[0]
        if len(names) == 1
        else listing(names)
        if len(names) <= MAX_NAMES
        else f"{names[0]} to {names[-1]}",
        ((TESTERS,) if tier["testers"] else ()) + tuple(entry["service"] for entry in tier["services"]),
        Sent(most, certain),
        round(sum(counted)),
        through=tuple(tier["through"]),
        is_watched=tier["is_watched"],
    )
    return replace(compared, bytes=_bytes(tier, counters[tier["service"]], testers))


def _bytes(
    tier: Mapping[str, Any], counters: Mapping[str, float], testers: Testers
) -> SentAndReceived | None:
    """The bytes of the responses of a service; None if one of both counts is not known."""
    sent_bytes = tier.get("sent_bytes")
    if sent_bytes is None or sent_bytes["counter"] not in counters:
        return None
    received = [
        getattr(counts, sent_bytes["column"])
        for counts in map(testers, tier["testers"])
        if counts is not None
    ]
    if min(received, default=-1) < 0:
        return None
    return SentAndReceived(round(counters[sent_bytes["counter"]] * sent_bytes["unit"]), sum(received))


def compare(
    service: str,
    before: tuple[str, ...],
    sent: Sent,
    counted: int,
    *,
    through: tuple[str, ...] = (),
    is_watched: bool = False,
) -> TierCounts:
    """The comparison of a count with the requests that were sent."""
    certain = max(0, sent.certain)
    difference = counted - sent.most if counted > sent.most else min(0, counted - certain)
    return TierCounts(
        service=service,
        before=before,
        through=through,
        sent=sent.most,
        unsure=sent.most - certain,
        counted=counted,
        difference=difference,
        share=difference / sent.most if sent.most else None,
        is_watched=is_watched,
    )


def _of_testers(counts: RequestCounts | None, each: int, is_through: bool) -> Sent | None:
    """The requests of transactions with `each` requests. `is_through`: what is between can answer a request itself,
    with an error, or as a cache that reports it."""
    if counts is None:
        return None
    most = each * (counts.ok + counts.wrong + counts.open) + counts.repeats
    certain = each * counts.ok
    if is_through:
        certain -= each * counts.hits
    elif each == 1:  # else a wrong response to one request ends the transaction before the others
        certain += counts.wrong
    return Sent(most, certain)


def _of_service(
    entry: Mapping[str, Any],
    received: Mapping[str, float],
    counters: Mapping[str, Mapping[str, float]],
    failed: int,
) -> Sent | None:
    """The requests that a service sent. Those of the transactions that failed may have ended on the way. `received`:
    the counters of the service behind it."""
    values = counters.get(entry["service"], {})
    sent = values.get(entry["counter"])
    if sent is None:
        return None
    most = sent + received.get(entry["sessions"], 0.0)
    return Sent(round(most), round(sent - failed - values.get(entry["errors"], 0.0)))


def foreign_notes(tiers: Sequence[TierCounts]) -> list[str]:
    """Texts on watched systems that counted more requests than the testers sent."""
    return [
        f"{tier.service} counted {count(tier.counted)} requests, {count(tier.difference)} more than "
        f"the {listing(tier.before)} sent: it has other clients"
        for tier in tiers
        if tier.is_watched and tier.difference > 0
    ]
