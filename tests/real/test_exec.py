"""The exec driver: unmodified programs and such as report themselves, time-outs that end whole groups, exit codes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT, Lab

ONCE = """
with client.transaction() as done:
    done.bytes, done.items = 1000, 3
    done.metrics["temperature"] = 36.6
"""
STAYS = """
for request in client.requests():
    with client.transaction() as done:
        done.bytes = 100 + request["n"]
        done.metrics["tester"] = request["tester"]
        if request["n"] == 2:
            raise ValueError("this one goes wrong")
"""


def experiment(section: str, *, load: str = "{testers: 1}", count: int = 6, timeout: str = "20s") -> str:
    return f"""
plimsoll: 1
name: programs
workload:
  driver: exec
  timeout: {timeout}
  exec: {section}
load: {load}
design: {{seed: 1}}
run: {{until: {{transactions: {count}}}, drain: 10s}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, success: false}}
"""


def carried_out(lab: Lab, text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The one run of the analysis, and its transactions."""
    done = lab.run("run", lab.file(text), "--json")
    assert done.code == 0, done.err + done.out
    [run] = done.json["runs"]
    table = pq.read_table(lab.results() / "runs" / "0001" / "transactions.parquet")
    return run, table.to_pylist()


def metrics(lab: Lab) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in pq.read_table(lab.results() / "runs" / "0001" / "metrics.parquet").to_pylist():
        found.setdefault(row["metric"], []).append(row["value"])
    return found


def program(lab: Lab, text: str) -> str:
    """A client program with client.py beside it, and nothing else of ours: `-S -E` hides what is installed."""
    shutil.copy(ROOT / "python" / "plimsoll" / "client.py", lab.directory / "client.py")
    path = lab.directory / "program.py"
    path.write_text("import client\n" + text)
    return f'["{sys.executable}", "-S", "-E", "{path}"]'


def test_a_program_for_each_transaction_reports_itself(lab: Lab) -> None:
    command = program(lab, ONCE)
    run, rows = carried_out(lab, experiment(f"{{command: {command}, bytes: {{json: true}}}}"))
    assert run["counts"]["succeeded"] == 6
    assert {(row["payload"], row["items"]) for row in rows} == {(1000, 3)}
    kept = metrics(lab)
    assert kept["temperature"] == [36.6] * 6
    assert len(kept["program_s"]) == len(kept["cpu_s"]) == len(kept["max_rss_bytes"]) == 6
    assert "program_s (estimated)" not in kept, "it measured itself"
    for inside, row in zip(kept["program_s"], rows, strict=True):
        assert 0 <= inside * 1e9 <= row["end"], "its own time is part of the whole"


def test_a_long_lived_program_makes_one_transaction_for_each_line(lab: Lab) -> None:
    command = program(lab, STAYS)
    text = experiment(f"{{command: {command}, mode: long-lived, bytes: {{json: true}}}}")
    run, rows = carried_out(lab, text)
    assert run["counts"]["started"] == 6
    assert run["counts"]["failed"] == 1
    [wrong] = [row for row in rows if row["outcome"] != "ok"]
    assert (wrong["outcome"], wrong["code"]) == ("error", "ValueError")
    payloads = sorted(row["payload"] for row in rows if row["outcome"] == "ok")
    assert len(set(payloads)) == 5
    assert len({row["session"] for row in rows}) == 1, "one process made them all"
    assert set(metrics(lab)["tester"]) == {0.0}


def test_long_lived_programs_in_an_open_load(lab: Lab) -> None:
    command = program(lab, STAYS)
    section = f"{{command: {command}, mode: long-lived, bytes: {{json: true}}}}"
    run, _ = carried_out(lab, experiment(section, load="{rate: 20/s, arrivals: poisson, in_flight: 2}"))
    assert run["counts"]["started"] == 6
    assert run["counts"]["balanced"]


@pytest.mark.parametrize(
    ("source", "payload"),
    [("{fixed: 5kB}", 5000), ('{regex: "got ([0-9]+) bytes"}', 1234), (None, 0)],
)
def test_bytes_of_an_unmodified_program(lab: Lab, source: str | None, payload: int) -> None:
    section = '{command: [echo, "got 1234 bytes"]' + (f", bytes: {source}" if source else "") + "}"
    run, rows = carried_out(lab, experiment(section, count=3))
    assert run["counts"]["succeeded"] == 3
    assert {row["payload"] for row in rows} == {payload}
    assert len(metrics(lab)["program_s (estimated)"]) == 3


def test_output_without_the_number_is_a_wrong_answer(lab: Lab) -> None:
    section = '{command: [echo, nothing], bytes: {regex: "([0-9]+) bytes"}}'
    run, _ = carried_out(lab, experiment(section, count=2))
    [kind] = run["errors_by_kind"]
    assert (kind["outcome"], kind["code"], kind["count"]) == ("wrong", "no byte count", 2)


def test_exit_codes_and_signals_are_kinds_of_error(lab: Lab) -> None:
    script = "case $(( {n} % 3 )) in 0) exit 0;; 1) exit 7;; 2) kill -9 $$;; esac"
    run, rows = carried_out(lab, experiment(f"{{command: [sh, -c, '{script}']}}", count=9))
    assert run["counts"]["succeeded"] == 3
    assert {(one["outcome"], one["code"], one["count"]) for one in run["errors_by_kind"]} == {
        ("error", "exit 7", 3),
        ("error", "signal 9", 3),
    }
    assert len(rows) == 9


SLOW = """
import os, time
for request in client.requests():
    open(f"{request['tester']}.pid", "w").write(str(os.getpid()))
    with client.transaction() as done:
        time.sleep(0.3)
"""


@pytest.mark.parametrize("mode", ["long-lived", "per-transaction"])
def test_a_program_that_is_killed_from_outside_costs_its_own_transaction(lab: Lab, mode: str) -> None:
    if mode == "long-lived":
        section = f"{{command: {program(lab, SLOW)}, mode: long-lived, bytes: {{json: true}}}}"
    else:
        section = "{command: [sh, -c, 'echo $$ >{tester}.pid; exec sleep 0.3']}"
    file = lab.file(
        experiment(
            section.replace("{command", "{cwd: " + f'"{lab.directory}", command', 1),
            load="{testers: 2}",
            count=20,
        )
    )
    with lab.start("run", file, "--json") as process:
        killed = [killed_once(process, lab.directory / "1.pid") for _ in range(2)]
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    [run] = json.loads(out)["runs"]
    assert killed[0] != killed[1], "another one took its place"
    assert run["counts"]["balanced"] and run["counts"]["failed"] == 2
    rows = pq.read_table(lab.results() / "runs" / "0001" / "transactions.parquet").to_pylist()
    wrong = [row for row in rows if row["outcome"] != "ok"]
    assert {(row["tester"], row["outcome"], row["code"]) for row in wrong} == {(1, "error", "signal 9")}
    last = max(row["start"] for row in wrong)
    assert {row["tester"] for row in rows if row["start"] > last} == {0, 1}, "both testers go on"


def killed_once(process: subprocess.Popen[str], told: Path) -> int:
    """Kills the program that has written its number there; gives it."""
    told.unlink(missing_ok=True)
    deadline = time.monotonic() + 30
    while not (told.exists() and (text := told.read_text().strip())):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(int(text), signal.SIGKILL)
    return int(text)


def test_a_program_that_is_not_there_is_said(lab: Lab) -> None:
    file = lab.file(experiment("{command: [/no/such/program]}", count=2))
    done = lab.run("run", file, "--json", "--no-probe")
    assert "Traceback" not in done.err
    said = done.err + done.out
    assert "not found" in said or "/no/such/program" in said


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
    return state in "ZX"


def test_a_time_out_ends_the_whole_group_a_grandchild_too(lab: Lab) -> None:
    pids = lab.directory / "pids"
    script = f"sh -c 'sleep 300 & echo $! >> {pids}; wait' & echo $! >> {pids}; wait"
    text = experiment(f'{{command: [sh, -c, "{script}"]}}', count=2, timeout="2s")
    run, rows = carried_out(lab, text)
    assert [row["outcome"] for row in rows] == ["timeout", "timeout"]
    assert run["counts"]["failed"] == 2
    found = [int(word) for word in pids.read_text().split()]
    assert len(found) == 4
    deadline = time.monotonic() + 20
    while not all(gone(pid) for pid in found):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in found if not gone(pid)]}"
        time.sleep(0.05)
    assert os.getpid() not in found
