"""`plimsoll suite` against a server that Plimsoll did not start."""

from __future__ import annotations

import http.server
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Lab
from tests.real.test_trouble import wait_for

REST = """
design: {repetitions: 2}
run: {duration: 400ms}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%}
"""
GOOD = """
plimsoll: 1
question: Is it fast?
workload: {driver: http, target: 'http://127.0.0.1:1'}
load: {testers: 1}
"""
SLOW = GOOD + "thresholds: [{metric: response, test: p(50)<1us}]\n"
FAILS = GOOD + 'before_run: [{run: ["false"], on: controller}]\n'
OWN = (
    "plimsoll: 1\nservices: {web: {kind: echo}}\nworkload: {driver: http, target: web}\nload: {testers: 1}\n"
)


class Answer(http.server.BaseHTTPRequestHandler):
    """The service."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def target() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def files(lab: Lab, **texts: str) -> Path:
    folder = lab.directory / "experiments"
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def result(lab: Lab) -> tuple[Path, dict[str, Any]]:
    """The directory of the suite, and its suite.json."""
    (path,) = (lab.directory / "results").glob("suite-*")
    return path, json.loads((path / "suite.json").read_text())


def states(document: dict[str, Any]) -> dict[str, str]:
    return {Path(entry["file"]).stem: entry["state"] for entry in document["experiments"]}


def test_every_file_that_can_be_run_is_run_and_the_others_are_named(lab: Lab, target: str) -> None:
    folder = files(
        lab,
        a_fails=FAILS + REST,
        b_good=GOOD + REST,
        c_slow=SLOW + REST,
        d_own=OWN + "factors: {services.web.body: [1kB, 2kB]}\n" + REST,
        e_invalid="plimsoll: 1\n",
    )
    done = lab.run("suite", folder, "--target", target, "--json")
    path, document = result(lab)
    assert done.json == document
    assert states(document) == {
        "a_fails": "failed", "b_good": "done", "c_slow": "done", "d_own": "refused", "e_invalid": "invalid",
    }  # fmt: skip
    rows = {Path(entry["file"]).stem: entry for entry in document["experiments"]}
    assert done.code == document["exit_code"] == 1
    assert [rows[name]["exit_code"] for name in sorted(rows)] == [1, 0, 99, 0, 2]
    assert "measured nothing" in rows["a_fails"]["reason"]
    assert rows["b_good"]["validity"] == "all 2 runs valid" and "requests/s" in rows["b_good"]["answer"][0]
    assert [threshold["passed"] for threshold in rows["c_slow"]["thresholds"]] == [False]
    assert "the factor services.web.body sets" in rows["d_own"]["reason"]
    for name in ("b_good", "c_slow"):
        assert (path / rows[name]["report"]).is_file()
        assert f'href="{rows[name]["report"]}"' in (path / "suite.html").read_text()
        assert lab.run("show", path / rows[name]["directory"], "--json").code == rows[name]["exit_code"]
    for word in ("Is it fast?", "a_fails.yaml", "d_own.yaml", "e_invalid.yaml", target):
        assert word in (path / "suite.html").read_text()


@pytest.mark.long
def test_a_ceiling_of_the_suite_stops_every_run(lab: Lab, target: str) -> None:
    text = (
        GOOD
        + "factors: {load.testers: [1, 2]}\n"
        + REST.replace("400ms", "30s").replace("repetitions: 2", "order: listed")
    )
    folder = files(lab, a=text.replace("load: {testers: 1}", "load: {testers: 1, think: 20ms}"))
    done = lab.run("suite", folder, "--target", target, "--ceiling", "throughput rate>1/s for 1s", "--json")
    path, document = result(lab)
    assert document["ceiling"] == [{"metric": "throughput", "test": "rate>1/s", "for": "1s"}]
    records = [json.loads(file.read_text()) for file in sorted(path.glob("a-*/runs/*/run.json"))]
    assert [record["status"] for record in records] == ["ceiling", "ceiling"], done.err
    assert "without `ceiling`" not in done.err


def test_an_interrupt_ends_the_suite_and_keeps_what_was_measured(lab: Lab, target: str) -> None:
    folder = files(lab, a=GOOD + REST, b=GOOD + REST.replace("400ms", "60s"), c=GOOD + REST)
    with lab.start("suite", folder, "--target", target) as process:
        wait_for(lambda: any((lab.directory / "results").glob("suite-*/b-*/runs/0001/segments/*")))
        _, before = result(lab)
        assert states(before) == {"a": "done", "b": "not run", "c": "not run"} and not before["ended"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    path, document = result(lab)
    assert states(document) == {"a": "done", "b": "interrupted", "c": "not run"}
    assert document["exit_code"] == 130 and document["ended"]
    assert "interrupted" in (path / "suite.html").read_text() and "Traceback" not in err
    assert "b: interrupted" in out and "c: not run" in out
    assert f"resume with: plimsoll suite --resume results/{path.name}" in err


def test_a_target_that_is_down_fails_before_any_run(lab: Lab) -> None:
    done = lab.run("suite", files(lab, a=GOOD + REST), "--target", "http://127.0.0.1:9")
    path, document = result(lab)
    assert done.code == 2 and states(document) == {"a": "failed"}
    assert sorted(each.name for each in path.iterdir()) == ["suite.html", "suite.json"]
    assert "127.0.0.1:9" in document["experiments"][0]["reason"]


def runs(path: Path) -> dict[str, dict[str, int]]:
    """The records of all runs, and when each was written."""
    return {
        record.relative_to(path).parts[0].split("-")[0] + "/" + record.parent.name: {
            "written": record.stat().st_mtime_ns,
            "done": json.loads(record.read_text())["status"] == "done",
        }
        for record in path.glob("[abc]-*/runs/*/run.json")
    }


@pytest.mark.long
def test_a_suite_that_was_killed_goes_on(lab: Lab, target: str) -> None:
    """a is finished, b is killed in its second run, c was not reached, d is refused."""
    go = lab.directory / "go"
    waiting = f"test $PLIMSOLL_RUN = 0001 || until test -e {go}; do sleep 0.05; done"
    second_waits = f'before_run: [{{run: [sh, -c, "{waiting}"], on: controller}}]\n'
    folder = files(
        lab,
        a=GOOD + REST,
        b=GOOD + second_waits + REST,
        c=GOOD + REST,
        d=OWN + "data: {}\n" + "factors: {services.web.body: [1kB, 2kB]}\n" + REST,
    )
    with lab.start("suite", folder.name, "--target", target, "--quiet") as process:
        wait_for(lambda: any((lab.directory / "results").glob("suite-*/b-*/runs/0001/run.json")))
        process.kill()
        process.communicate(timeout=60)
    path, killed = result(lab)
    assert (
        states(killed) == {"a": "done", "b": "not run", "c": "not run", "d": "refused"}
        and not killed["ended"]
    )
    before = runs(path)
    assert set(before) == {"a/0001", "a/0002", "b/0001"}
    go.touch()
    wait_for(lambda: "no experiment" in lab.run("status").out)

    other = lab.run("suite", folder, "--resume", path, "--target", target)
    assert other.code == 2 and "do not give them as well" in other.err
    assert lab.run("suite", "--resume", folder).code == 1

    elsewhere = lab.directory / "elsewhere"
    elsewhere.mkdir()
    lab.directory = elsewhere  # file names are relative to the first working directory
    done = lab.run("suite", "--resume", path, "--json")
    assert done.code == 0, done.err
    document = json.loads((path / "suite.json").read_text())
    assert done.json == document and document["ended"]
    assert states(document) == {"a": "done", "b": "done", "c": "done", "d": "refused"}
    after = runs(path)
    assert set(after) == {f"{name}/000{run}" for name in "abc" for run in (1, 2)}
    assert all(each["done"] for each in after.values())
    assert {name: after[name] for name in before} == before  # measured once
    rows = {Path(entry["file"]).stem: entry for entry in document["experiments"]}
    assert [rows[name]["validity"] for name in "abc"] == ["all 2 runs valid"] * 3
    assert rows["a"] == {Path(entry["file"]).stem: entry for entry in killed["experiments"]}["a"]
    assert len(list(path.glob("b-*"))) == 1
    assert "has not ended" not in (path / "suite.html").read_text()
    again = lab.run("suite", "--resume", path, "--json")
    assert again.code == 0 and runs(path) == after
