"""Simulated samples of database sessions with a known truth, for the rates in docs/methods.md."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.components.sessions import explains

Array = NDArray[np.float64]
Form = Literal["independent", "slow", "together"]
FORMS: Final[tuple[Form, ...]] = ("independent", "slow", "together")
_STAY_S: Final = {"independent": 0.1, "slow": 3.0, "together": 3.0}
"""Mean length of a wait, s, if half of the sessions wait."""


def waiting(rng: np.random.Generator, mean: float, active: int, samples: int, form: Form) -> Array:
    """Numbers of waiting sessions of `active` in samples that are one second apart, with the true mean `mean`. Each
    session is a chain of two states, whose samples are independent or depend on each other; `together`: all sessions
    wait at the same times."""
    share = mean / active
    chains = 1 if form == "together" else active
    keep = float(np.exp(-1 / _STAY_S[form]))
    state = rng.random(chains) < share
    out = np.empty(samples)
    for at in range(samples):
        out[at] = state.sum() * (active / chains)
        redrawn = rng.random(chains) >= keep
        state = np.where(redrawn, rng.random(chains) < share, state)
    return out


def share_explained(
    rng: np.random.Generator, mean: float, active: int, samples: int, form: Form, runs: int
) -> float:
    """The share of runs in which the wait explains what the sessions did."""
    whole = np.full(samples, float(active))
    said = [explains(waiting(rng, mean, active, samples, form), whole) for _ in range(runs)]
    return sum(said) / runs
