"""Changes during a run: series, explanations, sentences, and runs that are not examined."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.golden.fixture import designed, single
from tests.stats.changing_runs import second, simulated_run

from plimsoll.analyse.answer.changes import change_text, of_changes
from plimsoll.analyse.components.cpu_series import HostCpu, cpu_of_hosts, whole_seconds
from plimsoll.analyse.results.document import as_document
from plimsoll.analyse.results.run import OutsideCpu, RunChange
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import ChangedSeries, Topic
from plimsoll.analyse.results.wording import SPACE
from plimsoll.analyse.run.changes import run_changes
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.samples import SampleSeries
from plimsoll.collect.hosts import Agent, AgentClock
from plimsoll.report.charts.marks import CHANGES, change_rows
from plimsoll.report.charts.series import chart
from plimsoll.report.page_data import run_data
from plimsoll.report.tables.run import changes as changes_table


def changed(series: ChangedSeries, at_s: float, before: float, after: float, **more: object) -> RunChange:
    units = {"throughput": "requests/s", "response time": "ms", "cpu": "cores"}
    change = RunChange(
        series=series,
        component="",
        host="",
        at_s=at_s,
        before=before,
        after=after,
        unit=units[series],
        ratio=after / before - 1 if before else None,
        p=0.005,
        rule=rule(RuleName.CHANGES),
    )
    return replace(change, **more)  # type: ignore[arg-type]


def plain(text: str) -> str:
    return text.replace(SPACE, " ")


OUTSIDE = OutsideCpu("db1", 40.0, 0.01, 0.38)
FELL = changed(ChangedSeries.THROUGHPUT, 41.0, 1000.0, 700.0, outside=(OUTSIDE,))
ROSE = changed(ChangedSeries.RESPONSE, 41.0, 4.0, 5.6, outside=(OUTSIDE,))
CPU = changed(ChangedSeries.CPU, 41.0, 0.81, 0.52, component="web", host="db1")


def test_a_slower_run_is_explained_by_other_processes() -> None:
    rng = np.random.default_rng(1)
    live, hosts = simulated_run(rng, 60, 0.0, sd=0.03, at=30, slower=0.4, outside=0.4)
    changes = run_changes(live, range(60), hosts)
    assert changes is not None
    by_series = {(change.series, change.component): change for change in changes}
    fell = by_series[ChangedSeries.THROUGHPUT, ""]
    assert fell.at_s == 30.0 and fell.ratio == pytest.approx(-0.4, abs=0.05) and fell.p <= 0.005
    rose = by_series[ChangedSeries.RESPONSE, ""]
    assert rose.at_s == 30.0 and rose.ratio is not None and rose.ratio > 0.5
    (outside,) = fell.outside
    assert outside == rose.outside[0]
    assert abs(outside.at_s - 30) <= 1 and outside.after == pytest.approx(0.41, abs=0.02)
    web = by_series[ChangedSeries.CPU, "web"]
    assert (web.unit, web.outside) == ("cores", ()) and web.after < web.before
    assert fell.rule == rule(RuleName.CHANGES)


def test_a_faster_run_is_not_explained_by_more_use_of_other_processes() -> None:
    rng = np.random.default_rng(2)
    live, hosts = simulated_run(rng, 60, 0.0, sd=0.03, at=30, slower=-0.4, outside=0.4)
    (change, *_) = run_changes(live, range(60), hosts) or ()
    assert change.series == ChangedSeries.THROUGHPUT and change.outside == ()


def test_a_short_run_is_not_examined() -> None:
    live, hosts = simulated_run(np.random.default_rng(3), 29, 0.0, at=15, slower=0.5)
    assert run_changes(live, range(29), hosts) is None
    assert run_changes([], range(0)) is None


def test_testers_that_end_are_no_change() -> None:
    """In the last seconds, fewer testers are active: the load changes by plan."""
    rng = np.random.default_rng(4)
    live = [second(at, int(rng.poisson(100)), 10.0) for at in range(40)]
    live += [second(at, int(rng.poisson(25)), 10.0, active=1) for at in range(40, 50)]
    assert run_changes(live, range(50)) == ()


def test_response_times_need_transactions() -> None:
    rng = np.random.default_rng(5)
    live = [second(at, 4, float(rng.normal(10 if at < 20 else 30, 1))) for at in range(40)]
    assert run_changes(live, range(40)) == ()
    live = [second(at, 40, float(rng.normal(10 if at < 20 else 30, 1))) for at in range(40)]
    (change,) = run_changes(live, range(40)) or ()
    assert (change.series, change.at_s, change.unit) == (ChangedSeries.RESPONSE, 20.0, "ms")


def test_small_changes_of_cpu_are_left_out() -> None:
    """0.02 cores more is a large share of an idle service, and no finding."""
    rng = np.random.default_rng(6)
    small = np.where(np.arange(60) < 30, 0.02, 0.04) + rng.normal(0, 0.001, 60)
    host = HostCpu("", np.full(60, 0.5) + rng.normal(0, 0.01, 60), {"web": small}, None)
    assert run_changes([], range(60), (host,)) == ()
    host = replace(host, components={"web": 10 * small}, only_testers=True)
    assert run_changes([], range(60), (host,)) is None
    (change,) = run_changes([], range(60), (replace(host, only_testers=False),)) or ()
    assert (change.component, change.at_s) == ("web", 30.0)


def test_processes_outside_are_the_rest_of_a_host() -> None:
    """Two cores at 75 %: 1.5 cores are busy. The service and the testers use 0.9 of them, others none."""
    t_s = np.arange(1, 11, dtype=np.float64)

    def series(component: str, metric: str, value: float, part: str = "") -> SampleSeries:
        return SampleSeries(component, metric, part, t_s, np.full(10, value))

    samples = [
        series("host", "cpu.busy", 0.75),
        series("host", "cpu.busy", 0.7, "0"),
        series("host", "cpu.busy", 0.8, "1"),
        series("service:web", "cpu", 0.6),
        series("testers", "cpu", 0.3),
        series("monitor", "cpu", 0.02),
    ]
    seconds = whole_seconds(Window(2_500_000_000, 9_000_000_000))
    assert seconds == range(3, 9)
    (host,) = cpu_of_hosts(samples, (), seconds)
    assert host.busy == pytest.approx(1.5) and list(host.components) == ["web"]
    assert host.outside == pytest.approx((1.5 - 0.9) / 2) and host.outside is not None
    assert host.outside.size == 6
    assert cpu_of_hosts(samples, (), range(20, 30)) == ()


def test_the_short_last_sample_of_an_agent_is_not_the_second_before_it() -> None:
    t_s = np.array([1.0, 2.0, 3.0, 4.0, 4.41])
    busy = np.array([0.9, 0.9, 0.9, 0.9, 0.04])
    samples = [SampleSeries("host", "cpu.busy", part, t_s, busy, "") for part in ("", "0", "1")]
    (host,) = cpu_of_hosts(samples, [], range(1, 5))
    assert host.busy == pytest.approx([1.8, 1.8, 1.8, 0.08])


def test_processes_of_another_host_of_a_testbed_are_not_outside() -> None:
    """Two emulated hosts on one machine with 1.5 busy cores: a service uses 0.6 of them, each agent 0.3, the emulation
    of the links 0.2."""
    t_s = np.arange(1, 11, dtype=np.float64)
    seconds = range(2, 8)

    def sampled(agent: str, service: float) -> list[SampleSeries]:
        values = [
            ("host", "cpu.busy", "", 0.75),
            ("host", "cpu.busy", "0", 0.7),
            ("host", "cpu.busy", "1", 0.8),
        ]
        values += [("testers", "cpu", "", 0.3)] + [("service:web", "cpu", "", service)] * (service > 0)
        return [
            SampleSeries(at, metric, part, t_s, np.full(10, value), agent)
            for at, metric, part, value in values
        ]

    samples = [*sampled("near", 0.6), *sampled("far", 0.0)]
    none = np.empty(0, dtype=np.int64)
    agents = [
        Agent(name, name, name, "testers", False, None, 5, AgentClock(), none, {}) for name in ("near", "far")
    ]
    apart = [host.outside for host in cpu_of_hosts(samples, agents, seconds)]
    assert [float(outside.mean()) for outside in apart if outside is not None] == pytest.approx([0.3, 0.6])
    together = cpu_of_hosts(samples, agents, seconds, np.full(len(seconds), 0.2))
    for host in together:
        assert host.outside == pytest.approx((1.5 - 0.6 - 0.3 - 0.3 - 0.2) / 2)
    assert [list(host.components) for host in together] == [["web"], []]


def test_sentences_of_one_run() -> None:
    analysis = single()
    run = replace(analysis.runs[0], changes=(FELL, ROSE, CPU))
    findings = of_changes(replace(analysis, runs=(run,)))
    assert [plain(finding.text) for finding in findings] == [
        "Throughput fell by 30 % and the mean response time rose by 40 % at 41 s; processes outside the experiment "
        "used 38 % of the CPU of db1 from 40 s on.",
        "The CPU use of web on db1 fell from 0.810 to 0.520 cores at 41 s.",
    ]
    assert {finding.topic for finding in findings} == {Topic.CHANGES}
    assert {finding.rule for finding in findings} == {rule(RuleName.CHANGES)}
    later = [replace(FELL, at_s=float(at)) for at in (50, 60, 70, 80)]
    texts = [
        finding.text for finding in of_changes(replace(analysis, runs=(replace(run, changes=tuple(later)),)))
    ]
    assert len(texts) == 4 and texts[-1] == "1 further change of the run is listed in the report."
    assert of_changes(analysis) == []


def test_several_runs_are_one_sentence() -> None:
    analysis = designed()
    valid = [run.id for run in analysis.runs if run.valid][:5]
    runs = tuple(replace(run, changes=(FELL, CPU) if run.id in valid else None) for run in analysis.runs)
    (finding,) = of_changes(replace(analysis, runs=runs))
    assert f"changed during 5 of {len(runs)} runs" in finding.text
    assert plain(finding.text).count("throughput fell by 30 % at 41 s") == 3
    assert "; and 2 other runs)" in finding.text
    assert "In 5 of them, processes outside the experiment" in finding.text
    only_cpu = tuple(replace(run, changes=(CPU,)) for run in analysis.runs)
    assert of_changes(replace(analysis, runs=only_cpu)) == []


def test_texts_of_other_changes() -> None:
    recovered = changed(ChangedSeries.THROUGHPUT, 20.0, 0.0, 50.0)
    assert change_text(recovered) == "throughput rose from 0 to 50.0 requests/s at 20 s"
    until = replace(recovered, outside=(OutsideCpu("", 19.0, 0.4, 0.0),))
    assert plain(change_text(until)).endswith(
        "; processes outside the experiment used 40 % of the CPU of the host until 19 s"
    )
    host = changed(ChangedSeries.CPU, 20.0, 0.5, 1.5, host="db1")
    assert change_text(host) == "the CPU use of db1 rose from 0.500 to 1.50 cores at 20 s"


def test_the_report_marks_the_changes_of_a_run() -> None:
    run = replace(single().runs[0], changes=(replace(FELL, text="fell"), replace(ROSE, text="rose"), CPU))
    (row,) = change_rows(replace(run, changes=run.changes and run.changes[:2]))
    assert row == {"at": 41.0, "what": "fell; rose", "visible": 1}
    drawn = chart(run).to_dict(validate=True)
    assert drawn["datasets"][CHANGES][0]["at"] == 41.0
    assert run_data(run, 100)[CHANGES]["at"] == [41.0]
    table = changes_table(run)
    assert [row[0] for row in table.rows] == ["throughput", "mean response time", "CPU of web on db1"]
    assert tuple(map(plain, table.rows[0][4:])) == (
        "-30 %",
        "requests/s",
        "0.0050",
        "db1: 1.0 % to 38 % at 40 s",
    )
    (hidden,) = change_rows(single().runs[0])
    assert hidden["visible"] == 0


def test_the_changes_are_stored() -> None:
    analysis = single()
    run = replace(analysis.runs[0], changes=(FELL,))
    document = json.loads(json.dumps(as_document(replace(analysis, runs=(run,)))))
    (stored,) = document["runs"][0]["changes"]
    assert stored["series"] == "throughput" and stored["rule"] == {"name": "changes", "version": 1}
    assert stored["outside"] == [{"host": "db1", "at_s": 40.0, "before": 0.01, "after": 0.38}]
    assert json.loads(json.dumps(as_document(analysis)))["runs"][0]["changes"] is None
