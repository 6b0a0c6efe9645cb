"""Ramps and stages of testers with slots, a life, or a number per host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.plan.helpers import BASE, edited, load, problems

from plimsoll.plan import make_plan, tester_time
from plimsoll.plan.engine import engine_document
from plimsoll.plan.model.cell import RampLoad, SlotRule, StagedLoad
from plimsoll.plan.plan import Plan
from plimsoll.plan.tester_time import active_pieces, offset_ns, periods, slot_count

S = 10**9
CLASSIC = "{ramp: {testers: 89, every: 25s, life: 1h}, every: 1s, late: skip}"


def plan_of(written: str, run: str = "{drain: 1s}") -> Plan:
    return make_plan(load(edited("{duration: 1s}", run, edited("{testers: 1}", written))), 5)


def load_document(written: str, run: str = "{drain: 1s}") -> dict[str, Any]:
    plan = plan_of(written, run)
    document = engine_document(plan.runs[0], {"web": ["http://h:1"]}, Path("/r"), "x")
    found: dict[str, Any] = document["workloads"][0]["load"]
    return found


def ramp_of(written: str, run: str = "{drain: 1s}") -> RampLoad:
    found = plan_of(written, run).runs[0].config.workloads[0].load
    assert isinstance(found, RampLoad)
    return found


def staged_of(written: str) -> StagedLoad:
    found = plan_of(written).runs[0].config.workloads[0].load
    assert isinstance(found, StagedLoad)
    return found


def test_the_classic_ramp_ends_with_the_life_of_its_last_tester() -> None:
    plan = plan_of(CLASSIC)
    assert plan.runs[0].config.run.end_ns == (88 * 25 + 3600) * S
    document = load_document(CLASSIC)
    assert document["slots"] == {"every_ns": S, "late": "skip"}
    assert (document["every_ns"], document["life_ns"]) == (25 * S, 3600 * S)
    # A tester has a slot when it joins, and 3,599 or 3,598 in the rest of its life.
    assert 89 * 3599 <= plan.estimate.transactions <= 89 * 3600
    assert not any("closed load takes" in text for text in plan.estimate.assumptions)
    assert plan.warnings == ()


def test_a_duration_ends_a_ramp_before_or_after_its_testers() -> None:
    longer = plan_of("{ramp: {testers: 3, every: 10s}, every: 2s}", "{duration: 1m}")
    assert longer.runs[0].config.run.end_ns == 60 * S
    assert longer.estimate.transactions == 30 + 25 + 20  # offsets of 0, 1.24 and 0.47 s
    shorter = plan_of("{ramp: {testers: 89, every: 25s, life: 1h}, every: 1s}", "{duration: 10m}")
    assert shorter.runs[0].config.run.end_ns == 600 * S
    (warning,) = shorter.warnings
    assert warning.startswith(
        "main: 65 of 89 testers never join: the run ends after 10m, and the last tester joins"
    )


def test_the_estimate_of_a_ramp_without_slots_is_that_of_its_testers_over_time() -> None:
    """Testers 1 to 10 join one second apart, and stay for 10 s: 100 s of testers, at 1/(0.5 ms + 99.5 ms)."""
    plan = plan_of("{ramp: {testers: 10, every: 1s, life: 10s}, think: 99.5ms}")
    assert plan.estimate.transactions == pytest.approx(1000)
    late = plan_of("{ramp: {testers: 10, every: 1s}, think: 99.5ms}", "{duration: 4s}")
    assert late.estimate.transactions == pytest.approx(10 * (4 + 3 + 2 + 1))


@pytest.mark.parametrize("end_s", [1, 7, 25, 60, 61, 200])
@pytest.mark.parametrize("life", [None, 5, 30])
def test_the_time_and_the_slots_of_all_testers_are_the_sums_of_those_of_each(
    end_s: int, life: int | None
) -> None:
    written = f"{{ramp: {{testers: 7, every: 10s{'' if life is None else f', life: {life}s'}}}, every: 3s}}"
    ramp = ramp_of(written, "{duration: 300s}")
    by_tester = [periods(ramp, tester, end_s * S) for tester in range(ramp.testers)]
    assert tester_time.tester_time_ns(ramp, end_s * S) == sum(
        end - start for each in by_tester for start, end in each
    )
    slots = 0
    for tester, each in enumerate(by_tester):
        for start, end in each:
            grid = offset_ns(tester, 3 * S)
            slots += 1 + sum(start + 3 * S <= at < end for at in range(grid, 301 * S, 3 * S))
    assert slot_count(ramp, SlotRule(3 * S, "skip"), end_s * S) == slots


def test_stages_accept_slots_and_a_life_of_each_tester() -> None:
    written = "{stages: [{for: 10s, testers: 2}, {for: 10s, testers: 5}, {for: 10s, testers: 5}], every: 2s, life: 15s}"
    assert load_document(written)["life_ns"] == 15 * S
    staged = staged_of(written)
    # Two testers from 0 to 15 s, three from 10 to 25 s.
    assert active_pieces(staged) == [
        (0, 0, 10 * S, 2),
        (1, 10 * S, 15 * S, 5),
        (1, 15 * S, 20 * S, 3),
        (2, 20 * S, 25 * S, 3),
        (2, 25 * S, 30 * S, 0),
    ]
    assert tester_time.tester_time_ns(staged, 30 * S) == (2 + 3) * 15 * S
    expected = sum(
        start <= at < end
        for tester in range(5)
        for start, end in periods(staged, tester, 30 * S)
        for at in range(offset_ns(tester, 2 * S), 30 * S, 2 * S)
    )
    assert plan_of(written).estimate.transactions == expected


def test_stages_without_testers_of_their_own_are_refused_with_the_line() -> None:
    text = edited("{testers: 1}", "{stages: [{for: 10s, testers: 2}, {for: 9s, testers: 1}], life: 10s}")
    assert problems(edited("{duration: 1s}", "{drain: 1s}", text)) == [
        "x.yaml:8: load.stages.1: no tester is active in stage-2: all of its testers joined earlier and have ended "
        "after their life of 10s; make life longer, or leave it out"
    ]


HOSTS = "hosts: {kind: ssh, hosts: [a, b, c, d]}\n"


def test_per_host_is_the_number_of_testers_on_each_host_of_a_ramp_and_of_stages() -> None:
    for written, expected in [
        ("{ramp: {per_host: 5, every: 10s, life: 1m}, every: 1s}", 20),
        ("{stages: [{for: 1s, per_host: 2}, {for: 1s, per_host: 6}]}", 24),
    ]:
        text = edited("{duration: 1s}", "{drain: 1s}", edited("{testers: 1}", written)) + HOSTS
        text = text.replace("services:\n  web: {kind: echo}\n", "").replace(
            "target: web", "target: 'http://h:1'"
        )
        plan = make_plan(load(text), 5)
        document = engine_document(plan.runs[0], {}, Path("/r"), "x")["workloads"][0]["load"]
        assert sum(plan.spreads[0].testers["main"].values()) == expected
        if "stages" in document:
            assert [stage["testers"] for stage in document["stages"]] == [8, 24]
        else:
            assert document["testers"] == 20
            assert plan.runs[0].config.run.end_ns == (19 * 10 + 60) * S  # the ramp of all testers


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            "{ramp: {testers: 3, every: 1s, life: 9s}, every: 1s, think: 1s}",
            "x.yaml:8: load: think has no effect in a load of ramp with `every`: the allowed keys are every, late",
        ),
        (
            "{ramp: {testers: 3, every: 1s, life: 9s}, late: skip}",
            "x.yaml:8: load: late has no effect in a load of ramp: the allowed keys are think; late needs `every`, "
            "the interval between the requests of a tester",
        ),
        (
            "{ramp: {testers: 3, every: 1s}, every: 1s, life: 9s}",
            "x.yaml:8: load: life has no effect in a load of ramp with `every`: the allowed keys are every, late; "
            "write the life inside the ramp: ramp: {..., life: 1h}",
        ),
        (
            "{stages: [{for: 1s, rate: 5/s}], every: 1s}",
            "x.yaml:8: load: every has no effect in a load of stages: the allowed keys are arrivals, in_flight, "
            "when_full",
        ),
        (
            "{testers: 3, life: 9s}",
            "x.yaml:8: load: life has no effect in a load of testers: the allowed keys are think; run.duration ends "
            "all testers, and a ramp has a life for each",
        ),
        (
            "{ramp: {testers: 3, per_host: 1, every: 1s}}",
            "x.yaml:8: load.ramp: a ramp needs either testers or per_host",
        ),
        ("{ramp: {every: 1s}}", "x.yaml:8: load.ramp: a ramp needs either testers or per_host"),
        ("{ramp: {testers: 2, every: 0s}}", "x.yaml:8: load.ramp: `every` must be longer than 0s"),
        ("{ramp: {testers: 2, every: 1s, life: 0s}}", "x.yaml:8: load.ramp: `life` must be longer than 0s"),
        ("{stages: [{for: 1s, testers: 1}], life: 0s}", "x.yaml:8: load: `life` must be longer than 0s"),
        ("{ramp: {testers: 2, every: 1s}, every: 0s}", "x.yaml:8: load: `every` must be longer than 0s"),
        (
            "{ramp: {testers: 2, every: 1s}, every: 1s}",
            "x.yaml:9: run: the run has no end: give duration (for example 30s) or until, or a life to the testers of "
            "the ramp",
        ),
    ],
)
def test_combinations_without_a_meaning_are_refused(written: str, message: str) -> None:
    assert message in problems(edited("{duration: 1s}", "{drain: 1s}", edited("{testers: 1}", written)))


def test_a_life_of_one_interval_is_pointed_out() -> None:
    plan = plan_of("{ramp: {testers: 3, every: 1s, life: 500ms}, every: 1s}")
    assert plan.warnings == (
        "main: each tester starts one request: its life of 500ms is not longer than its interval of 1s",
    )
    assert plan.estimate.transactions == 3


def test_existing_forms_keep_their_document() -> None:
    assert load_document("{ramp: {testers: 3, every: 1s, life: 9s}}") == {
        "kind": "ramp",
        "testers": 3,
        "every_ns": S,
        "life_ns": 9 * S,
        "think": {"kind": "fixed", "ns": 0},
    }
    assert "slots" not in load_document("{stages: [{for: 1s, testers: 1}]}")
    assert BASE.endswith("run: {duration: 1s}\n")
