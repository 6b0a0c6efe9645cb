"""Figures of hosts and sites: Jain's index as published, and all figures compared with a slow and obvious
computation."""

from __future__ import annotations

import bisect
import math
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.unit.hosts_made import MS, Made, Row, S, make, rows_of

from plimsoll.analyse.hosts.coverage import coverage, mean_coverage
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.run import placed
from plimsoll.analyse.run.placed import ResponseTimes
from plimsoll.analyse.stats.fairness import jain_index
from plimsoll.analyse.stats.quantiles import bucket_of
from plimsoll.analyse.window.quantum import MIN_QUANTUM_RATIO, allowed_parts, widened_quantum
from plimsoll.analyse.window.transactions import Window
from plimsoll.api import Options, analysis
from plimsoll.collect.hosts import Agent, AgentClock, RunAgents

LOST = Made(seconds=12, testers=2, warmup_s=1.0, lost={"f3": 5.0, "m1": 7.5})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return analysis(make(tmp_path_factory.mktemp("hosts") / "results", LOST)).runs[0]


def in_window(*, without_lost: bool = False) -> list[Row]:
    rows = [row for row in rows_of(LOST) if S <= row.end < 12 * S]
    return [row for row in rows if not (without_lost and row.agent in LOST.lost)]


def quantile(values: list[float], q: float) -> float:
    return sorted(values)[math.ceil(q * len(values) - 1e-9) - 1]


def test_jain_index_as_published() -> None:
    """R. Jain, A. Durresi, G. Babic, Throughput Fairness Index: An Explanation (ATM Forum/99-0045, 1999): throughputs
    of 50, 30 and 50 where 50, 10 and 10 would be fair are x = 1, 3, 5, and the index is 9^2 / (3 (1 + 9 + 25)). (Its
    slides print that fraction as 0.81; it is 0.771.)"""
    assert (
        jain_index([50 / 50, 30 / 10, 50 / 10])
        == pytest.approx(9**2 / (3 * 35))
        == pytest.approx(0.7714, abs=5e-5)
    )


@pytest.mark.parametrize("site", [site.name for site in LOST.sites])
def test_a_site_against_its_transactions_one_by_one(run: RunResult, site: str) -> None:
    assert run.hosts is not None
    site_result = next(result for result in run.hosts.sites if result.site == site)
    where = next(group for group in LOST.sites if group.name == site)
    mine = [row for row in in_window() if row.agent in where.hosts]
    took = [(row.end - row.start) / MS for row in mine]
    assert site_result.transactions == len(mine)
    assert site_result.throughput_per_s == pytest.approx(len(mine) / 11)
    assert site_result.wire_bytes_per_s == pytest.approx(10_500 * len(mine) / 11)
    assert site_result.response_ms_mean == pytest.approx(sum(took) / len(took), rel=1e-9)
    assert site_result.response_ms_p50 == pytest.approx(quantile(took, 0.5), rel=6e-4)
    if site_result.response_ms_p95 is not None:
        assert site_result.response_ms_p95 == pytest.approx(quantile(took, 0.95), rel=6e-4)
    assert site_result.rtt_ms == pytest.approx(where.rtt_ms, abs=0.01)
    assert site_result.response_less_rtt_ms == pytest.approx(quantile(took, 0.5) - where.rtt_ms, abs=0.25)
    assert site_result.testers == 2 * len(where.hosts) and site_result.lost == sum(
        host in LOST.lost for host in where.hosts
    )


def test_work_per_tester_and_jain_over_groups(run: RunResult) -> None:
    """Each tester here is active from start to end, or until its agent is lost: work over that time is known."""
    assert run.hosts is not None
    rows = in_window()
    active = {host.host: 2 * (min(LOST.lost.get(host.host, 12.0), 12.0) - 1.0) for host in run.hosts.hosts}
    rate = {host: sum(row.agent == host for row in rows) / seconds for host, seconds in active.items()}
    everyone = len(rows) / sum(active.values())
    for host in run.hosts.hosts:
        assert host.share == pytest.approx(rate[host.host] / everyone, rel=0.02)
    sites = [
        sum(row.agent in site.hosts for row in rows) / sum(active[host] for host in site.hosts)
        for site in LOST.sites
    ]
    assert run.hosts.jain_hosts == pytest.approx(
        sum(rate.values()) ** 2 / (10 * sum(value**2 for value in rate.values())), rel=0.02
    )
    assert run.hosts.jain_sites == pytest.approx(
        sum(sites) ** 2 / (3 * sum(value**2 for value in sites)), rel=0.02
    )


def test_parts_of_the_sites_over_time(run: RunResult) -> None:
    """Against the transactions one by one."""
    assert run.hosts is not None
    result = run.hosts.sites_over_time
    assert result is not None
    quantum = round(result.quantum_s * S)
    for site in LOST.sites:
        ends = [row.end // quantum for row in rows_of(LOST) if row.agent in site.hosts]
        expected = [ends.count(at) for at in range(len(result.t_s) - 1)]  # the last one has the rest, too
        assert list(result.transactions[site.name])[:-1] == expected
    totals = [sum(at) for at in zip(*result.transactions.values(), strict=True)]
    for name, shares in result.shares.items():
        for done, total, share in zip(result.transactions[name], totals, shares, strict=True):
            assert share == (pytest.approx(done / total) if total else None)


def test_parts_of_the_peak(run: RunResult) -> None:
    """All twenty testers are present until the first is lost. Transactions are counted to a quantum (2 s) at its
    end."""
    assert run.hosts is not None and run.peak is not None
    assert run.peak.end_s == pytest.approx(5.0, abs=0.4)
    window = (run.peak.start_s * S, run.peak.end_s * S)
    rows = [row for row in rows_of(LOST) if window[0] <= row.end < window[1]]
    for site in run.hosts.sites:
        hosts = next(group for group in LOST.sites if group.name == site.site).hosts
        assert site.peak_share == pytest.approx(sum(row.agent in hosts for row in rows) / len(rows), abs=0.01)
        assert site.testers_share == pytest.approx(len(hosts) / 10, abs=0.01)
    assert sum(site.peak_share or 0 for site in run.hosts.sites) == pytest.approx(1.0)


def test_traffic_without_lost_agents_is_that_of_the_others_alone(run: RunResult) -> None:
    others = in_window(without_lost=True)
    took = [(row.end - row.start) / MS for row in others]
    traffic = run.without_lost
    assert traffic is not None and traffic.transactions == len(others) < run.traffic.transactions
    assert traffic.throughput_per_s == pytest.approx(len(others) / 11)
    assert traffic.response_ms.p95 == pytest.approx(quantile(took, 0.95), rel=1e-9)
    assert traffic.response_ms.mean == pytest.approx(sum(took) / len(took), rel=1e-9)
    everything = [(row.end - row.start) / MS for row in in_window()]
    assert run.traffic.response_ms.p95 == pytest.approx(quantile(everything, 0.95), rel=1e-9)


def test_coverage_agrees_with_sampled_times() -> None:
    """Agents that join late and are lost at random: the number present at sampled times."""
    noise = Random(7)
    spans = [
        (noise.choice([0, noise.uniform(0, 20)]), noise.choice([None, noise.uniform(20, 60)]))
        for _ in range(50)
    ]
    agents = tuple(
        Agent(
            f"a{at}",
            "h",
            "s",
            "testers",
            until is not None,
            None if until is None else round(until * S),
            9,
            AgentClock(bound_ns=1000, started_ns=round(since * S)),
            np.empty(0, dtype=np.int64),
            {},
        )
        for at, (since, until) in enumerate(spans)
    )
    crew = RunAgents(agents, 0, None, 0)
    steps = coverage(crew, {agent.name: 3 for agent in agents}, {})
    moments = [step.t_s for step in steps]
    seen = []
    for k in range(6000):
        t = k / 100
        there = sum(since <= t and (until is None or t < until) for since, until in spans)
        step = steps[bisect.bisect_right(moments, t) - 1]
        assert (step.agents, step.testers) == (there, 3 * there)
        seen.append(there)
    assert mean_coverage(steps, 50, Window(0, 60 * S)) == pytest.approx(sum(seen) / len(seen) / 50, abs=1e-3)


def test_quantiles_of_groups_against_a_sort() -> None:
    noise = np.random.default_rng(3)
    tester = noise.integers(0, 40, 20_000)
    value = noise.lognormal(16, 1.2, 20_000).astype(np.int64)
    times = ResponseTimes(tester, bucket_of(value), np.ones(tester.size, dtype=np.int64))
    group = np.arange(40) % 4
    group[5] = -1
    p50, p99 = times.quantiles(group, 5, (0.5, 0.99))
    for number in range(4):
        mine = (value[group[tester] == number] / 1e6).tolist()
        assert p50[number] == pytest.approx(quantile(mine, 0.5), rel=6e-4)
        assert p99[number] == pytest.approx(quantile(mine, 0.99), rel=6e-4)
    assert p50[4] is None, "a group without a transaction"


def test_memory_for_quantiles_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """More pairs of tester and bucket than may be: neighbouring buckets are joined, and quantiles are less exact."""
    monkeypatch.setattr(placed, "MAX_PAIRS", 2000)
    noise = np.random.default_rng(4)
    times = placed._Times()
    values, testers = [], []
    for _ in range(30):
        value = noise.lognormal(17, 0.8, 500).astype(np.int64)
        tester = noise.integers(0, 20, 500)
        times.add(tester, bucket_of(value))
        values.append(value)
        testers.append(tester)
    times_ = times.result()
    assert times_.count.sum() == 15_000 and times_.count.size <= 2000 and times_.shift > 0
    (p50,) = times_.quantiles(np.arange(20), 20, (0.5,))
    value, tester = np.concatenate(values), np.concatenate(testers)
    for number in range(20):
        exact = quantile((value[tester == number] / 1e6).tolist(), 0.5)
        assert p50[number] == pytest.approx(exact, rel=6e-4 * 2**times_.shift)


@pytest.mark.parametrize("bound_ns", [0, 1, 999, 700_000, 12_095_314, 157_000_000, 2_100_000_000])
def test_no_quantum_is_finer_than_ten_times_the_bound(bound_ns: int) -> None:
    for quantum in (1, 100_000_000, S, 60 * S):
        widened = widened_quantum(quantum, bound_ns)
        assert (
            widened >= max(quantum, MIN_QUANTUM_RATIO * bound_ns)
            or widened == quantum >= MIN_QUANTUM_RATIO * bound_ns
        )
        assert widened == quantum or widened / 10 ** math.floor(math.log10(widened) + 1e-9) in (1, 2, 5)
        assert widened == quantum or widened < 2.5 * MIN_QUANTUM_RATIO * bound_ns, (
            "and no coarser than the next step"
        )
    window = Window(3 * S, 63 * S)
    parts = allowed_parts(window, bound_ns, 240)
    assert 240 % parts == 0
    assert parts == 1 or 60 * S / parts >= MIN_QUANTUM_RATIO * bound_ns
    finer = [number for number in range(parts + 1, 241) if 240 % number == 0]
    assert all(60 * S / number < MIN_QUANTUM_RATIO * bound_ns for number in finer)


def test_quanta_of_a_run_are_widened(run: RunResult, tmp_path: Path) -> None:
    """157.75 ms make 1.58 s: 2 s, whatever is asked for."""
    assert run.series is not None and run.series.quantum_s == 2.0
    assert any("as their quantum: 2 s" in note for note in run.notes)
    path = make(tmp_path / "results", LOST)
    for quantum_s, got in ((0.05, 2.0), (5.0, 5.0)):
        again = analysis(path, Options(quantum_s=quantum_s)).runs[0]
        assert again.series is not None and again.series.quantum_s == got
        assert again.traffic.transactions == run.traffic.transactions
