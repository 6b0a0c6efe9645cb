"""How often a wait is said to explain what the sessions of a database did, in simulated runs with a known truth
(docs/methods.md has the table)."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stats.session_truths import FORMS, Form, share_explained, waiting

from plimsoll.analyse.components.sessions import MIN_SAMPLES, MIN_SESSIONS, MIN_SHARE, explains


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("samples", [MIN_SAMPLES, 60])
def test_a_wait_at_a_bound_is_rarely_said_to_explain(form: Form, samples: int) -> None:
    """The truth that is hardest to tell from one above the bound: exactly one session, or exactly 25 % of 10."""
    rng = np.random.default_rng(19)
    assert share_explained(rng, MIN_SESSIONS, 3, samples, form, 400) <= 0.05
    assert share_explained(rng, MIN_SHARE * 10, 10, samples, form, 400) <= 0.05


@pytest.mark.parametrize(("form", "samples"), [("independent", 30), ("slow", 300)])
def test_a_wait_of_most_sessions_is_said_to_explain(form: Form, samples: int) -> None:
    rng = np.random.default_rng(20)
    assert share_explained(rng, 7.8, 10, samples, form, 100) >= 0.95


def test_few_samples_explain_nothing() -> None:
    whole = np.full(MIN_SAMPLES, 10.0)
    assert explains(whole, whole)
    assert not explains(whole[1:], whole[1:])
    assert not explains(np.ones(60), np.full(60, 4.5))


@pytest.mark.parametrize("form", FORMS)
def test_the_simulated_truth_is_that_of_its_name(form: Form) -> None:
    values = waiting(np.random.default_rng(21), 4.0, 10, 20_000, form)
    assert values.mean() == pytest.approx(4.0, rel=0.06)
