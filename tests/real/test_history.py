"""The history of real runs of the service `delay`, whose service time is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Lab

FILE = """
plimsoll: 1
name: nightly
services: {web: {kind: delay, time: %s}}
workload: {driver: http, target: web, timeout: 5s}
load: {testers: 1}
run: {duration: 500ms, drain: 5s}
validity: {lateness_floor: 10s, tester_cpu: 100%%, gaps: 100%%, trend: false}
"""


def test_a_marked_change_begins_a_level(lab: Lab, tmp_path: Path) -> None:
    def measured(time: str) -> Path:
        assert lab.run("run", lab.file(FILE % time), "--quiet").code == 0
        return lab.results()

    directories = [measured(time) for time in ("2ms", "2ms", "10ms", "10ms")]
    marks, page = tmp_path / "history.yaml", tmp_path / "history.html"
    marks.write_text(
        f"plimsoll-history: 1\nmarks: [{{since: {directories[2].name}, why: more work per request}}]\n"
    )
    words: tuple[str | Path, ...] = (
        "history",
        *directories,
        "--marks",
        marks,
        "--metric",
        "response_p50",
        "--html",
        page,
    )
    done = lab.run(*words, "--fail-on", "slower", "--json")
    assert done.code == 0, done.err
    document = done.json
    assert [entry["directory"] for entry in document["directories"]] == list(map(str, directories))
    assert [one["path"] for one in document["directories"][2]["differences"]] == ["services.web.time"]
    [found] = document["metrics"]
    assert [(level["first"], level["points"]) for level in found["levels"]] == [(0, 2), (2, 2)]
    assert found["levels"][1]["mean"] > 2 * found["levels"][0]["mean"] and not found["steps"]
    assert "more work per request" in page.read_text(encoding="utf-8")
    text = lab.run(*words[:-2]).out
    assert "nightly: 4 results directories" in text and "No change was found" in text


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_change_of_the_service_is_found(lab: Lab) -> None:
    directories = []
    for time in ("5ms",) * 8 + ("20ms",) * 8:
        assert lab.run("run", lab.file(FILE % time), "--quiet").code == 0
        directories.append(lab.results())
    done = lab.run("history", *directories, "--metric", "response_p50", "--fail-on", "slower", "--json")
    assert done.code == 99, done.out
    [step] = done.json["metrics"][0]["steps"]
    assert step["first"] == 8 and step["verdict"] == "slower" and step["interval"]["low"] > 2
