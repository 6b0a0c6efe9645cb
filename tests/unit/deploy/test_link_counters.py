"""Counters of the links of a testbed, from its status."""

from __future__ import annotations

from typing import Any

from plimsoll.deploy.testbed.link_counters import links_reading


def direction(source: str, to: str, rate: int | None, passed: int) -> dict[str, Any]:
    return {"from": source, "to": to, "shape": {"rate_bit_s": rate}, "passed_bytes": passed}


def test_each_direction_with_a_rate_has_its_bytes_and_its_rate() -> None:
    links = [
        direction("a", "a", None, 7),
        direction("a", "b", 8_000, 500),
        direction("b", "a", 16_000, 20),
        direction("a", "c", None, 9),
        direction("c", "a", None, 9),
    ]
    ends = [("up", "a", "b"), ("free", "a", "c"), ("gone", "b", "c")]
    status = {"links": links, "released": 40, "late": 3}
    reading = links_reading(ends, {**status, "cpu_ns": 1_500_000_000})
    assert reading.counters == {
        "cpu": 1.5,
        "released": 40,
        "late": 3,
        "passed up: a to b": 500,
        "passed up: b to a": 20,
    }
    assert "cpu" not in links_reading(ends, status).counters, "an older engine"
    assert reading.gauges == {"rate up: a to b": 1_000, "rate up: b to a": 2_000}
