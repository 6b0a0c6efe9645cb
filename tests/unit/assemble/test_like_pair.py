"""The smallest change that a paired design can show, from the scatter of earlier results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.unit.plan.helpers import BASE, load

from plimsoll.analyse.design.repetitions.power import change_shown_by_pairs
from plimsoll.assemble import like_pair
from plimsoll.assemble.like_pair import METRICS, pair_like
from plimsoll.cli.experiments.plan_pair import pair_lines
from plimsoll.plan import make_plan

RECORDED = Path(__file__).resolve().parents[2] / "data" / "results-v1"
FILE = BASE + "factors: {load.testers: [1, 2]}\n"
PLAN = make_plan(load(FILE + "design: {pair: load.testers, repetitions: 8}\n"), 1)
OLD, NEW = (10.0, 11.0, 12.0, 9.0), (20.0, 22.3, 24.1, 18.2)


def earlier(monkeypatch: pytest.MonkeyPatch, values: dict[str, Sequence[float]], *, blocks: bool) -> None:
    """Earlier results whose runs have these values of each metric."""
    runs = [
        SimpleNamespace(
            cell={"load.testers": level}, block=f"b{at}" if blocks else None, value=value, valid=True
        )
        for level, of_level in values.items()
        for at, value in enumerate(of_level)
    ]
    monkeypatch.setattr(like_pair, "analysis_of", lambda _: SimpleNamespace(runs=runs))
    monkeypatch.setattr(like_pair, "metric_value", lambda run, _: run.value)


def test_the_metrics_are_throughput_and_response_times() -> None:
    assert METRICS == ("throughput", "response_p50", "response_p95", "response_p99")


def test_blocks_with_both_levels_are_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier(monkeypatch, {"1": OLD, "2": NEW}, blocks=True)
    found = pair_like(PLAN, RECORDED)
    assert [one.metric for one in found] == list(METRICS)
    sd = float(np.std(np.log(NEW) - np.log(OLD), ddof=1))
    assert found[0].sd == pytest.approx(sd) and (found[0].pairs, found[0].df) == (8, 3)
    # One cell of a service: 9 comparisons.
    assert found[0].change == pytest.approx(change_shown_by_pairs(sd, 8, 0.03, 9))
    (line, *_) = pair_lines(PLAN, found, RECORDED)
    assert line.startswith(f"expected: with 8 pairs and the spread of {RECORDED} a change of ")
    assert "of throughput can be seen with power 80 % (margin 3 %" in line


def test_without_common_blocks_runs_are_independent(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier(monkeypatch, {"1": OLD, "4": NEW}, blocks=False)
    pooled = math.sqrt((np.var(np.log(OLD), ddof=1) + np.var(np.log(NEW), ddof=1)) / 2)
    assert pair_like(PLAN, RECORDED)[0].sd == pytest.approx(math.sqrt(2) * pooled)


def test_results_without_repetitions_show_nothing() -> None:
    assert pair_like(PLAN, RECORDED) == []
    (line,) = pair_lines(PLAN, [], RECORDED)
    assert "no smallest change" in line
    alone = make_plan(load(FILE), 1)
    assert pair_like(alone, RECORDED) == [] and pair_lines(alone, [], RECORDED) == []
