"""Several tests at once: adjusted p-values, and how often a nonexistent effect is detected."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from plimsoll.analyse.effects.effects import factorial
from plimsoll.analyse.stats.multiplicity import holm
from plimsoll.analyse.stats.proportion import wilson


def test_adjusted_as_published() -> None:
    """The example of R's p.adjust: 0.01, 0.02, 0.03, 0.04, 0.05 all become 0.05, 0.08, 0.09, 0.09, 0.09."""
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert holm([0.04, None, 0.01]) == [pytest.approx(0.04), None, pytest.approx(0.02)]
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([None]) == [None] and holm([]) == []


@pytest.mark.long
def test_no_effect_is_rarely_found_where_there_is_none() -> None:
    """3 x 4 x 2 with two runs each: seven terms. Unadjusted, some is below 0.05 in a fifth of the experiments."""
    rng, times = np.random.default_rng(5), 400
    cells = [cell for cell in product("abc", "abcd", "ab") for _ in range(2)]
    factors = {name: [cell[at] for cell in cells] for at, name in enumerate("ABC")}
    some = adjusted = 0
    for _ in range(times):
        fit = factorial(rng.normal(100, 3, len(cells)), factors)
        assert len(fit.terms) == 7
        some += min(term.p_value or 0.0 for term in fit.terms) < 0.05
        adjusted += min(term.adjusted_p or 0.0 for term in fit.terms) < 0.05
    assert some / times > 0.15
    assert wilson(adjusted, times, confidence=0.90)[0] <= 0.05, adjusted
