"""Paths are compared with the model: a path that exists there can be set even if the file does not contain it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.plan.helpers import BASE, edited, load

from plimsoll.plan import load_experiment
from plimsoll.plan.schema.paths import PathError, check_path, with_value
from plimsoll.plan.source.document import parse_document

TEXT = edited(
    "target: web",
    "target: web\n  mix: [{path: /a}, {name: b, path: /b}]\n  values: {k: {uniform: [1, 5]}}",
) + (
    "vars: {rows: 1, deep: {er: [1, 2]}}\nthresholds: [{metric: errors, test: 'rate<1%'}]\n"
    "before_run: [{run: [a, b]}]\n"
)
TREE = parse_document(TEXT, "x.yaml").data


@pytest.mark.parametrize(
    "path",
    [
        "load.rate",
        "load.ramp.testers",
        "run.until.transactions",
        "services.web.body",
        "services.web.fresh",
        "workload.http.headers.X-New",
        "workload.http.tls.verify",
        "workload.frontier.zip",
        "workload.sql",
        "workload.mix.1.weight",
        "workload.mix.0.path",
        "workload.values.k.uniform",
        "workload.on_error",
        "workload.on_error.stop-tester.after",
        "vars.rows",
        "vars.deep.er.1",
        "thresholds.0.test",
        "before_run.0.run.1",
        "cpus",
        "cpus.testers",
        "design.seed",
        "validity.tester_cpu",
    ],
)
def test_paths_of_the_model_exist(path: str) -> None:
    steps = check_path(TREE, path)
    assert with_value(TREE, steps, "set") != TREE


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("lod.testers", 'there is no lod; did you mean "load"?'),
        ("load.testers.x", "there is no load.testers.x: load.testers has no keys"),
        ("services.wbe.body", 'there is no services.wbe; did you mean "services.web"?'),
        ("services.web.database", "there is no services.web.database; services.web has"),
        ("services.web.staus", 'did you mean "services.web.status"?'),
        ("vars.row", 'did you mean "vars.rows"?'),
        ("vars.deep.er.2", 'vars.deep.er is a list, and "2" is not a valid index (expected 0 to 1)'),
        ("thresholds.first", 'thresholds is a list, and "first" is not a valid index (expected 0 to 0)'),
        ("workload.mix.0.wieght", 'did you mean "workload.mix.0.weight"?'),
        ("workloads.main.load", "there is no workloads.main"),
        ("", "is not a path"),
        ("a..b", "is not a path"),
    ],
)
def test_unknown_paths_are_rejected(path: str, message: str) -> None:
    with pytest.raises(PathError) as caught:
        check_path(TREE, path)
    assert message in str(caught.value)


def test_with_value_copies_only_the_nodes_of_the_path() -> None:
    before = json.dumps(TREE)
    changed = with_value(TREE, ("workload", "mix", 1, "path"), "/c")
    assert changed["workload"]["mix"] == [{"path": "/a"}, {"name": "b", "path": "/c"}]
    assert changed["services"] is TREE["services"]
    assert json.dumps(TREE) == before


def test_factors_reach_into_mixes() -> None:
    experiment = load(TEXT + "factors: {workload.mix.1.weight: [1, 3]}\n")
    weights = [
        [operation.weight for operation in cell.config.workloads[0].operations] for cell in experiment.cells
    ]
    assert weights == [[1.0, 1.0], [1.0, 3.0]]


def test_a_json_file_with_tabs_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps(parse_document(BASE, "x.yaml").data, indent="\t"))
    assert load_experiment(tmp_path / "x.json", environ={}).name == "small"
