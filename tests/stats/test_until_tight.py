"""Cells that are repeated until their interval is narrow enough: how often the interval contains the truth.

The values are log-normal, as relative errors of throughputs and times are. A look after each repetition from the 5th on
ends the cell if the half width is at most 5 % of the estimate, at the latest after 20 (or 40) repetitions.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from plimsoll.analyse.stats.proportion import clopper_pearson
from plimsoll.analyse.stats.sequential import NOMINAL, relative_half_width, sequential_intervals

WANTED = 0.05
FIRST = 5


def repeated(rng: np.random.Generator, sd: float, cells: int, last: int) -> tuple[float, float]:
    """The share of the cells whose interval contains the truth when they stop, and their mean number of repetitions."""
    values = np.exp(rng.normal(0, sd, (cells, last)))
    truth = math.exp(sd**2 / 2)
    running, held, repetitions = np.arange(cells), 0, 0
    for n in range(FIRST, last + 1):
        intervals = sequential_intervals([values[cell, :n] for cell in running], log=True)
        left = []
        for cell, interval in zip(running, intervals, strict=True):
            width = relative_half_width(interval)
            assert interval is not None and interval.low is not None and interval.high is not None
            if width is not None and width > WANTED and n < last:
                left.append(cell)
                continue
            held += interval.low <= truth <= interval.high
            repetitions += n
        running = np.array(left, dtype=np.int64)
    return held / cells, repetitions / cells


@pytest.mark.parametrize(
    ("sd", "last", "cells"),
    [
        (0.05, 20, 2_000),
        pytest.param(0.02, 20, 10_000, marks=pytest.mark.long),
        pytest.param(0.05, 20, 10_000, marks=pytest.mark.long),
        pytest.param(0.10, 20, 10_000, marks=pytest.mark.long),
        pytest.param(0.15, 20, 10_000, marks=pytest.mark.long),
        pytest.param(0.10, 40, 10_000, marks=pytest.mark.long),
    ],
)
def test_the_interval_of_a_cell_that_stops_contains_the_truth(sd: float, last: int, cells: int) -> None:
    rng = np.random.default_rng(17)
    coverage, repetitions = repeated(rng, sd, cells, last)
    high = clopper_pearson(round(coverage * cells), cells)[1]
    assert high >= 0.945 if cells < 10_000 else coverage >= 0.94, f"{coverage:.4f} after {repetitions:.1f}"
    # The best fixed number of repetitions if the deviation were known: t(.975, n - 1) sd / sqrt(n) <= 5 %.
    fixed = next(n for n in range(2, 1000) if stats.t.ppf(0.975, n - 1) * sd / math.sqrt(n) <= WANTED)
    assert repetitions <= max(FIRST + 0.5, min(last, 1.25 * fixed))


def test_the_interval_is_that_of_t_at_the_nominal_level() -> None:
    values = np.array([9.0, 11.0, 10.0, 12.0, 8.0, 10.5])
    [interval] = sequential_intervals([values])
    low, high = stats.t.interval(NOMINAL, values.size - 1, values.mean(), stats.sem(values))
    assert interval is not None and (interval.low, interval.high) == pytest.approx((low, high))
    assert interval.level == 0.95
    assert relative_half_width(interval) == pytest.approx((high - low) / 2 / values.mean())
