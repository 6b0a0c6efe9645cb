"""Quantities with units: text to numbers and back.

Durations become nanoseconds (int), sizes bytes (int), rates per second (float), percentages fractions of 1
(float). A number without a unit is rejected, including zero: "timeout: 30" could be seconds or milliseconds.
kB = 1000 B, KiB = 1024 B.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Final

NS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
BYTES: Final = {
    "B": 1,
    "kB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
}
SECONDS: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}

MAX_NS: Final = 366 * NS["d"]
"""A year and a day. A longer duration is a mistake, and the limit keeps times far below 2^63 ns."""
MAX_BYTES: Final = 1000**5
HIGHEST_RATE: Final = 1e9

DURATION_LIKE: Final = "a duration is written like 500us, 20ms, 30s, 5m or 1h"
SIZE_LIKE: Final = "a size is written like 100B, 10kB, 64KiB or 1MB"
RATE_LIKE: Final = "a rate is written like 500/s, 30/m or 10/h"
BYTE_RATE_LIKE: Final = "a rate of bytes is written like 500kB/s, 20MB/s or 1GiB/s"
FRACTION_LIKE: Final = "a percentage is written like 10% or 0.5%"

DURATION_PATTERN: Final = r"^\s*([0-9]*\.?[0-9]+\s*(ns|us|µs|ms|s|min|m|h|d)\s*)+$"
SIZE_PATTERN: Final = r"^\s*[0-9]*\.?[0-9]+\s*(B|[kMGT]B|[KMGT]iB)\s*$"
RATE_PATTERN: Final = r"^\s*[0-9]*\.?[0-9]+\s*/\s*(s|min|m|h|d)\s*$"
BYTE_RATE_PATTERN: Final = r"^\s*[0-9]*\.?[0-9]+\s*(B|[kMGT]B|[KMGT]iB)/s\s*$"
FRACTION_PATTERN: Final = r"^\s*[0-9]*\.?[0-9]+\s*%\s*$"

_PART: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([A-Za-zµμ]+)\s*")
_QUANTITY: Final = re.compile(
    r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*(.*?)\s*\Z", re.DOTALL
)
_MAX_TEXT: Final = 60


class UnitError(ValueError):
    """A text is not the expected quantity. The message contains an example."""


def _shown(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


def _text_of(value: object, like: str) -> str:
    """The text of a quantity. A value without a unit is rejected here."""
    if isinstance(value, bool) or value is None or isinstance(value, (list, dict)):
        raise UnitError(f"expected a quantity, got {_kind(value)}: {like}")
    if isinstance(value, (int, float)):
        raise UnitError(f"{value} has no unit: {like}")
    if not isinstance(value, str):
        raise UnitError(f"expected a quantity, got {_shown(value)}: {like}")
    if len(value) > _MAX_TEXT:
        raise UnitError(f"{_shown(value)} is too long: {like}")
    if re.fullmatch(r"\s*[+-]?[0-9]*\.?[0-9]+\s*", value):
        raise UnitError(f"{_shown(value)} has no unit: {like}")
    return value


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "a list" if isinstance(value, list) else "a mapping"


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # only if a pattern above accepts a text that Decimal rejects
        raise UnitError(f"{_shown(text)} is not a number") from None


def parse_duration(value: object) -> int:
    """Nanoseconds of "500us", "1.5s", "1m30s", "1 h". At most MAX_NS.

    Raises UnitError if the unit is missing or unknown, for negative values and for fractions of a nanosecond.
    """
    text = _text_of(value, DURATION_LIKE)
    total, at = Decimal(0), 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise UnitError(f"{_shown(text)} is not a duration: {DURATION_LIKE}")
        unit = part[2].replace("μ", "µ")
        if unit not in NS:
            raise UnitError(f'{_shown(text)}: there is no unit "{part[2]}": {DURATION_LIKE}')
        total += _number(part[1]) * NS[unit]
        at = part.end()
    if not text.strip():
        raise UnitError(f"expected a quantity, got an empty string: {DURATION_LIKE}")
    if total > MAX_NS:
        raise UnitError(f"{_shown(text)} is longer than a year")
    if total != total.to_integral_value():
        raise UnitError(f"{_shown(text)} must be a whole number of nanoseconds")
    return int(total)


def parse_size(value: object) -> int:
    """Bytes of "100B", "10 kB" (10,000), "64KiB" (65,536). At most 1 PB.

    Raises UnitError if the unit is missing, unknown, or ambiguous (K, KB, M).
    """
    text = _text_of(value, SIZE_LIKE)
    match = _QUANTITY.match(text)
    if match is None:
        raise UnitError(f"{_shown(text)} is not a size: {SIZE_LIKE}")
    unit = match[2]
    if unit not in BYTES:
        raise UnitError(f'{_shown(text)}: there is no unit "{unit}"{_size_hint(unit)}: {SIZE_LIKE}')
    total = _number(match[1]) * BYTES[unit]
    if total > MAX_BYTES:
        raise UnitError(f"{_shown(text)} is more than 1 PB")
    if total != total.to_integral_value():
        raise UnitError(f"{_shown(text)} must be a whole number of bytes")
    return int(total)


def _size_hint(unit: str) -> str:
    letter = unit[:1].upper()
    if unit.lower() in {"k", "kb", "kib", "m", "mb", "mib", "g", "gb", "gib", "t", "tb", "tib"}:
        small = "k" if letter == "K" else letter
        return f" (write {small}B for powers of 1000, {letter}iB for powers of 1024)"
    return ""


def parse_rate(value: object) -> float:
    """Rate per second of "500/s", "30/m" (0.5), "10/h". Greater than 0, at most 1e9/s. Raises UnitError."""
    rate = _rate(value)
    if rate == 0:
        raise UnitError(f"{_shown(value)}: a rate must be greater than 0")
    return rate


def _rate(value: object) -> float:
    text = _text_of(value, RATE_LIKE)
    match = _QUANTITY.match(text)
    if match is None or not match[2].startswith("/"):
        raise UnitError(f"{_shown(text)} is not a rate: {RATE_LIKE}")
    unit = match[2][1:].strip()
    if unit not in SECONDS:
        raise UnitError(f'{_shown(text)}: there is no unit "/{unit}": {RATE_LIKE}')
    rate = float(_number(match[1]) / SECONDS[unit])
    if not math.isfinite(rate) or rate > HIGHEST_RATE:
        raise UnitError(f"{_shown(text)} is more than {HIGHEST_RATE:g}/s")
    return rate


def parse_rate_range(value: object) -> tuple[float, float]:
    """Rates per second at the start and the end of "50/s..500/s"; "50/s" is constant. One of both may be 0/s. Raises
    UnitError."""
    if isinstance(value, str) and ".." in value:
        first, _, last = value.partition("..")
        low, high = _rate(first), _rate(last)
        if low == high == 0:
            raise UnitError(f"{_shown(value)}: at least one of the two rates must be greater than 0")
        return low, high
    rate = parse_rate(value)
    return rate, rate


def parse_byte_rate(value: object) -> float:
    """Bytes per second of "20MB/s" (20,000,000) or "64KiB/s". Greater than 0. Raises UnitError."""
    text = _text_of(value, BYTE_RATE_LIKE)
    size, slash, per = text.rpartition("/")
    if not slash or per.strip() != "s":
        raise UnitError(f"{_shown(text)} is not a rate of bytes: {BYTE_RATE_LIKE}")
    try:
        rate = float(parse_size(size))
    except UnitError as error:
        raise UnitError(f"{_shown(text)} is not a rate of bytes: {BYTE_RATE_LIKE}") from error
    if rate == 0:
        raise UnitError(f"{_shown(text)}: a rate must be greater than 0")
    return rate


def parse_percentage(value: object) -> float:
    """The number of "10%" (0.1) or "250%" (2.5). Raises UnitError."""
    text = _text_of(value, FRACTION_LIKE)
    match = _QUANTITY.match(text)
    if match is None or match[2] != "%":
        raise UnitError(f"{_shown(text)} is not a percentage: {FRACTION_LIKE}")
    return float(_number(match[1]) / 100)


def parse_fraction(value: object) -> float:
    """Fraction of "10%" (0.1). 0 to 100 %. Raises UnitError."""
    fraction = parse_percentage(value)
    if fraction > 1:
        raise UnitError(f"{_shown(value)} is more than 100%")
    return fraction


def quantity(value: object) -> float | None:
    """The number of a level, for the axis of a chart; None if the level is not a quantity.

    Numbers are not changed; durations are in seconds, sizes in bytes, rates per second (of bytes: bytes per second),
    percentages as fractions.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if not isinstance(value, str):
        return None
    parsers: tuple[tuple[Callable[[object], float], float], ...] = (
        (parse_duration, 1e-9),
        (parse_size, 1.0),
        (_rate, 1.0),
        (parse_byte_rate, 1.0),
        (parse_percentage, 1.0),
    )
    for parse, scale in parsers:
        try:
            return parse(value) * scale
        except UnitError:
            continue
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def level_unit(label: str) -> str | None:
    """The unit of the `quantity` of a level: "s", "B", "1/s", "B/s", or "" for fractions and plain numbers. None if the
    level is not a quantity."""
    parsers: tuple[tuple[Callable[[object], float], str], ...] = (
        (parse_duration, "s"),
        (parse_size, "B"),
        (_rate, "1/s"),
        (parse_byte_rate, "B/s"),
    )
    for parse, unit in parsers:
        try:
            parse(label)
        except UnitError:
            continue
        return unit
    return None if quantity(label) is None else ""


def show_duration(ns: int) -> str:
    """The duration in the largest unit that needs no rounding; parse_duration returns the same value."""
    for unit in ("h", "m", "s", "ms", "us"):
        if ns and ns % NS[unit] == 0:
            return f"{ns // NS[unit]}{unit}"
    return f"{ns}ns" if ns else "0s"


def about_duration(ns: float) -> str:
    """The duration, rounded for messages: "3 s", "4 min 10 s", "2 h 5 min"."""
    seconds = ns / 1e9
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h" if hours % 24 else f"{hours // 24} d"


def show_size(count: int) -> str:
    """The size in the largest unit that needs no rounding; parse_size returns the same value."""
    for unit in ("TB", "TiB", "GB", "GiB", "MB", "MiB", "kB", "KiB"):
        if count and count % BYTES[unit] == 0:
            return f"{count // BYTES[unit]}{unit}"
    return f"{count}B"


def about_size(count: float) -> str:
    """The size, rounded to three digits for messages, in powers of 1000: "5.31 MB"."""
    for unit in ("TB", "GB", "MB", "kB"):
        if count >= BYTES[unit]:
            return f"{count / BYTES[unit]:.3g} {unit}"
    return f"{count:.0f} B"


def show_rate(rate: float) -> str:
    """The rate per second; parse_rate returns the same value."""
    return f"{_plain(rate)}/s"


def show_rate_range(rates: tuple[float, float]) -> str:
    """The rates at start and end; parse_rate_range returns the same values."""
    return show_rate(rates[0]) if rates[0] == rates[1] else f"{show_rate(rates[0])}..{show_rate(rates[1])}"


def show_byte_rate(rate: float) -> str:
    """The rate in the largest unit that needs no rounding; parse_byte_rate returns the same value."""
    return f"{show_size(round(rate))}/s"


def show_fraction(fraction: float) -> str:
    """The fraction as a percentage; parse_fraction returns the same value."""
    return f"{_plain(float(Decimal(repr(fraction)) * 100))}%"


def _plain(number: float) -> str:
    """The shortest text without an exponent that is read as the same number."""
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
