"""Quantities with units: valid and invalid texts, and texts that are read as the value that was written."""

from __future__ import annotations

import pytest

from plimsoll.plan.source import units
from plimsoll.plan.source.units import UnitError

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0s", 0),
        ("1ns", 1),
        ("500us", 500_000),
        ("500µs", 500_000),
        ("20ms", 20_000_000),
        ("1.5s", 1_500_000_000),
        (".5s", 500_000_000),
        ("5m", 300 * SECOND),
        ("5 min", 300 * SECOND),
        ("1m30s", 90 * SECOND),
        ("1h 30m", 5400 * SECOND),
        ("2d", 172_800 * SECOND),
        ("0.1us", 100),
    ],
)
def test_durations_are_parsed_and_shown(text: str, ns: int) -> None:
    assert units.parse_duration(text) == ns
    assert units.parse_duration(units.show_duration(ns)) == ns


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (30, "30 has no unit"),
        (0, "0 has no unit"),
        (1.5, "1.5 has no unit"),
        ("30", '"30" has no unit'),
        ("", "got an empty string"),
        ("-5s", "is not a duration"),
        ("5 parsecs", 'no unit "parsecs"'),
        ("5S", 'no unit "S"'),
        ("1.2.3s", "is not a duration"),
        ("0.1ns", "whole number of nanoseconds"),
        ("9999d", "longer than a year"),
        (True, "got true"),
        (None, "got nothing"),
        ([], "got a list"),
        ({}, "got a mapping"),
        ("5s" * 100, "too long"),
        ("1e3s", 'no unit "e"'),
    ],
)
def test_invalid_durations_are_rejected(value: object, message: str) -> None:
    with pytest.raises(UnitError) as caught:
        units.parse_duration(value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0B", 0),
        ("100B", 100),
        ("10kB", 10_000),
        ("10 kB", 10_000),
        ("64KiB", 65_536),
        ("1.5MB", 1_500_000),
        ("2GiB", 2 << 30),
        ("1TB", 10**12),
    ],
)
def test_sizes_are_parsed_and_shown(text: str, size: int) -> None:
    assert units.parse_size(text) == size
    assert units.parse_size(units.show_size(size)) == size


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (100, "100 has no unit"),
        ("1K", "write kB for powers of 1000, KiB for powers of 1024"),
        ("1KB", "write kB for powers of 1000, KiB for powers of 1024"),
        ("1M", "write MB for powers of 1000, MiB for powers of 1024"),
        ("1.5B", "whole number of bytes"),
        ("5s", 'no unit "s"'),
        ("9999TB", "more than 1 PB"),
    ],
)
def test_invalid_sizes_are_rejected(value: object, message: str) -> None:
    with pytest.raises(UnitError) as caught:
        units.parse_size(value)
    assert message in str(caught.value)


def test_rates_are_parsed_and_shown() -> None:
    assert units.parse_rate("500/s") == 500
    assert units.parse_rate("30/m") == 0.5
    assert units.parse_rate("36 / h") == 0.01
    assert units.parse_rate_range("50/s..500/s") == (50, 500)
    assert units.parse_rate_range("0/s..1/s") == (0, 1)
    assert units.parse_rate_range("50/s") == (50, 50)
    for rate in (500.0, 0.5, 0.1, 1e-4, 123456.789):
        assert units.parse_rate(units.show_rate(rate)) == rate


@pytest.mark.parametrize("value", [500, "500", "0/s", "5/x", "5", "-5/s", "5s", "1e99/s", "/s"])
def test_invalid_rates_are_rejected(value: object) -> None:
    with pytest.raises(UnitError):
        units.parse_rate(value)


def test_percentages_are_parsed_and_shown() -> None:
    assert units.parse_fraction("10%") == 0.1
    assert units.parse_fraction("0.5 %") == 0.005
    assert units.parse_fraction("100%") == 1
    for fraction in (0.1, 0.07, 0.99, 0.005, 0.0):
        assert units.parse_fraction(units.show_fraction(fraction)) == fraction
    for wrong in (0.1, "0.1", "10", "101%", "-1%", "%"):
        with pytest.raises(UnitError):
            units.parse_fraction(wrong)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (4, 4.0),
        (0.5, 0.5),
        ("4", 4.0),
        ("100ms", 0.1),
        ("10 kB", 10_000.0),
        ("500/s", 500.0),
        ("10%", 0.1),
        ("squid", None),
        (True, None),
        ("nan", None),
        (None, None),
    ],
)
def test_levels_have_the_numbers_of_their_quantities(value: object, number: float | None) -> None:
    assert units.quantity(value) == number


def test_durations_and_sizes_are_rounded_for_messages() -> None:
    assert units.about_duration(250 * 10**6) == "250 ms"
    assert units.about_duration(96 * SECOND) == "1 min 36 s"
    assert units.about_duration(3600 * SECOND) == "1 h"
    assert units.about_duration(26.4 * 3600 * SECOND) == "1 d 2 h"
    assert units.about_size(999) == "999 B"
    assert units.about_size(5_312_000) == "5.31 MB"


def test_a_rate_of_bytes_and_a_percentage_above_100_are_quantities() -> None:
    assert units.parse_byte_rate("20MB/s") == 20e6
    assert units.show_byte_rate(20e6) == "20MB/s"
    assert units.parse_byte_rate(units.show_byte_rate(65536)) == 65536
    assert units.parse_percentage("250%") == 2.5
    assert (units.quantity("20MB/s"), units.level_unit("20MB/s")) == (20e6, "B/s")
    assert (units.quantity("250%"), units.level_unit("250%")) == (2.5, "")
    for wrong in ("20MB", "20M/s", "0B/s", "MB/s", "20MB/m", "20MB/", 20):
        with pytest.raises(UnitError, match="rate"):
            units.parse_byte_rate(wrong)
