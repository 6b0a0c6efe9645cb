"""Time series of components: their names, resources and counters, the quantum, and how many are kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from plimsoll.analyse.components import component_series as module
from plimsoll.analyse.components.component_series import (
    CounterChoice,
    Placement,
    automatic_quantum,
    run_component_series,
)
from plimsoll.analyse.results.components.component_series import ComponentSeries, RunComponentSeries
from plimsoll.assemble.run.component_series import counters_of_kind
from plimsoll.collect.columns.samples import SampleSeries
from plimsoll.collect.hosts import SAME, Agent, AgentClock
from plimsoll.collect.watched import WatchedReadings
from plimsoll.plan.services.table import SERVICE_KINDS

ENDS = np.arange(0.0, 11.0)
FAR = AgentClock(bound_ns=300_000, started_ns=0)


def sample(component: str, metric: str, value: float, part: str = "", agent: str = "") -> SampleSeries:
    return SampleSeries(component, metric, part, ENDS, np.full(ENDS.size, value), agent)


def readings(
    name: str, kind: str, rates: dict[str, float], memory: float | None = None, host: str = ""
) -> WatchedReadings:
    """Counters that increase by `rates` per second, and the gauge `memory.used`."""
    values = {counter: rate * ENDS for counter, rate in rates.items()}
    if memory is not None:
        values["memory.used"] = np.full(ENDS.size, memory)
    return WatchedReadings(name, kind, host, ENDS, values, frozenset({"memory.used"}))


def agent(name: str, role: str, clock: AgentClock = FAR) -> Agent:
    return Agent(name, name, "site", role, False, None, 0, clock, np.empty(0, dtype=np.int64), {})


def placed(services: dict[str, str], agents: Sequence[Agent] = (), addressed: str = "") -> Placement:
    return Placement(services, dict.fromkeys(services, "postgres"), frozenset({addressed}), 2, agents)


def found(
    samples: Sequence[SampleSeries],
    placement: Placement,
    counted: Sequence[WatchedReadings] = (),
    watched: Sequence[WatchedReadings] = (),
    length_s: float = 10.0,
    bound_ns: int = 0,
) -> RunComponentSeries:
    series = run_component_series(
        samples, counted, watched, placement, counters_of_kind, length_s=length_s, bound_ns=bound_ns
    )
    assert series is not None
    return series


def named(series: RunComponentSeries) -> dict[str, ComponentSeries]:
    return {component.component: component for component in series.components}


def test_a_host_has_cores_bytes_and_its_busiest_interface() -> None:
    samples = [
        *(sample("host", f"cpu.{state}", share) for state, share in
          (("user", 0.2), ("nice", 0.05), ("system", 0.1), ("irq", 0.0), ("softirq", 0.05), ("iowait", 0.1),
           ("steal", 0.02), ("busy", 0.42))),
        *(sample("host", "cpu.busy", 0.42, str(core)) for core in range(4)),
        sample("host", "memory.used", 5e8),
        sample("host", "disk.read", 100.0, "vda"),
        sample("host", "disk.read", 50.0, "vdb"),
        sample("host", "disk.read", 150.0, "dm-0"),
        *(sample("host", f"net.{way}", 9e9, "lo") for way in ("receive", "send")),
        sample("host", "net.receive", 10.0, "eth0"),
        sample("host", "net.send", 20.0, "eth0"),
        sample("host", "net.receive", 9.0, "br0"),
        sample("host", "net.send", 20.0, "br0"),
    ]  # fmt: skip
    (host,) = found(samples, placed({})).components
    assert (host.component, host.kind, host.host) == ("host", "host", "")
    assert {name: values[3] for name, values in host.resources.items()} == {
        "cpu_user": 1.0,
        "cpu_system": 0.6,
        "cpu_iowait": 0.4,
        "cpu_steal": 0.08,
        "cpu": 1.68,
        "memory": 5e8,
        "disk_read": 150.0,
        "network_in": 10.0,
        "network_out": 20.0,
    }
    assert all(len(values) == 10 for values in host.resources.values())


def test_a_service_has_its_counters_and_keeps_its_name_on_another_host() -> None:
    agents = (agent("here", "testers", SAME), agent("db1", "watch"))
    samples = [
        sample("service:db", "cpu", 1.5, agent="db1"),
        sample("service:db", "cpu.user", 1.0, agent="db1"),
        sample("service:db", "cpu.system", 0.5, agent="db1"),
        sample("service:db", "memory.rss", 1e6, agent="db1"),
        sample("service:nginx", "cpu", 0.5, agent="db1"),
        sample("testers", "cpu", 0.1, agent="db1"),
        sample("testers", "cpu", 0.7, agent="here"),
        sample("testers", "spin", 0.2, agent="here"),
        sample("monitor", "cpu", 0.1, agent="here"),
    ]
    counts = readings("db", "postgres", {"xact_commit": 7.0, "blks_hit": 90.0}, host="db1")
    components = named(found(samples, placed({"db": "db1"}, agents, "db"), [counts]))
    assert list(components) == ["db", "nginx on db1", "testers"]
    db = components["db"]
    assert (db.kind, db.system, db.host, db.is_addressed) == ("service", "postgres", "db1", True)
    assert db.resources["cpu_system"][0] == 0.5
    assert db.resources["memory"][-1] == 1e6
    assert (db.request_counter, db.counters) == ("xact_commit", {"xact_commit": (7.0,) * 10})
    assert (components["nginx on db1"].kind, components["nginx on db1"].is_addressed) == ("watched", False)
    assert components["testers"].resources == {"cpu": (0.5,) * 10}


def test_the_testers_of_all_hosts_are_one_component() -> None:
    agents = [agent(name, "testers") for name in ("a", "b", "c")]
    samples = [sample("testers", "cpu", 0.25, agent=name) for name in "abc"]
    assert named(found(samples, placed({}, agents)))["testers"].resources["cpu"] == (0.75,) * 10


def test_exporters_are_components() -> None:
    rates = {
        "cpu.user": 0.5,
        "cpu.system": 0.25,
        "cpu.busy": 0.75,
        "cpu.busy 0": 0.75,
        "disk.read sda": 100.0,
    }
    rates |= {"net.receive eth0": 5.0, "net.send eth0": 6.0}
    host = readings("db1-host", "node", rates, memory=7e8)
    other = readings("web", "other", dict.fromkeys("abcde", 2.0), memory=1.0)
    components = named(found([], placed({}), watched=[host, other]))
    assert {name: values[5] for name, values in components["db1-host"].resources.items()} == {
        "cpu_user": 0.5,
        "cpu_system": 0.25,
        "cpu": 0.75,
        "memory": 7e8,
        "disk_read": 100.0,
        "network_in": 5.0,
        "network_out": 6.0,
    }
    assert components["db1-host"].counters == {}
    # Nothing is known of its counters: the first four are shown, and none counts requests.
    assert list(components["web"].counters) == ["a", "b", "c", "d"]
    assert components["web"].request_counter is None


def test_hosts_that_only_have_testers_are_left_out_first() -> None:
    count = module.MAX_COMPONENTS + 6
    agents = [agent("here", "testers", SAME), *(agent(f"h{at}", "testers") for at in range(count))]
    samples = [sample("service:db", "cpu", 0.1, agent="here"), sample("host", "cpu.busy", 0.1, agent="here")]
    samples += [sample("host", "cpu.busy", at / 100, agent=f"h{at}") for at in range(count)]
    series = found(samples, placed({"db": ""}, agents))
    names = list(named(series))
    assert len(names) == module.MAX_COMPONENTS
    assert names[:3] == ["db", "host", f"h{count - 1}"]
    assert series.left_out == 8


@pytest.mark.parametrize(
    ("length_s", "quantum_s"),
    [
        (5, 1),
        (150, 1),
        (150.1, 2),
        (300, 2),
        (301, 5),
        (3600, 30),
        (86_400, 600),
        (540_000, 3600),
        (1e6, 6667),
    ],
)
def test_the_automatic_quantum_has_at_most_150_bins(length_s: float, quantum_s: float) -> None:
    assert automatic_quantum(length_s) == quantum_s
    assert length_s / quantum_s <= 150
    assert length_s / quantum_s > 60 or quantum_s == 1 or length_s > 5e5


def test_no_bin_is_shorter_than_ten_times_the_bound_of_the_clocks() -> None:
    series = found([sample("host", "cpu.busy", 0.5)], placed({}), bound_ns=158_000_000)
    assert (series.quantum_s, series.bins) == (2.0, 5)


def test_nothing_measured_is_nothing() -> None:
    assert run_component_series([], [], [], placed({}), lambda _: CounterChoice(), length_s=10) is None


def test_main_counters_contain_the_counter_of_requests() -> None:
    for kind, section in SERVICE_KINDS.items():
        assert section.request_counter is None or section.main_counters[0] == section.request_counter, kind
        assert len(section.main_counters) <= 4, kind
        assert bool(section.main_counters) == (section.request_counter is not None), kind
    assert counters_of_kind("node") == CounterChoice()
