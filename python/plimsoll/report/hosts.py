"""Hosts and clocks as tables: work and round-trip time of each host, bounds of the clocks, coverage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.answer.hosts import fairness_words, leading_run
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.hosts import AgentClockResult, HostsResult, PlaceResult
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
from plimsoll.report.table import Column, Table
from plimsoll.report.tables import latency_cells, milliseconds

MAX_ROWS: Final = 400
"""Rows of a table; analysis.json has them all."""
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


def shown(labels: Labels) -> RunResult | None:
    """The run of which hosts and clocks are shown; None where no run has several agents."""
    return leading_run(labels.analysis)


def words(hosts: HostsResult) -> str:
    """The text above the tables: the answer for remote testers, the clocks, the coverage."""
    said = fairness_words(hosts)
    said = [f"{QUESTION} {said[0]}", *said[1:]] if said else []
    return " ".join([*said, clock_words(hosts), *filter(None, [coverage_words(hosts)])])


def clock_words(hosts: HostsResult) -> str:
    """The error bound of the clocks, and the spread of the agents' starts."""
    if hosts.bound_ms is None:
        return "The clock offsets of the agents are unknown."
    if hosts.bound_ms == 0:
        watching = (each.bound_ms or 0.0 for each in hosts.clocks if each.role != TESTERS)
        apart = max(watching, default=0.0)
        said = "All agents use the controller's clock."
        if apart > 0:
            said = "All testers use the controller's clock; the times of watched hosts are mapped to it to within "
            said += f"{milliseconds(apart)}."
    else:
        said = f"The time stamps of all agents are correct to within {milliseconds(hosts.bound_ms)}"
        finest = quantity(hosts.least_quantum_s * 1000, "ms")
        said += f", so time series over all agents have a quantum of at least {finest}."
    if hosts.start_spread_ms is not None and hosts.bound_ms > 0:
        said += f" {_start_words(hosts.start_spread_ms, hosts.start_spread_bound_ms)}"
    if hosts.bound_unknown:
        said += f" The clock offset of {_some(hosts.bound_unknown)} is unknown."
    return said


def _start_words(spread_ms: float, bound_ms: float | None) -> str:
    if bound_ms is None:
        return f"They started within {milliseconds(spread_ms)} of each other; the clock bound is unknown."
    if spread_ms <= bound_ms:
        return f"They started simultaneously, within the clock bound of {milliseconds(bound_ms)}."
    interval = Interval(spread_ms, spread_ms - bound_ms, spread_ms + bound_ms)
    return f"The last started {plus_minus(interval, 'ms', signed=True)} after the first."


def coverage_words(hosts: HostsResult) -> str:
    """The lost agents in a sentence; empty where none was lost."""
    if not hosts.lost:
        return ""
    missing = ""
    if hosts.missing:
        missing = f" At least {plural(hosts.missing, 'transaction')} of these agents are not on disk."
    there = f"; agents covered {percent(hosts.coverage_mean)} of the window" if hosts.coverage_mean else ""
    names = _some([each.agent for each in hosts.lost])
    return f"{count(len(hosts.lost))} of {plural(hosts.agents, 'agent')} lost: {names}{there}.{missing}"


def _some(names: Sequence[str]) -> str:
    more = [f"{len(names) - 5} more"] if len(names) > 5 else []
    return listing([*names[:5], *more])


def sites(labels: Labels) -> Table:
    """Fairness by site: of the run that is shown, or of every run where there are several."""
    runs = [run for run in labels.runs() if run.hosts is not None and run.hosts.sites]
    several = len(runs) > 1
    rows = []
    for run in runs:
        assert run.hosts is not None
        head = (run.id, labels.cell(run.cell)) if several else ()
        for each in run.hosts.sites:
            rows.append((*head, each.site, *_site(each)))
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


def _site(each: PlaceResult) -> tuple[str, ...]:
    return (
        count(each.testers),
        number(each.throughput_per_s),
        percent(each.peak_share),
        percent(each.testers_share),
        number(each.share),
        _round_trip(each),
        milliseconds(each.response_ms_p50),
        milliseconds(each.response_ms_p95),
        milliseconds(each.response_less_rtt_ms),
    )


def _round_trip(each: PlaceResult) -> str:
    """The round trip of the connections, or that of the probes, marked as such."""
    if each.rtt_ms is not None:
        return milliseconds(each.rtt_ms)
    return f"{milliseconds(each.probe_rtt_ms)} (probes)" if each.probe_rtt_ms is not None else UNKNOWN


def hosts(run: RunResult) -> Table:
    """Every host of a run."""
    assert run.hosts is not None
    rows = [
        (
            each.host,
            each.site,
            count(each.testers),
            number(each.throughput_per_s),
            quantity(each.wire_bytes_per_s, "bytes_rate"),
            number(each.share),
            _range(each.share_range),
            number(each.jain_index, 4),
            _round_trip(each),
            milliseconds(each.response_ms_mean),
            milliseconds(each.response_ms_p50),
            milliseconds(each.response_ms_p95),
            milliseconds(each.response_less_rtt_ms),
            percent(each.cpu, 2),
        )
        for each in run.hosts.hosts
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
    """Every agent's clock."""
    assert run.hosts is not None
    rows = [(each.agent, each.site, _via(each), *_clock(each)) for each in run.hosts.clocks]
    heads = ("Bound", "Drift (ppm)", "Interval (ppm)", "Probes", "Least round trip", "Began")
    note = (
        "Bound: the greatest error of any time stamp of the agent in this run. Drift: how much slower its clock runs "
        "than the controller's (negative: faster), with the interval that contains it. Began: after the start of the "
        "run."
    )
    remarks = "; ".join(f"{each.agent}: {each.remark}" for each in run.hosts.clocks if each.remark)
    said = f"{note} {remarks}." if remarks else note
    columns = _columns(("Agent", "Site", "Probes by"), heads)
    return Table(_of_run("Clocks", run), columns, tuple(rows[:MAX_ROWS]), _note(rows, said))


def _via(each: AgentClockResult) -> str:
    if each.same:
        return "the same clock"
    return listing(sorted(each.via)) or UNKNOWN


def _clock(each: AgentClockResult) -> tuple[str, ...]:
    if each.same:
        return ("0", *(UNKNOWN,) * 4, milliseconds(each.started_ms))
    ends = (
        f"{number(each.drift_low_ppm)} to {number(each.drift_high_ppm)}"
        if each.drift_low_ppm is not None
        else UNKNOWN
    )
    rejected = f" ({count(each.rejected)} rejected)" if each.rejected else ""
    return (
        with_unit(f"± {milliseconds(each.bound_ms)}", "") if each.bound_ms is not None else "unknown",
        number(each.drift_ppm),
        ends,
        f"{count(each.probes)}{rejected}",
        milliseconds(each.rtt_min_ms),
        _began(each),
    )


def _began(each: AgentClockResult) -> str:
    """A time with its bound, without digits below the bound."""
    if each.started_ms is None or each.bound_ms is None:
        return UNKNOWN
    at = each.started_ms
    if abs(at) < each.bound_ms:  # the unit is that of the bound: 0 has none
        return f"0 ± {milliseconds(each.bound_ms)}"
    return plus_minus(Interval(at, at - each.bound_ms, at + each.bound_ms), "ms", signed=True)


def lost(run: RunResult) -> Table | None:
    """The agents that were lost, and how many of their transactions are on disk."""
    if run.hosts is None or not run.hosts.lost:
        return None
    rows = [
        (
            each.agent,
            each.site,
            "all figures include its transactions on disk" if each.brought_in else UNSEEN,
            UNKNOWN if each.lost_s is None else with_unit(number(each.lost_s), "s"),
            count(each.transactions),
            UNKNOWN if each.last_s is None else _at(each.last_s, run.hosts),
        )
        for each in run.hosts.lost
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
    """A time of an agent's clock, without digits below the bound."""
    if not hosts.bound_ms:
        return with_unit(number(t_s), "s")
    return with_unit(fixed(t_s, min(0, math.floor(math.log10(hosts.bound_ms / 1000)))), "s")


def with_and_without(run: RunResult) -> Table | None:
    """The figures of the window with the transactions of the lost agents, and without."""
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
    """Events of the clocks and of the network paths to them."""
    if run.hosts is None or not run.hosts.events:
        return None
    rows = [(_at(each.t_s, run.hosts), each.agent, each.text) for each in run.hosts.events]
    columns = (Column("At"), Column("Agent"), Column("What"))
    note = "They changed no figure: time stamps use a clock that cannot be set, and the clock map corrects the rest."
    return Table(_of_run("Events of the clocks", run), columns, tuple(rows[:MAX_ROWS]), _note(rows, note))


def line(run: RunResult) -> str:
    """Hosts and clocks in a line, for the terminal; empty where there is one agent."""
    found = run.hosts
    if found is None:
        return ""
    said = [plural(len(found.hosts) or found.agents, "host"), plural(len(found.sites), "site")]
    text = listing(said) if found.sites else said[0]
    if found.bound_unknown:
        text += f", clock offset of {_some(found.bound_unknown)} unknown"
    elif found.bound_ms:
        text += f", clocks within {milliseconds(found.bound_ms)}"
    if found.jain_sites is not None and len(found.sites) > 1:
        text += f", Jain's index over sites {number(found.jain_sites)}"
    return text


def lost_line(run: RunResult) -> str:
    """The lost agents in a line, with p95 of the others; empty where none was lost."""
    if run.hosts is None or not run.hosts.lost:
        return ""
    text = listing(
        [
            each.agent if each.lost_s is None else f"{each.agent} at {number(each.lost_s)} s"
            for each in run.hosts.lost[:5]
        ]
    )
    text = f"{count(len(run.hosts.lost))} of {plural(run.hosts.agents, 'agent')}: {text}"
    if run.without_lost is not None:
        both = (run.traffic, run.without_lost)
        rates = [quantity(each.throughput_per_s, "rate", "requests/s") for each in both]
        text += f"; {rates[0]} with their transactions, {rates[1]} without"
        p95 = [each.response_ms.p95 for each in both]
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
