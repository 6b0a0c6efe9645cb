"""Shares of the sites over time, and the spread within each host, of a run of several agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt

from plimsoll.analyse.results.components.hosts import PlaceResult, SitesOverTime
from plimsoll.analyse.results.run import TesterResult
from plimsoll.analyse.results.wording import count, number, percent
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.theme import WIDTH, Chart, Rows, chart_of, finish, level
from plimsoll.report.tables.analysis import milliseconds
from plimsoll.report.tables.table import Column, Table

MAX_HOSTS: Final = 40
"""With more hosts than this, their spread is in the table only."""
MAX_TESTERS: Final = 2000
"""With more testers, only the ranges are drawn."""


def over_time(result: SitesOverTime, colour: alt.Color, order: Sequence[str], of_run: str) -> Figure:
    """The parts of the sites in all successful transactions, stacked, for each quantum. `order`: the sites, from the
    bottom; `of_run`: the end of the caption."""
    rows: Rows = [
        {"t": at, "site": site, "part": 100 * (share or 0.0), "transactions": done, "rank": order.index(site)}
        for site in order
        for at, share, done in zip(result.t_s, result.shares[site], result.transactions[site], strict=True)
    ]
    end = result.t_s[-1] + result.quantum_s
    rows += [row | {"t": end} for row in rows if row["t"] == result.t_s[-1]]  # the last step has a width
    drawn: Chart = (
        chart_of("sites_over_time")
        .mark_area(interpolate="step-after", opacity=0.75)
        .encode(
            x=alt.X(
                "t:Q",
                title="time since the start of the run (s)",
                scale=alt.Scale(zero=True, nice=False),
                axis=alt.Axis(grid=False, format=",~f", tickCount=8),
            ),
            y=alt.Y(
                "part:Q",
                title="part of the transactions (%)",
                stack="zero",
                scale=alt.Scale(domain=[0, 100]),
                axis=alt.Axis(tickCount=5, format=",~f"),
            ),
            color=colour,
            order=alt.Order("rank:Q"),
            tooltip=[
                alt.Tooltip("site:N"),
                alt.Tooltip("t:Q", title="from (s)", format=".4~r"),
                alt.Tooltip("part:Q", title="part (%)", format=".3~r"),
                alt.Tooltip("transactions:Q", format=","),
            ],
        )
        .properties(width=WIDTH, height=170)
    )
    columns = (Column("From (s)", numeric=True), *(Column(site, numeric=True) for site in order))
    cells = tuple(
        (number(at), *(percent(result.shares[site][position]) for site in order))
        for position, at in enumerate(result.t_s)
    )
    return Figure(
        key="site-shares",
        title="Parts of the sites over time",
        chart=finish(drawn, sites_over_time=rows),
        alt="Part of each site in the successful transactions over time: "
        + "; ".join(_range(site, result.shares[site]) for site in order[:16]),
        table=Table("Parts of the sites over time", columns, cells),
        caption=f"Part of each site in the successful transactions that ended in {number(result.quantum_s)} s each. "
        "The nearest site is at the bottom. The parts depend on the numbers of testers." + of_run,
    )


def _range(site: str, shares: Sequence[float | None]) -> str:
    known = [share for share in shares if share is not None]
    return f"{site} {percent(min(known))} to {percent(max(known))}"


def spread(
    testers: Sequence[TesterResult], hosts: Sequence[PlaceResult], colour: alt.Color, of_run: str
) -> Figure | None:
    """The work of the testers of each host, or of an open load, which has no shares, the response times. None if there
    are fewer than two hosts, or more than MAX_HOSTS."""
    if not 2 <= len(hosts) <= MAX_HOSTS:
        return None
    names = _unique(hosts)
    by_share = any(host.share_range is not None for host in hosts)
    ranges = [row for host in hosts if (row := _host_row(host, names, by_share)) is not None]
    if len(ranges) < 2:
        return None
    points = _tester_rows(testers, hosts, names) if by_share and len(testers) <= MAX_TESTERS else []
    y = alt.Y(
        "host:N",
        title=None,
        sort=[names[host.site, host.host] for host in hosts],
        axis=alt.Axis(labelLimit=180),
    )
    title = "work of a tester (1: fair share)" if by_share else "response time (ms)"
    scale, axis = alt.Scale(zero=True, nice=True), alt.Axis(tickCount=6, format=",~f")
    base = chart_of("host_ranges")
    tooltip = [alt.Tooltip("host:N"), alt.Tooltip("site:N"), alt.Tooltip("said:N", title="shown")]
    bars = base.mark_bar(height={"band": 0.5}, opacity=0.35).encode(
        y=y, x=alt.X("low:Q", title=title, scale=scale, axis=axis), x2="high:Q", color=colour, tooltip=tooltip
    )
    ticks = base.mark_tick(thickness=2.5, bandSize=16).encode(
        y=y, x=alt.X("middle:Q", title=title), color=colour, tooltip=tooltip
    )
    layers: list[alt.Chart] = [bars, ticks]
    if points:
        faint = chart_of("host_testers").mark_circle(size=16, opacity=0.6)
        layers.append(
            faint.encode(
                y=y,
                x=alt.X("value:Q", title=title),
                color=colour,
                tooltip=[alt.Tooltip("tester:N"), *tooltip],
            )
        )
    if by_share:
        layers.insert(0, level("x", 1))
    drawn: Chart = alt.layer(*layers).properties(width=WIDTH - 100, height=max(80, 24 * len(ranges)))
    what = (
        "work of its testers relative to a fair share" if by_share else "response time from the median to p95"
    )
    return Figure(
        key="host-spread",
        title="Spread within each host",
        chart=finish(drawn, host_ranges=ranges, host_testers=points),
        alt=f"For each host the {what}. " + "; ".join(f"{row['host']}: {row['said']}" for row in ranges[:16]),
        table=_table(ranges, by_share),
        caption=(
            "Bar: from the least to the greatest share of the testers of a host; tick: share of the host; points: "
            "testers. Shares relate the work of a tester to a fair part."
            if by_share
            else "Bar: response times from the median to the 95th percentile of a host; tick: mean."
        )
        + " The nearest host comes first."
        + of_run,
        on_demand=True,
    )


def _unique(hosts: Sequence[PlaceResult]) -> Mapping[tuple[str, str], str]:
    """The names of the hosts, with their sites if two sites have a host of the same name."""
    names = [host.host for host in hosts]
    return {
        (host.site, host.host): host.host if names.count(host.host) == 1 else f"{host.host} ({host.site})"
        for host in hosts
    }


def _host_row(
    host: PlaceResult, names: Mapping[tuple[str, str], str], by_share: bool
) -> dict[str, Any] | None:
    head = {"host": names[host.site, host.host], "site": host.site}
    if by_share:
        if host.share_range is None or host.share is None:
            return None
        low, high = host.share_range
        said = f"{number(low)} to {number(high)}, {count(host.testers)} testers"
        return head | {"low": low, "high": high, "middle": host.share, "said": said}
    p50, p95, mean = host.response_ms_p50, host.response_ms_p95, host.response_ms_mean
    if p50 is None or p95 is None or mean is None:
        return None
    said = f"median {milliseconds(p50)}, p95 {milliseconds(p95)}"
    return head | {"low": p50, "high": p95, "middle": mean, "said": said}


def _tester_rows(
    testers: Sequence[TesterResult], hosts: Sequence[PlaceResult], names: Mapping[tuple[str, str], str]
) -> Rows:
    """A row for each tester with a share, whose name is SITE/HOST/NUMBER."""
    of_place = {f"{host.site}/{host.host}": host for host in hosts}
    rows: Rows = []
    for tester in testers:
        host = of_place.get(tester.name.rpartition("/")[0])
        if host is not None and tester.share is not None:
            rows.append(
                {
                    "host": names[host.site, host.host],
                    "site": host.site,
                    "value": tester.share,
                    "tester": tester.name,
                    "said": number(tester.share),
                }
            )
    return rows


def _table(rows: Rows, by_share: bool) -> Table:
    heads = ("Least share", "Share of the host", "Greatest share") if by_share else ("Median", "Mean", "p95")
    columns = (Column("Host"), Column("Site"), *(Column(head, numeric=True) for head in heads))
    shown = number if by_share else milliseconds
    cells = tuple(
        (row["host"], row["site"], *(shown(row[key]) for key in ("low", "middle", "high"))) for row in rows
    )
    return Table("Spread within each host", columns, cells)
