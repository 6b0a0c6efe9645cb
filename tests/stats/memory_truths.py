"""Simulated runs with a known truth about memory, for the rates in docs/methods.md."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.components.bottleneck import Bottleneck, bottleneck
from plimsoll.analyse.components.utilization import utilizations
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.samples import SampleSeries

Array = NDArray[np.float64]
Form = Literal["steady", "bursts"]
LIMIT: Final = 512e6
EPISODE_S: Final = 3.0
"""Mean length of a burst of reclaim."""


def pressure(rng: np.random.Generator, mean: float, seconds: int, form: Form) -> Array:
    """Shares of each second in which a task waited for memory, with the true mean `mean`. `steady`: an autoregressive
    series (0.6) with a standard deviation of half of the mean; `bursts`: episodes of 3 s on average in which a task
    waits for 80 % of the time, and nothing between them."""
    if form == "bursts":
        share = mean / 0.8
        stay_on, stay_off = 1 - 1 / EPISODE_S, 1 - share / (1 - share) / EPISODE_S
        state = bool(rng.random() < share)
        values = np.zeros(seconds)
        for second in range(seconds):
            values[second] = 0.8 if state else 0.0
            state = bool(rng.random() < (stay_on if state else 1 - stay_off))
        return values
    noise = np.zeros(seconds)
    noise[0] = rng.normal()
    for second in range(1, seconds):
        noise[second] = 0.6 * noise[second - 1] + 0.8 * rng.normal()
    return np.asarray(np.clip(mean * (1 + 0.5 * noise), 0, 1))


def judged(waits: Array, *, kills: int = 0, memory: float = 0.99 * LIMIT, cpu: float = 0.3) -> Bottleneck:
    """The bottleneck of a run with one service, whose memory is nearly full, and of a host."""
    t = np.arange(1.0, waits.size + 1)

    def series(component: str, metric: str, value: float | Array) -> SampleSeries:
        return SampleSeries(
            component, metric, "", t, np.broadcast_to(np.asarray(value, dtype=float), t.shape)
        )

    killed = np.zeros(waits.size)
    killed[waits.size // 2] = kills
    samples = [
        series("host", "cpu.busy", cpu),
        series("service:db", "cpu", cpu),
        series("service:db", "memory.own", memory),
        series("service:db", "memory.limit", LIMIT),
        series("service:db", "memory.reclaims", 500.0),
        series("service:db", "memory.oom_kills", killed),
        series("service:db", "psi.memory.some", waits),
    ]
    window = Window(0, waits.size * 1_000_000_000)
    return bottleneck(utilizations(samples, window, {"service:db": 1, "host": 2}))


def share_by_memory(rng: np.random.Generator, mean: float, seconds: int, form: Form, runs: int) -> float:
    """The share of runs of which memory is named as the limit."""
    named = [judged(pressure(rng, mean, seconds, form)).reason.code == "memory" for _ in range(runs)]
    return sum(named) / runs
