"""Runs of several agents, from their files: validity, clocks, and the fields that results of one agent lack."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.hosts_made import MS, Made, S, Site, make

from plimsoll.analyse.answer.components.hosts import fairness_words
from plimsoll.analyse.hosts.clocks import events, greatest_bound, start_spread, unknown_clocks
from plimsoll.analyse.hosts.coverage import loss
from plimsoll.analyse.results.analysis import Analysis, RunResult
from plimsoll.analyse.results.components.hosts import HostsResult
from plimsoll.analyse.results.document import as_document
from plimsoll.analyse.run.staleness import staleness
from plimsoll.analyse.window.transactions import Window
from plimsoll.api import analysis
from plimsoll.collect.columns.versions import VersionedTransactions
from plimsoll.collect.hosts import Agent, AgentClock, ClockPiece, RunAgents

DATA = Path(__file__).resolve().parents[2] / "data"
SHORT = Made(seconds=6, testers=2, warmup_s=1.0)


def of(path: Path, made: Made = SHORT) -> tuple[Analysis, RunResult, HostsResult]:
    result = analysis(make(path / "results", made))
    hosts = result.runs[0].hosts
    assert hosts is not None
    return result, result.runs[0], hosts


# -- losses


def test_a_lost_agent_makes_the_run_doubtful_and_no_longer_counts(tmp_path: Path) -> None:
    result, run, hosts = of(tmp_path, dataclasses.replace(SHORT, lost={"n2": 3.0}))
    assert run.valid and run.counts.balanced
    (doubt,) = run.doubtful_reasons
    assert doubt == "1 of 10 agents lost: n2 at 3.00 s; from then on the load was lower than planned"
    assert [(step.t_s, step.agents, step.testers) for step in hosts.coverage] == [(0, 10, 20), (3, 9, 18)]
    assert hosts.coverage_mean == pytest.approx((2 * 10 + 3 * 9) / 50)
    (lost,) = hosts.lost
    assert (lost.agent, lost.site, lost.lost_s, lost.brought_in) == ("n2", "near", 3.0, True)
    assert lost.last_s is not None and 2.9 < lost.last_s < 3.0 and lost.transactions
    assert run.evidence["recorded"] == 1.0 and hosts.missing == 0
    whole = analysis(make(tmp_path / "whole", SHORT)).runs[0]
    assert run.series is not None and whole.series is not None
    gone = whole.series.active_testers[-1] - run.series.active_testers[-1]
    assert gone == pytest.approx(2, abs=0.05), "its two testers"
    assert run.without_lost is not None and run.without_lost.transactions < run.traffic.transactions
    assert any("1 of 10 agents lost" in sentence for sentence in result.answer)


def test_segments_that_were_not_fetched_make_the_run_invalid(tmp_path: Path) -> None:
    """live.jsonl counts the transactions of n1; none of them is on disk."""
    _, run, hosts = of(tmp_path, dataclasses.replace(SHORT, lost={"n1": 5.0}, kept=0.0))
    assert hosts.lost[0].brought_in is False and "are unknown" in hosts.lost[0].text
    assert hosts.missing is not None and hosts.missing > 100
    assert not run.valid
    (reason,) = run.invalid_reasons
    assert "n1 at 5.00 s (none of its transactions were fetched)" in reason and "plimsoll collect" in reason
    assert run.evidence["recorded"] == pytest.approx(
        run.counts.started / (run.counts.started + hosts.missing), rel=1e-9
    )


def test_a_few_missing_transactions_leave_the_run_valid(tmp_path: Path) -> None:
    """An agent at a remote site with less than 1 % of the transactions."""
    _, run, hosts = of(tmp_path, dataclasses.replace(SHORT, lost={"f3": 3.0}, kept=0.9))
    assert hosts.missing and run.valid and run.evidence["recorded"] is not None
    assert 0.99 <= run.evidence["recorded"] < 1


def test_counts_that_do_not_add_up_are_damaged(tmp_path: Path) -> None:
    path = make(tmp_path / "results", dataclasses.replace(SHORT, lost={"n2": 3.0}))
    file = path / "runs" / "0001" / "summary.json"
    summary = json.loads(file.read_text())
    summary["counters"]["succeeded"] -= 1
    file.write_text(json.dumps(summary))
    run = analysis(path).runs[0]
    assert not run.valid and "do not add up" in run.invalid_reasons[0] and not run.counts.balanced


def test_only_seconds_were_kept(tmp_path: Path) -> None:
    """Agents, clocks and coverage are known; the transactions of each tester are not. Ten times 157 ms make two
    seconds."""
    made = dataclasses.replace(SHORT, keep="summaries", lost={"n2": 3.0}, seconds=12)
    _, run, hosts = of(tmp_path, made)
    assert (hosts.sites, hosts.hosts, hosts.jain_sites) == ((), (), None)
    assert hosts.agents == 10 and hosts.bound_ms == 157.75 and len(hosts.lost) == 1
    assert run.series is not None and run.series.quantum_s == 2.0 and run.without_lost is None
    assert sum(run.series.throughput_per_s) * 2 == run.counts.succeeded + 0
    assert "whole seconds" in hosts.lost[0].text


# -- clocks


def crew(*clocks: AgentClock, t0_ns: int = 0) -> RunAgents:
    none = np.empty(0, dtype=np.int64)
    agents = (
        Agent(f"a{at}", f"h{at}", "s", "testers", False, None, 5, clock, none, {})
        for at, clock in enumerate(clocks)
    )
    return RunAgents(tuple(agents), t0_ns, None, 0)


def test_the_load_of_a_lost_agent_is_unknown_until_its_segments_are_fetched() -> None:
    """One of two agents: last report at 3 s, lost at 35 s of a window of 10 s, with a transaction at 4 s on disk."""
    whole = crew(AgentClock(same=True), AgentClock())
    away = dataclasses.replace(whole.agents[1], lost=True, lost_ns=35_000 * MS, reported_ns=3_000 * MS)
    known = dataclasses.replace(whole, agents=(whole.agents[0], away), outstanding=True)
    window = Window(0, 10_000 * MS)

    def unknown(of: RunAgents, last: dict[str, int]) -> float:
        lost = loss(of, last, window)
        assert lost is not None
        return lost.unknown

    assert unknown(known, {}) == pytest.approx(0.35)
    assert unknown(known, {"a1": 4_000 * MS}) == pytest.approx(0.3)
    assert unknown(dataclasses.replace(known, outstanding=False), {}) == 0, "everything was brought in"
    silent = dataclasses.replace(away, reported_ns=None)
    assert unknown(dataclasses.replace(known, agents=(whole.agents[0], silent)), {}) == pytest.approx(0.5)
    assert loss(whole, {}, window) is None


def test_the_greatest_bound_and_the_spread_of_the_starts() -> None:
    run_agents = crew(
        AgentClock(same=True, bound_ns=0, started_ns=0),
        AgentClock(bound_ns=3 * MS, started_ns=-2 * MS),
        AgentClock(bound_ns=5 * MS, started_ns=4 * MS),
    )
    assert greatest_bound(run_agents) == 5 * MS
    assert start_spread(run_agents) == (6.0, 8.0), "each end may be off by its own bound"
    assert unknown_clocks(run_agents) == ()
    unknown = crew(AgentClock(same=True, bound_ns=0, started_ns=0), AgentClock(started_ns=MS))
    assert start_spread(unknown) == (1.0, None) and unknown_clocks(unknown) == ("a1",)
    assert start_spread(crew(AgentClock(bound_ns=1, started_ns=1))) == (None, None)


def test_events_of_clocks_are_reported() -> None:
    """The second piece begins 10 s after the first, which had drifted by 10 us and then jumped 2 s forward."""
    first = ClockPiece(
        from_ns=100 * S, to_ns=110 * S, offset_ns=-90 * S, drift_ppm=1, drift_low_ppm=0, drift_high_ppm=2
    )
    second = first.model_copy(
        update={"from_ns": 110 * S, "to_ns": 120 * S, "offset_ns": -92 * S + 10_000, "begins": "jump"}
    )
    third = second.model_copy(update={"from_ns": 120 * S, "begins": "route_change"})
    knot = third.model_copy(update={"from_ns": 130 * S, "begins": "knot"})
    shift = knot.model_copy(update={"from_ns": 140 * S, "begins": "shift"})
    pieces = (first, second, third, knot, shift)
    clock = AgentClock(bound_ns=1, pieces=pieces, steps=((5 * S, -250 * MS),))
    clock_events = events(crew(clock, t0_ns=8 * S))
    assert [(event.kind, round(event.t_s, 3)) for event in clock_events] == [
        ("clock-step", 5.0),
        ("clock-jump", 10.0),
        ("route-change", 20.0),
        ("clock-shift", 40.0),
    ]
    assert clock_events[0].by_ms == -250 and "back by 250" in clock_events[0].text
    assert clock_events[1].by_ms == pytest.approx(2000.0, abs=1e-3)


def test_an_event_changes_no_number(tmp_path: Path) -> None:
    path = make(tmp_path / "results", SHORT)
    before = analysis(path).runs[0]
    file = path / "runs" / "0001" / "clock.json"
    document = json.loads(file.read_text())
    for agent in document["agents"].values():
        agent["steps"] = [[3 * S, 86_400 * S]]
    file.write_text(json.dumps(document))
    after = analysis(path).runs[0]
    assert after.hosts is not None and sum(event.kind == "clock-step" for event in after.hosts.events) == 10
    assert before.hosts is not None
    assert (
        dataclasses.replace(after, hosts=dataclasses.replace(after.hosts, events=before.hosts.events))
        == before
    )


def test_a_clock_that_is_not_known_makes_the_run_doubtful(tmp_path: Path) -> None:
    _, run, hosts = of(tmp_path, dataclasses.replace(SHORT, unknown=("m2",)))
    assert hosts.bound_unknown == ("m2",) and hosts.bound_ms == 157.75
    assert run.doubtful_reasons == (
        "the clock offset of m2 is unknown: its times cannot be compared with those of other agents",
    )
    assert next(clock for clock in hosts.clocks if clock.agent == "m2").remark == "no probe came back"


def test_one_clock_leaves_quanta_as_they_are(tmp_path: Path) -> None:
    """Several agents on one host: times of one clock are exact, for any number of agents."""
    path = make(tmp_path / "results", SHORT)
    file = path / "runs" / "0001" / "clock.json"
    document = json.loads(file.read_text())
    same = {"same": True, "bound_ns": 0, "started_ns": 0}
    file.write_text(json.dumps(document | {"agents": dict.fromkeys(document["agents"], same)}))
    run = analysis(path).runs[0]
    assert run.series is not None and run.series.quantum_s == 0.1
    assert not any("quantum" in note for note in run.notes)
    assert run.hosts is not None and run.hosts.bound_ms == 0 and run.hosts.least_quantum_s == 0


def test_an_answer_is_stale_only_beyond_the_clock_bound() -> None:
    """A version was superseded 30 ms before it was read; clocks that are each off by up to 10 ms leave 10 ms."""
    versioned = VersionedTransactions(
        start=np.array([0, 130 * MS]),
        end=np.array([100 * MS, 140 * MS]),
        ok=np.array([True, True]),
        writes=np.array([True, False]),
        workload=np.array([0, 1]),
        cache=np.array([0, 0]),
        object=np.array([1, 1]),
        version=np.array([5, 4]),
        workloads=("w", "r"),
    )
    ages = []
    for bound in (0, 10 * MS, 15 * MS):
        readers = staleness(versioned, Window(0, S), bound).staleness.readers
        ages.append((readers.stale, readers.stale_age_ms.max))
    assert ages == [(1, 30.0), (1, 10.0), (0, None)]


# -- who did what


def test_testers_have_names_and_round_trips(tmp_path: Path) -> None:
    _, run, hosts = of(tmp_path)
    first, far = run.testers[0], run.testers[7]
    assert (first.name, far.name, far.agent) == ("near/n1/0", "far/f1/7", "f1")
    assert far.rtt_ms == pytest.approx(315, abs=0.01) and first.rtt_ms == pytest.approx(0.3, abs=0.01)
    assert first.response_less_rtt_ms == pytest.approx(8, abs=1)
    assert hosts.rtt_source == "tcp"


def test_delayed_acknowledgements_are_not_part_of_the_round_trip(tmp_path: Path) -> None:
    _, run, hosts = of(tmp_path, dataclasses.replace(SHORT, answered_with=8.0))
    assert [site.rtt_ms for site in hosts.sites] == pytest.approx([0.32, 60.02, 315.02], abs=0.03)
    assert [site.response_less_rtt_ms for site in hosts.sites] == pytest.approx([8, 8, 8], abs=1)
    assert run.testers[0].response_less_rtt_ms == pytest.approx(8, abs=1)
    file = tmp_path / "results" / "runs" / "0001" / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"services": []}))
    elsewhere = analysis(tmp_path / "results").runs[0].hosts
    assert elsewhere is not None and elsewhere.sites[0].rtt_ms == pytest.approx(8.3, abs=0.01)


def test_probes_are_used_if_the_services_run_on_the_controllers_host(tmp_path: Path) -> None:
    made = dataclasses.replace(SHORT, tcp=False)
    _, _, hosts = of(tmp_path, made)
    assert hosts.rtt_source == "probes"
    far = hosts.sites[2]
    assert far.rtt_ms is None and far.probe_rtt_ms == pytest.approx(315.02, abs=0.03)
    assert far.response_less_rtt_ms == pytest.approx((far.response_ms_p50 or 0) - 315, abs=1e-6)
    file = tmp_path / "results" / "runs" / "0001" / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"services": []}))
    elsewhere = analysis(tmp_path / "results").runs[0].hosts
    assert elsewhere is not None and elsewhere.rtt_source == ""
    assert elsewhere.sites[2].response_less_rtt_ms is None, (
        "the way to another target is not that of the probes"
    )


def test_slots_of_an_open_load_have_no_shares(tmp_path: Path) -> None:
    path = make(tmp_path / "results", SHORT)
    file = path / "runs" / "0001" / "run.json"
    document = json.loads(file.read_text())
    document["effective"]["load"] = {"rate": "500/s", "in_flight": 20}
    file.write_text(json.dumps(document))
    hosts = analysis(path).runs[0].hosts
    assert hosts is not None and hosts.jain_sites is None and hosts.jain_hosts is None
    assert all(place.share is None and place.jain_index is None for place in (*hosts.sites, *hosts.hosts))
    assert hosts.sites[0].transactions > 0 and hosts.sites[2].response_less_rtt_ms is not None


def test_the_busiest_host_of_testers_is_the_one_that_counts(tmp_path: Path) -> None:
    """n3 is at 62 %, the others below 20: their mean would hide it."""
    _, run, hosts = of(tmp_path)
    assert {component.component: component.host for component in run.utilization} == {
        "testers' host": "n3",
        "testers": "n3",
    }
    assert run.utilization[0].mean == pytest.approx(0.62)
    assert run.evidence["tester_cpu"] == pytest.approx(0.62)
    assert {host.host: host.cpu for host in hosts.hosts}["n3"] == pytest.approx(0.62)


def test_fair_and_unfair_services_as_text(tmp_path: Path) -> None:
    _, _, fair = of(tmp_path)
    assert fairness_words(fair)[-1].endswith("alike; the difference between them is the round trip.")
    sites = tuple(
        dataclasses.replace(site, response_less_rtt_ms=(site.response_less_rtt_ms or 0) + 630)
        if site.site == "far"
        else site
        for site in fair.sites
    )
    sentence = fairness_words(dataclasses.replace(fair, sites=sites))[-1]
    assert "far waits 630" in sentence and "(2.0 round trips) longer than its round trip explains" in sentence
    assert "clocks agree within 158" in fairness_words(fair)[1]
    single_site = dataclasses.replace(fair, sites=fair.sites[:1])
    assert fairness_words(single_site) == [], "nobody is far"


def with_workloads(path: Path, workloads: dict[str, dict[str, Any]]) -> HostsResult:
    """The results of the sites near, middle and far, with these workloads in the configuration of the run."""
    results = make(path / "results", SHORT)
    file = results / "runs" / "0001" / "run.json"
    document = json.loads(file.read_text())
    for work in workloads.values():
        work.setdefault("load", {"testers": 4, "think": "20ms"})
    effective = {
        key: value for key, value in document["effective"].items() if key not in ("workload", "load")
    }
    document["effective"] = effective | {"workloads": workloads}
    file.write_text(json.dumps(document))
    hosts = analysis(results).runs[0].hosts
    assert hosts is not None
    return hosts


def test_sites_with_different_workloads_are_not_compared(tmp_path: Path) -> None:
    """Writers at one site and readers at the others: their response times differ, however fair the service is."""
    reader, writer = ({"driver": "sql", "target": target} for target in ("replica", "db"))
    apart: dict[str, dict[str, Any]] = {
        "readers": {**reader, "site": ["far", "middle"]},
        "writer": {**writer, "site": "near"},
    }
    hosts = with_workloads(tmp_path / "apart", apart)
    assert {site.site: site.work for site in hosts.sites} == {"near": 0, "middle": 1, "far": 1}
    assert {host.work for host in hosts.hosts if host.site == "near"} == {0}
    assert hosts.jain_sites is None and hosts.jain_hosts is None
    first, work, fairness = fairness_words(hosts)
    assert first == "The sites middle and far have the same workloads and are compared; the others are not."
    assert work.startswith("A tester of far did") and "of one of middle" in work and "Jain" not in work
    assert "at middle and" in fairness and "at far" in fairness and "near" not in fairness
    each = {site: {"driver": "sql", "target": site, "site": site} for site in ("near", "middle", "far")}
    (only,) = fairness_words(with_workloads(tmp_path / "each", each))
    assert only == (
        "The sites near, middle and far have different workloads, so their work and response times are not compared."
    )


def test_equal_workloads_of_two_names_are_compared(tmp_path: Path) -> None:
    """The number of testers may differ; the think time may not, because it changes the work of a tester."""
    query = {"driver": "sql", "target": "db"}
    both: dict[str, dict[str, Any]] = {
        "a": {**query, "site": "near", "load": {"testers": 3, "think": "20ms"}},
        "b": {**query, "site": ["middle", "far"], "load": {"testers": 97, "think": "20ms"}},
    }
    hosts = with_workloads(tmp_path / "both", both)
    assert {site.work for site in hosts.sites} == {0} and hosts.jain_sites is not None
    assert "far" in fairness_words(hosts)[-1] and "near" in fairness_words(hosts)[-1]
    both["b"]["load"] = {"testers": 97, "think": "40ms"}
    assert [site.work for site in with_workloads(tmp_path / "think", both).sites] == [0, 1, 1]


def test_a_site_of_one_host_and_one_tester(tmp_path: Path) -> None:
    made = dataclasses.replace(SHORT, sites=(Site("x", ("h1",), 1.0), Site("y", ("h2",), 1.0)), testers=1)
    _, _, hosts = of(tmp_path, made)
    assert [host.jain_index for host in hosts.hosts] == [None, None] and hosts.hosts[0].share_range is None
    assert hosts.jain_sites == pytest.approx(1, abs=1e-3)


def test_a_run_of_one_agent_has_no_results_of_hosts() -> None:
    """The document is the same as before there were several agents."""
    document = as_document(analysis(DATA / "results-v1"))
    for run in document["runs"]:
        assert "hosts" not in run and "without_lost" not in run
        assert all(set(tester) == set(document["runs"][0]["testers"][0]) for tester in run["testers"])
        assert "name" not in run["testers"][0]


def test_the_document_of_several_agents(tmp_path: Path) -> None:
    result, _, _ = of(tmp_path)
    (run,) = as_document(result)["runs"]
    assert run["hosts"]["sites"][0]["site"] == "near" and run["testers"][0]["name"] == "near/n1/0"
    assert "without_lost" not in run, "nothing was lost"
    json.dumps(run, allow_nan=False)


def test_the_real_run_over_ssh() -> None:
    """Loopback: sites do not differ. An agent was killed, and its 150 transactions were not fetched."""
    run = analysis(DATA / "results-hosts-v1").runs[0]
    assert run.hosts is not None and not run.valid
    assert [(host.host, host.testers) for host in run.hosts.hosts] == [("h1", 2), ("h2", 0), ("h3", 2)]
    assert run.hosts.lost[0].agent == "h2" and run.hosts.missing == 150
    assert run.hosts.bound_ms is not None and 0 < run.hosts.bound_ms < 10 and run.hosts.bound_unknown == ()
    assert run.hosts.jain_sites == pytest.approx(1, abs=0.01)
    assert run.series is not None and run.series.quantum_s >= 10 * run.hosts.bound_ms / 1000
