"""The tool against services whose answer is known: queues, a stall, one slow caller, a contended core.

No test here depends on speed: times of the service are long against what a busy machine adds, and seeds are fixed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import t as student

from plimsoll.deploy.binary import find_engine
from tests.conftest import Lab
from tests.stats.queueing import mmc

LENIENT = "validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}"
"""The machine of the tests may be busy with something else."""
SERVICE_S = 0.020
LOAD_S = 24
QUEUES = {"mm1": (1, 25.0), "mmc": (3, 100.0)}
"""Servers and arrivals per second."""


@contextmanager
def served(name: str, settings: dict[str, Any]) -> Iterator[str]:
    """A reference service by itself; gives its URL."""
    process = subprocess.Popen(
        [find_engine(), "serve", name, "--config", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(settings) + "\n")
        process.stdin.close()
        yield f"http://{json.loads(process.stdout.readline())['listening']}"
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def stats_of(url: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{url}/plimsoll/stats", timeout=10) as answer:
        found: dict[str, float] = json.loads(answer.read())
    return found


def delay(servers: int) -> dict[str, Any]:
    return {
        "http": True,
        "servers": servers,
        "service": {"law": "exponential", "mean_s": SERVICE_S},
        "seed": 11,
    }


def wider(interval: dict[str, float], level: float) -> tuple[float, float]:
    """The tool's 95 % interval at another level, by its own degrees of freedom."""
    half = (interval["high"] - interval["low"]) / 2
    factor = student.ppf((1 + level) / 2, interval["df"]) / student.ppf(
        (1 + interval["level"]) / 2, interval["df"]
    )
    return interval["mean"] - half * factor, interval["mean"] + half * factor


@pytest.mark.long
def test_mm1_and_mmc_agree_with_theory(lab: Lab) -> None:
    with served("delay", delay(QUEUES["mm1"][0])) as one, served("delay", delay(QUEUES["mmc"][0])) as three:
        urls = {"mm1": one, "mmc": three}
        populations = "\n".join(
            f'  {name}: {{driver: http, target: "{urls[name]}", timeout: 30s, http: {{path: /}}, '
            f"load: {{rate: {rate:g}/s, arrivals: poisson, in_flight: 400, when_full: wait}}}}"
            for name, (_, rate) in QUEUES.items()
        )
        text = f"""
plimsoll: 1
name: queues
workloads:
{populations}
design: {{seed: 3}}
run: {{duration: {LOAD_S}s, drain: 20s}}
{LENIENT}
"""
        done = lab.run("run", lab.file(text), "--json")
        assert done.code == 0, done.err
        seen = {name: stats_of(url) for name, url in urls.items()}
    [run] = done.json["runs"]
    assert run["counts"]["in_flight_at_end"] == 0, "the drain let everything come home"
    for name, (servers, rate) in QUEUES.items():
        theory = mmc(rate, 1 / SERVICE_S, servers)
        [found] = [one for one in run["workloads"] if one["workload"] == name]
        assert found["response_ms"]["count"] > 0.8 * rate * LOAD_S
        low, high = wider(found["response_ms"]["mean_interval"], 0.999)
        assert low < theory.response * 1e3 < high, f"{name}: {low} to {high} ms"
        assert high < 2.5 * theory.response * 1e3, "an interval that holds anything would prove nothing"
        # Arrivals and service times are drawn: so much scatters the busy time of so many (four standard deviations).
        scatter = 4 * (2 / (rate * LOAD_S)) ** 0.5
        busy = seen[name]["busy_s"] / (servers * LOAD_S)
        assert busy == pytest.approx(theory.utilization, rel=scatter), name


STALL = """
plimsoll: 1
name: stall
services: {web: {kind: delay, servers: 8, time: 1ms, stall: {at: 2s, for: 1s}, fresh: run}}
workload: {driver: http, target: web, timeout: 20s, http: {path: /}}
load: {rate: 400/s, arrivals: even, in_flight: 4, when_full: wait}
factors: {load.when_full: [wait, drop]}
design: {order: listed, seed: 1}
run: {duration: 6s, drain: 20s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}
"""


def not_started_at_the_end(results: Path, run: str) -> int:
    """Arrivals that were due and had not been started when the run ended, by its events."""
    lines = (results / "runs" / run / "events.jsonl").read_text().splitlines()
    texts = [event["text"] for event in map(json.loads, lines) if event["kind"] == "not-started"]
    return sum(int(text.split()[0].replace(",", "")) for text in texts)


@pytest.mark.long
def test_a_stall_shows_in_the_response_time_and_with_drop_in_the_drops(lab: Lab) -> None:
    done = lab.run("run", lab.file(STALL), "--json")
    assert done.code == 0, "few slots that wait make the testers late: that is the target's doing"
    runs = {run["cell"]["load.when_full"]: run for run in done.json["runs"]}
    wait, drop = runs["wait"], runs["drop"]
    assert wait["response_ms"]["p99"] > 700
    assert wait["request_ms"]["p99"] < 500
    assert wait["request_ms"]["max"] > 700
    # Arrivals that the end of the run found waiting are the only ones that `wait` drops. How many: a matter of speed.
    assert wait["counts"]["dropped"] == not_started_at_the_end(lab.results(), "0001")
    assert wait["valid"] and wait["lateness_ms"]["p99"] > 500
    assert drop["counts"]["dropped"] >= 300, "a second of 400/s, less those in the slots"
    assert drop["response_ms"]["p50"] < 500
    assert drop["response_ms"]["p99"] is None, "a sixth of the arrivals has no response time"
    assert drop["cohort"]["never_started"] == drop["counts"]["dropped"]
    assert wait["cohort"]["never_started"] == wait["counts"]["dropped"]
    assert any("found no free slot" in one["why"] for one in done.json["left_out"])


SLOW = f"""
plimsoll: 1
name: slow
workloads:
  slow:  {{driver: exec, timeout: 20s, exec: {{command: [sleep, "1.5"]}}, load: {{testers: 1}}}}
  quick: {{driver: exec, timeout: 20s, exec: {{command: ["true"]}}, load: {{testers: 1, every: 200ms, late: catch-up}}}}
  none:  {{driver: "null", load: {{testers: 1, every: 20ms, late: catch-up}}}}
design: {{seed: 1}}
run: {{duration: 4s, drain: 5s}}
{LENIENT}
"""


def test_a_slow_blocking_call_moves_no_other_testers_lateness(lab: Lab) -> None:
    done = lab.run("run", lab.file(SLOW), "--json")
    assert done.code == 0, done.err
    [run] = done.json["runs"]
    found = {one["workload"]: one for one in run["workloads"]}
    assert found["slow"]["request_ms"]["max"] > 1400
    for name, at_least in (("quick", 10), ("none", 100)):
        assert found[name]["transactions"] > at_least
        # Had they waited behind the slow call, a whole call would show.
        assert found[name]["lateness_ms"]["max"] < 1000, name


CONTENDED = """
plimsoll: 1
name: contended
services: {web: {kind: echo, http: true, body: 10B}}
workload: {driver: http, target: web, timeout: 20s, http: {path: /}}
load: {rate: 800/s, arrivals: even, in_flight: 20}
cpus: none
run: {duration: 2s, drain: 10s}
"""


def test_on_a_contended_core_the_lateness_is_reported(lab: Lab) -> None:
    core = min(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})  # inherited by all that is started here
    spinners = []
    try:
        spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
        done = lab.run("run", lab.file(CONTENDED), "--json")
    finally:
        for one in spinners:
            one.kill()
            one.wait()
        os.sched_setaffinity(0, before)
    assert done.code in (0, 97), done.err
    [run] = done.json["runs"]
    assert run["evidence"]["lateness_share"] is not None and run["evidence"]["gaps"] is not None
    assert run["lateness_ms"]["p99"] is not None
    assert run["valid"] or run["invalid_reasons"]
