"""examples/link-rate.yaml: the rate of a link decides whether compression increases the throughput."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Lab

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "link-rate.yaml"
VALIDITY = (
    "validity={lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%, started: 0%}"
)


@pytest.mark.long
def test_compression_loses_without_a_rate_and_wins_at_10_mbit_per_second(lab: Lab) -> None:
    done = lab.run("run", EXAMPLE, "--set", "design.repetitions=2", "--set", VALIDITY)
    assert done.code == 0, done.err
    found = json.loads((lab.results() / "analysis.json").read_text())
    by_cell = {
        (cell["cell"]["link"], cell["cell"]["zip"]): cell["responses"]["throughput_per_s"]
        for cell in found["cells"]
    }
    fast_plain, fast_zip = by_cell["no limit", "0"], by_cell["no limit", "5"]
    slow_plain, slow_zip = by_cell["10 Mbit/s", "0"], by_cell["10 Mbit/s", "5"]
    assert fast_zip["high"] < fast_plain["low"], by_cell
    assert slow_plain["mean"] * 2.5 < slow_zip["mean"], by_cell
    assert slow_plain["mean"] * 100_000 <= 10e6 / 8, (
        "more than the rate of the link would be a fault of the testbed"
    )
    terms = {effect["term"] for effect in found["effects"] if effect["response"] == "throughput_per_s"}
    assert {"link", "zip", "link:zip"} <= terms
