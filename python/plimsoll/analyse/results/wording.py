"""Texts of numbers and names: `1,234.5`, three digits, units, `1,240 ± 31`, with no more digits than are known.

Pure text functions, used by the sentences of the answer and by `report`. A comma separates thousands, a point the
decimals, a no-break space the number from its unit. The minus is a hyphen, which plain terminals can print and a text
search finds. ± and µ are Unicode; for a plain terminal they are translated. `UNKNOWN` is the text of None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from plimsoll.analyse.results.analysis import Verdict
from plimsoll.analyse.results.load.search import capacity_unit
from plimsoll.analyse.results.run import Latency
from plimsoll.analyse.results.verdicts import BottleneckVerdict
from plimsoll.analyse.stats.interval import Interval
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.table import BYTES, MetricReference
from plimsoll.plan.metrics.table import Kind as RowKind

UNKNOWN: Final = "–"
SPACE: Final = "\u00a0"
"""No-break space between a number and its unit."""
THOUSANDS: Final = ","
WIDE: Final = f"± over 100{SPACE}%"
"""Text instead of an interval that extends below 0, for a quantity that cannot be negative."""

_UNITS: Final = r"(%|[mµ]?s\b|min\b|h\b|[kMGT]?i?B\b|requests/s)"

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
"""Percentiles of a distribution, by their fields."""

Kind = Literal["rate", "bytes_rate", "bytes", "ms", "fraction", "number"]
"""The kind of a number: per second, bytes per second, bytes, milliseconds, a share of 1, or a plain number."""


@dataclass(frozen=True, slots=True)
class Metric:
    """The texts of a metric. `title` is in lower case; `unit` follows the number (empty: it depends on the kind)."""

    name: str
    title: str
    kind: Kind
    unit: str = ""


_KINDS: Final[Mapping[RowKind, Kind]] = {
    RowKind.TIME: "ms",
    RowKind.RATE: "rate",
    RowKind.SHARE: "fraction",
    RowKind.COUNT: "number",
    RowKind.SIZE: "bytes",
    RowKind.RESOURCE: "fraction",
    RowKind.INDEX: "number",
}


def describe(name: str) -> Metric:
    """The metric of a name in results or experiment files, with the texts of its row. A metric that is not in the table
    has its own name as title."""
    named = catalogue.METRICS.find(name)
    if named is not None:
        return _metric_of_row(named)
    if (unit := capacity_unit(name)) is not None:
        return Metric(name, f"capacity ({name.partition('.')[2]})", "rate", unit)
    if name.endswith("_ms"):
        return Metric(name, name[:-3].replace("_", " "), "ms")
    if name.endswith("_bytes_per_s"):
        return Metric(name, name[:-12].replace("_", " ") + " throughput", "bytes_rate")
    if name.endswith("_per_s"):
        return Metric(name, name[:-6].replace("_", " "), "rate", "/s")
    return Metric(name, name.replace("_", " "), "number")


def _metric_of_row(named: MetricReference) -> Metric:
    if named.metric.unit == BYTES:
        return Metric(named.name, named.title, "bytes_rate")
    return Metric(named.name, named.title, _KINDS[named.metric.kind], named.metric.unit)


def capitalized(title: str) -> str:
    """A title at the beginning of a sentence. Names of components and counters in it keep their letters."""
    return title[:1].upper() + title[1:]


def observed(verdict: Verdict) -> str:
    """The value on which a threshold was judged, with its unit. It is stored in seconds, fractions, per second."""
    metric = describe(verdict.metric)
    if verdict.observed is None:
        return UNKNOWN
    if metric.kind == "ms":
        return quantity(verdict.observed * 1000, "ms")
    if metric.kind == "fraction" and not verdict.test.lstrip().startswith("count"):
        return percent(verdict.observed)
    if metric.kind == "fraction" and verdict.observed == round(verdict.observed):
        return count(round(verdict.observed))
    return quantity(verdict.observed, "number" if metric.kind == "fraction" else metric.kind, metric.unit)


def thousands(text: str) -> str:
    """Digits of the whole part in groups of three, from four digits on: "1240.5" -> "1,240.5"."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, dot, rest = digits.partition(".")
    groups: list[str] = []
    while len(whole) > 3:
        groups.insert(0, whole[-3:])
        whole = whole[:-3]
    return sign + THOUSANDS.join([whole, *groups]) + dot + rest


def fixed(value: float, place: int) -> str:
    """The value rounded at the decimal `place` (2: hundreds, 0: units, -1: tenths), without exponent."""
    rounded = round(value, -place)
    return thousands(f"{rounded + 0.0:.{max(0, -place)}f}")


def number(value: float | None, digits: int = 3) -> str:
    """The value with `digits` significant digits: 1,240, 12.3, 0.00456. Trailing zeros after the point are kept."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    magnitude = _magnitude(value, digits)
    if magnitude < -6 or magnitude > 14:
        return f"{value:.{digits - 1}e}"
    return fixed(value, magnitude - digits + 1)


def count(value: int | None) -> str:
    """A count with all digits."""
    return UNKNOWN if value is None else thousands(str(value))


def _magnitude(value: float, digits: int) -> int:
    """Decimal exponent of the first digit, after rounding to `digits` (999.9 at three digits is 1.00e3)."""
    return int(f"{abs(value):.{digits - 1}e}".partition("e")[2])


def scale(value: float | None, kind: Kind, unit: str = "") -> tuple[float, str]:
    """Factor and unit for a value of this size: (1e-3, "s") for 2300 ms."""
    size = abs(value) if value is not None and math.isfinite(value) else 0.0
    if kind == "ms":
        if size >= 1000:
            return 1e-3, "s"
        return (1e3, "µs") if 0 < size < 1 else (1.0, "ms")
    if kind == "bytes_rate":
        for factor, name in ((1e-9, "GB/s"), (1e-6, "MB/s"), (1e-3, "kB/s")):
            if size * factor >= 1:
                return factor, name
        return 1.0, "B/s"
    if kind == "bytes":
        factors = ((1e-9, "GB"), (1e-6, "MB"), (1e-3, "kB"))
        return next(((factor, name) for factor, name in factors if size * factor >= 1), (1.0, "B"))
    if kind == "fraction":
        return 100.0, "%"
    return 1.0, unit


def with_unit(text: str, unit: str) -> str:
    """The number and its unit, with a no-break space between them."""
    return f"{text}{SPACE}{unit}" if unit and text != UNKNOWN else text


def tied(text: str) -> str:
    """The text with no-break spaces between numbers and the units that follow them."""
    return re.sub(rf"(?<=\d) (?={_UNITS})", SPACE, text)


def quantity(value: float | None, kind: Kind, unit: str = "", digits: int = 3) -> str:
    """A number with its unit, scaled for reading: `1,510 requests/s`, `157 MB/s`, `8.21 ms`, `99 %`."""
    if value is None:
        return UNKNOWN
    factor, scaled = scale(value, kind, unit)
    return with_unit(number(value * factor, digits), scaled)


def percentile(times: Latency, name: str) -> str:
    """A percentile (`p95`) or the `max` of a distribution with a suitable unit; `> 4.62 s` if it is among the missing
    values, a dash if the sample is too small."""
    value: float | None = getattr(times, name)
    beyond = times.missing > 0 if name == "max" else value is None and times.is_beyond(QUANTILES[name])
    bound = times.max if name == "max" else times.bound
    if beyond and bound is not None:
        return f">{SPACE}{quantity(bound, 'ms')}"
    return quantity(value, "ms")


def percent(fraction: float | None, digits: int = 3) -> str:
    """A share of 1 in percent. A share below 1 is never rounded up to 100 %, and one above 0 never down to 0 %."""
    if fraction is None or math.isnan(fraction):
        return UNKNOWN
    shown = number(fraction * 100, digits)
    if 0 < fraction < 1e-6:
        shown = "< 0.0001"
    elif fraction < 1 and shown.startswith("100"):
        shown = number(fraction * 100)
        shown = "> 99.9" if shown.startswith("100") else shown
    return with_unit(shown, "%")


def percent_range(low: float, high: float, digits: int = 3) -> str:
    """Two shares of 1 in percent, `97 to 100 %`; one number if both are the same after rounding. If both round to 100 %
    and the lower one is below 1, the text is `at least 99 %`."""
    shown = [number(max(share, 0.0) * 100, digits) for share in (low, high)]
    if shown[0].startswith("100") and low < 1:
        return with_unit(f"at least {math.floor(low * 1000) / 10:g}", "%")
    return with_unit(shown[1] if shown[0] == shown[1] else " to ".join(shown), "%")


def at_percent_range(low: float, high: float, digits: int = 3) -> str:
    """`at 97 to 100 %`; `at least 99 %` if `percent_range` returns that."""
    shown = percent_range(low, high, digits)
    return shown if shown.startswith("at least") else f"at {shown}"


MAX_DIGITS: Final = 6
"""Digits of a mean. A narrower interval is shown as one unit of the last digit."""
NEGLIGIBLE: Final = 1e-3
"""The lower end of an asymmetric interval is written as 0 below this share of the mean, not with an exponent."""
ROUNDING: Final = 1e-9
"""Half widths below this share of the mean are differences of rounding."""


def plus_minus(interval: Interval | None, kind: Kind, unit: str = "", *, signed: bool = False) -> str:
    """`1,240 ± 31 requests/s`: half the width with two digits, the mean to the same place.

    The mean has at most MAX_DIGITS digits.

    Without an interval, the mean with three digits; an asymmetric interval (log scale) is written with both ends. If
    the quantity cannot be negative (not `signed`), an interval that extends below 0 is replaced by a text; that of a
    mean of 0 begins at 0.
    """
    if interval is None:
        return UNKNOWN
    factor, scaled = scale(interval.mean, kind, unit)
    if interval.low is None or interval.high is None or not math.isfinite(interval.mean):
        return with_unit(number(interval.mean * factor), scaled)
    mean, low, high = (value * factor for value in (interval.mean, interval.low, interval.high))
    if mean == 0 and not signed:
        low = max(low, 0.0)
    up, down = high - mean, mean - low
    half = max(up, down)
    if not math.isfinite(half):
        return with_unit(number(mean), scaled)
    if half <= ROUNDING * abs(mean):
        return with_unit(f"{number(mean)} ± 0", scaled)
    place = max(_place(half), _magnitude(mean, 2) - MAX_DIGITS + 1)
    if low < 0 < mean and not signed:
        return f"{with_unit(number(mean), scaled)} {WIDE}"
    if min(up, down) < 0.8 * half:
        # At least two digits of each: at the place of the longer half, a mean near the lower end would be written as 0.
        is_narrow = mean != 0 and _magnitude(mean, 2) - place > 1
        if not signed and 0 < low < NEGLIGIBLE * mean:
            low = 0.0
        shown = [fixed(end, place) if is_narrow and end else number(end, 2) for end in (mean, low, high)]
        return with_unit(f"{shown[0]} ({shown[1]} to {shown[2]})", scaled)
    half = max(half, 10.0**place)
    if fixed(abs(mean), place) == fixed(half, place) and abs(mean) != half:
        place -= 1  # "12 ± 12" does not show whether the interval contains 0
    return with_unit(f"{fixed(mean, place)} ± {fixed(half, place)}", scaled)


def _place(half: float) -> int:
    return _magnitude(half, 2) - 1


def ends(interval: Interval | None, kind: Kind, unit: str = "") -> str:
    """The two ends of an interval: `1,210 to 1,270 requests/s`."""
    if interval is None or interval.low is None or interval.high is None:
        return UNKNOWN
    factor, scaled = scale(interval.mean, kind, unit)
    half = (interval.high - interval.low) / 2 * factor
    if not math.isfinite(half) or half <= 0:
        return with_unit(f"{number(interval.low * factor)} to {number(interval.high * factor)}", scaled)
    place = _place(half)
    low, high = (_end(value * factor, place) for value in (interval.low, interval.high))
    return with_unit(f"{low} to {high}", scaled)


def _end(value: float, place: int) -> str:
    """The end of an interval, with a digit more if rounding would hide its sign."""
    return (
        number(value, 1)
        if value and not float(fixed(abs(value), place).replace(THOUSANDS, ""))
        else fixed(value, place)
    )


def signed(value: float, digits: int = 2) -> str:
    """A difference, with its sign: `+12`, `-8.0`."""
    return f"{'+' if value > 0 else ''}{number(value, digits)}"


def p_value(value: float | None) -> str:
    """A p-value in a table: `0.023`, `< 0.001`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return "< 0.001" if value < 0.001 else number(value, 2)


def p_words(value: float) -> str:
    """A p-value in a sentence: `p = 0.023`, `p < 0.001`."""
    return f"p {shown}" if (shown := p_value(value)).startswith("<") else f"p = {shown}"


def degrees(value: float | None) -> str:
    """Degrees of freedom: a count, or with one decimal if they were approximated."""
    if value is None or not math.isfinite(value):
        return number(value)
    return fixed(value, 0 if value == round(value) else -1)


def listing(items: Iterable[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    words = list(items)
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def plural(amount: int, word: str, words: str = "") -> str:
    """`1 run`, `24 runs`."""
    return f"{count(amount)} {word if amount == 1 else words or word + 's'}"


def factor_word(name: str) -> str:
    """The name of a factor in a sentence: the last part of a dotted path (short form of `factors:`)."""
    return name.rpartition(".")[2] if re.fullmatch(r"[\w.-]+", name) else name


def level_words(cell: Mapping[str, str]) -> str:
    """Levels of some factors as the experiment file states them: `zip 0`, `method squid and size 1 MB`."""
    return listing(f"{factor_word(name)} {level}" for name, level in cell.items())


def bottleneck_word(component: str) -> str:
    """The name of a component. The stored "not resolved" is shown as "not identified"."""
    return "not identified" if component == BottleneckVerdict.NOT_RESOLVED.value else component
