"""Comparisons of real runs of the service `delay`, whose service time is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Lab

FILE = """
plimsoll: 1
name: compared
services: {web: {kind: delay, time: %s}}
workload: {driver: http, target: web, timeout: 5s}
load: {testers: 1}
%s
run: {duration: %s, drain: 5s}
validity: {lateness_floor: 10s, tester_cpu: 100%%, gaps: 100%%, trend: false}
"""
CHANGED = ("response_p50", "throughput")  # p95 needs 200 transactions in each run


def test_a_slower_level_is_found_within_one_directory(lab: Lab) -> None:
    design = "factors: {services.web.time: [2ms, 10ms]}\ndesign: {repetitions: 4, block: repetition, seed: 1}"
    assert lab.run("run", lab.file(FILE % ("2ms", design, "500ms")), "--quiet").code == 0
    done = lab.run("compare", lab.results(), "--by", "services.web.time", "--json")
    assert done.code == 99, done.err
    document = done.json
    assert document["format"] == "plimsoll.comparison/1" and document["by"] == "services.web.time"
    found = {one["metric"]: one for one in document["comparisons"]}
    assert found["response_p50"]["verdict"] == found["throughput"]["verdict"] == "slower"
    assert found["response_p50"]["pairs"] == 4 and found["response_p50"]["interval"]["low"] > 2
    # A new version that is five times as fast is no failure.
    back = lab.run("compare", lab.results(), "--by", "services.web.time=10ms,2ms")
    assert "faster: median response time" in back.out and "slower:" not in back.out
    words = ("compare", lab.results(), "--by", "services.web.time", "--markdown")
    assert lab.run(*words).out.startswith("### compared: ")


@pytest.mark.long
def test_a_comparison_is_written_as_files_and_made_with_a_baseline(lab: Lab) -> None:
    design = "factors: {load.testers: [1]}\ndesign: {repetitions: 2, seed: 1}"
    paths = []
    for _ in range(2):
        assert lab.run("run", lab.file(FILE % ("2ms", design, "300ms")), "--quiet").code == 0
        paths.append(lab.results())
    done = lab.run("compare", *paths, "--html", "page.html", "--junit", "tests.xml", "--json")
    assert done.code in (0, 99), done.err
    assert "compared" in (lab.directory / "page.html").read_text()
    assert (lab.directory / "tests.xml").read_text().count("<testcase") == len(done.json["comparisons"])
    saved = lab.run("compare", paths[0], "--save-baseline", "main.json")
    assert saved.code == 0 and "2 valid runs" in saved.out
    again = lab.run("compare", "--baseline", "main.json", paths[1], "--json")
    assert again.json["comparisons"] == done.json["comparisons"] and again.code == done.code
    assert lab.run("compare", paths[0], "--save-baseline", "x.json", "--junit", "y.xml").code == 2
    assert lab.run("compare", "--baseline", "tests.xml", paths[1]).code == 1


@pytest.mark.long
def test_directories_of_slower_and_of_equal_services(lab: Lab) -> None:
    def measured(time: str) -> Path:
        text = FILE % (time, "design: {repetitions: 6, seed: 1}", "2s")
        assert lab.run("run", lab.file(text), "--quiet").code == 0
        return lab.results()

    old, equal, slow = measured("2ms"), measured("2ms"), measured("10ms")
    done = lab.run("compare", old, equal, "--json")
    verdicts = {one["metric"]: one["verdict"] for one in done.json["comparisons"]}
    assert verdicts["response_p50"] != "slower" and verdicts["throughput"] != "slower", done.out
    done = lab.run("compare", old, equal, "--to", slow, "--json")
    assert done.code == 99
    verdicts = {one["metric"]: one["verdict"] for one in done.json["comparisons"]}
    assert all(verdicts[metric] == "slower" for metric in CHANGED)
    assert [found["path"] for found in done.json["differences"]] == ["services.web.time"]
    # Results of another load are not comparable.
    plan = slow / "runs" / "0001" / "run.json"
    record = json.loads(plan.read_text())
    record["effective"]["load"]["testers"] = 2
    plan.write_text(json.dumps(record))
    done = lab.run("compare", old, slow)
    assert done.code == 97 and "--accept load.testers" in " ".join(done.out.split())
