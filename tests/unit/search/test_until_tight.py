"""The decisions of "repeat until tight", and which runs they leave out."""

from __future__ import annotations

import math

import pytest

from plimsoll.collect.decisions import due_runs
from plimsoll.plan.model.cell import UntilTight
from plimsoll.search.until_tight import CellWidths, decide, decide_together, too_wide

RULE = UntilTight({"throughput": 0.05, "response_p95": 0.10}, at_least=5, at_most=20)


@pytest.mark.parametrize(
    ("repetitions", "widths", "repeat", "reason"),
    [
        (4, {"throughput": 0.01, "response_p95": 0.01}, True, "4 of at least 5 valid repetitions"),
        (5, {"throughput": 0.05, "response_p95": 0.10}, False, "tight after 5 valid repetitions"),
        (6, {"throughput": 0.051, "response_p95": 0.01}, True, "throughput: +/- 5.1 %, 5 % wanted"),
        (6, {"throughput": 0.01, "response_p95": None}, True, "response_p95: no interval"),
        (6, {"throughput": math.inf, "response_p95": 0.0}, True, "throughput: +/- over 1,000 %, 5 % wanted"),
        (6, {}, True, "throughput: no interval; response_p95: no interval"),
    ],
)
def test_decisions(repetitions: int, widths: dict[str, float | None], repeat: bool, reason: str) -> None:
    decision = decide(RULE.widths, RULE.at_least, CellWidths(repetitions, widths))
    assert (decision.repeat, decision.reason) == (repeat, reason)


def test_a_tight_cell_goes_on_while_its_partner_is_not_tight() -> None:
    tight = CellWidths(8, {"throughput": 0.01, "response_p95": 0.01})
    wide = CellWidths(8, {"throughput": 0.2, "response_p95": 0.01})
    few = CellWidths(4, tight.widths)
    for partner in (wide, few):
        first, second = decide_together(RULE.widths, RULE.at_least, [tight, partner])
        assert first.repeat and second == decide(RULE.widths, RULE.at_least, partner)
        assert (
            first.reason == "tight after 8 valid repetitions; repeated with the cell that it is compared with"
        )
    assert not any(one.repeat for one in decide_together(RULE.widths, RULE.at_least, [tight, tight]))
    (alone,) = decide_together(RULE.widths, RULE.at_least, [tight])
    assert not alone.repeat


def test_all_metrics_that_are_too_wide_are_named() -> None:
    cell = CellWidths(7, {"throughput": 0.2, "response_p95": 0.2})
    assert too_wide(RULE.widths, cell) == [
        "throughput: +/- 20 %, 5 % wanted",
        "response_p95: +/- 20 %, 10 % wanted",
    ]


def test_the_control_of_a_pair_stops_with_its_cell() -> None:
    planned = [
        {"id": "1", "cell": {"build": "old"}, "repetition": 2},
        {"id": "2", "cell": {"build": "old"}, "repetition": 2, "control": True},
    ]
    stop = {"cell": {"build": "old"}, "before_repetition": 2, "decision": "stop"}
    assert due_runs(planned, [stop]) == []


def test_a_stopped_cell_has_no_further_runs() -> None:
    planned = [
        {"id": f"{4 * (r - 1) + at}", "cell": {"t": t}, "repetition": r}
        for r in (1, 2, 3)
        for at, t in enumerate("ab")
    ]
    lines = [
        {"cell": {"t": "a"}, "before_repetition": 2, "decision": "repeat"},
        {"cell": {"t": "b"}, "before_repetition": 2, "decision": "stop"},
        {"cell": {"t": "a"}, "before_repetition": 3, "decision": "stop"},
    ]
    due = [(run["cell"]["t"], run["repetition"]) for run in due_runs(planned, lines)]
    assert due == [("a", 1), ("b", 1), ("a", 2)]
    assert due_runs(planned, []) == planned
