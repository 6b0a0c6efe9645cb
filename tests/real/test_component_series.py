"""Time series of components of a real run, in analysis.json and in the report, with bins of a chosen width."""

from __future__ import annotations

import json
from typing import Any

from plimsoll.errors import ExitCode
from tests.conftest import Lab

FILE = """
plimsoll: 1
services:
  db:      {kind: sqlite}
  gateway: {kind: frontier, database: db}
data: {t_string: {into: db, rows: 1000, row: 100B, compressibility: 10%}}
workload: {driver: frontier, target: gateway, timeout: 10s, frontier: {queries: [SELECT string FROM t_string]}}
load: {testers: 2, think: 2ms}
run: {warmup: 1s, duration: 5s}
design: {seed: 1}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""


def only_run(lab: Lab) -> dict[str, Any]:
    (run,) = json.loads((lab.results() / "analysis.json").read_text(encoding="utf-8"))["runs"]
    assert isinstance(run, dict)
    return run


def test_what_a_service_counts_is_what_its_testers_did(lab: Lab) -> None:
    done = lab.run("run", lab.file(FILE), "--out", lab.directory / "results", "--quiet")
    assert done.code in (ExitCode.PASSED, ExitCode.MEASUREMENT_INVALID), done.err
    series = only_run(lab)["component_series"]
    components = {each["component"]: each for each in series["components"]}
    assert list(components) == ["gateway", "host", "testers"]
    gateway, host = components["gateway"], components["host"]
    assert (gateway["request_counter"], gateway["is_addressed"]) == ("answered", True)
    assert {"cpu_user", "cpu_system", "cpu", "memory"} <= gateway["resources"].keys()
    assert {"cpu_user", "cpu_iowait", "cpu_steal", "memory"} <= host["resources"].keys()
    _compare_counts(lab, gateway["counters"]["answered"])

    wide = lab.run("report", lab.results(), "--quantum", "2s")
    assert wide.code == ExitCode.PASSED, wide.err
    run = only_run(lab)
    assert (run["series"]["quantum_s"], run["component_series"]["quantum_s"]) == (2.0, 2.0)
    assert run["component_series"]["bins"] in (3, 4)
    page = (lab.results() / "report.html").read_text(encoding="utf-8")
    assert "counted by gateway" in page

    refused = lab.run("report", lab.results(), "--quantum", "1h")
    assert refused.code == ExitCode.BAD_INPUT
    assert "--quantum 1h: longer than every run: the longest, 0001, has" in refused.err


def _compare_counts(lab: Lab, answered: list[float | None]) -> None:
    """From 1 s to 5 s, service and testers count the same, up to what may happen in one second at either end."""
    run = only_run(lab)
    clients = run["series"]
    per_second = round(1 / clients["quantum_s"])
    done = [
        sum(clients["throughput_per_s"][at * per_second : (at + 1) * per_second]) / per_second
        for at in range(1, 5)
    ]
    counted = [value for value in answered[1:5] if value is not None]
    assert len(counted) == 4
    assert min(done) > 0
    assert abs(sum(done) - sum(counted)) <= max(done)
