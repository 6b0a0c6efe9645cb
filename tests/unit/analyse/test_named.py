"""Named metrics of a driver."""

from __future__ import annotations

import numpy as np
import pytest

from plimsoll.analyse.run.named import named_metrics


def test_moments_and_only_the_percentiles_that_the_sample_carries() -> None:
    few, many = named_metrics({"few": np.arange(1.0, 6.0), "many": np.arange(1.0, 1001.0)})
    assert (few.name, few.count, few.mean, few.max) == ("few", 5, 3.0, 5.0)
    assert few.sd == pytest.approx(np.sqrt(2.5))
    assert few.p50 is None
    assert few.p95 is None
    assert (many.p50, many.p95) == (500.0, 950.0)


def test_what_is_not_finite_is_left_out() -> None:
    assert named_metrics({"none": np.array([np.nan, np.inf])}) == ()
    (one,) = named_metrics({"one": np.array([np.nan, 2.0])})
    assert (one.count, one.mean, one.sd) == (1, 2.0, None)
