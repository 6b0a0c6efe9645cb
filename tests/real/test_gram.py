"""A real GRAM gatekeeper, to which its own clients submit jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from plimsoll.deploy.programs import find
from plimsoll.deploy.servers.needs import missing_programs
from tests.conftest import ROOT, Lab, missing
from tests.real.test_services import place, record, run, service, stored

SUBMIT = ROOT / "studies" / "jobs" / "submit.py"

__all__ = ["place"]  # the fixture


def needs_gram() -> None:
    """Skips where a gatekeeper or its client is not installed."""
    for text in missing_programs({"gram"}):
        what, _, command = text.rpartition(": ")
        missing(what, command)
    if find(["globusrun"]) is None:
        missing("globusrun", "apt-get install globus-gram-client-tools")


def metrics(lab: Lab, name: str) -> list[float]:
    """The values of a metric of all transactions."""
    rows: list[dict[str, Any]] = pq.read_table(lab.results() / "runs/0001/metrics.parquet").to_pylist()
    return [row["value"] for row in rows if row["metric"] == name]


def test_jobs_are_started_counted_and_gone_with_the_gatekeeper(lab: Lab, place: Path) -> None:
    needs_gram()
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  grid: {{kind: gram}}
workload:
  driver: exec
  target: grid
  timeout: 60s
  exec: {{mode: long-lived}}
  mix:
    - {{name: ping, command: [python3, {SUBMIT}, gram-authentication, --credentials, "{{grid.credentials}}"]}}
    - name: job
      command: [python3, {SUBMIT}, gram, --seconds, "0", --output, "1000", --credentials, "{{grid.credentials}}"]
load: {{testers: 1}}
run: {{duration: 120s, until: {{transactions: 3}}, drain: 2s}}
design: {{seed: 1, order: listed}}
validity:     # the machine of the tests may be busy
  {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, steal: 100%, trend: false, success: false}}
""",
    )
    assert found["runs"][0]["counts"]["succeeded"] == 3
    counted = service(found, "grid")["counters"]
    assert counted["failed"] == 0
    assert counted["pings"] + counted["requests"] == counted["connections"] == counted["authenticated"] == 3
    rows = pq.read_table(lab.results() / "runs/0001/transactions.parquet").to_pylist()
    jobs = [row for row in rows if row["operation"] == "job"]
    assert counted["requests"] == counted["started"] == len(jobs) > 0
    assert {row["payload"] for row in jobs} == {1000}, "the output is sent back"
    starts, ends = metrics(lab, "start_s"), metrics(lab, "end_s")
    assert len(starts) == len(jobs)
    assert all(0 < start <= end for start, end in zip(starts, ends, strict=True))
    assert stored(lab, "grid", "gatekeeper.log").count("Got connection") == 3
    assert stored(lab, "grid", "manager.log").count("event=gram.job.end") == len(jobs)
    assert "-x509-cert-dir" in stored(lab, "grid", "config")
    assert record(lab)["services"][0]["urls"][0].startswith("gram://127.0.0.1:")


@pytest.mark.long
def test_a_restarted_gatekeeper_starts_jobs_again(lab: Lab, place: Path) -> None:
    needs_gram()
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  grid: {{kind: gram}}
workload:
  driver: exec
  target: grid
  timeout: 20s
  exec:
    mode: long-lived
    command: [python3, {SUBMIT}, gram, --seconds, "0", --output, "10", --credentials, "{{grid.credentials}}"]
load: {{testers: 1, think: 100ms}}
actions: [{{at: 5s, restart: {{service: grid}}}}]
run: {{duration: 30s, drain: 20s}}
design: {{seed: 1, order: listed}}
validity:     # the machine of the tests may be busy
  {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, steal: 100%, trend: false, success: false}}
""",
    )
    rows = pq.read_table(lab.results() / "runs/0001/transactions.parquet").to_pylist()
    ends = [row["end"] for row in rows if row["outcome"] == "ok"]
    assert ends, "no job succeeded"
    assert found["runs"][0]["counts"]["succeeded"] == len(ends)
    last = max(rows, key=lambda row: row["end"])
    assert last["outcome"] == "ok", "jobs succeed after the restart"
    assert stored(lab, "grid", "gatekeeper.log").count("GRAM contact") == 1
