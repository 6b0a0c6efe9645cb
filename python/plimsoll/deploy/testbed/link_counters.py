"""Reads what passed the links of a testbed, their present rates, its late packets, and the CPU time of the process that
emulates the links."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.testbed import places
from plimsoll.deploy.testbed.standing import HERE
from plimsoll.plan.model.cell import WatchedLinks


class LinksReader:
    """The reader of the links of the testbed on whose host `lab` this process runs."""

    unmatched: tuple[str, ...] = ()
    version = ""

    def __init__(self, watched: WatchedLinks) -> None:
        self._ends = watched.ends
        self._directory = places.testbed_directory(os.environ[HERE].partition("/")[0])

    def read(self) -> Reading:
        """Takes one reading. Raises ServiceError if the testbed does not answer."""
        return links_reading(self._ends, places.request(self._directory, {"ask": "status"}))

    def close(self) -> None:
        """Does nothing: each reading has its own connection."""


def links_reading(ends: Iterable[tuple[str, str, str]], status: Mapping[str, Any]) -> Reading:
    """The counters and gauges of a testbed. `ends`: name and both sites of each link; `status`: that of the testbed
    (crates/wan/src/control.rs).

    - For each direction of each link with a rate: `passed LINK: FROM to TO` in bytes with all headers, and the gauge
      `rate LINK: FROM to TO` in bytes/s.
    - `released`: packets that were sent to hosts; `late`: those of them that were sent more than 1 ms after their due
      time.
    - `cpu`: CPU time of the process that emulates the links, in seconds; the status of an older engine lacks it.
    """
    of_direction = {(link["from"], link["to"]): link for link in status["links"]}
    counters: dict[str, float] = {"cpu": status["cpu_ns"] / 1e9} if "cpu_ns" in status else {}
    counters |= {name: float(status[name]) for name in ("released", "late")}
    gauges: dict[str, float] = {}
    for name, *sites in ends:
        for source, to in (sites, reversed(sites)):
            link = of_direction.get((source, to))
            rate = link["shape"]["rate_bit_s"] if link is not None else None
            if link is not None and rate is not None:
                counters[f"passed {name}: {source} to {to}"] = float(link["passed_bytes"])
                gauges[f"rate {name}: {source} to {to}"] = rate / 8
    return Reading(counters, gauges)
