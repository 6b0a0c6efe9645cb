"""Designs: their cells, the number and order of runs, and the terms that cannot be estimated."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.conftest import ROOT
from tests.unit.plan.helpers import BASE, load, problems

from plimsoll.errors import BadInput
from plimsoll.plan import Experiment, load_experiment, make_plan

ACCESS_METHODS = """\
plimsoll: 1
name: access-methods
question: Which way to the same data carries most users, and what stops each of them?
vars: {rows: 10000}
services:
  db:       {kind: sqlite}
  frontier: {kind: frontier, database: db, connections: 10}
  squid:    {kind: command, command: ["squid", "-p", "{port}", "{frontier.url}"], fresh: run}
data:
  t_string: {into: db, kind: table, rows: 10000, row: 100B, compressibility: 10%}
workload:
  driver: frontier
  target: frontier
  timeout: 60s
  on_error: continue
  frontier: {zip: 5, queries: ["SELECT string FROM t_string LIMIT ${vars.rows}"]}
  sql:      {queries: ["SELECT string FROM t_string LIMIT ${vars.rows}"], connection: kept}
load: {testers: 4, think: 0s}
factors:
  method:
    frontier: {workload.driver: frontier, workload.target: frontier}
    squid:    {workload.driver: frontier, workload.target: squid}
    direct:   {workload.driver: sql, workload.target: db}
  size:     {10 kB: {vars.rows: 100}, 100 kB: {vars.rows: 1000}, 1 MB: {vars.rows: 10000}}
  testers:  {path: load.testers, levels: [1, 3, 5, 7]}
design: {kind: full-factorial, repetitions: 2, block: repetition, order: random, seed: 20061}
run: {warmup: 10s, duration: 300s}
responses: [{metric: items_per_s, scale: log}]
capacity: {response: "p(95)<2s", errors: "rate<10%"}
thresholds:
  - {metric: response, test: "p(95)<500ms", where: {method: squid}}
hosts: {kind: local}
"""

TWO = "factors: {load.testers: [1, 2, 4], workload.timeout: [1s, 2s]}\n"


def cells(experiment: Experiment) -> list[tuple[str, ...]]:
    return [tuple(cell.labels.values()) for cell in experiment.cells]


def test_the_access_methods_experiment_has_72_runs() -> None:
    experiment = load(ACCESS_METHODS)
    plan = make_plan(experiment)
    assert len(plan.runs) == 72
    assert len({(tuple(run.cell.items()), run.repetition) for run in plan.runs}) == 72
    assert experiment.design.counted == "3 method x 3 size x 4 testers x 2 repetitions = 72"
    assert experiment.load_factor == "testers"
    assert plan.seed == 20061
    assert [run.id for run in plan.runs[:2]] == ["0001", "0002"]
    direct = next(
        run for run in plan.runs if run.cell == {"method": "direct", "size": "1 MB", "testers": "7"}
    )
    (workload,) = direct.config.workloads
    assert (workload.driver, workload.target.name) == ("sql", "db")
    assert workload.operations[0].request["query"] == "SELECT string FROM t_string LIMIT 10000"
    assert direct.values == {"size": 1e6, "testers": 7.0}
    (threshold,) = experiment.thresholds
    assert threshold.applies({"method": "squid"}) and not threshold.applies({"method": "direct"})


def test_the_services_of_the_example_do_not_change_the_design() -> None:
    plan = make_plan(load(ACCESS_METHODS), 1)
    real = make_plan(load_experiment(ROOT / "examples" / "access-methods.yaml", environ={}), 1)
    assert [(run.cell, run.repetition) for run in real.runs] == [
        (run.cell, run.repetition) for run in plan.runs
    ]
    config = real.runs[0].config
    assert [(service.name, service.kind, service.needs) for service in config.services] == [
        ("db", "postgres", ()),
        ("frontier", "frontier", ("db",)),
        ("squid", "squid", ("frontier",)),
    ]


def test_full_factorial_is_the_default_with_the_last_factor_fastest() -> None:
    experiment = load(BASE + TWO)
    assert cells(experiment) == list(itertools.product("124", ("1s", "2s")))
    assert experiment.design.kind == "full-factorial"


def test_no_factors_is_one_cell() -> None:
    experiment = load(BASE + "design: {repetitions: 3}\n")
    assert cells(experiment) == [()]
    assert len(make_plan(experiment, 1).runs) == 3


def test_one_at_a_time_starts_from_the_first_levels_or_the_base() -> None:
    experiment = load(BASE + TWO + "design: {kind: one-at-a-time}\n")
    assert cells(experiment) == [("1", "1s"), ("2", "1s"), ("4", "1s"), ("1", "2s")]
    assert experiment.design.counted == "1 base + 2 load.testers + 1 workload.timeout = 4"
    based = load(BASE + TWO + "design: {kind: one-at-a-time, base: {load.testers: 4}}\n")
    assert cells(based)[0] == ("4", "1s")
    assert len(based.cells) == 4
    assert "interactions cannot be estimated" in " ".join(make_plan(based, 1).not_estimable)


def test_two_to_the_k_takes_low_and_high() -> None:
    text = BASE + (
        "factors:\n"
        "  a: {path: load.testers, low: 1, high: 8}\n"
        "  b: {path: workload.timeout, levels: [1s, 2s, 3s], low: 1s, high: 3s}\n"
        "  c: {path: run.pause, levels: [0s, 1s]}\n"
        "design: {kind: 2^k}\n"
    )
    experiment = load(text)
    assert cells(experiment) == list(itertools.product(("1", "8"), ("1s", "3s"), ("0s", "1s")))
    assert experiment.design.counted == "2 a x 2 b x 2 c = 8"


NESTED = (
    "factors:\n"
    "  kind: {kept: {workload.http.connection: kept}, anew: {workload.http.connection: per-request}}\n"
    "  pause: {path: run.pause, levels: [0s, 1s, 2s], when: {kind: kept}}\n"
    "  load.testers: [1, 2]\n"
)


def test_nested_factors_are_absent_elsewhere() -> None:
    experiment = load(BASE + NESTED)
    labels = cells(experiment)
    assert len(labels) == 8
    assert ("anew", "1") in labels
    assert ("kept", "2s", "1") in labels
    assert "4 combinations of kind, pause" in experiment.design.counted
    assert experiment.design.counted.endswith("= 8")
    terms = make_plan(experiment, 1).not_estimable
    assert "the interaction of kind and pause (nested)" in terms
    assert "one repetition" in terms[0]


def test_nesting_counts_agree_with_enumeration() -> None:
    text = BASE + (
        "factors:\n"
        "  a: {path: workload.http.headers.a, levels: [1, 2, 3]}\n"
        "  b: {path: workload.http.headers.b, levels: [1, 2], when: {a: [1, 2]}}\n"
        "  c: {path: workload.http.headers.c, levels: [1, 2, 3, 4, 5], when: {b: 2}}\n"
        "  d: {path: workload.http.headers.d, levels: [1, 2]}\n"
        "  e: {path: workload.http.headers.e, levels: [1, 2], when: {a: 3, d: 1}}\n"
    )
    experiment = load(text)
    assert experiment.design.counted.endswith(f"= {len(experiment.cells)}")


def test_a_cycle_of_nested_factors_is_rejected() -> None:
    text = BASE + (
        "factors:\n"
        "  a: {path: workload.http.headers.a, levels: [1, 2], when: {b: 1}}\n"
        "  b: {path: workload.http.headers.b, levels: [1, 2], when: {a: 1}}\n"
    )
    assert problems(text) == ["x.yaml:10: factors: the `when` conditions of some factors form a cycle"]


def test_one_at_a_time_reports_factors_that_are_never_varied() -> None:
    lines = problems(BASE + NESTED + "design: {kind: one-at-a-time, base: {kind: anew}}\n")
    assert "pause is never varied: it needs kind = kept" in lines[0]


def test_exclude_removes_cells_and_reports_the_lost_terms() -> None:
    experiment = load(BASE + TWO + "design: {exclude: [{load.testers: [2, 4], workload.timeout: 2s}]}\n")
    assert cells(experiment) == [("1", "1s"), ("1", "2s"), ("2", "1s"), ("4", "1s")]
    assert len(experiment.design.excluded) == 2
    assert experiment.design.counted.endswith("= 6, less 2 excluded cells: 4 runs")
    assert any("load.testers and workload.timeout" in term for term in make_plan(experiment, 1).not_estimable)


def test_a_table_design_has_the_cells_of_its_rows(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("connection,load.testers\nkept,1\nkept,8\nanew,1\nkept,1\n\n")
    text = BASE + (
        "factors:\n  connection:\n    kept: {workload.http.connection: kept}\n"
        "    anew: {workload.http.connection: per-request}\n"
        "design: {table: d.csv, repetitions: 2}\n"
    )
    experiment = load(text, directory=tmp_path)
    assert cells(experiment) == [("kept", "1"), ("kept", "8"), ("anew", "1")]
    assert experiment.times == (2, 1, 1)
    plan = make_plan(experiment, 1)
    assert len(plan.runs) == 8
    twice = sorted(
        run.repetition for run in plan.runs if run.cell == {"connection": "kept", "load.testers": "1"}
    )
    assert twice == [1, 2, 3, 4]
    assert experiment.load_factor == "load.testers"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("connection\nkpt\n", 'row 2: the factor connection has no level "kpt"; did you mean "kept"?'),
        ("connection,load.tester\nkept,1\n", 'there is no load.tester; did you mean "load.testers"?'),
        ("connection,load.testers\nkept\n", "row 2 has 1 fields, the header line has 2"),
        ("load.testers\n1\n", "the table has no column for the factor connection"),
        ("connection,connection\nkept,kept\n", "two columns have the same name"),
        ("connection\n", "at least one row"),
    ],
)
def test_invalid_tables_are_rejected(tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "d.csv").write_text(table)
    text = (
        BASE
        + "factors: {connection: {path: workload.http.connection, levels: [kept]}}\ndesign: {table: d.csv}\n"
    )
    assert message in "\n".join(problems(text, directory=tmp_path))


def test_a_missing_table_is_reported() -> None:
    assert "there is no file /nowhere/d.csv" in problems(BASE + "design: {table: d.csv}\n")[0]


def order(text: str, seed: int) -> list[tuple[str, ...]]:
    return [(*run.cell.values(), str(run.repetition)) for run in make_plan(load(text), seed).runs]


def test_the_order_depends_on_the_seed_only() -> None:
    text = BASE + TWO + "design: {repetitions: 3}\n"
    assert order(text, 7) == order(text, 7)
    assert order(text, 7) != order(text, 8)
    assert sorted(order(text, 7)) == sorted(order(text, 8))
    # This order must not change: a later version that resumes a plan must find its runs.
    assert order(BASE + TWO, 7) == FIRST_ORDER


FIRST_ORDER = [
    ("1", "2s", "1"),
    ("1", "1s", "1"),
    ("4", "2s", "1"),
    ("2", "2s", "1"),
    ("2", "1s", "1"),
    ("4", "1s", "1"),
]


def test_every_position_is_equally_likely() -> None:
    text = BASE + "factors: {load.testers: [1, 2, 3, 4]}\n"
    experiment = load(text)
    first = [make_plan(experiment, seed).runs[0].cell["load.testers"] for seed in range(2000)]
    counts = [first.count(label) for label in "1234"]
    # Chi-square with 3 degrees of freedom: above 16.3 with probability 0.001.
    assert sum((count - 500) ** 2 / 500 for count in counts) < 16.3


def test_the_seed_of_the_file_takes_precedence() -> None:
    experiment = load(BASE + TWO + "design: {seed: 5}\n")
    assert make_plan(experiment, 9).seed == 5
    assert make_plan(experiment).seed == 5
    with pytest.raises(BadInput, match="needs a seed"):
        make_plan(load(BASE + TWO))


def test_listed_order_is_that_of_the_file() -> None:
    runs = order(BASE + TWO + "design: {order: listed, repetitions: 2}\n", 1)
    assert runs == [
        (*cell, repetition) for repetition in "12" for cell in itertools.product("124", ("1s", "2s"))
    ]


def test_loop_is_innermost_and_in_the_order_of_the_levels() -> None:
    runs = order(BASE + TWO + "design: {loop: [load.testers], repetitions: 4}\n", 3)
    for start in range(0, len(runs), 3):
        group = runs[start : start + 3]
        assert [cell[0] for cell in group] == ["1", "2", "4"]
        assert len({cell[1:] for cell in group}) == 1


def test_limits_of_a_loop_are_reported() -> None:
    terms = make_plan(load(BASE + TWO + "design: {loop: [load.testers], repetitions: 4}\n"), 3).not_estimable
    assert any("load.testers: each pass of the loop has the same order" in term for term in terms)
    assert any(
        "the replicates are the passes of the loop (4 passes of each combination)" in term for term in terms
    )
    assert not any("loop" in term for term in make_plan(load(BASE + TWO), 3).not_estimable)


def test_blocks_are_outermost() -> None:
    plan = make_plan(load(BASE + TWO + "design: {block: repetition, repetitions: 3}\n"), 3)
    assert [run.repetition for run in plan.runs] == [1] * 6 + [2] * 6 + [3] * 6
    assert plan.runs[0].block == "repetition 1"
    first, second = ([run.cell for run in plan.runs if run.repetition == number] for number in (1, 2))
    assert first != second
    plan = make_plan(load(BASE + TWO + "design: {block: load.testers, repetitions: 2}\n"), 3)
    blocks = [run.block for run in plan.runs]
    assert len([key for key, _ in itertools.groupby(blocks)]) == 3
    assert any("load.testers is also the block" in term for term in plan.not_estimable)


def test_each_run_has_a_seed_of_its_own() -> None:
    plan = make_plan(load(BASE + TWO + "design: {repetitions: 3}\n"), 7)
    seeds = [run.seed for run in plan.runs]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize(
    ("factor", "values"),
    [
        ("load.testers: [1, 2]", {"load.testers": [1.0, 2.0]}),
        ("r: {path: run.pause, levels: [100ms, 1s]}", {"r": [0.1, 1.0]}),
        ("s: {path: services.web.body, levels: [1kB, 1KiB]}", {"s": [1000.0, 1024.0]}),
        ("c: {path: workload.http.connection, levels: [kept, per-request]}", {}),
        ("t: {path: load.testers, levels: {few: 1, many: 100}}", {"t": [1.0, 100.0]}),
        ("z: {10 kB: {services.web.body: 10kB}, 1 MB: {services.web.body: 1MB}}", {"z": [1e4, 1e6]}),
    ],
)
def test_levels_have_numbers_for_axes(factor: str, values: dict[str, list[float]]) -> None:
    experiment = load(BASE + f"factors: {{{factor}}}\n")
    for name, numbers in values.items():
        assert [cell.values[name] for cell in experiment.cells] == numbers
    if not values:
        assert all(not cell.values for cell in experiment.cells)


def test_options_change_any_path() -> None:
    experiment = load(BASE, ["load.testers=7", "run.duration=2s", "workload.http.headers.A=b", "name=other"])
    (cell,) = experiment.cells
    assert cell.config.run.end_ns == 2_000_000_000
    assert cell.config.workloads[0].operations[0].request["headers"] == [["A", "b"]]
    assert experiment.name == "other"
