"""Which sites have the same workloads, so that their response times and their work can be compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Configuration = Mapping[str, Any]
ASKING = ("think", "every")
"""Keys of a load that change what one tester does. The others set the number of testers."""


def work_of_sites(configuration: Configuration, sites: Sequence[str]) -> dict[str, int]:
    """The number of the workloads of each site: equal numbers mean equal workloads, whatever their names. Numbers are
    counted from 0 in the order of the sites.

    `configuration`: of the run, as stored with it.
    """
    workloads = _workloads(configuration)
    numbers: dict[frozenset[str], int] = {}
    return {
        site: numbers.setdefault(
            frozenset(text for places, text in workloads if not places or site in places), len(numbers)
        )
        for site in sites
    }


def _workloads(configuration: Configuration) -> list[tuple[tuple[str, ...], str]]:
    """Each workload: its sites (empty: all) and a text that is equal for equal workloads."""
    several = configuration.get("workloads") or {}
    works = list(several.values()) or [configuration.get("workload") or {}]
    return [(_labels(work.get("site")), _text(work, configuration.get("load") or {})) for work in works]


def _labels(site: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if site is None else (site,) if isinstance(site, str) else tuple(site)


def _text(work: Configuration, load_of_all: Configuration) -> str:
    load = work.get("load", load_of_all)
    asks = {key: load[key] for key in ASKING if key in load}
    same = {key: value for key, value in work.items() if key not in ("site", "load")}
    return json.dumps([same, asks], sort_keys=True)
