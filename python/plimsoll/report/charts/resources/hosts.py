"""Throughput of each site, work of the hosts over their round-trip time, and the agents over time."""

from __future__ import annotations

from typing import Any, Final

import altair as alt

from plimsoll.analyse.hosts.sites import away_ms
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.components.hosts import HostsResult, PlaceResult
from plimsoll.analyse.results.wording import count, number, percent, plural, quantity
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.resources import sites as of_sites
from plimsoll.report.charts.theme import HEIGHT, WIDTH, Chart, Rows, axis_format, chart_of, finish, log_axis
from plimsoll.report.labels import COLOURS, SHAPES, Labels
from plimsoll.report.tables.analysis import milliseconds
from plimsoll.report.tables.resources import hosts
from plimsoll.report.tables.table import Column, Table

MAX_SITES: Final = 24
"""With more sites than this, no bars are drawn. The table contains all sites."""
GOT, HAD = "throughput", "testers"


def figures(labels: Labels) -> list[Figure]:
    """The figures of the shown run; empty if no run has several agents."""
    run = hosts.shown_run(labels)
    if run is None or run.hosts is None:
        return []
    result = run.hosts
    order = [site.site for site in _nearest_first(result)]
    nearest = sorted(result.hosts, key=lambda host: (order.index(host.site), away_ms(host) or 0.0, host.host))
    colour = _colour(labels, result)
    over_time = result.sites_over_time
    drawn = (
        sites(run, result),
        None if over_time is None else of_sites.over_time(over_time, colour, order, _of_run(run)),
        bubbles(labels, run, result),
        of_sites.spread(run.testers, nearest, colour, _of_run(run)),
        coverage(run, result),
    )
    return [figure for figure in drawn if figure is not None]


def _nearest_first(result: HostsResult) -> list[PlaceResult]:
    return sorted(result.sites, key=lambda site: (away_ms(site) is None, away_ms(site) or 0.0))


def _colour(labels: Labels, result: HostsResult) -> alt.Color:
    names = [site.site for site in _nearest_first(result)]
    colours = labels.colours_beside(len(names))
    legend = alt.Legend(title=None, symbolOpacity=1)
    return alt.Color("site:N", scale=alt.Scale(domain=names, range=colours), legend=legend)


def sites(run: RunResult, result: HostsResult) -> Figure | None:
    """Bars of the part of the peak window's throughput of each site, next to its part of the testers."""
    known = [
        site_result
        for site_result in _nearest_first(result)
        if site_result.peak_share is not None and site_result.testers_share is not None
    ]
    if not 2 <= len(known) <= MAX_SITES:
        return None
    rows: Rows = []
    for site_result in known:
        away = away_ms(site_result)
        site = site_result.site if away is None else f"{site_result.site} ({quantity(away, 'ms')})"
        rows.append({"site": site, "what": GOT, "part": 100 * (site_result.peak_share or 0.0)})
        rows.append({"site": site, "what": HAD, "part": 100 * (site_result.testers_share or 0.0)})
    names = [row["site"] for row in rows[::2]]
    drawn: Chart = (
        chart_of("sites")
        .mark_bar()
        .encode(
            y=alt.Y("site:N", title=None, sort=names),
            yOffset=alt.YOffset("what:N", sort=[GOT, HAD], scale=alt.Scale(paddingInner=0.1)),
            x=alt.X(
                "part:Q",
                title="part of the peak window (%)",
                scale=alt.Scale(zero=True),
                axis=alt.Axis(tickCount=6, format=",~f"),
            ),
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=[GOT, HAD], range=["#0a84c6", "#6b7785"]),
                legend=alt.Legend(title=None, symbolOpacity=1),
            ),
            tooltip=[
                alt.Tooltip("site:N"),
                alt.Tooltip("what:N", title="of"),
                alt.Tooltip("part:Q", title="part (%)", format=".3~r"),
            ],
        )
        .properties(width=WIDTH - 60, height=max(90, 44 * len(known)))
    )
    cells = tuple(
        (site_result.site, percent(site_result.peak_share), percent(site_result.testers_share))
        for site_result in known
    )
    columns = (
        Column("Site"),
        Column("Part of the throughput", numeric=True),
        Column("Part of the testers", numeric=True),
    )
    text = "; ".join(
        f"{site}: {throughput} of the throughput, {testers} of the testers"
        for site, throughput, testers in cells[:16]
    )
    return Figure(
        key="sites",
        title="Throughput of each site in the peak window",
        chart=finish(drawn, sites=rows),
        alt=f"Part of the throughput and of the testers of each site in the peak window. {text}.",
        table=Table("Parts of the peak window", columns, cells),
        caption="In the peak window: part of all transactions, next to the part of the testers that were active then, "
        "the nearest site first. Equal bars mean an equal share for every tester." + _of_run(run),
    )


def bubbles(labels: Labels, run: RunResult, result: HostsResult) -> Figure | None:
    """Throughput over round-trip time, a bubble for each host; None if fewer than two hosts have a round trip."""
    rows: Rows = [row for host in result.hosts[: hosts.MAX_ROWS] if (row := _bubble(host)) is not None]
    if len(rows) < 2:
        return None
    domain, ticks = log_axis(row["rtt"] for row in rows)
    names = [site.site for site in _nearest_first(result)]
    shapes = [SHAPES[at // len(COLOURS) % len(SHAPES)] for at in range(len(names))]
    drawn: Chart = (
        chart_of("hosts")
        .mark_point(filled=True, opacity=0.6, strokeWidth=1)
        .encode(
            x=alt.X(
                "rtt:Q",
                title="round-trip time (ms)",
                scale=alt.Scale(type="log", domain=domain, nice=False, padding=24),
                axis=alt.Axis(values=ticks, grid=False, format=",~r", labelOverlap=True),
            ),
            y=alt.Y(
                "rate:Q",
                title="work done (requests/s)",
                scale=alt.Scale(zero=True, nice=True, domainMin=0),
                axis=alt.Axis(tickCount=6, format=axis_format(row["rate"] for row in rows)),
            ),
            size=alt.Size(
                "wire:Q",
                title="on the wire (kB/s)",
                scale=alt.Scale(zero=True, range=[30, 900]),
                legend=alt.Legend(
                    format=",.2~r", values=_sizes(rows), symbolOpacity=0.5, titleFontWeight="normal"
                ),
            ),
            color=_colour(labels, result),
            shape=alt.Shape("site:N", scale=alt.Scale(domain=names, range=shapes), legend=None),
            tooltip=[
                alt.Tooltip("host:N"),
                alt.Tooltip("site:N"),
                alt.Tooltip("testers:Q"),
                alt.Tooltip("rate:Q", title="requests/s", format=".3~r"),
                alt.Tooltip("rtt:Q", title="round trip (ms)", format=".3~r"),
                alt.Tooltip("wire:Q", title="on the wire (kB/s)", format=".3~r"),
                alt.Tooltip("share:Q", title="share", format=".3~r"),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
    where = "; ".join(
        f"{row['host']} of {row['site']}: {number(row['rate'])} requests/s at {milliseconds(row['rtt'])}"
        for row in rows[:16]
    )
    return Figure(
        key="hosts",
        title="Work done over round-trip time",
        chart=finish(drawn, hosts=rows),
        alt=f"Requests per second of each host against its round-trip time. {where}.",
        table=hosts.hosts(run),
        caption=f"One bubble per host: right is a longer round trip, up is more work. Round trip: {_source(result)}. "
        "Hosts at the same height that have equally many testers are treated alike." + _of_run(run),
    )


def _bubble(host: PlaceResult) -> dict[str, Any] | None:
    away = away_ms(host)
    if away is None or away <= 0:
        return None
    return {
        "host": host.host,
        "site": host.site,
        "testers": host.testers,
        "rate": host.throughput_per_s,
        "rtt": away,
        "wire": host.wire_bytes_per_s / 1000,
        "share": host.share,
    }


def _sizes(rows: Rows) -> list[float]:
    """Two sizes for the legend: the greatest bubble, and a quarter of it."""
    most = max(row["wire"] for row in rows)
    return [float(f"{most * part:.2g}") for part in (0.25, 1)] if most > 0 else [0.0]


def _source(result: HostsResult) -> str:
    connections = any(host.rtt_ms is not None for host in result.hosts)
    return (
        "median of the testers' own connections" if connections else "median of the probes to the controller"
    )


def coverage(run: RunResult, result: HostsResult) -> Figure | None:
    """Number of agents over time; None if it was constant."""
    if len(result.coverage) < 2:
        return None
    series = run.series
    end = series.t_s[-1] + series.quantum_s if series is not None and series.t_s else result.coverage[-1].t_s
    rows: Rows = [
        {"t": point.t_s, "agents": point.agents, "testers": point.testers} for point in result.coverage
    ]
    if end > rows[-1]["t"]:
        rows.append(rows[-1] | {"t": end})
    y = alt.Y(
        "agents:Q",
        title="agents",
        scale=alt.Scale(zero=True),
        axis=alt.Axis(tickCount=5, tickMinStep=1, format="d"),
    )
    x = alt.X(
        "t:Q",
        title="time since the start of the run (s)",
        scale=alt.Scale(zero=True, nice=False),
        axis=alt.Axis(grid=False, format=",~f"),
    )
    tooltip = [
        alt.Tooltip("t:Q", title="from (s)", format=".4~r"),
        alt.Tooltip("agents:Q"),
        alt.Tooltip("testers:Q"),
    ]
    steps = chart_of("coverage").mark_line(interpolate="step-after", strokeWidth=2, color="#0a84c6")
    area = chart_of("coverage").mark_area(interpolate="step-after", opacity=0.12, color="#0a84c6")
    drawn: Chart = alt.layer(area.encode(x=x, y=y), steps.encode(x=x, y=y, tooltip=tooltip)).properties(
        width=WIDTH, height=140
    )
    columns = tuple(Column(name, numeric=True) for name in ("From (s)", "Agents", "Testers"))
    cells = tuple((number(point.t_s), count(point.agents), count(point.testers)) for point in result.coverage)
    return Figure(
        key="coverage",
        title="Coverage over time",
        chart=finish(drawn, coverage=rows),
        alt="Number of agents: "
        + "; ".join(
            f"{plural(point.agents, 'agent')} from {number(point.t_s)} s" for point in result.coverage[:16]
        ),
        table=Table("Coverage over time", columns, cells),
        caption="Number of agents over time; a lost agent counts until it was lost." + _of_run(run),
    )


def _of_run(run: RunResult) -> str:
    return f" Of run {run.id}." if run.cell else ""
