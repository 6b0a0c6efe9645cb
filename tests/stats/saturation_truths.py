"""Services whose throughput is known at every load, noise of their runs, and which statements on them are false."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.design.capacity.saturation import FLAT, Bracket
from plimsoll.analyse.results.verdicts import SaturationVerdict

Array = NDArray[np.float64]

DOUBLING = (1.0, 2.0, 4.0, 8.0)
LONG = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
EVEN = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
WIDE = (1.0, 4.0, 16.0)
PAIR = (1.0, 2.0)
LADDERS: Mapping[str, tuple[float, ...]] = {
    "doubling": DOUBLING,
    "long": LONG,
    "even": EVEN,
    "wide": WIDE,
    "pair": PAIR,
}


def knee(at: float) -> Callable[[float], float]:
    return lambda n: min(n, at)


def scalability(contention: float, coherency: float) -> Callable[[float], float]:
    """N. Gunther's universal scalability law."""
    return lambda n: n / (1 + contention * (n - 1) + coherency * n * (n - 1))


def closed_network(demands: tuple[float, ...], think: float) -> Callable[[float], float]:
    """Exact mean value analysis of a closed network of queueing centres (Reiser and Lavenberg, JACM 27 (1980) 313)."""

    def throughput(n: float) -> float:
        queue, x = np.zeros(len(demands)), 0.0
        for customers in range(1, round(n) + 1):
            times = np.array(demands) * (1 + queue)
            x = customers / (think + float(times.sum()))
            queue = x * times
        return x

    return throughput


def retrograde(peak: float, fall: float) -> Callable[[float], float]:
    return lambda n: n if n <= peak else float(peak * (n / peak) ** -fall)


def power(elasticity: float) -> Callable[[float], float]:
    return lambda n: float(n**elasticity)


TRUTHS: Mapping[str, Callable[[float], float]] = {
    "knee at the lowest level": knee(1),
    "knee between levels": knee(2.9),
    "knee at a level": knee(4),
    "knee in the last interval": knee(6),
    "knee beyond all levels": knee(64),
    "scalability law, contention .1": scalability(0.1, 0.001),
    "scalability law, contention .02": scalability(0.02, 0.0001),
    "scalability law, contention .3": scalability(0.3, 0),
    "closed network, three centres": closed_network((1, 0.6, 0.3), 10),
    "closed network, no think time": closed_network((1, 0.2), 0),
    "retrograde": retrograde(4, 0.3),
    "slightly retrograde": retrograde(4, 0.1),
    "elasticity .02": power(0.02),
    "elasticity .1": power(0.1),
    "elasticity at the limit of flat": power(FLAT),
    "proportional": power(1),
    "flat": power(0),
}


def network_share(demands: tuple[float, ...], think: float) -> Callable[[float], float]:
    """Utilization of the busiest centre of a closed network."""
    throughput = closed_network(demands, think)
    return lambda n: max(demands) * throughput(n)


def law_share(contention: float, coherency: float) -> Callable[[float], float]:
    """Utilization of what is done one at a time: the serial part, and the exchange between the others."""
    throughput = scalability(contention, coherency)
    return lambda n: throughput(n) * (contention + coherency * n)


def batches(elasticity: float) -> Callable[[float], float]:
    """Full from 4 on; beyond, a request needs less the more there are."""
    return lambda n: n if n <= 4 else 4 * float((n / 4) ** elasticity)


def full_from(load: float) -> Callable[[float], float]:
    return lambda n: n / load


BUSY: Mapping[str, Callable[[float], float]] = {
    "knee at the lowest level": full_from(1),
    "knee between levels": full_from(2.9),
    "knee at a level": full_from(4),
    "knee in the last interval": full_from(6),
    "knee beyond all levels": full_from(64),
    "scalability law, contention .1": law_share(0.1, 0.001),
    "scalability law, contention .02": law_share(0.02, 0.0001),
    "scalability law, contention .3": law_share(0.3, 0),
    "closed network, three centres": network_share((1, 0.6, 0.3), 10),
    "closed network, no think time": network_share((1, 0.2), 0),
    "retrograde": full_from(4),
    "slightly retrograde": full_from(4),
    "elasticity .02": full_from(2),
    "elasticity .1": full_from(2),
    "elasticity at the limit of flat": full_from(2),
    "proportional": full_from(128),
    "flat": full_from(1),
}
"""Utilization of the component that limits each of TRUTHS; above 1: full. A law without a component gets one that is
full from 2 on while throughput still rises."""


def busy_runs(
    rng: np.random.Generator, share: Callable[[float], float], loads: tuple[float, ...], runs: int
) -> dict[float, list[float]]:
    """Utilizations by load, as monitors measure them: with a deviation of 0.5 %."""
    return {
        load: [min(1.0, float(min(1.0, share(load)) + rng.normal(0, 0.005))) for _ in range(runs)]
        for load in loads
    }


@dataclass(frozen=True)
class Experiment:
    """One truth at the levels of one ladder."""

    loads: tuple[float, ...]
    log_throughput: Array

    @staticmethod
    def of(truth: Callable[[float], float], loads: tuple[float, ...]) -> Experiment:
        return Experiment(loads, np.log(np.array([truth(n) for n in loads])))

    @property
    def knee(self) -> int:
        """The first level from which the next one brings less than half of proportional growth."""
        steps = np.diff(self.log_throughput) / np.diff(np.log(np.array(self.loads)))
        below = np.flatnonzero(steps < 0.5)
        return int(below[0]) if below.size else len(self.loads) - 1

    def with_noise(self, noise: Array) -> dict[float, list[float]]:
        """`noise`: of the log throughput; level by repetition."""
        runs = np.exp(self.log_throughput[:, None] + noise)
        return {load: list(map(float, values)) for load, values in zip(self.loads, runs, strict=True)}

    # -- what is false

    def falsehoods(self, bracket: Bracket) -> list[str]:
        """The statements of a bracket that are false."""
        index = {load: i for i, load in enumerate(self.loads)}
        x, false_claims = self.log_throughput, []
        if bracket.lower is not None:
            i = index[bracket.lower]
            if i == len(self.loads) - 1 or x[i + 1 :].max() <= x[i] + 1e-9:
                false_claims.append("increases")
        if (
            bracket.upper is not None
            and bracket.upper != bracket.falls_from
            and not self._is_flat(index[bracket.upper])
        ):
            false_claims.append("flat")
        if bracket.falls_from is not None:
            first = index[bracket.falls_from]
            if any(x[j] >= x[:j].max() - 1e-9 for j in range(max(first, 1), len(x))):
                false_claims.append("falls")
        return false_claims

    def _is_flat(self, start: int) -> bool:
        """As the definition in plimsoll.analyse.design.capacity.saturation."""
        x, n = self.log_throughput, np.log(np.array(self.loads))
        last = len(n) - 1
        pairs = [(i, j) for i in range(start, last + 1) for j in range(i + 1, last + 1)]
        near = all(x[j] - x[i] <= FLAT * max(n[j] - n[i], math.log(2)) + 1e-9 for i, j in pairs)
        return start < last and near and x[last] - x[start] <= FLAT * (n[last] - n[start]) + 1e-9


def is_undecided(bracket: Bracket) -> bool:
    return bracket.verdict == SaturationVerdict.CANNOT_SAY


Noise = Callable[[np.random.Generator, Experiment, float, int], Array]


def constant(rng: np.random.Generator, of: Experiment, sd: float, runs: int) -> Array:
    return rng.normal(0, sd, (len(of.loads), runs))


def grows_at_the_knee(rng: np.random.Generator, of: Experiment, sd: float, runs: int) -> Array:
    """Three times as large from the knee on."""
    scale = np.where(np.arange(len(of.loads)) >= of.knee, 3.0, 1.0)
    return constant(rng, of, sd, runs) * scale[:, None]


def grows_with_the_load(rng: np.random.Generator, of: Experiment, sd: float, runs: int) -> Array:
    return constant(rng, of, sd, runs) * np.linspace(1, 3, len(of.loads))[:, None]


def drifts(rng: np.random.Generator, of: Experiment, sd: float, runs: int) -> Array:
    """By three standard deviations over the experiment; the order of the runs is random."""
    order = rng.permutation(len(of.loads) * runs).reshape(len(of.loads), runs)
    return constant(rng, of, sd, runs) + 3 * sd * (order / order.size - 0.5)


NOISES: Mapping[str, Noise] = {
    "constant": constant,
    "grows at the knee": grows_at_the_knee,
    "grows with the load": grows_with_the_load,
    "drifts": drifts,
}


def resampled(residuals: Array) -> Noise:
    """Residuals of real runs, scaled to a standard deviation."""
    unit = residuals / residuals.std()

    def noise(rng: np.random.Generator, of: Experiment, sd: float, runs: int) -> Array:
        return sd * rng.choice(unit, (len(of.loads), runs))

    return noise
