"""Round trips of the connections of a run: when response less round trip is computed, and why it has no value."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results.run import Traffic
from plimsoll.collect.columns.round_trips import RoundTrips, read_route_round_trips
from plimsoll.collect.results import RunFiles

MIN_ROUND_TRIP_NS: Final = 1_000_000
"""Reading from which response less round trip is computed unasked. Shorter ones, such as those of the loopback
interface, change a response time by less than it scatters."""


def round_trips_of(run: RunFiles, asked: bool) -> RoundTrips | None:
    """The round trips of the connections of a run that kept its transactions. None if there is no reading, or if they
    are short and no metric of the experiment needs them (`asked`)."""
    assert run.transactions is not None
    least = 0 if asked else MIN_ROUND_TRIP_NS
    return read_route_round_trips(run.path / "metrics.parquet", run.transactions, least)


def missing_round_trips(run: RunFiles, traffic: Traffic) -> str:
    """Why response less round trip has no value in a run, or has it for some transactions only; empty if all have
    one."""
    if run.transactions is None:
        return "response less round trip is not known: single transactions were not kept (keep: summaries)"
    less = traffic.response_less_rtt_ms
    if less is None:
        return (
            "response less round trip is not known: there is no reading of TCP_INFO from any connection. Drivers "
            "without TCP have none, nor have connections whose transactions all failed"
        )
    every = traffic.response_ms.count
    if less.count == every:
        return ""
    return (
        f"response less round trip is that of {less.count:,} of {every:,} successful transactions: no round trip was "
        "measured for the others"
    )
