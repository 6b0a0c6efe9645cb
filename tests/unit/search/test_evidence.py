"""The posterior of the load sought."""

from __future__ import annotations

import numpy as np
import pytest

from plimsoll.search.evidence import Axes, Posterior


def of_weights(*weights: float) -> Posterior:
    """A posterior over loads 1, e, e^2, ... with one shape."""
    axes = Axes(start=0.0, step=1.0, count=len(weights), width=0.1, exceed=0.5)
    return Posterior(axes, np.array(weights)[:, None], 1.0)


@pytest.mark.parametrize(
    ("weights", "log_median"),
    [
        ((0.25, 0.5, 0.25), 1.0),
        ((0.5, 0.5), 0.5),
        ((0.1, 0.8, 0.1), 1.0),
        ((0.4, 0.4, 0.2), 0.75),
        ((1.0, 0.0), 0.0),
    ],
)
def test_the_median_is_interpolated_within_its_cell(weights: tuple[float, ...], log_median: float) -> None:
    assert np.log(of_weights(*weights).median) == pytest.approx(log_median)
