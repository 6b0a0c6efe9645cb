"""The section about hosts and clocks of a run with several agents: text, tables, charts, and hostile names."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from tests.golden.fixture import HOSTILE, designed, set_up, single, wan
from tests.unit.hosts_made import Made, Site, make

from plimsoll.analyse.answer.compose import sentences
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.components.hosts import AgentClockResult, HostsResult
from plimsoll.api import analysis
from plimsoll.report.charts import load_figures, spec
from plimsoll.report.html import render
from plimsoll.report.labels import Labels
from plimsoll.report.tables.resources import hosts
from plimsoll.report.terminal import summary_lines


def hosts_of(analysis: Analysis) -> HostsResult:
    result = analysis.runs[0].hosts
    assert result is not None
    return result


def test_the_section_is_there_for_several_agents_only() -> None:
    assert 'id="hosts"' in render(wan(), set_up(), bundle="")
    for result in (single(), designed()):
        page = render(result, set_up(), bundle="")
        assert 'id="hosts"' not in page and "Clock bound" not in page
        assert not any(line.startswith("  hosts") for line in summary_lines(result))


def test_charts_are_valid_and_have_their_numbers() -> None:
    figures = {figure.key: figure for figure in load_figures(Labels(wan()))}
    keys = ("sites", "site-shares", "hosts", "host-spread", "coverage")
    for key in keys:
        figures[key].chart.to_dict(validate=True)
        assert figures[key].table.rows
        json.dumps(spec(figures[key].chart), allow_nan=False)
    drawn = spec(figures["hosts"].chart)
    assert len(drawn["datasets"]["hosts"]) == 10 and drawn["encoding"]["x"]["scale"]["type"] == "log"
    assert figures["host-spread"].on_demand
    spread = spec(figures["host-spread"].chart)["datasets"]
    assert len(spread["host_ranges"]) == 10 and len(spread["host_testers"]) == 20
    # f3 is lost during the run: its share and those of its testers are of different times.
    whole = [row for row in spread["host_ranges"] if row["host"] != "f3"]
    assert all(row["low"] - 1e-9 <= row["middle"] <= row["high"] + 1e-9 for row in whole)
    shares = spec(figures["site-shares"].chart)["datasets"]["sites_over_time"]
    by_time: dict[float, float] = {}
    for row in shares:
        by_time[row["t"]] = by_time.get(row["t"], 0.0) + row["part"]
    assert all(part == pytest.approx(100) for part in by_time.values())
    assert [row["agents"] for row in spec(figures["coverage"].chart)["datasets"]["coverage"]] == [10, 9, 9]


def test_constant_coverage_is_not_drawn(tmp_path: Path) -> None:
    result = analysis(make(tmp_path / "results", Made(seconds=5, testers=1)))
    assert "coverage" not in [figure.key for figure in load_figures(Labels(result))]
    assert hosts.lost(result.runs[0]) is None and hosts.with_and_without(result.runs[0]) is None


def test_the_summary_counts_agents_and_names_the_lost_ones() -> None:
    text = "\n".join(summary_lines(wan(), 100))
    assert "20 testers on 10 agents" in text
    assert "10 hosts and 3 sites, clocks within 158 ms" in text
    assert "1 of 10 agents: f3 at 5.00 s" in text and "without" in text
    assert "DAMAGED" not in text


def test_an_agent_without_transactions_is_counted(tmp_path: Path) -> None:
    made = Made(seconds=4, testers=1, lost={"n1": 3.0}, kept=0.0)
    text = "\n".join(summary_lines(analysis(make(tmp_path / "results", made)), 100))
    assert "9 testers on 10 agents" in text and "the run is invalid" in text


@pytest.mark.parametrize(
    ("started", "bound", "said"),
    [
        (0.21, 157.75, "0 ± 158 ms"),
        (-0.012, 0.4, "0 ± 400 µs"),
        (2000.0, 157.75, "2.00 ± 0.16 s"),
        (12.3456, 0.4, "12.35 ± 0.40 ms"),
        (1.0, None, "–"),
    ],
)
def test_no_time_is_finer_than_its_bound(started: float, bound: float | None, said: str) -> None:
    clock = AgentClockResult(
        "a", "h", "s", False, bound, 0.0, 1.0, 0.0, 2.0, started, 9, 0, {"udp": 9}, 0.3, 0.4, ""
    )
    run = dataclasses.replace(
        wan().runs[0],
        hosts=dataclasses.replace(hosts_of(wan()), clocks=(clock,)),
        testers=wan().runs[0].testers,
    )
    assert hosts.clocks(run).rows[0][-1].replace("\u00a0", " ") == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "They started simultaneously, within the clock bound of 316 ms."),
        ({"start_spread_ms": 4000.0}, "The last started 4.00 ± 0.32 s after the first."),
        ({"start_spread_bound_ms": None}, "the clock bound is unknown"),
        ({"bound_ms": None}, "The clock offsets of the agents are unknown."),
        ({"bound_ms": 0.0}, "All agents use the controller's clock."),
        ({"bound_unknown": ("a", "b")}, "The clock offset of a and b is unknown."),
    ],
)
def test_clocks_in_words(change: dict[str, object], said: str) -> None:
    changed = dataclasses.replace(hosts_of(wan()), **change)  # type: ignore[arg-type]
    assert said in hosts.clock_words(changed).replace("\u00a0", " ")


def test_many_runs_have_their_sites_in_one_table() -> None:
    single_run = wan()
    run = single_run.runs[0]
    two = dataclasses.replace(
        single_run, runs=(run, dataclasses.replace(run, id="0002", cell={"zip": "5"}, order=2))
    )
    table = hosts.sites(Labels(two))
    assert [column.name for column in table.columns[:3]] == ["Run", "Cell", "Site"]
    assert len(table.rows) == 6
    assert any(sentence.startswith("In run 0001, in the peak window, ") for sentence in sentences(two))


def test_hostile_names_are_texts(tmp_path: Path) -> None:
    made = Made(
        sites=(Site(HOSTILE, (HOSTILE, "b\x1b[31m"), 1.0), Site("{{ 7 * 7 }}", ("c",), 40.0)),
        seconds=4,
        testers=2,
        lost={"c": 3.0},
        unknown=(HOSTILE,),
    )
    result = analysis(make(tmp_path / "results", made))
    page = render(result, set_up(), bundle="")
    assert (
        "<img src=x" not in page and "<script>alert" not in page and "49" not in hosts.words(hosts_of(result))
    )
    assert not any("\x1b" in line for line in summary_lines(result))
