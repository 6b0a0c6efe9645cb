"""Utilization of hosts that are read through an exporter, compared with results computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from plimsoll.analyse.answer.components.components import evidence
from plimsoll.analyse.components.bottleneck import NOT_RESOLVED, bottleneck
from plimsoll.analyse.components.watched.notes import watch_notes
from plimsoll.analyse.components.watched.systems import watched_resources, watched_utilizations
from plimsoll.analyse.components.watched.testbed import emulator_cores, late_packets
from plimsoll.analyse.results.run import Utilization
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.watched import WatchedReadings
from plimsoll.plan.model.cell import EMULATOR

S = 1_000_000_000
HOUR = Window(0, 3600 * S)


def node(t: list[float], **values: list[float]) -> WatchedReadings:
    """Names with __ for a space and _ for a dot."""
    named = {
        name.replace("__", " ").replace("_", "."): np.array(value, dtype=np.float64)
        for name, value in values.items()
    }
    return WatchedReadings("far", "node", "far", np.array(t, dtype=np.float64), named)


def one(readings: WatchedReadings, window: Window = HOUR) -> Utilization:
    (utilization,) = watched_utilizations([readings], window)
    return utilization


def host(busy: list[list[float]], t: list[float]) -> WatchedReadings:
    """`busy`: cumulative seconds of each core, beside all that passed since t[0]."""
    passed = [at - t[0] for at in t]
    cores: dict[str, list[float]] = {}
    for core, values in enumerate(busy):
        cores |= {f"cpu_busy__{core}": values, f"cpu_all__{core}": passed}
    total = [sum(step) for step in zip(*busy, strict=True)]
    return node(t, cpu_busy=total, cpu_all=[len(busy) * at for at in passed], **cores)


def test_a_host_with_one_full_core() -> None:
    utilization = one(host([[0, 1, 2, 3, 4], [0, 0.1, 0.2, 0.4, 0.4]], [0, 5, 10, 15, 20]))
    assert (utilization.component, utilization.role, utilization.host) == ("far", "host", "far")
    assert utilization.resource == "core 0" and utilization.mean == pytest.approx(0.2)
    assert utilization.detail["cpu.busy"] == pytest.approx(4.4 / 40)
    assert "core 1" not in utilization.detail, "only the busiest"


def test_a_host_all_of_whose_cores_are_busy_is_called_by_its_cpu() -> None:
    busy = [[0, 4.0, 8.4, 12.6, 16.5], [0, 4.1, 8.2, 12.3, 16.7]]
    utilization = one(host(busy, [0, 5, 10, 15, 20]))
    assert utilization.resource == "cpu" and utilization.mean == pytest.approx(33.2 / 40)
    assert (
        utilization.low is not None
        and utilization.high is not None
        and utilization.low < utilization.mean < utilization.high
    )


def test_only_intervals_with_their_middle_in_the_window_count() -> None:
    busy = [[0, 0, 5, 10, 10.0]]
    assert one(host(busy, [-6, -1, 4, 9, 14]), Window(0, 10 * S)).mean == pytest.approx(1.0)
    assert watched_utilizations([host(busy, [-6, -1, 4, 9, 14])], Window(60 * S, 70 * S)) == ()


def test_a_gap_weighs_its_length_and_takes_the_interval() -> None:
    # Idle while it answered, full while it did not: it says so afterwards.
    utilization = one(host([[0, 0, 0, 20, 20.0]], [0, 5, 10, 30, 35]))
    assert utilization.mean == pytest.approx(20 / 35)
    assert (utilization.low, utilization.high) == (None, None)


def test_after_a_restart_counters_count_from_zero() -> None:
    utilization = one(node([0, 10, 20], cpu_busy=[1000, 1005, 4], cpu_all=[9000, 9010, 8]))
    assert utilization.mean == pytest.approx((5 / 10 + 4 / 8) / 2)


def test_disks_and_links_with_a_reported_speed() -> None:
    cpu = {"cpu_busy": [0, 1, 2.0], "cpu_all": [0, 10, 20.0]}
    utilization = one(node([0, 10, 20], **cpu, disk_busy__sda=[5, 12, 19.0]))
    assert (utilization.resource, utilization.mean, utilization.detail["disk.busy sda"]) == (
        "disk sda",
        0.7,
        0.7,
    )
    link = {"net_send__eth0": [0, 9e8, 18e8], "net_receive__eth0": [0, 1e8, 2e8]}
    utilization = one(node([0, 10, 20], **cpu, **link, net_speed__eth0=[1e8] * 3))
    assert (utilization.resource, utilization.mean, utilization.detail["link eth0"]) == (
        "link eth0",
        0.9,
        0.9,
    )
    assert utilization.detail["net.send eth0"] == 9e7
    assert one(node([0, 10, 20], **cpu, **link)).resource == "cpu", "the capacity of the link is not known"


def test_missing_values_are_left_out() -> None:
    utilization = one(node([0, 10, 20], cpu_busy=[0, 5, 10], cpu_all=[0, 10, 20], memory_used=[7, np.nan, 9]))
    assert set(utilization.detail) == {"cpu.busy", "memory.used"}
    assert utilization.detail["memory.used"] == 9
    assert watched_utilizations([node([0, 10], load_1=[1, 1])], HOUR) == ()
    assert watched_utilizations([node([3], cpu_busy=[1], cpu_all=[2])], HOUR) == (), (
        "one reading has no difference"
    )


def squid(*cpu: float) -> WatchedReadings:
    t = np.arange(len(cpu), dtype=np.float64) * 10
    return WatchedReadings("cache", "squid", "far", t, {"process.cpu": np.array(cpu)})


def test_a_squid_is_full_at_one_core() -> None:
    utilization = one(squid(3.0, 12.0, 21.0))
    assert (utilization.component, utilization.role, utilization.resource) == (
        "cache",
        "service",
        "cpu of its process",
    )
    assert utilization.mean == pytest.approx(0.9)
    assert watched_utilizations([squid(3.0, 3.0, 3.0)], HOUR) == (), "the master process, which only waits"


# -- watched hosts together with local components


def part(name: str, role: str, mean: float, host: str = "") -> Utilization:
    return Utilization(name, role, "cpu", mean, mean - 0.01, mean + 0.01, {}, host)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ([part("host", "host", 0.5), part("far", "host", 0.97, "far")], "far"),
        ([part("far", "host", 0.97, "far"), part("cache", "service", 0.96, "far")], "cache"),
        ([part("far", "host", 0.97, "far"), part("cache", "service", 0.4, "far")], "far"),
        ([part("db", "service", 0.5), part("host", "host", 0.6), part("far", "host", 0.97, "far")], "far"),
        ([part("db", "service", 0.97), part("far", "host", 0.96, "far")], NOT_RESOLVED),
        ([part("a", "host", 0.97, "a"), part("b", "host", 0.6, "b")], "a"),
        ([part("host", "host", 0.98), part("same", "host", 0.97)], "host"),
        ([part("testers", "testers", 0.985), part("far", "host", 0.97, "far")], "testers"),
    ],
)
def test_the_bottleneck_of_a_watched_target(parts: list[Utilization], name: str) -> None:
    assert bottleneck(parts).component == name


def test_gaps_are_reported() -> None:
    gap = {"from_s": -0.01, "to_s": 12.34, "why": "timed out"}
    assert watch_notes(
        [
            {"name": "a", "counters": {}, "gaps": [gap], "anew_s": [30.0]},
            {"name": "b", "gaps": [gap]},
            {"name": "c", "counters": {}, "gaps": [], "anew_s": []},
        ]
    ) == (
        "no reading of a from 0 s to 12.3 s (timed out)",
        "a reset its counters before 30.0 s: its counts since the previous reading are unknown",
        "b could not be read during the run (timed out)",
    )


def test_the_resources_of_a_host_and_a_squid() -> None:
    """40 s of CPU, 100 bytes read from two disks each, and 300 and 60 bytes over two interfaces, in 10 s."""
    readings = node(
        [0, 10],
        cpu_busy=[100, 140],
        cpu_all=[200, 280],
        disk_read__sda=[0, 100],
        disk_read__sdb=[50, 150],
        net_receive__eth0=[0, 200],
        net_send__eth0=[0, 100],
        net_receive__br0=[0, 30],
        net_send__br0=[0, 30],
        memory_used=[1000, 3000],
    )
    (found,) = watched_resources([readings], HOUR)
    assert (found.component, found.host, found.cpu, found.memory) == ("far", "far", 4.0, 3000.0)
    assert (found.disk_read, found.disk_write) == (20.0, None)
    assert (found.network_in, found.network_out) == (20.0, 10.0)
    squid = WatchedReadings(
        "cache",
        "squid",
        "",
        np.array([0.0, 10.0]),
        {"process.cpu": np.array([1.0, 6.0]), "process.memory": np.array([5.0, 7.0])},
    )
    (found,) = watched_resources([squid], HOUR)
    assert (found.component, found.cpu, found.memory, found.network_in) == ("cache", 0.5, 7.0, None)
    assert watched_resources([readings], Window(20 * S, 30 * S)) == ()


def group(**values: list[float]) -> WatchedReadings:
    """Three readings, 10 s apart."""
    named = {name.replace("_", "."): np.array(value) for name, value in values.items()}
    return WatchedReadings("web", "cgroup", "", np.array([0.0, 10.0, 20.0]), named)


def test_the_resources_of_a_control_group() -> None:
    readings = group(
        cpu=[5, 9, 15], memory_used=[1e6, 2e6, 4e6], disk_read=[0, 100, 300], disk_write=[7, 7, 7]
    )
    (found,) = watched_resources([readings], HOUR)
    assert (found.component, found.host, found.network_in) == ("web", "", None)
    assert [found.cpu, found.memory, found.disk_read, found.disk_write] == pytest.approx([0.5, 3e6, 15, 0])


def test_a_control_group_is_full_at_its_limit_and_has_no_utilization_without_one() -> None:
    assert watched_utilizations([group(cpu=[5, 9, 15])], HOUR) == ()
    utilization = one(group(cpu=[5, 9, 15], cpu_limit=[2, 2, 2], cpu_throttled=[0, 1, 3]))
    assert (utilization.component, utilization.resource) == ("web", "cpu of its limit")
    assert utilization.mean == pytest.approx(0.25)
    assert utilization.detail == {
        "cores_used": pytest.approx(0.5),
        "cpu.limit": 2.0,
        "cpu.throttled": pytest.approx(0.15),
    }
    assert evidence([utilization]) == " (CPU of its limit of 2.00 cores at 25\u00a0%)"


def links(passed: list[float], back: list[float], rate: list[float]) -> WatchedReadings:
    """A link of a testbed, read once a second. Bytes, and bytes/s."""
    values = {
        "passed up: a to b": passed,
        "passed up: b to a": back,
        "rate up: a to b": rate,
        "rate up: b to a": rate,
    }
    named = {name: np.array(each, dtype=np.float64) for name, each in values.items()}
    return WatchedReadings("testbed.links", "testbed", "", np.arange(len(passed), dtype=np.float64), named)


def test_a_link_of_a_testbed_is_as_busy_as_its_busier_direction() -> None:
    used = one(links([0, 95, 191, 286, 380], [0, 10, 20, 30, 40], [100.0] * 5))
    assert (used.component, used.role, used.resource, used.host) == ("link up", "link", "a to b", "")
    assert used.mean == pytest.approx(0.95)
    assert used.low is not None and 0.9 < used.low < 0.95
    found = bottleneck([used])
    assert found.component == "link up"
    assert evidence([used]) == " (a to b at 95\u00a0%)"
    assert bottleneck([one(links([0, 80, 160, 240, 320], [0] * 5, [100.0] * 5))]).component == NOT_RESOLVED


def emulator(cpu: list[float]) -> WatchedReadings:
    """The process that emulates the links of a testbed, read once a second. Seconds of CPU time."""
    times = np.arange(len(cpu), dtype=np.float64)
    return WatchedReadings("testbed.links", "testbed", "", times, {"cpu": np.array(cpu)})


def test_the_emulation_of_links_can_be_the_bottleneck() -> None:
    full = one(emulator([7.0, 7.96, 8.93, 9.89, 10.84]))
    assert full.component == EMULATOR
    assert full.mean == pytest.approx(0.96)
    service = Utilization("db", "service", "cpu of its cores", 0.85, 0.8, 0.88, {}, "")
    assert bottleneck([service, full]).component == EMULATOR
    assert evidence([full]) == " (CPU of its process at 96\u00a0%): the target may serve more"
    (resources,) = watched_resources([emulator([0.0, 0.25, 0.5])], HOUR)
    assert resources.component == EMULATOR
    assert resources.cpu == pytest.approx(0.25)
    assert watched_resources([links([0, 1, 2], [0, 0, 0], [9.0] * 3)], HOUR) == (), "an older engine"


def test_cores_of_the_emulation_by_second() -> None:
    readings = emulator([0.0, 0.2, 0.8, 0.9])
    assert emulator_cores([readings], range(1, 3)) == pytest.approx([0.6, 0.1])
    assert emulator_cores([links([0, 1], [0, 0], [9.0] * 2)], range(3)) == pytest.approx([0, 0, 0])


def test_late_packets_are_those_of_the_window() -> None:
    times = np.arange(5.0)
    values = {
        "late": np.array([100.0, 100, 103, 107, 500]),
        "released": np.array([900.0, 990, 1100, 1200, 3000]),
    }
    readings = WatchedReadings("testbed.links", "testbed", "", times, values)
    assert late_packets([readings], Window(S, 3 * S)) == (7, 210)
    assert late_packets([emulator([0.0, 0.2])], HOUR) is None, "results of an older version"
    assert late_packets([], HOUR) is None


def test_the_rate_of_a_link_may_change_during_a_run() -> None:
    used = one(links([0, 100, 200, 250, 300], [0] * 5, [100, 100, 100, 50, 50]))
    assert used.mean == pytest.approx(1.0)


def test_a_full_link_is_not_told_apart_from_a_full_service() -> None:
    link = one(links([0, 95, 191, 286, 380], [0] * 5, [100.0] * 5))
    service = Utilization("db", "service", "cpu of its cores", 0.95, 0.93, 0.97, {}, "")
    assert bottleneck([link, service]).component == NOT_RESOLVED
