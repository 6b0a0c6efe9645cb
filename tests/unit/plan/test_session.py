"""`session:` from the file to the engine's document, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.plan.helpers import load, problems

from plimsoll.plan import engine_document, make_plan

FILE = """
plimsoll: 1
workload:
  driver: sql
  target: postgresql://lab@127.0.0.1:5432/lab
  sql: {queries: [SELECT 1]}
  session: {compute: 2s, queries: 5}
load: {testers: 3, think: 1s}
run: {duration: 10s}
"""


def session(written: str) -> dict[str, Any]:
    plan = make_plan(load(FILE.replace("{compute: 2s, queries: 5}", written)), 1)
    document = engine_document(plan.runs[0], {}, Path("/d"), "small")
    found: dict[str, Any] = document["workloads"][0]["session"]
    return found


@pytest.mark.parametrize(
    ("written", "resolved"),
    [
        (
            "{compute: 2s, queries: 5}",
            {
                "start": [],
                "compute": {"kind": "fixed", "ns": 2 * 10**9},
                "busy": False,
                "min_queries": 5,
                "max_queries": 5,
            },
        ),
        (
            "{start: [/bin/true, -x], compute: {exponential: 1s}, busy: true, queries: {uniform: [3, 8]}}",
            {
                "start": ["/bin/true", "-x"],
                "compute": {"kind": "exponential", "mean_ns": 1e9},
                "busy": True,
                "min_queries": 3,
                "max_queries": 8,
            },
        ),
    ],
)
def test_a_session_is_resolved_with_its_defaults(written: str, resolved: dict[str, Any]) -> None:
    assert session(written) == resolved


def test_a_workload_without_sessions_has_no_key() -> None:
    plan = make_plan(load(FILE.replace("  session: {compute: 2s, queries: 5}\n", "")), 1)
    assert "session" not in engine_document(plan.runs[0], {}, Path("/d"), "small")["workloads"][0]


def test_the_stored_form_is_that_of_the_file() -> None:
    written = "{compute: 2s, queries: {uniform: [3, 8]}}"
    stored = load(FILE.replace("{compute: 2s, queries: 5}", written)).cells[0].stored["workload"]["session"]
    assert stored == {"compute": "2s", "busy": False, "queries": {"uniform": [3, 8]}}


@pytest.mark.parametrize(
    "stages", ["{ramp: {testers: 2, every: 1s, life: 5s}}", "{stages: [{for: 9s, testers: 2}]}"]
)
def test_testers_of_ramps_and_stages_have_sessions(stages: str) -> None:
    text = FILE.replace("{testers: 3, think: 1s}", stages)
    load(text if "ramp" in stages else text.replace("run: {duration: 10s}", "run: {}"))


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("think: 1s", "every: 1s", "remove every"),
        ("{testers: 3, think: 1s}", "{rate: 5/s}", "not an open load"),
        ("{duration: 10s}", "{until: {each_tester: 5}}", "give duration instead"),
        ("queries: 5}", "queries: some}", "expected a number of queries such as 5, or {uniform: [3, 8]}"),
        ("queries: 5}", "queries: -1}", "0"),
        ("compute: 2s, ", "", "required key missing"),
        ("driver: sql\n  target: postgresql://lab@127.0.0.1:5432/lab", "driver: 'null'", "frontier and sql"),
    ],
)
def test_what_sessions_do_not_have_is_refused(old: str, new: str, text: str) -> None:
    assert old in FILE
    found = problems(FILE.replace(old, new))
    assert any(text in str(problem) for problem in found), found


def test_a_rising_rate_in_stages_is_refused() -> None:
    text = FILE.replace("{testers: 3, think: 1s}", "{stages: [{for: 9s, rate: 5/s}]}")
    found = problems(text.replace("run: {duration: 10s}", "run: {}"))
    assert any("give each stage testers instead of a rate" in str(problem) for problem in found), found
