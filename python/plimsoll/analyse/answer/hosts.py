"""Does the service treat the far ones fairly? In sentences, with figures and the bound. Computes nothing but ratios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.results import Analysis, RunResult
from plimsoll.analyse.results_hosts import HostsResult, PlaceResult
from plimsoll.analyse.wording import UNKNOWN, listing, number, percent, quantity

MOST_NAMED: Final = 4
"""Sites that are named each; of more, the nearest and the farthest."""
ALIKE: Final = 0.1
"""Near and far are treated alike where what is left of their times without the way differs by less than a tenth: of the
shorter one, or of the difference of the ways, whichever is more."""
PROBE_NOISE_MS: Final = 1.0
"""Probes are answered by processes, which wait for their turn; the network's own round trip is not known better."""


def leading_run(analysis: Analysis) -> RunResult | None:
    """The run of several agents that is spoken of: of the valid ones (else of all) that with the most testers."""
    runs = [run for run in analysis.runs if run.hosts is not None]
    return max(
        [run for run in runs if run.valid] or runs,
        key=lambda run: (len(run.testers), -run.order),
        default=None,
    )


def of_hosts(analysis: Analysis) -> list[str]:
    """What to say of the leading run, where it has testers of several sites."""
    run = leading_run(analysis)
    if run is None or run.hosts is None or not run.valid:
        return []
    return fairness_words(run.hosts, run.id if len(analysis.runs) > 1 else "")


def fairness_words(hosts: HostsResult, run: str = "") -> list[str]:
    """Sentences about the sites of one run, the nearest first; none where testers of one site alone did anything.
    `run`: its id, which the first sentence names, where there are several runs."""
    sites = sorted((each for each in hosts.sites if each.transactions), key=_distance)
    if len(sites) < 2:
        return []
    said: list[str] = []
    for make in (_peak, _work, _way):
        text = make(sites, hosts, "" if said else run)
        if text:
            said.append(text)
    return said


def _start(run: str, alone: str, after: str) -> str:
    """The first word of a sentence, behind the run that it is about, where that is named."""
    return f"In run {run}, {after}" if run else alone


def _distance(place: PlaceResult) -> float:
    away = away_ms(place)
    return float("inf") if away is None else away


def away_ms(place: PlaceResult) -> float | None:
    """How far it is: the round trip of its testers' connections, else of its agents' probes."""
    return place.rtt_ms if place.rtt_ms is not None else place.probe_rtt_ms


def _named(place: PlaceResult) -> str:
    away = away_ms(place)
    return place.site if away is None else f"{place.site} ({quantity(away, 'ms')} away)"


def _peak(sites: Sequence[PlaceResult], hosts: HostsResult, run: str) -> str:
    known = [each for each in sites if each.peak_share is not None and each.testers_share is not None]
    if len(known) < 2:
        return ""
    shown = known if len(known) <= MOST_NAMED else [known[0], known[-1]]
    parts = [
        f"{_named(each)} got {percent(each.peak_share)} with {percent(each.testers_share)} of the testers"
        for each in shown
    ]
    what = "the throughput of the peak window" if len(shown) == len(known) else "the peak's throughput"
    return f"{_start(run, 'Of', 'of')} {what} {listing(parts)}."


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
        return f" (nothing is known of the clock of {listing(hosts.bound_unknown[:3])})"
    return f" (clocks agree within {quantity(hosts.bound_ms, 'ms')})" if hosts.bound_ms else ""


def _way(sites: Sequence[PlaceResult], hosts: HostsResult, run: str) -> str:
    """What of the difference is the way, and what is the service."""
    near, far = sites[0], sites[-1]
    a, b = near.response_less_rtt_ms, far.response_less_rtt_ms
    ways = (away_ms(near), away_ms(far))
    if a is None or b is None or ways[0] is None or ways[1] is None:
        return ""
    times = f"{quantity(a, 'ms')} at {near.site} and {quantity(b, 'ms')} at {far.site}"
    head = f"{_start(run, 'Less', 'less')} one round trip the median response takes {times}"
    longer, apart = b - a, ways[1] - ways[0]
    if abs(longer) <= max(ALIKE * max(a, apart), PROBE_NOISE_MS if hosts.rtt_source == "probes" else 0.0):
        unequal = near.share is not None and far.share is not None and far.share < (1 - ALIKE) * near.share
        return (
            f"{head}: the service treats them alike{', what sets them apart is the way' if unequal else ''}."
        )
    trips = f", {number(abs(longer) / ways[1], 2)} of its round trips" if ways[1] > 0 else UNKNOWN
    more = "more" if longer > 0 else "less"
    return f"{head}: {far.site} waits {quantity(abs(longer), 'ms')}{trips}, {more} than its way explains."
