"""Pages of metrics: what exporters gave (Debian 12's, recorded), what the format allows, and what is hostile.

`prometheus_client`, the reference implementation in Python, is the second opinion.
"""

from __future__ import annotations

import math

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.conftest import ROOT

from plimsoll.deploy.counters.exposition import MAX_LINE, Sample, samples

PAGES = ROOT / "tests" / "data" / "exporters"
NODE, SQUID = ((PAGES / name).read_text() for name in ("node-1.5.0.txt", "squid-1.10.3.txt"))


def everything(page: str) -> list[Sample]:
    return list(samples(page, lambda name: True))


@pytest.mark.parametrize("page", [NODE, SQUID])
def test_real_pages_say_what_the_reference_reads(page: str) -> None:
    theirs = [one for family in text_string_to_metric_families(page) for one in family.samples]
    ours = everything(page)
    assert len(ours) > 100
    for own, other in zip(ours, theirs, strict=True):
        assert other.name in (own.name, f"{own.name}_total"), "it adds this where a counter has none"
        assert (own.labels, own.value) == (other.labels, other.value)


def test_types_of_a_real_page() -> None:
    counts = {one.name: one.counts for one in everything(NODE)}
    assert counts["node_cpu_seconds_total"] and counts["node_disk_io_time_seconds_total"]
    assert not counts["node_load1"] and not counts["node_memory_MemAvailable_bytes"]
    assert counts["go_gc_duration_seconds_count"] and not counts["go_gc_duration_seconds"], (
        "a quantile goes both ways"
    )


def test_openmetrics_with_exemplars_and_created_times() -> None:
    registry = CollectorRegistry()
    asked = Counter("asked", "requests", ["path"], registry=registry)
    asked.labels('/a"b\\c\n{}').inc(3, {"trace_id": "a # b"})
    Gauge("load", "now", registry=registry).set(0.5)
    Histogram("took", "seconds", registry=registry, buckets=(1, 2)).observe(1.5)
    Summary("size", "bytes", registry=registry).observe(7)
    page = generate_latest(registry).decode()  # type: ignore[no-untyped-call]
    found = {one.series: one for one in everything(page)}
    (requests,) = (one for one in found.values() if one.name == "asked_total")
    assert (requests.labels, requests.value, requests.counts) == ({"path": '/a"b\\c\n{}'}, 3.0, True)
    assert (found["load"].value, found["load"].counts) == (0.5, False)
    assert (found['took_bucket{le="2.0"}'].value, found['took_bucket{le="2.0"}'].counts) == (1.0, True)
    assert found["size_sum"].counts and found["size_sum"].value == 7
    assert not found["size_created"].counts


def test_what_the_format_allows_beside() -> None:
    page = (
        '  a  1 1700000000000\nb { x = "1" , } 2\n\n# a comment\nc{}3e2\nd_total 4\n# TYPE e untyped\ne 5\n'
    )
    assert [(one.series, one.value, one.counts) for one in everything(page)] == [
        ("a", 1.0, False),
        ('b{x="1"}', 2.0, False),
        ("c", 300.0, False),
        ("d_total", 4.0, True),
        ("e", 5.0, False),
    ]


def test_values_that_are_no_numbers_to_count_with_are_left_out() -> None:
    assert [one.name for one in everything("a NaN\nb +Inf\nc -Inf\nd 1\ne 1e308\n")] == ["d"]


@pytest.mark.parametrize(
    "line", ["a", "a x", "a{b} 1", 'a{b="1} 1', 'a{b="1"', "a{b=1} 1", "a 1_000", "a{,,} 1"]
)
def test_a_wanted_line_that_cannot_be_read_is_an_error_and_others_may_be_anything(line: str) -> None:
    page = f"good 1\n{line}\n"
    with pytest.raises(ValueError, match=r"cannot be parsed|no value"):
        everything(page)
    assert [one.name for one in samples(page, lambda name: name == "good")] == ["good"]


def test_labels_of_any_size_cost_no_more_than_their_length() -> None:
    many = "a{" + ",".join(f'l{number}="x"' for number in range(100_000)) + "} 1\n"
    with pytest.raises(ValueError, match=f"the limit is {MAX_LINE:,}"):
        everything(many)
    assert everything("x" * 1_000_000 + " 1\nb 2\n") == [Sample("b", {}, 2.0, False)]
    slashes = 'a{b="' + "\\\\" * 5_000 + '"} 1\n'
    assert len(everything(slashes)[0].labels["b"]) == 5_000


def test_bytes_that_are_no_text_have_no_series() -> None:
    rubbish = bytes(range(256)) * 1000
    assert not list(samples(rubbish.decode("utf-8", "replace"), lambda name: name == "wanted"))
    assert all(math.isfinite(one.value) for one in samples(NODE, lambda name: True))
