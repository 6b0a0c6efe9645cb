"""Texts of numbers: no more digits than are known, no misleading rounding."""

from __future__ import annotations

import pytest

from plimsoll.analyse.results.analysis import Verdict
from plimsoll.analyse.results.wording import (
    count,
    degrees,
    describe,
    ends,
    level_words,
    listing,
    number,
    observed,
    p_words,
    percent,
    percent_range,
    plural,
    plus_minus,
    quantity,
    signed,
)
from plimsoll.analyse.stats.interval import Interval


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1513, "1,510"),
        (999.6, "1,000"),
        (99.96, "100"),
        (0, "0"),
        (0.0045612, "0.00456"),
        (-1234567, "-1,230,000"),
        (12.3, "12.3"),
        (5e-9, "5.00e-09"),
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "∞"),
    ],
)
def test_three_significant_digits(value: float | None, text: str) -> None:
    assert plain(number(value)) == text


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (1243.2, 31.4, "1,243 ± 31"),
        (1243.2, 12.4, "1,243 ± 12"),
        (1243.2, 0.3, "1,243.20 ± 0.30"),
        (12.0, 29.4, "12.0 ± over 100 %"),
        (0.5, 0.0042, "0.5000 ± 0.0042"),
        (1510.0, 0.0, "1,510 ± 0"),
        (146.0, 1.4e-13, "146 ± 0"),
        (144.458991, 0.000094, "144.459 ± 0.001"),
        (99999.6, 0.01, "100,000 ± 1"),
    ],
)
def test_a_mean_is_never_finer_than_its_interval(mean: float, half: float, text: str) -> None:
    assert plain(plus_minus(Interval(mean, mean - half, mean + half), "rate")) == text


def test_an_asymmetric_interval_shows_both_ends() -> None:
    assert plain(plus_minus(Interval(100.0, 80.0, 150.0), "rate", "/s")) == "100 (80 to 150) /s"


def test_an_interval_of_a_mean_of_0_begins_at_0() -> None:
    assert plain(plus_minus(Interval(0.0, -0.0067, 0.0067), "fraction")) == "0 (0 to 0.67) %"
    assert plain(plus_minus(Interval(0.047, 9.3e-07, 0.18), "number")) == "0.047 (0 to 0.18)"
    assert plain(plus_minus(Interval(0.047, 0.002, 0.18), "number")) == "0.047 (0.0020 to 0.18)"
    assert plain(plus_minus(Interval(0.0, -0.0067, 0.0067), "fraction", signed=True)) == "0.00 ± 0.67 %"


def test_without_an_interval_the_mean_stands_alone() -> None:
    assert plain(plus_minus(Interval(1513.0, None, None), "rate", "requests/s")) == "1,510 requests/s"
    assert plus_minus(None, "rate") == "–"
    assert ends(Interval(1.0, None, None), "ms") == "–"


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0.25, "ms", "250 µs"),
        (8.214, "ms", "8.21 ms"),
        (2300.0, "ms", "2.30 s"),
        (157e6, "bytes_rate", "157 MB/s"),
        (12.0, "bytes_rate", "12.0 B/s"),
        (0.5, "fraction", "50.0 %"),
        (None, "ms", "–"),
    ],
)
def test_units_suit_the_size(value: float | None, kind: str, text: str) -> None:
    assert plain(quantity(value, kind)) == text  # type: ignore[arg-type]


def test_percent_is_never_rounded_to_the_ends() -> None:
    assert plain(percent(0.99996)) == "> 99.9 %"
    assert plain(percent(1.0)) == "100 %"
    assert plain(percent(1e-9)) == "< 0.0001 %"
    assert plain(percent(0.0)) == "0 %"
    assert plain(percent(0.997, 2)) == "99.7 %", "more than 99.9 it is not"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.92, 0.95, "92 to 95 %"),
        (0.97, 0.9996, "97 to 100 %"),
        (0.9995, 1.0, "at least 99.9 %"),
        (0.9995, 0.9997, "at least 99.9 %"),
        (0.996, 0.9999, "at least 99.6 %"),
        (1.0, 1.0, "100 %"),
        (0.921, 0.922, "92 %"),
        (0.0, 0.05, "0 to 5.0 %"),
        (-0.001, 0.0, "0 %"),
    ],
)
def test_ends_of_a_range_are_rounded_but_it_is_not_narrowed(low: float, high: float, text: str) -> None:
    assert plain(percent_range(low, high, 2)) == text


@pytest.mark.parametrize(
    ("name", "title", "kind"),
    [
        ("throughput_per_s", "throughput", "rate"),
        ("throughput", "throughput", "rate"),
        ("response_ms_p95", "p95 of response time", "ms"),
        ("response_p95_ms", "p95 of response time", "ms"),
        ("response_ms.p50", "median response time", "ms"),
        ("p999", "p99.9 of response time", "ms"),
        ("response", "response time", "ms"),
        ("lateness_ms_mean", "mean lateness", "ms"),
        ("own_thing", "own thing", "number"),
        ("cache_bytes_per_s", "cache throughput", "bytes_rate"),
    ],
)
def test_metrics_have_titles(name: str, title: str, kind: str) -> None:
    metric = describe(name)
    assert (metric.title, metric.kind) == (title, kind)


def test_an_observed_value_has_a_readable_unit() -> None:
    assert plain(observed(Verdict("response", "p(95)<2s", {}, 0.0412, True, ""))) == "41.2 ms"
    assert plain(observed(Verdict("errors", "rate<10%", {}, 0.02, True, ""))) == "2.00 %"
    assert plain(observed(Verdict("errors", "count<10", {}, 12.0, False, ""))) == "12"
    assert observed(Verdict("response", "p(95)<2s", {}, None, False, "no sample")) == "–"


def test_lists_and_plurals() -> None:
    assert listing(["a", "b", "c"]) == "a, b and c"
    assert listing([]) == ""
    assert plural(1, "run") == "1 run"
    assert plain(plural(12000, "run")) == "12,000 runs"
    assert count(None) == "–"
    assert level_words({"workload.frontier.zip": "0", "size": "1 MB"}) == "zip 0 and size 1 MB"


def test_an_interval_below_zero_is_not_printed_if_the_quantity_cannot_be_negative() -> None:
    wide = Interval(10_000.0, -60_000.0, 80_000.0)
    assert plain(plus_minus(wide, "rate", "requests/s")) == "10,000 requests/s ± over 100 %"
    assert plain(plus_minus(wide, "number", signed=True)) == "10,000 ± 70,000"
    assert plain(plus_minus(Interval(0.5, 0.0, 1.1), "number")) == "0.50 ± 0.60"
    assert plain(plus_minus(Interval(-0.5, -1.0, 0.0), "number")) == "-0.50 ± 0.50"


def test_probabilities_degrees_of_freedom_and_differences() -> None:
    assert [p_words(value) for value in (1.6e-05, 0.00099, 0.0123, 0.5)] == [
        "p < 0.001",
        "p < 0.001",
        "p = 0.012",
        "p = 0.50",
    ]
    assert [degrees(value) for value in (12.0, 12.34, None)] == ["12", "12.3", "–"]
    assert [signed(value) for value in (12.3, -8.0, 1234.0)] == ["+12", "-8.0", "+1,200"]
