"""A process outside the experiment slows a service in the middle of a run: the change is found, dated and explained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Lab

EXPERIMENT = """
plimsoll: 1
name: disturbed
services: {web: {kind: command, command: [SERVER]}}
workload: {driver: http, target: web, http: {path: /}}
load: {testers: 4}
cpus: {testers: [1], services: {web: [0]}}
run: {warmup: 2s, duration: 42s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%}
"""
SERVER = """
import asyncio, sys
async def serve(reader, writer):
    while await reader.readuntil(b"\\r\\n\\r\\n"):
        sum(range(20_000))
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()
asyncio.run(main())
"""
"""Its requests cost computation only. On a virtual machine, the throughput of a server whose requests cost system calls
tripled within some runs; such noise hides a change (docs/methods.md)."""
TIMEOUT_S = 60.0
DISTURBED_FROM = 20
LOOP = "while True: pass"
LOOPS = 3
"""Busy processes on the core of the service, which then has a quarter of it."""


def started_at(lab: Lab, seconds: int) -> None:
    """Waits until the run has this number of seconds on record."""
    since = time.monotonic()
    while True:
        live = next(lab.directory.glob("results/disturbed-*/runs/0001/live.jsonl"), None)
        if live is not None and len(live.read_text().splitlines()) > seconds:
            return
        assert time.monotonic() - since < TIMEOUT_S
        time.sleep(0.05)


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the service needs a core of its own")
def test_a_busy_process_on_the_core_of_the_service(lab: Lab) -> None:
    server = lab.directory / "server.py"
    server.write_text(SERVER)
    experiment = EXPERIMENT.replace("SERVER", f'{sys.executable}, {server}, "{{port}}"')
    with lab.start("run", lab.file(experiment), "--json") as process:
        started_at(lab, DISTURBED_FROM)
        pinned = ["taskset", "--cpu-list", "0", sys.executable, "-c", LOOP]
        # Sessions of their own: Linux can divide a core between sessions (autogroup) instead of processes.
        busy = [subprocess.Popen(pinned, start_new_session=True) for _ in range(LOOPS)]
        try:
            out, err = process.communicate(timeout=lab.limit_s)
        finally:
            for loop in busy:
                loop.kill()
                loop.wait()
    assert process.returncode == 0, err + out
    (run,) = json.loads(out)["runs"]
    # A second is on record shortly after its end.
    near = [change for change in run["changes"] if abs(change["at_s"] - DISTURBED_FROM) <= 4]
    fell = next(change for change in near if change["series"] == "throughput")
    assert fell["ratio"] < -0.1 and fell["p"] <= 0.01 and fell["rule"]["name"] == "changes"
    (outside,) = fell["outside"]
    assert abs(outside["at_s"] - DISTURBED_FROM) <= 4 and outside["after"] - outside["before"] > 0.1
    assert any(change["series"] == "response time" and change["ratio"] > 0.1 for change in near)
    answer = " ".join(json.loads(out)["answer"]).replace("\u00a0", " ")
    assert "hroughput fell by" in answer and "processes outside the experiment used" in answer
    page = (lab.results() / "report.html").read_text()
    assert "Changes during run 0001" in page and '"changes":{"at":[' in page
    assert Path(lab.results() / "analysis.json").exists()
