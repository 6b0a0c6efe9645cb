"""Resuming an experiment: only with the file of its first start, and only the runs that are not done."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from plimsoll.drive.directory import ResultsDirectory, write_json
from plimsoll.drive.resume import done_runs, resumed_plan
from plimsoll.errors import BadInput, DamagedResults
from plimsoll.plan import load_experiment, make_plan

FILE = """
plimsoll: 1
name: small
workload: {driver: "null"}
load: {testers: 1}
factors: {load.testers: [1, 2]}
design: {repetitions: 2}
run: {duration: 1s}
"""


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "small.yaml"
    file.write_text(FILE)
    plan = make_plan(load_experiment(file, ["run.duration=2s"]), 77)
    results = ResultsDirectory.create(tmp_path, "small", datetime.datetime.now(datetime.UTC))
    (results.path / "experiment.yaml").write_text(FILE)
    write_json(results.path / "plan.json", plan.to_json())
    return results.path


def test_the_plan_equals_that_of_the_first_start(begun: Path) -> None:
    plan, directory = resumed_plan(begun)
    document = json.loads((begun / "plan.json").read_text())
    assert [run.id for run in plan.runs] == [run["id"] for run in document["runs"]]
    assert [dict(run.cell) for run in plan.runs] == [run["cell"] for run in document["runs"]]
    assert plan.to_json()["seed"] == 77
    assert plan.runs[0].config.run.end_ns == 2_000_000_000, "what --set changed stays changed"
    assert directory.path == begun


def test_a_changed_file_is_rejected(begun: Path) -> None:
    (begun / "experiment.yaml").write_text(FILE.replace("[1, 2]", "[1, 3]"))
    with pytest.raises(DamagedResults, match="does not match the runs"):
        resumed_plan(begun)


def test_an_experiment_that_runs_now_is_rejected(begun: Path) -> None:
    from plimsoll.drive import registry

    entry = registry.register(begun)
    try:
        with pytest.raises(BadInput, match="is running now"):
            resumed_plan(begun)
    finally:
        registry.unregister(entry)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "not a results directory"),
        ("{", "cannot be read"),
        ("[]", "not a Plimsoll plan"),
        ('{"format": "other/1"}', "not a Plimsoll plan"),
        ('{"format": "plimsoll.plan/9"}', "use a newer Plimsoll"),
        ('{"format": "plimsoll.plan/1"}', "not a Plimsoll plan"),
    ],
)
def test_a_file_that_is_not_a_plan_is_reported(begun: Path, text: str | None, message: str) -> None:
    path = begun / "plan.json"
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(DamagedResults, match=message):
        resumed_plan(begun)


def test_only_runs_that_ended_as_planned_are_done(begun: Path) -> None:
    for run, status in (("0001", "done"), ("0002", "stopped"), ("0003", "ceiling"), ("0004", "agent-lost")):
        path = begun / "runs" / run
        path.mkdir()
        (path / "run.json").write_text(json.dumps({"status": status}))
    broken = begun / "runs" / "0005"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    assert done_runs(begun) == {"0001", "0003"}


SECRET = FILE.replace(
    'workload: {driver: "null"}',
    "workload: {driver: http, target: 'http://h:1/', http: {headers: {X-Token: a, Accept: b}}}",
)


def test_a_secret_of_the_command_line_must_be_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "begun"
    path.mkdir()
    (path / "experiment.yaml").write_text(SECRET)
    sets = ["workload.http.headers.X-Token=hunter2", "workload.http.headers.Accept=c"]
    plan = make_plan(load_experiment(path / "experiment.yaml", sets), 77)
    write_json(path / "plan.json", plan.to_json())
    assert "hunter2" not in (path / "plan.json").read_text()
    with pytest.raises(BadInput, match=r"is a secret.*--set workload\.http\.headers\.X-Token=\.\.\."):
        resumed_plan(path)
    with pytest.raises(BadInput, match="only secrets can be given again"):
        resumed_plan(path, [*sets])
    again, _ = resumed_plan(path, sets[:1])
    assert again.runs[0].config == plan.runs[0].config
