"""Jobs that replay the trace of a small program, side by side, as an experiment."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.conftest import Lab, missing

PROGRAM = """
import os, sys
place = sys.argv[1]
with open(f"{place}/in/large", "rb") as file:
    while piece := file.read(10_000):
        pass
os.makedirs(f"{place}/out/deep")
for number in range(5):
    with open(f"{place}/out/{number}.part", "wb") as file:
        file.write(bytes(1000 * (number + 1)))
    os.rename(f"{place}/out/{number}.part", f"{place}/out/deep/{number}")
os.symlink("deep/0", f"{place}/out/first")
os.remove(f"{place}/out/deep/4")
"""

EXPERIMENT = """
plimsoll: 1
name: jobs
workload:
  driver: replay
  replay: {{trace: job.trace, root: "{root}", map: names, ignore: others, allow_root: true, clean: false{more}}}
load: {{testers: {testers}}}
design: {{seed: 1}}
run: {{until: {{each_tester: 1}}, drain: 10s}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%, success: false}}
"""


@pytest.fixture
def recorded(lab: Lab) -> Iterator[Path]:
    """The tree that the program has left; its trace, and what says where its names lead, are beside it."""
    if shutil.which("strace") is None:
        missing("strace", "install it: scripts/system-packages")
    place = lab.directory / "original"
    (place / "in").mkdir(parents=True)
    (place / "in" / "large").write_bytes(bytes(100_000))
    program = lab.file(PROGRAM, "program.py")
    done = lab.run("trace", "record", "-o", "job.trace", "--", sys.executable, "-S", "-E", program, place)
    assert done.code == 0, done.err
    lab.file(f"{place} => job\n", "names")
    lab.file(f"/\n!{place}\n", "others")
    yield place


def tree(directory: Path) -> dict[str, Any]:
    """Names beneath a directory with the sizes of files and the targets of links."""
    found: dict[str, Any] = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = path.stat().st_size if path.is_file() else None
    return found


def carried_out(
    lab: Lab, testers: int, root: str, more: str = ""
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The one run of the analysis, and its transactions."""
    text = EXPERIMENT.format(root=root, testers=testers, more=more)
    done = lab.run("run", lab.file(text), "--json")
    assert done.code == 0, done.err + done.out
    [run] = done.json["runs"]
    rows = pq.read_table(lab.results() / "runs" / "0001" / "transactions.parquet").to_pylist()
    assert lab.run("check", lab.results()).code == 0
    return run, rows


@pytest.mark.parametrize("testers", [pytest.param(1, marks=pytest.mark.long), 3])
def test_every_job_leaves_what_the_program_has_left(lab: Lab, recorded: Path, testers: int) -> None:
    run, rows = carried_out(lab, testers, "jobs/{tester}")
    assert run["counts"]["succeeded"] == run["counts"]["started"] == testers
    assert {(row["outcome"], row["operation"], row["code"]) for row in rows} == {("ok", "job", "")}
    assert {row["tester"] for row in rows} == set(range(testers))
    assert {row["payload"] for row in rows} == {100_000 + 15_000}
    for tester in range(testers):
        assert tree(lab.directory / "jobs" / str(tester) / "job") == tree(recorded)
    named = {one["name"]: one for one in run["metrics"]}
    assert named["read_bytes"]["mean"] == 100_000 and named["write_bytes"]["mean"] == 15_000
    assert named["mismatches"]["max"] == named["refusals"]["max"] == 0
    assert named["job_s"]["count"] == testers
    assert named["achieved_over_recorded"]["mean"] > 0


def test_jobs_that_share_their_input(lab: Lab, recorded: Path) -> None:
    copies = f', copies: {{shared: ["{recorded}/in/large"]}}'
    run, _ = carried_out(lab, 2, "jobs/{tester}", copies)
    assert run["counts"]["succeeded"] == 2
    assert tree(lab.directory / "jobs" / "shared")["job/in/large"] == 100_000
    for tester in "01":
        own = {name: what for name, what in tree(recorded).items() if name != "in/large"}
        assert (
            tree(lab.directory / "jobs" / tester / "job").items()
            >= {name: what for name, what in own.items() if name.startswith("out")}.items()
        )
        assert not (lab.directory / "jobs" / tester / "job" / "in" / "large").exists()


def test_a_job_that_lacks_a_file_is_wrong_and_that_is_said(lab: Lab, recorded: Path) -> None:
    run, rows = carried_out(lab, 1, "jobs/{tester}", ", prepare: none")
    [row] = rows
    assert row["outcome"] == "wrong" and "ENOENT, was ok" in row["code"]
    assert run["counts"]["failed"] == 1
    [kind] = run["errors_by_kind"]
    assert (kind["outcome"], kind["count"]) == ("wrong", 1)
    events = (lab.results() / "runs" / "0001" / "events.jsonl").read_text()
    said = [json.loads(line) for line in events.splitlines()]
    assert any("a job differs from its trace" in one["text"] for one in said if one["kind"] == "driver")


def test_a_directory_that_cannot_be_made_ends_the_run_before_it_begins(lab: Lab, recorded: Path) -> None:
    text = EXPERIMENT.format(root=lab.directory / "no" / "where" / "{tester}", testers=2, more="")
    done = lab.run("run", lab.file(text))
    assert done.code != 0
    assert "create it, or mount the file system" in done.err
