"""Expected repetitions, and the change that they can show."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from plimsoll.analyse.design.repetitions.power import detectable_change, expected_repetitions, half_width


def test_the_half_width_is_that_of_t_at_97_percent() -> None:
    assert half_width(0.05, 8) == pytest.approx(math.expm1(stats.t.ppf(0.985, 7) * 0.05 / math.sqrt(8)))


def test_repetitions_for_a_wanted_width() -> None:
    values = [[100.0, 110.0, 90.0], [200.0, 180.0, 220.0]]
    found = expected_repetitions("throughput", values, 0.05, 5, 40)
    assert found is not None and found.df == 4 and found.repetitions is not None
    assert half_width(found.sd, found.repetitions) <= 0.05 < half_width(found.sd, found.repetitions - 1)
    tight = expected_repetitions("throughput", values, 0.5, 5, 40)
    assert tight is not None and tight.repetitions == 5
    wide = expected_repetitions("throughput", values, 0.001, 5, 20)
    assert wide is not None and wide.repetitions is None
    assert wide.detectable == pytest.approx(detectable_change(wide.sd, 20))


def test_nothing_is_expected_without_two_runs_of_a_cell() -> None:
    assert expected_repetitions("throughput", [[1.0], [2.0]], 0.05, 5, 20) is None
    assert expected_repetitions("errors", [[0.0, 1.0]], 0.05, 5, 20) is None


def test_the_detectable_change_is_found_with_80_percent() -> None:
    """Paired t tests on 6 blocks, at the change that is stated as detectable: 20,000 simulated experiments."""
    rng = np.random.default_rng(3)
    sd, n = 0.04, 6
    change = math.log1p(detectable_change(sd, n))
    differences = change + rng.normal(0, sd, (20_000, n)) - rng.normal(0, sd, (20_000, n))
    t = differences.mean(axis=1) / (differences.std(axis=1, ddof=1) / math.sqrt(n))
    found = np.mean(np.abs(t) > stats.t.ppf(0.975, n - 1))
    assert 0.76 < found < 0.86
