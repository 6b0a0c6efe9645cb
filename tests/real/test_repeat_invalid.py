"""`plimsoll run --resume DIR --repeat-invalid`."""

from __future__ import annotations

import json

from tests.conftest import Lab

HOOK = "if [ $PLIMSOLL_RUN = 0002 ] && [ ! -e disturbed ]; then touch disturbed slow; else rm -f slow; fi"
EXPERIMENT = f"""\
plimsoll: 1
name: disturbed
design: {{repetitions: 1}}
factors: {{load.testers: [1, 2]}}
before_run: [{{run: [sh, -c, "{HOOK}"]}}]
workload:
  driver: exec
  exec: {{command: [sh, -c, "if [ -e slow ]; then sleep 20; fi"]}}
load: {{testers: 1, think: 20ms}}
run: {{duration: 1s, drain: 100ms}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%, started: 0%}}
"""


def test_an_invalid_run_is_repeated_on_request(lab: Lab) -> None:
    done = lab.run("run", lab.file(EXPERIMENT), "--json", "--no-probe")
    runs = {run["id"]: run for run in done.json["runs"]}
    assert [run["verdict"] for run in runs.values()] == ["valid", "invalid"]
    results = lab.results()
    again = f"1 run is invalid; repeat it with: plimsoll run --resume {results.relative_to(lab.directory)}"
    assert f"{again} --repeat-invalid" in done.err
    first = (results / "runs/0001/run.json").read_text()

    plain = lab.run("run", "--resume", results, "--json", "--no-probe")
    assert "0 runs" in plain.err
    assert [run["verdict"] for run in plain.json["runs"]] == ["valid", "invalid"]

    repeated = lab.run("run", "--resume", results, "--repeat-invalid", "--json", "--no-probe")
    assert repeated.code == 0, repeated.err
    assert [run["verdict"] for run in repeated.json["runs"]] == ["valid", "valid"]
    assert "repeat it" not in repeated.err
    assert (results / "runs/0001/run.json").read_text() == first
    assert json.loads((results / "runs/0002/run.json").read_text())["earlier_attempts"] == 1
    assert json.loads((results / "abandoned/0002.1/run.json").read_text())["status"] == "done"
    note = "it was repeated later than planned: the files of its earlier attempt are in abandoned/0002.1"
    assert note in repeated.json["runs"][1]["notes"]


def test_the_results_to_repeat_must_be_named(lab: Lab) -> None:
    refused = lab.run("run", lab.file(EXPERIMENT), "--repeat-invalid")
    assert refused.code == 2 and "give --resume DIR as well" in refused.err
