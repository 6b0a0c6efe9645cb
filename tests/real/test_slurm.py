"""A real Slurm as a service, to which its own clients submit jobs."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from tests.conftest import ROOT, Lab
from tests.real.slurm import needs_slurm
from tests.real.test_services import place, run, service, stored

SUBMIT = ROOT / "studies" / "jobs" / "submit.py"
FILE = f"""
plimsoll: 1
services:
  batch: {{kind: slurm, nodes: 2, slots: 4}}
workload:
  driver: exec
  target: batch
  timeout: 60s
  exec: {{mode: long-lived}}
  mix:
    - {{name: srun, command: [python3, {SUBMIT}, srun, --seconds, "0", --output, "1000"]}}
    - {{name: sbatch, command: [python3, {SUBMIT}, sbatch, --seconds, "0", --output, "1000"]}}
load: {{testers: 1}}
run: {{duration: 120s, until: {{transactions: 3}}, drain: 2s}}
design: {{seed: 1, order: listed}}
validity:     # the machine of the tests may be busy
  {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, steal: 100%, trend: false, success: false}}
"""

__all__ = ["place"]  # the fixture


def test_jobs_are_started_counted_and_logged(lab: Lab, place: Path) -> None:
    needs_slurm()
    found = run(lab, place, FILE)
    assert found["runs"][0]["counts"]["succeeded"] == 3
    counted = service(found, "batch")["counters"]
    assert counted["jobs_submitted"] == counted["jobs_started"] == 3
    assert counted["jobs_failed"] == counted["jobs_canceled"] == 0 < counted["requests"]
    rows = pq.read_table(lab.results() / "runs/0001/transactions.parquet").to_pylist()
    assert {row["payload"] for row in rows} == {1000}, "the output is sent back"
    assert "NodeName=n2" in stored(lab, "batch", "config")
    assert "JobId=" in stored(lab, "batch", "slurmctld.log")
    assert stored(lab, "batch", "slurmd.n1.log")
