"""Fairness of the service to testers at remote sites, in sentences with figures. Computes only ratios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.hosts.sites import SitesFairness, away_ms, sites_by_distance, sites_fairness
from plimsoll.analyse.results.analysis import Analysis, RunResult
from plimsoll.analyse.results.hosts import HostsResult, PlaceResult
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import Finding, SitesVerdict, Topic, Value
from plimsoll.analyse.results.wording import UNKNOWN, listing, number, percent, quantity

MAX_NAMED: Final = 4
"""Sites that are named each; of more, the nearest and the farthest."""


def leading_run(analysis: Analysis) -> RunResult | None:
    """The run of several agents that the answer describes: the one with the most testers, of the valid runs if any."""
    runs = [run for run in analysis.runs if run.hosts is not None]
    return max(
        [run for run in runs if run.valid] or runs,
        key=lambda run: (len(run.testers), -run.order),
        default=None,
    )


def of_hosts(analysis: Analysis) -> list[Finding]:
    """The findings about the leading run, if it has testers at several sites."""
    run = leading_run(analysis)
    if run is None or run.hosts is None or not run.valid:
        return []
    return fairness_findings(run.hosts, run.id if len(analysis.runs) > 1 else "")


def fairness_words(hosts: HostsResult) -> list[str]:
    """Sentences about the sites of one run."""
    return [each.text for each in fairness_findings(hosts)]


def fairness_findings(hosts: HostsResult, run: str = "") -> list[Finding]:
    """What is found about the sites of one run, the nearest first; nothing where testers of one site alone did
    anything. `run`: its id, which the first sentence names, where there are several runs."""
    sites = sites_by_distance(hosts)
    if len(sites) < 2:
        return []
    said: list[Finding] = []
    for make in (_peak, _work):
        text = make(sites, hosts, "" if said else run)
        if text:
            said.append(Finding(Topic.SITES, text))
    found = sites_fairness(sites, hosts)
    if found is not None:
        said.append(_judged(found, "" if said else run))
    return said


def _judged(found: SitesFairness, run: str) -> Finding:
    values: dict[str, Value] = {
        "near": found.near,
        "far": found.far,
        "near_ms": found.near_ms,
        "far_ms": found.far_ms,
        "longer_ms": found.longer_ms,
    }
    return Finding(Topic.SITES_FAIRNESS, _way(found, run), found.verdict, values, rule(RuleName.SITES))


def _start(run: str, alone: str, after: str) -> str:
    """The first word of a sentence, behind the run that it is about, where that is named."""
    return f"In run {run}, {after}" if run else alone


def _named(place: PlaceResult) -> str:
    away = away_ms(place)
    return place.site if away is None else f"{place.site} (round trip {quantity(away, 'ms')})"


def _peak(sites: Sequence[PlaceResult], hosts: HostsResult, run: str) -> str:
    known = [each for each in sites if each.peak_share is not None and each.testers_share is not None]
    if len(known) < 2:
        return ""
    shown = known if len(known) <= MAX_NAMED else [known[0], known[-1]]
    parts = [
        f"{_named(each)} had {percent(each.peak_share)}{'' if at else ' of the throughput'} with "
        f"{percent(each.testers_share)} of the testers"
        for at, each in enumerate(shown)
    ]
    return f"{_start(run, 'In', 'in')} the peak window, {listing(parts)}."


def _work(sites: Sequence[PlaceResult], hosts: HostsResult, run: str) -> str:
    near, far = sites[0], sites[-1]
    if near.share is None or far.share is None or near.share <= 0:
        return ""
    ratio = far.share / near.share
    text = f"{_start(run, 'A', 'a')} tester of {far.site} did {number(ratio)} times the work of one of {near.site}"
    known = [
        f"{what} {number(value)}"
        for what, value in (("the sites", hosts.jain_sites), ("the hosts", hosts.jain_hosts))
        if value is not None
    ]
    jain = f"; Jain's index over {listing(known)}" if known else ""
    return f"{text}{jain}{_bound(hosts)}."


def _bound(hosts: HostsResult) -> str:
    if hosts.bound_unknown:
        return f" (the clock offset of {listing(hosts.bound_unknown[:3])} is unknown)"
    return f" (clocks agree within {quantity(hosts.bound_ms, 'ms')})" if hosts.bound_ms else ""


def _way(found: SitesFairness, run: str) -> str:
    """The parts of the difference that are the round trip and the service."""
    times = (
        f"{quantity(found.near_ms, 'ms')} at {found.near} and {quantity(found.far_ms, 'ms')} at {found.far}"
    )
    head = f"{_start(run, 'Without', 'without')} one round trip, the median response time is {times}"
    if found.verdict == SitesVerdict.ALIKE:
        way = "; the difference between them is the round trip" if found.unequal else ""
        return f"{head}: the service treats both sites alike{way}."
    longer, trip = abs(found.longer_ms), found.far_away_ms
    trips = f" ({number(longer / trip, 2)} round trips)" if trip > 0 else UNKNOWN
    more = "longer" if found.verdict == SitesVerdict.WAITS_MORE else "shorter"
    return f"{head}: {found.far} waits {quantity(longer, 'ms')}{trips} {more} than its round trip explains."
