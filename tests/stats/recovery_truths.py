"""Runs with actions whose outage and recovery are known: completions of a service that stops at one time and is back
at another, at once or with a linear rise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.actions import ActionResult, ActionsResult
from plimsoll.analyse.run.outages.incidents import AvailabilityLimit, actions_result
from plimsoll.analyse.run.outages.success_bins import SuccessBins
from plimsoll.analyse.run.traffic import Block
from plimsoll.analyse.window.transactions import OUTCOMES, Transactions, Window

END_S, KILL_S, RESTART_S = 40.0, 12.0, 16.0
NS = 1e9


@dataclass(frozen=True)
class Truth:
    """`rate`: starts per second; `arrivals`: poisson, even, or bursts (a Poisson process whose rate follows an AR(1)
    process, 20 % about its mean, correlated over a second). `ready_s`: when the first request succeeds again (None: the
    action has no effect); `rise_s`: the time from then on in which the share of successes rises to 1; `level`: the
    share that stays."""

    rate: float
    arrivals: str = "poisson"
    ready_s: float | None = 17.5
    rise_s: float = 0.0
    level: float = 1.0

    @property
    def recovered_s(self) -> float:
        """When the expected throughput is back at 95 %."""
        assert self.ready_s is not None
        return self.ready_s + 0.95 * self.rise_s


def _starts(truth: Truth, rng: np.random.Generator) -> NDArray[np.float64]:
    if truth.arrivals == "even":
        return np.arange(0.0, END_S, 1 / truth.rate)
    step, steps = 0.1, round(END_S / 0.1)
    factor = np.ones(steps)
    if truth.arrivals == "bursts":
        phi, value = np.exp(-step), rng.normal()
        for at in range(steps):
            value = phi * value + np.sqrt(1 - phi**2) * rng.normal()
            factor[at] = max(0.0, 1 + 0.2 * value)
    counts = rng.poisson(truth.rate * step * factor)
    starts: NDArray[np.float64] = np.sort(
        np.repeat(np.arange(steps) * step, counts) + step * rng.random(int(counts.sum()))
    )
    return starts


def analysed(truth: Truth, seed: int) -> ActionsResult:
    """The result of one simulated run. Responses take 5 ms on average (exponential)."""
    rng = np.random.default_rng(seed)
    start = _starts(truth, rng)
    end = start + rng.exponential(0.005, start.size)
    works = np.ones(start.size, dtype=bool)
    if truth.ready_s is not None:
        share = (
            np.clip((start - truth.ready_s) / truth.rise_s, 0, 1)
            if truth.rise_s
            else (start >= truth.ready_s) * 1.0
        )
        works = (end < KILL_S) | ((start >= truth.ready_s) & (rng.random(start.size) < share * truth.level))
    end = np.where(works, end, start + 0.0005)
    zero = np.zeros(start.size, dtype=np.int64)
    planned, ended = (start * NS).astype(np.int64), (end * NS).astype(np.int64)
    outcome = np.where(works, 0, OUTCOMES.index("refused")).astype(np.uint8)
    rows = Transactions(planned, planned, ended, outcome, zero, zero, zero, zero + 1, zero, zero, zero)
    measured = Window(round(2 * NS), round(END_S * NS))
    bins = SuccessBins(round(END_S * NS), measured, AvailabilityLimit().ns)
    bins.add(Block.of(rows))
    actions = [
        ActionResult("kill", "kill db", "db", KILL_S, 0.0, KILL_S, KILL_S, "done"),
        ActionResult("restart", "restart db", "db", RESTART_S, 0.0, RESTART_S, 17.5, "done"),
    ]
    return actions_result(actions, bins, measured, AvailabilityLimit(), ("",))
