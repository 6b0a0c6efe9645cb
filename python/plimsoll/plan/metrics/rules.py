"""Rules on a metric, as in `thresholds:`, `capacity:` and `ceiling:`: "p(95)<500ms", "rate<10%", "avg>=20/s".

The form is that of k6, whose users need not learn another. As in k6, a number without a unit on a time is in
milliseconds: `p(95)<500`. Values are stored in SI units: seconds, fractions, per second, bytes per second, counts.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from plimsoll.errors import BadInput
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.table import BYTES, Kind, Metric, Use

Stat = Literal["p", "avg", "rate", "count", "min", "max", "med"]
Operator = Literal["<", "<=", ">", ">="]

_FORM = re.compile(
    r"^\s*(?P<stat>p\(\s*(?P<arg>\d+(?:\.\d+)?)\s*\)|avg|mean|rate|count|min|max|med|value)"
    r"\s*(?P<op><=|>=|<|>)\s*(?P<value>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?P<unit>[A-Za-zµμ%][A-Za-zµμ/]*|/s)?\s*$"
)
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
}
_BYTES = {
    "B": 1.0,
    "kB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 1024.0,
    "MiB": 1024.0**2,
    "GiB": 1024.0**3,
    "TiB": 1024.0**4,
}


class RuleError(BadInput):
    """A rule that cannot be parsed. The text contains the rule, the problem, and what was expected."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`stat(arg) op value` on a metric. `value`: in seconds, a fraction, per second, or a count; `text`: as written."""

    stat: Stat
    arg: float | None
    """Percentile, 0 < arg < 100, for stat "p"; None otherwise."""
    op: Operator
    value: float
    text: str
    metric: str

    def holds(self, observed: float) -> bool:
        """Whether a value in the same unit satisfies the rule. NaN satisfies no rule."""
        match self.op:
            case "<":
                return observed < self.value
            case "<=":
                return observed <= self.value
            case ">":
                return observed > self.value
            case ">=":
                return observed >= self.value

    @property
    def upper(self) -> bool:
        """Whether the rule bounds the metric from above."""
        return self.op in ("<", "<=")


def parse_rule(text: str, metric: str) -> Rule:
    """Parses one rule. `metric`: any name that `thresholds:` accepts. Raises RuleError."""
    named = catalogue.METRICS.named(metric, Use.RULE)
    if named is None:
        known = ", ".join(catalogue.METRICS.names(Use.RULE))
        raise RuleError(f"unknown metric {metric!r}: expected one of {known}")
    row = named.metric
    match = _FORM.match(text)
    if match is None:
        raise RuleError(f"cannot read the rule {text!r}: expected the form {row.example!r}")
    stat, arg = _stat(match["stat"], match["arg"], text)
    _check_statistic(stat, metric, row, text)
    value = _value(float(match["value"]), match["unit"], stat, row, text)
    if not math.isfinite(value):
        raise RuleError(f"the rule {text!r} has a value that is not finite")
    return Rule(stat, arg, _operator(match["op"]), value, text.strip(), metric)


def _operator(text: str) -> Operator:
    match text:
        case "<":
            return "<"
        case "<=":
            return "<="
        case ">":
            return ">"
        case _:
            return ">="


def _stat(text: str, arg: str | None, rule: str) -> tuple[Stat, float | None]:
    if arg is not None:
        percentile = float(arg)
        if not 0 < percentile < 100:
            raise RuleError(
                f"the percentile of {rule!r} is {percentile:g}: expected more than 0 and less than 100"
            )
        return "p", percentile
    match text:
        case "rate" | "count" | "min" | "max" | "med":
            return text, None
        case _:
            return "avg", None


def _check_statistic(stat: Stat, metric: str, row: Metric, text: str) -> None:
    allowed = row.rule_statistics
    if stat not in allowed:
        names = ", ".join("p(N)" if name == "p" else name for name in allowed)
        raise RuleError(f"the rule {text!r} does not fit the metric {metric}: expected one of {names}")


def _value(number: float, unit: str | None, stat: Stat, row: Metric, text: str) -> float:
    if row.kind is Kind.TIME:
        if unit is None:
            return number / 1000.0  # k6: a bare number on a time is milliseconds
        if unit in _SECONDS:
            return number * _SECONDS[unit]
        raise RuleError(f"the rule {text!r} has the unit {unit!r}: expected a duration such as 500ms")
    if row.kind in (Kind.SHARE, Kind.RESOURCE) and stat != "count":
        if unit == "%":
            number, unit = number / 100.0, None
        if unit is None and 0 <= number <= 1:
            return number
        raise RuleError(f"the rule {text!r} needs a share such as 10% or 0.1")
    if row.kind is Kind.SIZE:
        if unit is not None and unit not in _BYTES:
            raise RuleError(f"the rule {text!r} has the unit {unit!r}: expected a size such as 2GB")
        return number * _BYTES[unit or "B"]
    if row.kind is Kind.RATE:
        scale = 1.0 if unit in (None, "/s") else _per_second(unit, row)
        if scale is not None:
            return number * scale
        raise RuleError(f"the rule {text!r} has the unit {unit!r}: expected {row.example!r}")
    if unit is not None:
        raise RuleError(f"the rule {text!r} has the unit {unit!r}: expected a count without unit")
    return number


def _per_second(unit: str | None, row: Metric) -> float | None:
    if unit is None or row.unit != BYTES or not unit.endswith("/s"):
        return None
    return _BYTES.get(unit.removesuffix("/s"))
