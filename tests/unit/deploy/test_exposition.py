"""Pages of metrics: recorded pages of exporters (Debian 12), forms that the format allows, and hostile pages.

The results are compared with `prometheus_client`, the reference implementation in Python.
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


def all_samples(page: str) -> list[Sample]:
    return list(samples(page, lambda name: True))


@pytest.mark.parametrize("page", [NODE, SQUID])
def test_real_pages_have_the_values_of_the_reference_implementation(page: str) -> None:
    expected = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    parsed = all_samples(page)
    assert len(parsed) > 100
    for sample, other in zip(parsed, expected, strict=True):
        assert other.name in (sample.name, f"{sample.name}_total"), (
            "the reference adds _total to a counter without it"
        )
        assert (sample.labels, sample.value) == (other.labels, other.value)


def test_counters_of_a_real_page_are_recognised_by_their_type() -> None:
    counts = {sample.name: sample.counts for sample in all_samples(NODE)}
    assert counts["node_cpu_seconds_total"] and counts["node_disk_io_time_seconds_total"]
    assert not counts["node_load1"] and not counts["node_memory_MemAvailable_bytes"]
    assert counts["go_gc_duration_seconds_count"] and not counts["go_gc_duration_seconds"], (
        "a quantile goes both ways"
    )


def test_openmetrics_may_contain_exemplars_and_creation_times() -> None:
    registry = CollectorRegistry()
    counter = Counter("asked", "requests", ["path"], registry=registry)
    counter.labels('/a"b\\c\n{}').inc(3, {"trace_id": "a # b"})
    Gauge("load", "now", registry=registry).set(0.5)
    Histogram("took", "seconds", registry=registry, buckets=(1, 2)).observe(1.5)
    Summary("size", "bytes", registry=registry).observe(7)
    page = generate_latest(registry).decode()  # type: ignore[no-untyped-call]
    by_series = {sample.series: sample for sample in all_samples(page)}
    (requests,) = (sample for sample in by_series.values() if sample.name == "asked_total")
    assert (requests.labels, requests.value, requests.counts) == ({"path": '/a"b\\c\n{}'}, 3.0, True)
    assert (by_series["load"].value, by_series["load"].counts) == (0.5, False)
    assert (by_series['took_bucket{le="2.0"}'].value, by_series['took_bucket{le="2.0"}'].counts) == (
        1.0,
        True,
    )
    assert by_series["size_sum"].counts and by_series["size_sum"].value == 7
    assert not by_series["size_created"].counts


def test_rare_forms_of_the_format_are_parsed() -> None:
    page = (
        '  a  1 1700000000000\nb { x = "1" , } 2\n\n# a comment\nc{}3e2\nd_total 4\n# TYPE e untyped\ne 5\n'
    )
    assert [(sample.series, sample.value, sample.counts) for sample in all_samples(page)] == [
        ("a", 1.0, False),
        ('b{x="1"}', 2.0, False),
        ("c", 300.0, False),
        ("d_total", 4.0, True),
        ("e", 5.0, False),
    ]


def test_values_that_are_not_finite_or_too_great_are_omitted() -> None:
    assert [sample.name for sample in all_samples("a NaN\nb +Inf\nc -Inf\nd 1\ne 1e308\n")] == ["d"]


@pytest.mark.parametrize(
    "line", ["a", "a x", "a{b} 1", 'a{b="1} 1', 'a{b="1"', "a{b=1} 1", "a 1_000", "a{,,} 1"]
)
def test_a_selected_line_that_cannot_be_parsed_is_an_error_and_other_lines_are_ignored(line: str) -> None:
    page = f"good 1\n{line}\n"
    with pytest.raises(ValueError, match=r"cannot be parsed|no value"):
        all_samples(page)
    assert [sample.name for sample in samples(page, lambda name: name == "good")] == ["good"]


def test_the_time_for_labels_is_proportional_to_their_length() -> None:
    line = "a{" + ",".join(f'l{number}="x"' for number in range(100_000)) + "} 1\n"
    with pytest.raises(ValueError, match=f"the limit is {MAX_LINE:,}"):
        all_samples(line)
    assert all_samples("x" * 1_000_000 + " 1\nb 2\n") == [Sample("b", {}, 2.0, False)]
    slashes = 'a{b="' + "\\\\" * 5_000 + '"} 1\n'
    assert len(all_samples(slashes)[0].labels["b"]) == 5_000


def test_binary_data_has_no_series() -> None:
    rubbish = bytes(range(256)) * 1000
    assert not list(samples(rubbish.decode("utf-8", "replace"), lambda name: name == "wanted"))
    assert all(math.isfinite(sample.value) for sample in samples(NODE, lambda name: True))
