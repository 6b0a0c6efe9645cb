"""New connections of testers: their number, and the times of TCP connect and TLS handshake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.run import Connections, NameLookup
from plimsoll.analyse.run.traffic import Durations
from plimsoll.analyse.stats.quantiles import Histogram

CONNECT: Final = "tcp_connect_s"
HANDSHAKE: Final = "tls_handshake_s"
HISTOGRAMS: Final = {CONNECT: "connect", HANDSHAKE: "tls_handshake"}
"""Names of these histograms, in addition to those of the summary, by metric of the driver."""


@dataclass(frozen=True, slots=True)
class RunConnections:
    """The figures of a run, and its histograms for figures over several runs."""

    connections: Connections
    histograms: Mapping[str, Histogram]


def connections(
    seconds: Mapping[str, NDArray[np.float64]], lookups: tuple[NameLookup, ...] = ()
) -> RunConnections | None:
    """The figures of the connections. `seconds`: the values of CONNECT and HANDSHAKE over the whole run, one for each
    connection. None if no connection was opened."""
    if CONNECT not in seconds:
        return None
    times = {name: _durations(seconds.get(name, np.empty(0))) for name in HISTOGRAMS}
    opened = int(seconds[CONNECT].size)
    return RunConnections(
        Connections(opened, times[CONNECT].latency(), times[HANDSHAKE].latency(), lookups),
        {
            HISTOGRAMS[name]: Histogram.of(durations.buckets)
            for name, durations in times.items()
            if durations.moments.count
        },
    )


def _durations(seconds: NDArray[np.float64]) -> Durations:
    ns = np.rint(seconds * 1e9).astype(np.int64)
    durations = Durations(exact=True)
    durations.add(ns, ns.astype(np.float64))
    return durations
