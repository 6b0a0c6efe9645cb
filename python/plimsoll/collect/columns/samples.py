"""Series of the monitors' samples, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class SampleSeries:
    """One metric of one component over a run: `t_s` seconds from the run's zero, values in the metric's unit. `agent`:
    the agent that sampled it."""

    component: str
    metric: str
    part: str
    t_s: NDArray[np.float64]
    value: NDArray[np.float64]
    agent: str = ""
