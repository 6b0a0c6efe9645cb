"""Commands before and after a run."""

from __future__ import annotations

import json

from tests.conftest import Lab

HOOKED = """
plimsoll: 1
name: hooked
workload: {{driver: "null", "null": {{}}}}
load: {{testers: 1, think: 1ms}}
run: {{duration: 500ms, drain: 1s}}
before_run: [{{run: [sh, -c, "{before}"]}}]
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}}     # the machine of the tests may be busy
after_run: [{{run: [sh, -c, "{after}"]}}]
"""


def test_hooks_know_their_run_and_what_they_say_is_kept(lab: Lab) -> None:
    done = lab.run("run", lab.file(HOOKED.format(before="echo before $PLIMSOLL_RUN", after="echo after")))
    assert done.code == 0, done.err
    events = (lab.results() / "runs" / "0001" / "events.jsonl").read_text()
    assert "before 0001" in events
    assert ": after" in events


def test_a_hook_that_fails_after_the_run_costs_no_measurement(lab: Lab) -> None:
    done = lab.run("run", lab.file(HOOKED.format(before="true", after="echo broken; exit 3")))
    assert done.code == 0, done.err
    assert "hook-failed" in done.err
    run = lab.results() / "runs" / "0001"
    assert json.loads((run / "run.json").read_text())["status"] == "done"
    assert "exit status 3" in (run / "events.jsonl").read_text()


def test_a_hook_that_fails_before_the_run_marks_it(lab: Lab) -> None:
    done = lab.run("run", lab.file(HOOKED.format(before="exit 4", after="true")))
    assert done.code == 97, done.err
    record = json.loads((lab.results() / "runs" / "0001" / "run.json").read_text())
    assert record["status"] == "hook-failed"
    assert "exit status 4" in record["reason"]
