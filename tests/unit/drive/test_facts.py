"""Entries of run.json for a load: whether it changes as planned, and its stages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plimsoll.drive.run.facts import is_load_changing, load_profile, stages_of, versions_of
from plimsoll.plan import make_plan, parse_experiment
from plimsoll.plan.model.cell import Config, Json, Operation

FILE = """
plimsoll: 1
name: facts
workload: {driver: "null", "null": {}}
load: %s
run: {duration: 4s}
"""


def config(load: str) -> Config:
    staged = "stages" in load
    text = FILE.replace("run: {duration: 4s}", "run: {drain: 1s}") if staged else FILE
    plan = make_plan(parse_experiment(text % load, "facts.yaml", Path(), (), {}), 1)
    return plan.runs[0].config


@pytest.mark.parametrize(
    ("load", "changes"),
    [
        ("{testers: 2}", False),
        ("{rate: 50/s}", False),
        ("{testers: 2, every: 1s}", False),
        ("{ramp: {testers: 3, every: 1s}}", True),
        ("{stages: [{for: 1s, testers: 2}, {for: 1s, testers: 2}]}", False),
        ("{stages: [{for: 1s, testers: 2}, {for: 1s, testers: 3}]}", True),
        ("{stages: [{for: 1s, rate: 10/s..20/s}], in_flight: 5}", True),
        ("{stages: [{for: 1s, rate: 10/s}], in_flight: 5}", False),
    ],
)
def test_a_load_that_changes_as_planned_is_recognised(load: str, changes: bool) -> None:
    assert is_load_changing(config(load)) is changes


def test_stages_state_whether_their_load_changes() -> None:
    stages = stages_of(
        config("{stages: [{for: 1s, rate: 10/s}, {for: 2s, rate: 10/s..20/s, name: up}], in_flight: 5}")
    )
    assert [(stage["start_s"], stage["end_s"], stage["changes"]) for stage in stages] == [
        (0.0, 1.0, False),
        (1.0, 3.0, True),
    ]
    assert stages[1]["name"] == "up"


def test_operations_that_read_or_write_versions_are_listed() -> None:
    base = config("{testers: 1}")
    assert versions_of(base) == {}
    requests: dict[str, dict[str, Json]] = {
        "get": {"version": {"object": "{id}", "column": "changed", "written": None}},
        "put": {"version": {"object": "{id}", "column": None, "written": "{now}"}},
        "ping": {"version": None},
        "list": {},
    }
    operations = tuple(Operation(name, 1.0, request) for name, request in requests.items())
    main = replace(base.workloads[0], operations=operations)
    other = replace(main, name="other", operations=operations[2:])
    versions = versions_of(replace(base, workloads=(main, other)))
    assert versions == {"versions": {"main": {"get": "read", "put": "write"}, "other": {}}}


@pytest.mark.parametrize(
    ("load", "unit", "pieces"),
    [
        ("{testers: 2}", None, []),
        (
            "{stages: [{for: 1s, rate: 10/s}, {for: 2s, rate: 10/s..20/s}], in_flight: 5}",
            "rate",
            [(0, 1, 10, 10), (1, 3, 10, 20)],
        ),
        ("{stages: [{for: 1s, testers: 2}, {for: 1s, testers: 3}]}", "testers", [(0, 1, 2, 2), (1, 2, 3, 3)]),
        ("{stages: [{for: 1s, testers: 2}, {for: 1s, rate: 3/s}], in_flight: 5}", None, []),
        (
            "{ramp: {testers: 5, every: 1s, life: 10s}}",
            "testers",
            [(0, 4, 1, 5), (4, 10, 5, 5), (10, 14, 5, 1)],
        ),
        ("{ramp: {testers: 9, every: 1s, life: 3s}}", "testers", [(0, 2, 1, 3), (2, 8, 3, 3), (8, 11, 3, 1)]),
    ],
)
def test_the_load_profile_is_the_planned_load_over_time(
    load: str, unit: str | None, pieces: list[tuple[float, ...]]
) -> None:
    profile = load_profile(config(load)).get("load_profile", {"unit": None, "pieces": []})
    assert profile["unit"] == unit
    assert [tuple(piece.values()) for piece in profile["pieces"]] == pieces
