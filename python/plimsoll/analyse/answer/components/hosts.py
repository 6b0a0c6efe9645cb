"""Fairness of the service to testers at remote sites, in sentences with figures. Only ratios are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.hosts.sites import (
    SitesFairness,
    away_ms,
    compared_sites,
    sites_by_distance,
    sites_fairness,
)
from plimsoll.analyse.results.analysis import Analysis, RunResult
from plimsoll.analyse.results.components.hosts import HostsResult, PlaceResult
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import Finding, SitesVerdict, Topic, Value
from plimsoll.analyse.results.wording import UNKNOWN, listing, number, percent, quantity

MAX_NAMED: Final = 4
"""Maximum number of sites that are all named; of more, only the nearest and the farthest are."""


def leading_run(analysis: Analysis) -> RunResult | None:
    """The run of several agents that the answer describes: the one with the most testers, of the valid runs if there
    are any. None if no run has several agents."""
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
    return [finding.text for finding in fairness_findings(hosts)]


def fairness_findings(hosts: HostsResult, run: str = "") -> list[Finding]:
    """The findings about the sites of one run, the nearest first; empty if only one site has transactions. `run`: the
    id of the run, which the first sentence names; empty if there is only one run."""
    everywhere = sites_by_distance(hosts)
    if len(everywhere) < 2:
        return []
    sites = compared_sites(everywhere)
    if len(sites) < len(everywhere):
        findings = [Finding(Topic.SITES, _different_sentence(everywhere, sites, run))]
    else:
        findings = [Finding(Topic.SITES, text) for text in [_peak_sentence(sites, run)] if text]
    if text := _work_sentence(sites, hosts, "" if findings else run):
        findings.append(Finding(Topic.SITES, text))
    fairness = sites_fairness(sites, hosts)
    if fairness is not None:
        findings.append(_fairness_finding(fairness, "" if findings else run))
    return findings


def _fairness_finding(fairness: SitesFairness, run: str) -> Finding:
    values: dict[str, Value] = {
        "near": fairness.near,
        "far": fairness.far,
        "near_ms": fairness.near_ms,
        "far_ms": fairness.far_ms,
        "longer_ms": fairness.longer_ms,
    }
    return Finding(
        Topic.SITES_FAIRNESS,
        _fairness_sentence(fairness, run),
        fairness.verdict,
        values,
        rule(RuleName.SITES),
    )


def _start(run: str, alone: str, after: str) -> str:
    """The start of a sentence: `alone`, or the run and `after` if the run is named."""
    return f"In run {run}, {after}" if run else alone


def _site_words(site: PlaceResult) -> str:
    away = away_ms(site)
    return site.site if away is None else f"{site.site} (round trip {quantity(away, 'ms')})"


def _different_sentence(sites: Sequence[PlaceResult], compared: Sequence[PlaceResult], run: str) -> str:
    """Which sites are compared, if not all have the same workloads."""
    start = _start(run, "The sites", "the sites")
    if compared:
        return f"{start} {_names(compared)} have the same workloads and are compared; the others are not."
    return f"{start} {_names(sites)} have different workloads, so their work and response times are not compared."


def _names(sites: Sequence[PlaceResult]) -> str:
    others = [f"{len(sites) - MAX_NAMED} others"] if len(sites) > MAX_NAMED else []
    return listing([*(site.site for site in sites[:MAX_NAMED]), *others])


def _peak_sentence(sites: Sequence[PlaceResult], run: str) -> str:
    known = [site for site in sites if site.peak_share is not None and site.testers_share is not None]
    if len(known) < 2:
        return ""
    shown = known if len(known) <= MAX_NAMED else [known[0], known[-1]]
    parts = [
        f"{_site_words(site)} had {percent(site.peak_share)}{'' if at else ' of the throughput'} with "
        f"{percent(site.testers_share)} of the testers"
        for at, site in enumerate(shown)
    ]
    return f"{_start(run, 'In', 'in')} the peak window, {listing(parts)}."


def _work_sentence(sites: Sequence[PlaceResult], hosts: HostsResult, run: str) -> str:
    if not sites:
        return ""
    near, far = sites[0], sites[-1]
    if near.share is None or far.share is None or near.share <= 0:
        return ""
    ratio = far.share / near.share
    text = f"{_start(run, 'A', 'a')} tester of {far.site} did {number(ratio)} times the work of one of {near.site}"
    known = [
        f"{groups} {number(value)}"
        for groups, value in (("the sites", hosts.jain_sites), ("the hosts", hosts.jain_hosts))
        if value is not None
    ]
    jain = f"; Jain's index over {listing(known)}" if known else ""
    return f"{text}{jain}{_clock_words(hosts)}."


def _clock_words(hosts: HostsResult) -> str:
    if hosts.bound_unknown:
        return f" (the clock offset of {listing(hosts.bound_unknown[:3])} is unknown)"
    return f" (clocks agree within {quantity(hosts.bound_ms, 'ms')})" if hosts.bound_ms else ""


def _fairness_sentence(fairness: SitesFairness, run: str) -> str:
    """The sentence on the parts of the difference that the round trip and the service cause."""
    near_ms, far_ms = quantity(fairness.near_ms, "ms"), quantity(fairness.far_ms, "ms")
    times = f"{near_ms} at {fairness.near} and {far_ms} at {fairness.far}"
    head = f"{_start(run, 'Without', 'without')} one round trip, the median response time is {times}"
    if fairness.verdict == SitesVerdict.ALIKE:
        cause = "; the difference between them is the round trip" if fairness.unequal else ""
        return f"{head}: the service treats both sites alike{cause}."
    longer, trip = abs(fairness.longer_ms), fairness.far_away_ms
    trips = f" ({number(longer / trip, 2)} round trips)" if trip > 0 else UNKNOWN
    more = "longer" if fairness.verdict == SitesVerdict.WAITS_MORE else "shorter"
    return (
        f"{head}: {fairness.far} waits {quantity(longer, 'ms')}{trips} {more} than its round trip explains."
    )
