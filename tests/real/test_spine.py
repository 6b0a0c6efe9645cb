"""From an experiment file to a report, with the real engine and our own services."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from plimsoll.deploy.binary import find_engine
from tests.conftest import ROOT, Done, Lab

ECHO = """
plimsoll: 1
name: echo
question: Does it answer?
services: {web: {kind: echo, http: true, body: 100B}}
workload: {driver: http, target: web, timeout: 5s, http: {path: /}}
load: {testers: 2, think: 1ms}
factors: {load.testers: [1, 2]}
design: {repetitions: 2, seed: 5}
run: {warmup: 200ms, duration: 800ms, drain: 1s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""


@pytest.fixture(scope="module")
def echoed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, Done]:
    """The experiment, carried out once; and what the command printed."""
    lab = Lab(tmp_path_factory.mktemp("echoed"))
    done = lab.run("run", lab.file(ECHO))
    assert done.code == 0, done.err
    return lab, done


def test_a_run_leaves_every_file_and_a_summary(echoed: tuple[Lab, Done]) -> None:
    lab, done = echoed
    results = lab.results()
    names = {path.name for path in results.iterdir()}
    assert {
        "experiment.yaml",
        "effective.yaml",
        "plan.json",
        "environment.json",
        "runs",
        "analysis.json",
        "report.html",
    } <= names
    assert not (results / ".work").exists()
    for run in sorted((results / "runs").iterdir()):
        there = {path.name for path in run.iterdir()}
        assert {
            "run.json",
            "events.jsonl",
            "live.jsonl",
            "summary.json",
            "transactions.parquet",
            "samples.parquet",
            "clock.parquet",
            "services",
        } <= there
        assert not list((run / "segments").glob("*.arrow")), "segments are removed once the Parquet is safe"
    assert "report.html" in done.out


def test_the_books_balance_to_the_last_transaction(echoed: tuple[Lab, Done]) -> None:
    lab, _ = echoed
    for run in sorted((lab.results() / "runs").iterdir()):
        summary = json.loads((run / "summary.json").read_text())
        counters = summary["counters"]
        rows = pq.read_metadata(run / "transactions.parquet").num_rows
        assert (
            counters["started"] == counters["succeeded"] + counters["failed"] + summary["in_flight"] == rows
        )
        assert rows > 100
    checked = lab.run("check", lab.results())
    assert checked.code == 0, checked.out


def test_json_has_what_the_reference_promises_and_analysis_from_disk_is_that_of_the_run(lab: Lab) -> None:
    done = lab.run("run", lab.file(ECHO), "--json")
    assert done.code == 0, done.err
    found = done.json
    assert found["format"] == "plimsoll.analysis/1"
    assert len(found["runs"]) == 4
    run = found["runs"][0]
    assert run["valid"] or run["invalid_reasons"]
    assert run["transactions"] > 0
    assert run["response_ms"]["p50"] > 0
    assert {one["role"] for one in run["utilization"].values()} == {"host", "service", "testers"}
    assert found["cells"][0]["responses"]["throughput_per_s"]["df"] == 2
    again = lab.run("analyse", lab.results(), "--json").json
    assert again["runs"] == found["runs"]
    assert again["cells"] == found["cells"]
    other = lab.run("analyse", lab.results(), "--json", "--set", "run.warmup=500ms").json
    assert other["runs"][0]["window_s"] == pytest.approx(0.5, abs=0.01)


def test_live_seconds_agree_with_the_books(echoed: tuple[Lab, Done]) -> None:
    lab, _ = echoed
    for run in sorted((lab.results() / "runs").iterdir()):
        lines = [json.loads(line) for line in (run / "live.jsonl").read_text().splitlines()]
        started = sum(line["counters"]["started"] for line in lines if "second" in line)
        assert started == json.loads((run / "summary.json").read_text())["counters"]["started"]


def test_the_servers_own_count_is_ours_to_the_request(lab: Lab) -> None:
    server = subprocess.Popen(
        [find_engine(), "serve", "echo", "--config", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write('{"http": true, "body": 10}\n')
        server.stdin.close()
        address = json.loads(server.stdout.readline())["listening"]
        done = lab.run(f"http://{address}/", "-c", "8", "-n", "3000", "--json", "--no-probe")
        assert done.code == 0, done.err
        with urllib.request.urlopen(f"http://{address}/plimsoll/count") as answer:
            counted = int(answer.read())
        counts = done.json["runs"][0]["counts"]
        assert counts["started"] == counts["succeeded"] == counted == 3000
    finally:
        server.terminate()
        server.wait(10)
        if server.stdout is not None:
            server.stdout.close()


def test_a_secret_is_found_nowhere_in_the_results(lab: Lab) -> None:
    secret = "hunter2-is-not-a-good-password"
    text = ECHO.replace(
        "http: {path: /}",
        'http: {path: "/?key=${env:LAB_KEY}", headers: {Authorization: {secret: "Bearer ${env:LAB_KEY}"}}}',
    )
    done = lab.run("run", lab.file(text), LAB_KEY=secret)
    assert done.code == 0, done.err
    assert secret not in done.out + done.err
    for path in lab.results().rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def test_export_gives_csv_and_hlog(echoed: tuple[Lab, Done]) -> None:
    lab, _ = echoed
    done = lab.run("export", lab.results(), "--to", "csv")
    files = [Path(lab.directory, line) for line in done.out.splitlines()]
    lines = files[0].read_text().splitlines()
    rows = pq.read_metadata(lab.results() / "runs" / "0001" / "transactions.parquet").num_rows
    assert len(lines) == rows + 1
    assert "scheduled" in lines[0]
    done = lab.run("export", lab.results(), "--to", "hlog")
    path = Path(lab.directory, done.out.splitlines()[0])
    whole = HdrHistogram(1, 3_600_000_000_000, 3)
    reader = HistogramLogReader(str(path), whole)
    count = 0
    while (interval := reader.get_next_interval_histogram()) is not None:
        count += interval.get_total_count()
    reader.close()
    summary = json.loads((lab.results() / "runs" / "0001" / "summary.json").read_text())
    assert count == summary["counters"]["succeeded"]


ELSEWHERE = {"access-methods", "filesystems"}
"""Studies that need servers, and mounts: see test_services.py and test_examples_of_traces.py."""
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.yaml")) if path.stem not in ELSEWHERE]
OFTEN = {"exec", "nested"}
"""Run by every `make test`; the others by `make test-long` (and all are planned: test_examples.py)."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in OFTEN else pytest.mark.long)
        for path in EXAMPLES
    ],
)
def test_every_example_runs(lab: Lab, path: Path) -> None:
    text = path.read_text()
    short = ["--set", f"design.repetitions={2 if 'pair:' in text else 1}"]
    # Times of actions are those of the whole run.
    if "stages:" not in text and "\nactions:" not in text and re.search(r"duration: (\d+)s", text):
        short += ["--set", "run.warmup=100ms", "--set", "run.duration=500ms"]
    done = lab.run("run", path, *short)
    assert done.code in (0, 97, 99), done.err
    found = json.loads((lab.results() / "analysis.json").read_text())
    assert found["runs"]
    assert all(run["counts"]["succeeded"] > 0 for run in found["runs"]), found["runs"][0]
    assert lab.run("check", lab.results()).code == 0
