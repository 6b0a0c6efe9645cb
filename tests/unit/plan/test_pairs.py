"""Paired designs: the order of the runs, the control, and what is refused."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from tests.unit.plan.helpers import BASE, load, problems

from plimsoll.plan import Plan, make_plan

FILE = BASE.replace("web: {kind: echo}", "web: {kind: delay, time: 1ms}\n  other: {kind: echo}")
FACTORS = (
    "factors:\n  load.testers: [1, 2]\n  build: {path: services.web.time, levels: {old: 1ms, new: 2ms}}\n"
)


def planned(design: str, seed: int = 1) -> Plan:
    return make_plan(load(FILE + FACTORS + f"design: {design}\n"), seed)


def triples(plan: Plan, testers: str) -> list[str]:
    """The runs of each block with these testers: O old, N new, C control."""
    letters: dict[str, str] = {}
    for run in plan.runs:
        assert run.block == f"repetition {run.repetition}"
        if run.cell["load.testers"] == testers:
            letter = "C" if run.control else "O" if run.cell["build"] == "old" else "N"
            letters[run.block] = letters.get(run.block, "") + letter
    return list(letters.values())


@pytest.mark.parametrize("seed", range(4))
def test_pairs_alternate_and_follow_each_other(seed: int) -> None:
    plan = planned("{pair: build, repetitions: 4}", seed)
    for testers in "12":
        assert triples(plan, testers) in (["ON", "NO"] * 2, ["NO", "ON"] * 2)
    cells = [run.cell["load.testers"] for run in plan.runs]
    assert cells[0::2] == cells[1::2], "the runs of a pair follow each other"


def test_the_seed_decides_which_level_begins() -> None:
    first = Counter(triples(planned("{pair: build, repetitions: 2}", seed), "1")[0] for seed in range(40))
    assert set(first) == {"ON", "NO"} and min(first.values()) >= 10


@pytest.mark.parametrize("seed", range(4))
def test_with_a_control_each_run_is_in_each_place_equally_often(seed: int) -> None:
    plan = planned("{pair: build, control: true, repetitions: 6}", seed)
    assert len(plan.runs) == 36 and sum(run.control for run in plan.runs) == 12
    found = triples(plan, "1")
    assert len(set(found)) == 6
    for half in (found[:3], found[3:]):
        for place in range(3):
            assert {order[place] for order in half} == {"O", "N", "C"}
    old_first = [order.index("O") < order.index("N") for order in found]
    assert all(one != other for one, other in pairwise(old_first))


def test_the_control_is_a_run_of_the_old_cell_with_a_seed_of_its_own() -> None:
    plan = planned("{pair: build, control: true, repetitions: 2, drift: cpu.other}")
    document = plan.to_json()
    assert document["design"]["pair"] == {
        "factor": "build", "old": "old", "new": "new", "control": True, "drift": ("cpu.other",),
    }  # fmt: skip
    assert [bool(run.get("control")) for run in document["runs"]] == [run.control for run in plan.runs]
    for run in plan.runs:
        if run.control:
            assert run.cell["build"] == "old"
    assert len({run.seed for run in plan.runs}) == len(plan.runs)
    assert plan.experiment.design.counted == (
        "(2 load.testers x 2 build + 2 of the control) x 2 repetitions = 12"
    )


def test_services_that_differ_are_started_before_each_run() -> None:
    plan = planned("{pair: build, control: true, repetitions: 6}")
    assert all("web" in change.start for change in plan.between)
    assert sum("other" in change.start for change in plan.between) == 1


def test_the_pair_of_until_has_at_most_as_many_runs() -> None:
    plan = planned("{pair: build, repetitions: {until: {throughput: 5%}, max_repetitions: 6}}")
    assert plan.experiment.design.counted == "2 load.testers x 2 build x at most 6 repetitions = 24"
    assert triples(plan, "1") in (["ON", "NO"] * 3, ["NO", "ON"] * 3)


@pytest.mark.parametrize(
    ("design", "message"),
    [
        ("{pair: bild, repetitions: 6}", 'there is no factor bild; did you mean "build"?'),
        ("{pair: cache, repetitions: 6}", "there is no factor cache (factors: load.testers, build)"),
        ("{pair: build}", "pair needs `repetitions` of at least 2"),
        ("{control: true}", "control needs `pair: FACTOR`"),
        ("{drift: throughput}", "drift needs `pair: FACTOR`"),
        ("{pair: build, repetitions: 6, loop: build}", "remove loop"),
        ("{pair: build, repetitions: 6, block: build}", "expected `block: repetition`"),
        ("{pair: build, repetitions: 6, kind: one-at-a-time}", "pair needs `kind: full-factorial`"),
        ("{pair: build, repetitions: 6, drift: cpu.db}", "there is no component db"),
        (
            "{pair: build, repetitions: 6, exclude: [{build: new, load.testers: 2}]}",
            "build = old has no partner with load.testers = 2",
        ),
    ],
)
def test_what_a_pair_does_not_accept(design: str, message: str) -> None:
    (found,) = problems(FILE + FACTORS + f"design: {design}\n")
    assert found.startswith("x.yaml:14: design") and message in found


def test_a_pair_has_exactly_two_levels() -> None:
    (found,) = problems(
        BASE + "factors: {load.testers: [1, 2, 4]}\ndesign: {pair: load.testers, repetitions: 6}\n"
    )
    assert found == (
        "x.yaml:11: design.pair: a pair needs a factor with exactly two levels, the old one first: load.testers has 3 "
        "(1, 2, 4)"
    )
