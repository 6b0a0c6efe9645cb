"""How often memory is named as the limit, in simulated runs with a known truth (docs/methods.md has the table)."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stats.memory_truths import LIMIT, Form, judged, share_by_memory

FORMS: tuple[Form, ...] = ("steady", "bursts")


@pytest.mark.parametrize("form", FORMS)
def test_memory_is_rarely_named_where_little_time_is_lost(form: Form) -> None:
    rng = np.random.default_rng(19)
    assert share_by_memory(rng, 0.05, 15, form, 300) <= 0.01
    assert share_by_memory(rng, 0.05, 60, form, 150) <= 0.02


@pytest.mark.parametrize(("form", "least"), [("steady", 0.9), ("bursts", 0.5)])
def test_memory_is_named_where_much_time_is_lost(form: Form, least: float) -> None:
    rng = np.random.default_rng(20)
    assert share_by_memory(rng, 0.30, 60, form, 150) >= least


def test_full_memory_alone_is_no_evidence() -> None:
    found = judged(np.zeros(30), memory=LIMIT)
    assert found.component == "not resolved"
    assert found.reason.code == "nothing full"


def test_a_killed_process_is_evidence_and_a_full_processor_is_then_a_consequence() -> None:
    found = judged(np.zeros(30), kills=2, cpu=1.0)
    assert (found.component, found.reason.code) == ("db", "memory")
    assert found.reason.values["oom_kills"] == 2
    assert judged(np.zeros(30), cpu=1.0).reason.code == "full"
    pressed = judged(np.full(30, 0.4), cpu=1.0)
    assert (pressed.component, pressed.reason.code) == ("db", "memory")
