"""Levels, changes, marks and the newest value of a history."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from plimsoll.compare.history.levels import histories
from plimsoll.compare.history.marks import Mark, placed
from plimsoll.compare.history.model import Entry, MetricHistory, Series
from plimsoll.compare.history.noise import noise_of
from plimsoll.compare.history.result import HistoryResult, as_document
from plimsoll.compare.metrics import Better, ComparedMetric, Scale
from plimsoll.compare.model import Verdict
from plimsoll.errors import BadInput

TIME = ComparedMetric("response_p95", Better.LOWER)
RATE = ComparedMetric("throughput", Better.HIGHER)
ERRORS = ComparedMetric("errors", Better.LOWER, Scale.DIFFERENCE, 0.005)
NOISE = np.random.default_rng(1).normal(0, 0.01, 40)


def values(*levels: tuple[int, float]) -> tuple[float, ...]:
    """Noise of 1 % about levels, each with its number of values."""
    means = np.concatenate([np.full(n, level) for n, level in levels])
    return tuple(map(float, means * np.exp(NOISE[: means.size])))


def one(metric: ComparedMetric, row: tuple[float | None, ...], marked: tuple[int, ...] = ()) -> MetricHistory:
    [found] = histories([Series(metric, {}, row)], marked)
    return found


def test_a_change_has_the_ratio_of_its_levels_and_the_verdict_of_its_direction() -> None:
    for metric, verdict in ((TIME, Verdict.SLOWER), (RATE, Verdict.FASTER)):
        found = one(metric, values((20, 10.0), (20, 12.0)))
        [step] = found.steps
        assert (step.first, step.verdict) == (20, verdict) and found.newest_step is step
        assert step.interval is not None and step.interval.low < 1.2 < step.interval.high
        assert [(level.first, level.last, level.points) for level in found.levels] == [
            (0, 19, 20),
            (20, 39, 20),
        ]
        assert step.estimate == pytest.approx(found.levels[1].mean / found.levels[0].mean)
    assert one(RATE, values((20, 12.0), (20, 10.0))).steps[0].verdict is Verdict.SLOWER


def test_a_change_below_the_margin_is_none() -> None:
    row = values((20, 10.0), (20, 10.25))
    assert one(TIME, row).steps == ()
    [small] = histories([Series(TIME, {}, row)], margin=0.01)
    assert len(small.steps) == 1


def test_a_mark_begins_a_level_without_a_change() -> None:
    row = values((20, 10.0), (20, 12.0))
    found = one(TIME, row, (20,))
    assert [level.first for level in found.levels] == [0, 20]
    assert found.steps == () and found.newest_step is None
    # A change after the mark is found among the values after it.
    later = one(TIME, values((8, 10.0), (16, 12.0), (16, 14.0)), (8,))
    assert [step.first for step in later.steps] == [24]


def test_unknown_values_keep_the_positions() -> None:
    row = (None, *values((20, 10.0), (19, 12.0)))
    found = one(TIME, (*row[:9], None, 0.0, *row[11:]))
    assert found.steps[0].first == 21 and found.levels[0].points == 18
    assert found.latest.position == 39
    assert histories([Series(TIME, {}, (None, 0.0))]) == ()


def test_the_newest_value_is_judged_by_the_others_of_its_level() -> None:
    row = values((39, 10.0))
    for newest, is_outside in ((10.0, False), (11.5, True), (8.5, True), (10.25, False)):
        latest = one(TIME, (*row, newest)).latest
        assert latest.value == pytest.approx(newest) and latest.is_outside is is_outside
        assert latest.range is not None and latest.range.low < 10 < latest.range.high
    alone = one(TIME, row, (38,)).latest
    assert alone.range is None and not alone.is_outside


def test_errors_are_differences_with_a_margin_of_their_own() -> None:
    row = tuple(float(value) for value in np.abs(NOISE) * 0.01)
    assert one(ERRORS, row).steps == ()
    found = one(ERRORS, (*row[:20], *(value + 0.02 for value in row[20:])))
    assert found.margin == 0.005 and found.steps[0].estimate == pytest.approx(0.02, abs=1e-4)


def test_short_and_constant_histories() -> None:
    assert one(TIME, (10.0,)).levels[0].interval is None
    constant = one(TIME, (10.0,) * 12)
    assert constant.steps == () and constant.lag1 == 0.0 and not constant.latest.is_outside
    stepped = one(TIME, (10.0,) * 12 + (20.0,) * 12)
    assert stepped.steps[0].estimate == pytest.approx(2.0) and stepped.steps[0].first == 12


def test_equal_changes_of_many_metrics_are_all_found() -> None:
    """The level of a test increases with the number of changes (Benjamini and Hochberg)."""
    rng = np.random.default_rng(4)
    rows = np.exp(rng.normal(0, 0.015, (12, 40)))
    rows[:, 20:] *= 1.1
    found = histories([Series(TIME, {"testers": str(at)}, tuple(row)) for at, row in enumerate(rows)])
    assert all(any(abs(step.first - 20) <= 1 for step in each.steps) for each in found)


def test_noise_of_independent_values_is_the_pooled_standard_deviation() -> None:
    levels = [np.array([1.0, 3.0, 1.0, 3.0, 1.0, 3.0]), np.array([7.0, 5.0, 7.0, 5.0])]
    noise = noise_of(levels)
    assert noise is not None and noise.lag1 == 0.0 and noise.df == 8
    assert noise.deviation == pytest.approx(math.sqrt(10 / 8))
    assert noise.variance_of_mean(4) == pytest.approx(10 / 8 / 4)
    assert noise_of([np.array([1.0]), np.array([2.0])]) is None


def test_marks_are_placed_by_date_and_by_name() -> None:
    names, started = ("a", "b", "c"), ("2026-11-01T03:00:00+00:00", "2026-11-02T03:00:00+00:00", "2026-11-03")
    assert placed([Mark("2026-11-02", "disk")], names, started) == {1: "disk"}
    assert placed([Mark("c", "x"), Mark("2026-11-02T04:00:00+00:00", "y")], names, started) == {2: "x; y"}
    assert placed([Mark("2027-01-01", "later")], names, started) == {}
    with pytest.raises(BadInput, match='got "soon"'):
        placed([Mark("soon", "x")], names, started)


def test_the_document_has_a_format_and_is_plain_data() -> None:
    entries = tuple(Entry(f"d{at}", "2026-11-01T00:00:00+00:00", 1, 1) for at in range(40))
    result = HistoryResult("small", 0.03, True, entries, (one(TIME, values((20, 10.0), (20, 12.0))),))
    document = as_document(result)
    assert document["format"] == "plimsoll.history/1" and json.loads(json.dumps(document)) == document
    assert document["metrics"][0]["steps"][0]["verdict"] == "slower"
    assert result.became_slower == [result.metrics[0]]
