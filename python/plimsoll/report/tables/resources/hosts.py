"""Hosts and clocks as tables: work and round-trip time of each host, bounds of the clocks, coverage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.answer.components.hosts import fairness_words, leading_run
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.components.hosts import AgentClockResult, HostsResult, PlaceResult
from plimsoll.analyse.results.wording import (
    UNKNOWN,
    count,
    fixed,
    listing,
    number,
    percent,
    plural,
    plus_minus,
    quantity,
    with_unit,
)
from plimsoll.analyse.stats.interval import Interval
from plimsoll.collect.hosts import TESTERS
from plimsoll.report.labels import Labels
from plimsoll.report.tables.analysis import latency_cells, milliseconds
from plimsoll.report.tables.table import Column, Table

MAX_ROWS: Final = 400
"""Maximum number of rows of a table; analysis.json contains all."""
QUESTION: Final = "Does the service treat remote testers fairly?"
TERMS: Final = (
    (
        "Round trip, less round trip",
        "Round trip: median of the minimum round-trip times of the testers' own connections (TCP_INFO), at most that "
        "of the probes between agents and controller if these take the same path; of the probes alone if there is no "
        "TCP_INFO. Less round trip: median response time minus one round trip. A transaction with several round trips "
        "(a new connection, TLS, large data) still includes the others.",
    ),
    (
        "Clock bound",
        "The greatest error of any time stamp of an agent on the common clock of the run. It applies to every figure "
        "over several hosts; the quantum of their time series is at least ten times the greatest bound. Durations "
        "start and end on one host and are exact.",
    ),
    ("Coverage", "Number of agents over time. A lost agent counts until it was lost."),
)


def shown_run(labels: Labels) -> RunResult | None:
    """The run whose hosts and clocks are shown; None if no run has several agents."""
    return leading_run(labels.analysis)


def words(hosts: HostsResult) -> str:
    """The text above the tables: the answer for remote testers, the clocks, the coverage."""
    sentences = fairness_words(hosts)
    sentences = [f"{QUESTION} {sentences[0]}", *sentences[1:]] if sentences else []
    return " ".join([*sentences, clock_words(hosts), *filter(None, [coverage_words(hosts)])])


def clock_words(hosts: HostsResult) -> str:
    """The error bound of the clocks, and the spread of the agents' starts."""
    if hosts.bound_ms is None:
        return "The clock offsets of the agents are unknown."
    if hosts.bound_ms == 0:
        watching = (clock.bound_ms or 0.0 for clock in hosts.clocks if clock.role != TESTERS)
        bound = max(watching, default=0.0)
        text = "All agents use the controller's clock."
        if bound > 0:
            text = "All testers use the controller's clock; the times of watched hosts are mapped to it to within "
            text += f"{milliseconds(bound)}."
    else:
        text = f"The time stamps of all agents are correct to within {milliseconds(hosts.bound_ms)}"
        finest = quantity(hosts.least_quantum_s * 1000, "ms")
        text += f", so time series over all agents have a quantum of at least {finest}."
    if hosts.start_spread_ms is not None and hosts.bound_ms > 0:
        text += f" {_start_words(hosts.start_spread_ms, hosts.start_spread_bound_ms)}"
    if hosts.bound_unknown:
        text += f" The clock offset of {_some(hosts.bound_unknown)} is unknown."
    return text


def _start_words(spread_ms: float, bound_ms: float | None) -> str:
    if bound_ms is None:
        return f"They started within {milliseconds(spread_ms)} of each other; the clock bound is unknown."
    if spread_ms <= bound_ms:
        return f"They started simultaneously, within the clock bound of {milliseconds(bound_ms)}."
    interval = Interval(spread_ms, spread_ms - bound_ms, spread_ms + bound_ms)
    return f"The last started {plus_minus(interval, 'ms', signed=True)} after the first."


def coverage_words(hosts: HostsResult) -> str:
    """A sentence about the lost agents; empty if none was lost."""
    if not hosts.lost:
        return ""
    missing = ""
    if hosts.missing:
        missing = f" At least {plural(hosts.missing, 'transaction')} of these agents are not on disk."
    covered = f"; agents covered {percent(hosts.coverage_mean)} of the window" if hosts.coverage_mean else ""
    names = _some([agent.agent for agent in hosts.lost])
    return f"{count(len(hosts.lost))} of {plural(hosts.agents, 'agent')} lost: {names}{covered}.{missing}"


def _some(names: Sequence[str]) -> str:
    more = [f"{len(names) - 5} more"] if len(names) > 5 else []
    return listing([*names[:5], *more])


def sites(labels: Labels) -> Table:
    """A row for each site of each run with sites. With several runs, each row starts with the run and its cell."""
    runs = [run for run in labels.runs() if run.hosts is not None and run.hosts.sites]
    several = len(runs) > 1
    rows = []
    for run in runs:
        assert run.hosts is not None
        head = (run.id, labels.cell(run.cell)) if several else ()
        for site in run.hosts.sites:
            rows.append((*head, site.site, *_site(site)))
    names = (*(("Run", "Cell") if several else ()), "Site")
    heads = (
        "Testers",
        "Requests/s",
        "Of the peak",
        "Of its testers",
        "Share",
        "Round trip",
        "Median",
        "p95",
        "Less trip",
    )
    return Table("Sites", _columns(names, heads), tuple(rows[:MAX_ROWS]), _note(rows, SITES_NOTE))


SITES_NOTE: Final = (
    "Of the peak: part of the throughput of the peak window; of its testers: the part of all testers that were active "
    "then. Share: work per tester, 1 is fair. Median and p95 of the response time; less trip: the median less one "
    "round trip."
)


def _site(site: PlaceResult) -> tuple[str, ...]:
    return (
        count(site.testers),
        number(site.throughput_per_s),
        percent(site.peak_share),
        percent(site.testers_share),
        number(site.share),
        _round_trip(site),
        milliseconds(site.response_ms_p50),
        milliseconds(site.response_ms_p95),
        milliseconds(site.response_less_rtt_ms),
    )


def _round_trip(place: PlaceResult) -> str:
    """The round trip of the connections; if it is unknown, that of the probes, with the addition `(probes)`."""
    if place.rtt_ms is not None:
        return milliseconds(place.rtt_ms)
    return f"{milliseconds(place.probe_rtt_ms)} (probes)" if place.probe_rtt_ms is not None else UNKNOWN


def hosts(run: RunResult) -> Table:
    """A row for each host of a run. The run must have hosts."""
    assert run.hosts is not None
    rows = [
        (
            host.host,
            host.site,
            count(host.testers),
            number(host.throughput_per_s),
            quantity(host.wire_bytes_per_s, "bytes_rate"),
            number(host.share),
            _range(host.share_range),
            number(host.jain_index, 4),
            _round_trip(host),
            milliseconds(host.response_ms_mean),
            milliseconds(host.response_ms_p50),
            milliseconds(host.response_ms_p95),
            milliseconds(host.response_less_rtt_ms),
            percent(host.cpu, 2),
        )
        for host in run.hosts.hosts
    ]
    heads = (
        "Testers",
        "Requests/s",
        "On the wire",
        "Share",
        "Of its testers",
        "Jain's index",
        "Round trip",
        "Mean",
        "Median",
        "p95",
        "Less round trip",
        "CPU",
    )
    note = (
        "Share: work per tester, 1 is fair; of its testers: their least and greatest share, and Jain's index among "
        "them. Mean, median and p95 of the response time. CPU: mean busy share of the host."
    )
    columns = _columns(("Host", "Site"), heads)
    return Table(_of_run("Hosts", run), columns, tuple(rows[:MAX_ROWS]), _note(rows, note))


def _range(ends: tuple[float, float] | None) -> str:
    return UNKNOWN if ends is None else f"{number(ends[0])} to {number(ends[1])}"


def clocks(run: RunResult) -> Table:
    """A row for the clock of each agent. The run must have hosts."""
    assert run.hosts is not None
    rows = [(clock.agent, clock.site, _via(clock), *_clock(clock)) for clock in run.hosts.clocks]
    heads = ("Bound", "Drift (ppm)", "Interval (ppm)", "Probes", "Least round trip", "Began")
    note = (
        "Bound: the greatest error of any time stamp of the agent in this run. Drift: how much slower its clock runs "
        "than the controller's (negative: faster), with the interval that contains it. Began: after the start of the "
        "run."
    )
    remarks = "; ".join(f"{clock.agent}: {clock.remark}" for clock in run.hosts.clocks if clock.remark)
    text = f"{note} {remarks}." if remarks else note
    columns = _columns(("Agent", "Site", "Probes by"), heads)
    return Table(_of_run("Clocks", run), columns, tuple(rows[:MAX_ROWS]), _note(rows, text))


def _via(clock: AgentClockResult) -> str:
    if clock.same:
        return "the same clock"
    return listing(sorted(clock.via)) or UNKNOWN


def _clock(clock: AgentClockResult) -> tuple[str, ...]:
    if clock.same:
        return ("0", *(UNKNOWN,) * 4, milliseconds(clock.started_ms))
    ends = (
        f"{number(clock.drift_low_ppm)} to {number(clock.drift_high_ppm)}"
        if clock.drift_low_ppm is not None
        else UNKNOWN
    )
    rejected = f" ({count(clock.rejected)} rejected)" if clock.rejected else ""
    return (
        with_unit(f"± {milliseconds(clock.bound_ms)}", "") if clock.bound_ms is not None else "unknown",
        number(clock.drift_ppm),
        ends,
        f"{count(clock.probes)}{rejected}",
        milliseconds(clock.rtt_min_ms),
        _began(clock),
    )


def _began(clock: AgentClockResult) -> str:
    """The start time of an agent with its bound, without digits below the bound."""
    if clock.started_ms is None or clock.bound_ms is None:
        return UNKNOWN
    at = clock.started_ms
    if abs(at) < clock.bound_ms:  # the unit is that of the bound: 0 has none
        return f"0 ± {milliseconds(clock.bound_ms)}"
    return plus_minus(Interval(at, at - clock.bound_ms, at + clock.bound_ms), "ms", signed=True)


def lost(run: RunResult) -> Table | None:
    """A row for each lost agent, with the number of its transactions on disk; None if none was lost."""
    if run.hosts is None or not run.hosts.lost:
        return None
    rows = [
        (
            agent.agent,
            agent.site,
            "all figures include its transactions on disk" if agent.brought_in else UNSEEN,
            UNKNOWN if agent.lost_s is None else with_unit(number(agent.lost_s), "s"),
            count(agent.transactions),
            UNKNOWN if agent.last_s is None else _at(agent.last_s, run.hosts),
        )
        for agent in run.hosts.lost
    ]
    heads = ("Lost at", "Transactions on disk", "The last ended at")
    columns = _columns(("Agent", "Site", "Transactions"), heads)
    note = (
        f"At least {plural(run.hosts.missing, 'transaction')} more are not on disk."
        if run.hosts.missing
        else ""
    )
    return Table(_of_run("Agents lost", run), columns, tuple(rows[:MAX_ROWS]), note)


UNSEEN: Final = "unknown: none of its segments were fetched"


def _at(t_s: float, hosts: HostsResult) -> str:
    """A time in s on the clock of an agent, without digits below the clock bound."""
    if not hosts.bound_ms:
        return with_unit(number(t_s), "s")
    return with_unit(fixed(t_s, min(0, math.floor(math.log10(hosts.bound_ms / 1000)))), "s")


def with_and_without(run: RunResult) -> Table | None:
    """The figures of the window with and without the transactions of the lost agents; None if none was lost."""
    if run.without_lost is None:
        return None
    rows = [
        (
            name,
            count(traffic.transactions),
            number(traffic.throughput_per_s),
            *latency_cells(traffic.response_ms),
        )
        for name, traffic in (("all agents", run.traffic), ("without lost agents", run.without_lost))
    ]
    heads = ("Requests", "Requests/s", "Mean", "sd", "p50", "p90", "p95", "p99", "p99.9", "Max")
    note = "Response times. All other figures of this report include the lost agents."
    return Table(
        _of_run("With and without the lost agents", run), _columns(("Of",), heads), tuple(rows), note
    )


def events(run: RunResult) -> Table | None:
    """Events of the clocks and of the network paths to them; None if there were none."""
    if run.hosts is None or not run.hosts.events:
        return None
    rows = [(_at(event.t_s, run.hosts), event.agent, event.text) for event in run.hosts.events]
    columns = (Column("At"), Column("Agent"), Column("What"))
    note = "They changed no figure: time stamps use a clock that cannot be set, and the clock map corrects the rest."
    return Table(_of_run("Events of the clocks", run), columns, tuple(rows[:MAX_ROWS]), _note(rows, note))


def line(run: RunResult) -> str:
    """A line about hosts and clocks, for the terminal; empty for a run of one agent."""
    result = run.hosts
    if result is None:
        return ""
    parts = [plural(len(result.hosts) or result.agents, "host"), plural(len(result.sites), "site")]
    text = listing(parts) if result.sites else parts[0]
    if result.bound_unknown:
        text += f", clock offset of {_some(result.bound_unknown)} unknown"
    elif result.bound_ms:
        text += f", clocks within {milliseconds(result.bound_ms)}"
    if result.jain_sites is not None and len(result.sites) > 1:
        text += f", Jain's index over sites {number(result.jain_sites)}"
    return text


def lost_line(run: RunResult) -> str:
    """A line about the lost agents, with throughput and p95 with and without them; empty if none was lost."""
    if run.hosts is None or not run.hosts.lost:
        return ""
    text = listing(
        [
            agent.agent if agent.lost_s is None else f"{agent.agent} at {number(agent.lost_s)} s"
            for agent in run.hosts.lost[:5]
        ]
    )
    text = f"{count(len(run.hosts.lost))} of {plural(run.hosts.agents, 'agent')}: {text}"
    if run.without_lost is not None:
        both = (run.traffic, run.without_lost)
        rates = [quantity(traffic.throughput_per_s, "rate", "requests/s") for traffic in both]
        text += f"; {rates[0]} with their transactions, {rates[1]} without"
        p95 = [traffic.response_ms.p95 for traffic in both]
        if None not in p95:
            text += f"; p95 {milliseconds(p95[0])} with, {milliseconds(p95[1])} without"
    return text


def _of_run(title: str, run: RunResult) -> str:
    return f"{title}, run {run.id}" if run.cell else title


def _columns(words: Sequence[str], numbers: Sequence[str]) -> tuple[Column, ...]:
    return (*map(Column, words), *(Column(name, numeric=True) for name in numbers))


def _note(rows: Sequence[object], note: str) -> str:
    more = len(rows) - MAX_ROWS
    return f"{note} {plural(more, 'more row')} in analysis.json." if more > 0 else note
