"""Named metrics of a driver."""

from __future__ import annotations

import numpy as np
import pytest

from plimsoll.analyse.run.named import named_metrics


def test_moments_and_only_percentiles_for_which_the_sample_is_large_enough() -> None:
    few, many = named_metrics({"few": np.arange(1.0, 6.0), "many": np.arange(1.0, 1001.0)})
    assert (few.name, few.count, few.mean, few.max) == ("few", 5, 3.0, 5.0)
    assert few.sd == pytest.approx(np.sqrt(2.5))
    assert few.p50 is None
    assert few.p95 is None
    assert (many.p50, many.p95) == (500.0, 950.0)


def test_values_that_are_not_finite_are_left_out() -> None:
    assert named_metrics({"none": np.array([np.nan, np.inf])}) == ()
    (metric,) = named_metrics({"one": np.array([np.nan, 2.0])})
    assert (metric.count, metric.mean, metric.sd) == (1, 2.0, None)
