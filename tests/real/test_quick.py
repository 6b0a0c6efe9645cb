"""`plimsoll URL` against a server that answers as it is told, and loads of which a part is open."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from tests.conftest import Lab


class Rotating(BaseHTTPRequestHandler):
    """Answers 200, 200 and 404 in turn."""

    protocol_version = "HTTP/1.1"
    numbers = itertools.count()
    paths: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        """One answer."""
        self.paths.append(self.path)
        self.send_response(404 if next(self.numbers) % 3 == 2 else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


PAGE = """
plimsoll: 1
name: page
workload: {driver: http, target: "URL"}
load: {testers: 1}
run: {until: {transactions: 2}}
"""


@pytest.fixture
def url() -> Iterator[str]:
    """Of a server that lives as long as the test."""
    Rotating.numbers = itertools.count()
    with ThreadingHTTPServer(("127.0.0.1", 0), Rotating) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def test_answers_are_counted_by_status(lab: Lab, url: str) -> None:
    done = lab.run(url, "-c", "1", "-n", "90", "--out", "results")
    assert done.code in (0, 97), done.err
    assert "status codes......: [200] 60 responses and [404] 30 responses" in done.out
    assert "Jain" not in done.out, "one tester is neither fair nor unfair"
    (run,) = lab.run("show", lab.results(), "--json").json["runs"]
    assert run["successes_by_code"] == [{"code": "200", "count": 60}]
    assert [(each["code"], each["count"]) for each in run["errors_by_kind"]] == [("404", 30)]


def test_a_url_is_asked_for_as_it_is_written(lab: Lab, url: str) -> None:
    Rotating.paths.clear()
    lab.run(f"{url}page.html?a=b", "-c", "1", "-n", "2")
    lab.run("run", lab.file(PAGE.replace("URL", f"{url}page.html")))
    assert set(Rotating.paths) == {"/page.html?a=b", "/page.html"}


def test_an_interrupted_run_has_the_figures_until_then(lab: Lab, url: str) -> None:
    with lab.start(url, "-c", "1", "-z", "60s", "--out", "results") as process:
        live = lab.directory / "results" / "latest" / "runs" / "0001" / "live.jsonl"
        deadline = time.monotonic() + 30
        while not (live.exists() and live.read_text().count("\n") >= 2):
            assert time.monotonic() < deadline, "no second was measured"
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    (run,) = lab.run("show", lab.results(), "--json").json["runs"]
    assert run["status"] == "interrupted"
    if run["verdict"] == "invalid":  # On a busy machine, the load generator may have stood still.
        assert "the load generator did not run for" in " ".join(out.split()), out
    else:
        assert run["verdict"] == "doubtful" and "The target served" in out, out
        assert "it was interrupted, and its figures cover the time until then" in " ".join(out.split())
    assert 1 < run["window_s"] < 50


def test_slots_of_an_open_load_are_no_users(lab: Lab, url: str) -> None:
    done = lab.run(url, "-c", "4", "-q", "40", "-z", "1s", "--out", "results")
    assert done.code in (0, 97), done.err
    assert " of the open load on 1 agent" in done.out
    assert "Jain" not in done.out
    (run,) = lab.run("show", lab.results(), "--json").json["runs"]
    assert run["open_load"] == "all"
    assert run["jain_index"] is not None, "the number is kept"
    assert 'id="figure-testers"' not in (lab.results() / "report.html").read_text()


MIXED = """
plimsoll: 1
name: mixed
services: {web: {kind: echo, http: true, body: 10B}}
workloads:
  readers: {driver: http, target: web, http: {path: /}, load: {testers: 3, think: 5ms}}
  writer:  {driver: http, target: web, http: {path: /}, load: {stages: [{for: 1s, rate: 50/s}], in_flight: 2}}
run: {warmup: 0s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""


def test_of_a_mixed_run_the_closed_testers_are_compared(lab: Lab) -> None:
    done = lab.run("run", lab.file(MIXED))
    assert done.code == 0, done.err
    (run,) = lab.run("show", lab.results(), "--json").json["runs"]
    assert run["open_load"] == "some"
    testers: list[dict[str, Any]] = run["testers"]
    compared = [each for each in testers if each["share"] is not None]
    assert len(compared) == 3
    assert 3 < len(testers) <= 5, "the slots are told, without a share"
    readers = next(one for one in run["workloads"] if one["workload"] == "readers")
    assert sum(each["transactions"] for each in compared) == readers["transactions"]
    assert "over the 3 of closed loads" in " ".join(done.out.split())
