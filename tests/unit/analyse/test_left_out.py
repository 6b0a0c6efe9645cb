"""Texts of runs and terms that are left out of the figures, from codes and figures."""

from __future__ import annotations

import pytest

from plimsoll.analyse.answer.left_out import worded_left_out
from plimsoll.analyse.results.verdicts import LeftOutPart, LeftOutReason, Value

CELL = {"sort": "sort by key", "x": "a; b"}
RUN: dict[str, Value] = {"run": "0001", "status": "failed", "reason": "no space", "warmup_s": 2.5, "count": 3}


@pytest.mark.parametrize(
    ("code", "values", "cells", "text", "why"),
    [
        (
            LeftOutReason.EXCLUDED,
            {},
            (CELL, {"sort": "none"}),
            "2 cells of the design",
            "excluded by the experiment file: sort sort by key, x a; b; sort none",
        ),
        (
            LeftOutReason.HOST,
            {"host": "h1", "site": "s", "reason": "it cannot be reached"},
            (),
            "the host h1 (site s)",
            "it cannot be reached",
        ),
        (LeftOutReason.NOT_ESTIMABLE, {"term": "a:b"}, (), "a:b", "the design cannot estimate it"),
        (LeftOutReason.MEASURED_NOTHING, RUN, (), "run 0001", "measured nothing (failed): no space"),
        (
            LeftOutReason.MEASURED_NOTHING,
            RUN | {"reason": None},
            (),
            "run 0001",
            "measured nothing (failed): no reason is recorded",
        ),
        (
            LeftOutReason.WITHIN_WARMUP,
            RUN,
            (),
            "run 0001",
            "ended within its warm-up of 2.5 s (failed: no space)",
        ),
        (
            LeftOutReason.WITHIN_WARMUP,
            RUN | {"reason": ""},
            (),
            "run 0001",
            "ended within its warm-up of 2.5 s (failed)",
        ),
        (LeftOutReason.INVALID, RUN, (CELL,), "run 0001 (sort sort by key, x a; b)", "no space"),
        (LeftOutReason.INVALID, RUN, (), "run 0001", "no space"),
        (
            LeftOutReason.DROPPED,
            RUN,
            (),
            "3 arrivals of run 0001",
            "found no free slot and were never started",
        ),
        (
            LeftOutReason.MISSED,
            RUN,
            (),
            "3 slots of run 0001",
            "missed during a transaction (late: skip), or due when the run ended",
        ),
        (
            LeftOutReason.IN_PROGRESS,
            RUN,
            (),
            "3 transactions of run 0001",
            "in progress when the run ended",
        ),
        (
            LeftOutReason.NO_METRIC,
            {"metric": "x", "known": ("a", "b")},
            (),
            "effects on x",
            "unknown metric; the metrics are a, b",
        ),
        (
            LeftOutReason.NO_VALUE,
            {"metric": "counter.db.hit", "near": "hits"},
            (),
            "the response counter.db.hit",
            "no valid run has a value; did you mean hits?",
        ),
        (LeftOutReason.NO_FIT, {"metric": "x", "reason": "one level"}, (), "effects on x", "one level"),
    ],
)
def test_texts_of_each_code(
    code: LeftOutReason, values: dict[str, Value], cells: tuple[dict[str, str], ...], text: str, why: str
) -> None:
    entry = worded_left_out(LeftOutPart("", "", code, values, cells))
    assert (entry.what, entry.why) == (text, why)


def test_many_cells_are_counted() -> None:
    cells = tuple({"a": str(at)} for at in range(12))
    assert worded_left_out(LeftOutPart("", "", LeftOutReason.EXCLUDED, {}, cells)).why.endswith(
        "a 9 and 2 more"
    )
