"""Conditions of hosts and services, from samples with known values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.unit.analyse.made import latency

from plimsoll.analyse.answer.components import conditions as sentences
from plimsoll.analyse.components.conditions import run_conditions
from plimsoll.analyse.components.cpu_series import HostCpu
from plimsoll.analyse.components.kernel_figures import WindowSamples, figures_of_host, figures_of_service
from plimsoll.analyse.components.outside import outside_shares
from plimsoll.analyse.components.resources import is_stacked
from plimsoll.analyse.components.worker_pools import WorkerReadings
from plimsoll.analyse.results.components.conditions import Condition, ConditionKind
from plimsoll.analyse.results.run import ErrorCount, Traffic
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.samples import SampleSeries
from plimsoll.collect.hosts import Agent, AgentClock
from plimsoll.collect.watched import WatchedReadings
from plimsoll.plan.model.cell import EMULATOR

SECONDS = 12
WINDOW = Window(0, SECONDS * 10**9)


def traffic(**errors: int) -> Traffic:
    """A window with failed transactions by code; `_` stands for a space."""
    kinds = tuple(ErrorCount("error", code.replace("_", " "), number) for code, number in errors.items())
    none = latency([])
    return Traffic(SECONDS, 1, 0, 0.0, kinds, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, none, none, none)


def series(component: str, metric: str, part: str, values: float | list[float]) -> SampleSeries:
    t = np.arange(1.0, SECONDS + 1)
    return SampleSeries(component, metric, part, t, np.broadcast_to(np.asarray(values, float), t.shape))


def found(
    *samples: SampleSeries, slow: int | None = 0, cpu: HostCpu | None = None, **errors: int
) -> list[Condition]:
    every = [series("host", "cpu.busy", part, 0.5) for part in ("", "0", "1")]
    hosts = () if cpu is None else (cpu,)
    return list(
        run_conditions([*every, *samples], (), WINDOW, {"web": ""}, hosts, traffic(**errors), lambda: slow)
    )


def condition_text(condition: Condition) -> str:
    return sentences.condition_text(condition).replace("\N{NO-BREAK SPACE}", " ")


def listening(drops: float, queue: float = 3) -> list[SampleSeries]:
    return [
        series("service:web", "listen.drops", "80", drops),
        series("service:web", "listen.queue", "80", queue),
        series("service:web", "listen.backlog", "80", 2),
    ]


def test_a_full_listen_queue_is_reported_with_the_connections_that_it_delayed() -> None:
    own = series("host", "tcp.listen_overflows", "", 4), series("host", "tcp.listen_drops", "", 4)
    [condition] = found(*listening(3), *own, slow=12, timeout_connect=2)
    assert (condition.kind, condition.component) == (ConditionKind.LISTEN_QUEUE, "web")
    assert condition_text(condition) == (
        "the listen queue of web (port 80) was full (up to 3 of 2): the kernel dropped 36 requests for a connection; "
        "2 connections failed and 12 connections took 1 s or longer, after which a client repeats a SYN"
    )
    assert found(*listening(0)) == []


def test_segments_of_ended_connections_are_no_requests() -> None:
    """An RST or FIN that reaches a listening socket is counted by the socket, and not by the host."""
    own = series("host", "tcp.listen_overflows", "", 0), series("host", "tcp.listen_drops", "", 0)
    assert found(*listening(3, queue=0), *own) == []
    host = WindowSamples(own, WINDOW)
    figures = figures_of_service(WindowSamples(listening(3), WINDOW), host)
    assert figures is not None
    assert figures.listen_drops == 0


def test_drops_of_the_host_count_only_with_slow_or_failed_connections() -> None:
    own = series("host", "tcp.listen_overflows", "", 0), series("host", "tcp.listen_drops", "", 1)
    assert found(*own) == []
    [condition] = found(*own, slow=1)
    assert condition_text(condition).startswith(
        "the kernel of the host dropped 12 requests for a connection; 1 conn"
    )
    [condition] = found(*own, slow=None, no_answer_to_connect=3)
    assert condition_text(condition).endswith("; 3 connections failed")


@pytest.mark.parametrize(("used", "number"), [(0.79, 0), (0.85, 1)])
def test_local_ports_are_reported_from_80_percent_on(used: float, number: int) -> None:
    peak = [0.1] * (SECONDS - 1) + [used]
    conditions = found(series("host", "ports.used", "", peak), no_free_local_port=7)
    assert len(conditions) == number
    for condition in conditions:
        assert condition_text(condition) == (
            "up to 85 % of the local ports of the host were in use toward one address: 7 transactions found no free one"
        )


@pytest.mark.parametrize(("waiting", "number"), [(0.49, 0), (0.61, 1)])
def test_ports_in_time_wait_are_reported_from_half_of_the_ports_on(waiting: float, number: int) -> None:
    conditions = found(series("host", "ports.waiting", "", [0.1] * (SECONDS - 1) + [waiting]))
    assert len(conditions) == number
    for condition in conditions:
        assert condition_text(condition) == (
            "ended data connections (TIME-WAIT) occupied up to 61 % of the local ports of the host: the kernel then "
            "needs much CPU time to find the port of the next data connection"
        )


def test_packets_that_an_unused_interface_drops_are_not_reported() -> None:
    def interface(name: str, packets: float, drops: float) -> list[SampleSeries]:
        return [
            series("host", "net.receive_packets", name, packets),
            series("host", "net.receive_drops", name, drops),
        ]

    assert found(*interface("eth0", 10_000, 0), *interface("eth1", 10, 10)) == []
    assert found(*interface("eth0", 1_000_000, 5)) == []
    [condition] = found(*interface("eth0", 1000, 5), series("host", "net.softnet_drops", "", 1))
    assert condition_text(condition) == (
        "the host dropped 60 received packets on eth0 and 12 packets for which the queue of a core was full"
    )


@pytest.mark.parametrize(
    ("change", "number"),
    [({}, 1), ({"disk.busy": 0.95}, 0), ({"disk.wait": 0.01}, 0), ({"psi.io.some": 0.01}, 0)],
)
def test_a_slow_disk_that_is_not_busy_is_reported(change: dict[str, float], number: int) -> None:
    values = {
        "disk.wait": 0.05,
        "disk.iops": 40,
        "disk.queue": 2,
        "disk.busy": 0.35,
        "psi.io.some": 0.4,
    } | change
    conditions = found(
        *(
            series("host", metric, "sda" if metric[0] == "d" else "", value)
            for metric, value in values.items()
        )
    )
    assert len(conditions) == number
    for condition in conditions:
        assert "the disk sda of the host was busy for only 35 % of the time" in condition_text(condition)
        assert "took 50.0 ms on average (40.0 requests/s, 2.00 in progress)" in condition_text(
            condition
        ).replace("\N{NO-BREAK SPACE}", " ")


def test_a_run_queue_is_compared_with_the_cores() -> None:
    assert found(series("host", "cpu.runnable", "", 2)) == []
    [condition] = found(series("host", "cpu.runnable", "", [5, 6] * (SECONDS // 2)))
    assert condition_text(condition).startswith("on average, 5.50 tasks (")
    [even] = found(series("host", "cpu.runnable", "", 3))
    assert condition_text(even) == "on average, 3.00 tasks ran or waited for the 2 cores of the host"
    assert condition_text(condition).endswith(" ran or waited for the 2 cores of the host")


def test_conditions_of_the_machine_of_a_testbed_are_stated_once() -> None:
    none = np.empty(0, dtype=np.int64)
    agents = [
        Agent(name, name, name, role, False, None, 5, AgentClock(same=role == "watch"), none, {})
        for name, role in (("lab", "watch"), ("near", "testers"), ("far", "testers"))
    ]
    samples = []
    for number, agent in enumerate(agents):
        every = [series("host", "cpu.busy", part, 1.0) for part in ("", "0", "1")]
        every += [series("host", "cpu.runnable", "", 5 + number), series("host", "net.softnet_drops", "", 1)]
        samples += [replace(one, agent=agent.name) for one in every]
    shares = np.full(SECONDS, 0.3)
    cpu = [
        HostCpu(name, np.zeros(SECONDS), {}, shares, only_testers=bool(name), component=name or "lab")
        for name in ("", "near", "far")
    ]

    def conditions(one_machine: bool) -> list[tuple[ConditionKind, str]]:
        found = run_conditions(
            samples, agents, WINDOW, {}, cpu, traffic(), lambda: 0, one_machine=one_machine
        )
        return [(condition.kind, condition.host) for condition in found]

    assert conditions(True) == [
        *((ConditionKind.PACKETS, host) for host in ("far", "near", "")),
        (ConditionKind.RUN_QUEUE, ""),
        (ConditionKind.OUTSIDE, ""),
    ]
    assert len(conditions(False)) == 3 + 3 + 2


def workers(in_use: Sequence[float], limit: float, waiting: Sequence[float] | None = None) -> WorkerReadings:
    """Readings once a second: one before the window, these values in turn in the window, and one after it."""
    t = np.linspace(-0.5, SECONDS + 0.5, SECONDS + 2)

    def column(values: Sequence[float]) -> NDArray[np.float64]:
        return np.concatenate(([0.0], np.resize(np.array(values, np.float64), SECONDS), [0.0]))

    counted = None if waiting is None else column(waiting)
    return WorkerReadings("web", "", "thread", "request", t, column(in_use), np.full(t.size, limit), counted)


@pytest.mark.parametrize(
    ("pool", "text"),
    [
        (
            workers([4], 4, [2, 4]),
            "the 4 threads of web were all in use, and on average 3.0 requests waited for one",
        ),
        (workers([4], 4, [0]), None),
        (workers([4], 4), "the 4 threads of web were all in use"),
        (workers([5, 7], 1), "the only thread of web was in use, and on average 5.0 requests waited for one"),
        (workers([3, 4], 4, [1]), None),
        (
            workers([4] * 11 + [3], 4, [6]),
            "the 4 threads of web were all in use in 92 % of the readings, and on average 6.0 requests waited for one",
        ),
    ],
)
def test_workers_that_are_all_in_use_are_reported(pool: WorkerReadings, text: str | None) -> None:
    conditions = run_conditions([], (), WINDOW, {}, (), traffic(), lambda: 0, workers=[pool])
    assert [condition_text(condition) for condition in conditions] == ([] if text is None else [text])
    short = Window(0, 4 * 10**9)
    assert run_conditions([], (), short, {}, (), traffic(), lambda: 0, workers=[pool]) == ()


@pytest.mark.parametrize(
    ("late", "delivered", "text"),
    [
        (9, 100, None),
        (10, 1_001, None),
        (
            25,
            1_000,
            "the emulated links delivered 2.5 % of the packets (25 of 1,000) more than 1 ms later than specified",
        ),
    ],
)
def test_late_packets_of_emulated_links_are_reported(late: int, delivered: int, text: str | None) -> None:
    t = np.linspace(0.0, SECONDS, 4)
    values = {"late": late * t / SECONDS, "released": delivered * t / SECONDS}
    readings = WatchedReadings("testbed.links", "testbed", "", t, values)
    conditions = run_conditions([], (), WINDOW, {}, (), traffic(), lambda: 0, watched=[readings])
    if text is None:
        assert conditions == ()
    else:
        [condition] = conditions
        assert (condition.kind, condition.component) == (ConditionKind.LATE_PACKETS, EMULATOR)
        assert condition_text(condition).startswith(text)


def test_interrupts_and_the_hypervisor_are_no_processes_outside() -> None:
    shares = np.full(SECONDS, 0.4)
    host = HostCpu(
        "db1", np.zeros(SECONDS), {"db": np.zeros(SECONDS)}, shares, interrupts=np.full(SECONDS, 0.1)
    )
    [condition] = found(cpu=host)
    assert condition_text(condition) == "processes outside the experiment used 30 % (30 %) of the CPU of db1"
    assert found(cpu=replace(host, interrupts=np.full(SECONDS, 0.35))) == []
    assert outside_shares(replace(host, components={})) is None, "the target may be one of them"


def test_the_wait_of_a_disk_counts_requests_and_figures_may_be_missing() -> None:
    waits = SampleSeries("host", "disk.wait", "sda", np.array([2.0, 3.0]), np.array([0.01, 0.05]))
    rates = series("host", "disk.iops", "sda", [0, 300, 100, *([0] * (SECONDS - 3))])
    queue = [series("host", "disk.queue", name, length) for name, length in (("sda", 1), ("dm-0", 9))]
    figures = figures_of_host(WindowSamples([waits, rates, *queue], WINDOW), is_stacked)
    assert figures.disk_wait_ms == pytest.approx(20)
    assert figures.disk_queue == 1
    assert figures.disk_iops == pytest.approx(400 / SECONDS)
    assert (figures.ports, figures.listen_drops, figures.packet_drops) == (None, None, None)
    own = figures_of_service(WindowSamples(listening(3), WINDOW), WindowSamples([], WINDOW))
    assert own is not None
    assert (own.listen_drops, own.listen_queue, own.sockets) == (3, 3, None)
    assert figures_of_service(WindowSamples([rates], WINDOW), WindowSamples([], WINDOW)) is None
