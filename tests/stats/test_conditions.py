"""Rates of false reports of conditions of hosts, in simulated windows whose true condition is at the limit of what must
not be reported. The conditions that are counted events have no such rate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.unit.analyse.test_conditions import traffic

from plimsoll.analyse.components.conditions import BUSY_DISK, DISK_WAIT_S, MIN_OUTSIDE, run_conditions
from plimsoll.analyse.components.cpu_series import HostCpu
from plimsoll.analyse.components.worker_pools import WorkerReadings
from plimsoll.analyse.results.components.conditions import ConditionKind
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.samples import SampleSeries

Array = NDArray[np.float64]
RUNS = 400
CORES = 2


def reported(
    kind: ConditionKind, seconds: int, metrics: dict[tuple[str, str], Array], outside: Array
) -> bool:
    t = np.arange(1.0, seconds + 1)
    values = {("cpu.busy", str(core)): np.full(seconds, 0.5) for core in range(CORES)} | metrics
    samples = [SampleSeries("host", metric, part, t, series) for (metric, part), series in values.items()]
    cpu = [HostCpu("db1", np.zeros(seconds), {"db": np.zeros(seconds)}, outside)]
    window = Window(0, seconds * 10**9)
    found = run_conditions(samples, (), window, {}, cpu, traffic(), lambda: 0)
    return any(entry.kind == kind for entry in found)


def correlated(rng: np.random.Generator, mean: float, cv: float, seconds: int, rho: float) -> Array:
    """Positive values with the given mean and coefficient of variation, log-normal, with autocorrelation `rho`."""
    noise = rng.standard_normal(seconds)
    for at in range(1, seconds):
        noise[at] = rho * noise[at - 1] + np.sqrt(1 - rho**2) * noise[at]
    sigma = np.sqrt(np.log(1 + cv**2))
    return np.asarray(mean * np.exp(sigma * noise - sigma**2 / 2))


def run_queue(rng: np.random.Generator, seconds: int, rho: float) -> bool:
    tasks = correlated(rng, CORES, 0.5, seconds, rho)
    return reported(ConditionKind.RUN_QUEUE, seconds, {("cpu.runnable", ""): tasks}, np.zeros(seconds))


def outside(rng: np.random.Generator, seconds: int, rho: float) -> bool:
    shares = correlated(rng, MIN_OUTSIDE, 0.5, seconds, rho)
    return reported(ConditionKind.OUTSIDE, seconds, {}, shares)


def disk(rng: np.random.Generator, seconds: int, rho: float) -> bool:
    """A disk whose requests take half the reported time on average, in bursts."""
    metrics = {
        ("disk.wait", "sda"): correlated(rng, DISK_WAIT_S / 2, 1.0, seconds, rho),
        ("disk.iops", "sda"): correlated(rng, 100, 0.5, seconds, rho),
        ("disk.queue", "sda"): np.ones(seconds),
        ("disk.busy", "sda"): np.full(seconds, BUSY_DISK / 2),
        ("psi.io.some", ""): np.full(seconds, 0.5),
    }
    return reported(ConditionKind.DISK, seconds, metrics, np.zeros(seconds))


def workers(rng: np.random.Generator, seconds: int, rho: float, busy: float = 0.2) -> bool:
    """A service whose 4 workers are all in use, with a request that waits, for the share `busy` of the time, in a
    two-state chain with autocorrelation `rho`."""
    is_full = [bool(rng.random() < busy)]
    while len(is_full) < seconds:
        is_full.append(rng.random() < busy * (1 - rho) + rho * is_full[-1])
    in_use = 3.0 + np.array(is_full, np.float64)
    limit = np.full(seconds, 4.0)
    pool = WorkerReadings("web", "", "thread", "request", np.arange(0.5, seconds), in_use, limit, in_use - 3)
    window = Window(0, seconds * 10**9)
    return bool(run_conditions([], (), window, {}, (), traffic(), lambda: 0, workers=[pool]))


@pytest.mark.parametrize("rho", [0.0, 0.5])
@pytest.mark.parametrize("seconds", [5, 30])
@pytest.mark.parametrize("simulated", [run_queue, outside, disk, workers])
def test_at_most_5_percent_of_the_reports_are_false(
    simulated: Callable[[np.random.Generator, int, float], bool], seconds: int, rho: float
) -> None:
    rng = np.random.default_rng(19)
    false = sum(simulated(rng, seconds, rho) for _ in range(RUNS)) / RUNS
    # 5 %, and two standard errors of a rate that is known from 400 windows.
    assert false <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / RUNS)


def test_most_conditions_far_above_their_thresholds_are_reported() -> None:
    """The interval of a short series that moves slowly may be too wide."""
    rng, runs, none = np.random.default_rng(7), 100, np.zeros(30)
    queues = sum(
        reported(
            ConditionKind.RUN_QUEUE,
            30,
            {("cpu.runnable", ""): correlated(rng, 3 * CORES, 0.3, 30, 0.5)},
            none,
        )
        for _ in range(runs)
    )
    shares = sum(
        reported(ConditionKind.OUTSIDE, 30, {}, correlated(rng, 0.3, 0.3, 30, 0.5)) for _ in range(runs)
    )
    pools = sum(workers(rng, 30, 0.5, busy=0.97) for _ in range(runs))
    assert min(queues, shares, pools) >= 0.8 * runs
