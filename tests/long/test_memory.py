"""Memory stays bounded however long a run is: too heavy for CI."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from tests.conftest import ROOT, Lab

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

FULL_SPEED = """
plimsoll: 1
name: full-speed
workload: {driver: "null", "null": {}}
load: {testers: 64}
run: {duration: 60s, drain: 1s}
"""


def test_an_agent_at_full_speed_for_a_minute(lab: Lab) -> None:
    done = lab.start("run", lab.file(FULL_SPEED))
    _, err = done.communicate(timeout=800)
    assert done.returncode in (0, 97), err
    run = lab.results() / "runs" / "0001"
    summary = json.loads((run / "summary.json").read_text())
    counters = summary["counters"]
    assert counters["started"] == counters["succeeded"] + counters["failed"] + summary["in_flight"]
    assert counters["started"] > 10_000_000
    # Nothing waits for the recorder: what it had no room for is counted to the last one, and the run says so.
    rows = pq.read_metadata(run / "transactions.parquet").num_rows
    assert rows + counters["lost_records"] == counters["started"]
    assert summary["balanced"] == (counters["lost_records"] == 0)
    assert bool(summary["damage"]) == (counters["lost_records"] > 0)
    samples = pq.read_table(run / "samples.parquet").to_pylist()
    resident = [
        row["value"] for row in samples if row["component"] == "testers" and row["metric"] == "memory.rss"
    ]
    assert max(resident) < 600e6
    late, early = resident[-10:], resident[10:20]
    assert sum(late) < 1.5 * sum(early), "memory grows with the run"


def test_the_summary_of_fifty_million_transactions() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "analysis.py", "--transactions", "50e6"],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    memory = dict(re.findall(r"^(exact|histograms).* ([\d.]+) GB", done.stdout, flags=re.MULTILINE))
    assert float(memory["exact"]) < 3.0
    assert float(memory["histograms"]) < 1.0
