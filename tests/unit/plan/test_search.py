"""The section `search:`: what it accepts, what it refuses, and the runs that it makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plimsoll.errors import BadInput
from plimsoll.plan import make_plan, parse_experiment
from plimsoll.plan.experiment import Experiment
from plimsoll.plan.model.cell import ClosedLoad, OpenLoad
from plimsoll.plan.model.search import Search, SearchGoal
from plimsoll.plan.plan import trial_run

FILE = """plimsoll: 1
services: {web: {kind: delay, time: 5ms}}
workload: {driver: http, target: web}
load: {in_flight: 50}
run: {warmup: 500ms, pause: 1s}
search:
  axis: load.rate
  from: 50/s
  to: 2000/s
  goals: {fast: {response: "p(99)<100ms", errors: "rate<0.1%", width: 10%}}
"""


def parsed(text: str) -> Experiment:
    return parse_experiment(text, "x.yaml", Path(), (), {})


def test_the_search_has_its_defaults_and_the_cells_have_the_lowest_load() -> None:
    experiment = parsed(FILE)
    assert experiment.search == Search(
        axis="load.rate",
        low=50.0,
        high=2000.0,
        goals=(SearchGoal("fast", "p(99)<100ms", "rate<0.1%", 0.1),),
        initial_s=2.0,
        final_s=10.0,
        sum_s=60.0,
        exceed=0.5,
        repeat=6,
        max_time_s=1800.0,
        hysteresis=False,
        confirm=0,
        overhead_s=3.0,
    )
    (cell,) = experiment.cells
    assert isinstance(cell.config.workloads[0].load, OpenLoad)
    assert cell.config.workloads[0].load.rate == 50.0
    assert experiment.load_factor == "load.rate"


def test_goals_default_to_the_rules_of_capacity() -> None:
    text = FILE.split("  goals:")[0] + "capacity: {response: p(95)<20ms, errors: rate<1%}\n"
    search = parsed(text).search
    assert search is not None
    assert search.goals == (SearchGoal("usable", "p(95)<20ms", "rate<1%", 0.05),)


def test_a_trial_is_a_run_of_the_cell_with_its_load_and_length() -> None:
    plan = make_plan(parsed(FILE), 1)
    run = trial_run(plan, 0, 532.5, 0.3, 2)
    assert (run.id, dict(run.cell), dict(run.values), run.block) == (
        "0001",
        {"load.rate": "532.5/s"},
        {"load.rate": 532.5},
        "search 3",
    )
    load = run.config.workloads[0].load
    assert isinstance(load, OpenLoad) and load.rate == 532.5 and load.in_flight == 50
    assert run.config.run.end_ns == 800_000_000, "warm-up and trial"
    assert plan.cell_of(run).stored["load"]["rate"] == "532.5/s"


def test_testers_are_whole_numbers() -> None:
    text = FILE.replace("load.rate", "load.testers").replace("50/s", "1").replace("2000/s", "64")
    text = text.replace("load: {in_flight: 50}", "load: {think: 10ms}")
    plan = make_plan(parsed(text), 1)
    load = trial_run(plan, 0, 8.0, 0.3, 0).config.workloads[0].load
    assert isinstance(load, ClosedLoad) and load.testers == 8


def test_factors_are_kept_and_the_plan_grows_with_the_trials() -> None:
    plan = make_plan(parsed(FILE + "factors: {services.web.time: [5ms, 8ms]}\n"), 1)
    document = plan.to_json()
    assert (document["open_ended"], document["runs"]) == (True, [])
    assert [factor["name"] for factor in document["factors"]] == ["services.web.time", "load.rate"]
    from dataclasses import replace

    first = trial_run(plan, 1, 60.0, 1.0, 0)
    plan = replace(plan, trials=(first,))
    plan = replace(plan, trials=(first, trial_run(plan, 0, 55.0, 1.0, 0)))
    document = plan.to_json()
    assert [run["id"] for run in document["runs"]] == ["0001", "0002"]
    assert document["runs"][0]["cell"] == {"services.web.time": "8ms", "load.rate": "60/s"}
    assert document["factors"][1]["levels"] == ["55/s", "60/s"]
    assert Search.from_json(json.loads(json.dumps(document["search"]))) == plan.experiment.search


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("load: {in_flight: 50}", "load: {rate: 5/s}", 4, "remove load.rate"),
        ("load: {in_flight: 50}", "load: {stages: [{for: 3s, rate: 4/s}]}", 4, "remove load.stages"),
        ("warmup: 500ms", "duration: 3s", 5, "remove run.duration"),
        ("warmup: 500ms", "until: {transactions: 3}", 5, "remove run.until"),
        ("warmup: 500ms", "keep: summaries", 5, "remove `keep: summaries`"),
        ("from: 50/s", "from: 2000/s", 9, "expected a load above search.from (2000/s), got 2000/s"),
        ("from: 50/s", "from: 50", 8, "has no unit: a rate is written like 500/s"),
        ("p(99)<100ms", "avg<100ms", 10, "a goal needs an upper limit of a percentile"),
        ("rate<0.1%", "rate>0.1%", 10, "a goal needs an upper limit of the error rate"),
        ('{response: "p(99)<100ms", errors: "rate<0.1%", width: 10%}', "{width: 10%}", 10, "a goal needs a rule"),
        ('goals: {fast: {response: "p(99)<100ms", errors: "rate<0.1%", width: 10%}}', "", 6, "a search needs a goal"),
        ("run: {", "factors: {load.rate: [3/s, 4/s]}\nrun: {", 5, "a factor cannot set load.rate"),
        ("run: {", "design: {repetitions: 2}\nrun: {", 5, "remove repetitions"),
        ("run: {", "design: {block: repetition}\nrun: {", 5, "remove block"),
        ("  axis", "  max_time: 10s\n  axis", 7, "longer than one trial"),
        ("  axis", "  trial: {initial: 20s}\n  axis", 7, "expected 0s < initial <= final <= sum"),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_search_is_refused_with_its_line(
    old: str, new: str, line: int, message: str
) -> None:
    assert old in FILE
    with pytest.raises(BadInput) as raised:
        parsed(FILE.replace(old, new, 1))
    found = [(problem.line, problem.message) for problem in raised.value.problems]
    assert any(at == line and message in text for at, text in found), found


@pytest.mark.parametrize(
    ("more", "floor_ms"),
    [
        ("", 10),
        ("validity: {lateness_share: 20%}\n", 20),
        ("validity: {lateness_floor: 2ms}\n", 2),
    ],
)
def test_a_lateness_far_below_the_limit_of_the_goals_is_no_reason(more: str, floor_ms: int) -> None:
    assert parsed(FILE + more).validity.lateness_floor_ns == floor_ms * 10**6
    errors_only = FILE.replace('response: "p(99)<100ms", ', "")
    assert parsed(errors_only).validity.lateness_floor_ns == 10**6
