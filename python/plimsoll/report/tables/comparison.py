"""The tables of a comparison: one row for each metric and cell, and the differences between the directories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.results.wording import (
    UNKNOWN,
    describe,
    fixed,
    level_words,
    number,
    percent,
    quantity,
)
from plimsoll.compare.configuration import Difference
from plimsoll.compare.metrics import Scale
from plimsoll.compare.model import Comparison, Control, Drift, Limits, OrderEffect, Verdict
from plimsoll.report.tables.table import Table, table_of

_TIMES_AND_RATES = ("ms", "rate")
EQUAL: Final = "A/A: the old level compared with itself, in the same blocks."
ORDER: Final = (
    "Later/earlier run: the effect of the order of the two runs in a block, with its 95 % interval."
)
DRIFT: Final = "The two costs of the load generator count as moved only if both moved in the same direction."


def verdict_word(comparison: Comparison) -> str:
    """The verdict as the reader sees it: a memory is not slower, but worse."""
    if comparison.verdict in (Verdict.SLOWER, Verdict.FASTER):
        if (
            describe(comparison.metric).kind in _TIMES_AND_RATES
            and "per_transaction" not in comparison.metric
        ):
            return comparison.verdict.value
        return "worse" if comparison.verdict is Verdict.SLOWER else "better"
    return comparison.verdict.value


def metric_title(comparison: Comparison) -> str:
    """The title of the metric, without the name that a ratio of two metrics has in results."""
    title = describe(comparison.metric).title
    return title.removeprefix("ratio ").replace("_", " ") if title.startswith("ratio ") else title


def effect_words(comparison: Comparison) -> str:
    """The ratio or the difference."""
    return _signed_share(comparison.estimate) if _is_difference(comparison) else _ratio(comparison.estimate)


def interval_words(comparison: Comparison) -> str:
    """The 95 % interval of the ratio or the difference."""
    return limits_words(comparison.interval, is_difference=_is_difference(comparison))


def limits_words(limits: Limits | None, *, is_difference: bool = False) -> str:
    """An interval of a ratio or a difference."""
    if limits is None:
        return UNKNOWN
    shown = _signed_share if is_difference else _ratio
    return f"{shown(limits.low)} to {shown(limits.high)}"


def with_interval(estimate: float | None, limits: Limits | None, *, is_difference: bool = False) -> str:
    """`1.002 (0.990 to 1.014)`."""
    if estimate is None:
        return UNKNOWN
    shown = _signed_share if is_difference else _ratio
    return f"{shown(estimate)} ({limits_words(limits, is_difference=is_difference)})"


def comparisons_table(
    comparisons: Sequence[Comparison], *, has_cells: bool, with_control: bool = True
) -> Table:
    """All comparisons, in their order; `has_cells`: with a column for the cell; `with_control`: with A/A if there is a
    control (a terminal is too narrow for it)."""
    rows = []
    has_control = with_control and any(comparison.control is not None for comparison in comparisons)
    for comparison in comparisons:
        rows.append(
            [
                *([level_words(comparison.cell)] if has_cells else []),
                metric_title(comparison),
                verdict_word(comparison),
                _value(comparison, comparison.old),
                _value(comparison, comparison.new),
                effect_words(comparison),
                interval_words(comparison),
                f"{comparison.old_runs}/{comparison.new_runs}",
                *([_beside(comparison, comparison.control)] if has_control else []),
            ]
        )
    words = "cell|metric|verdict" if has_cells else "metric|verdict"
    numbers = "old|new|new/old|95 % interval|runs" + ("|A/A" if has_control else "")
    return table_of("Comparison", words, numbers, rows, EQUAL if has_control else "")


def controls_table(
    comparisons: Sequence[Comparison], *, has_cells: bool, with_control: bool = False
) -> Table | None:
    """The order of the runs, `with_control` also equal systems, for the comparisons that have them; None if none
    has."""
    shown = [
        one for one in comparisons if one.order is not None or (with_control and one.control is not None)
    ]
    if not shown:
        return None
    has_control = with_control and any(one.control is not None for one in shown)
    rows = [
        [
            *([level_words(one.cell)] if has_cells else []),
            metric_title(one),
            *([_beside(one, one.control)] if has_control else []),
            _beside(one, one.order),
        ]
        for one in shown
    ]
    words = "cell|metric" if has_cells else "metric"
    numbers, note = ("A/A|", f"{EQUAL} {ORDER}") if has_control else ("", ORDER)
    return table_of("Order of the runs", words, f"{numbers}later/earlier run", rows, note)


def drift_table(drift: Sequence[Drift], *, has_cells: bool) -> Table:
    """The metrics that the change cannot affect."""
    rows = [
        [
            *([level_words(one.cell)] if has_cells else []),
            describe(one.metric).title,
            "moved" if one.has_moved else "not moved" if one.interval is not None else UNKNOWN,
            with_interval(one.estimate, one.interval),
        ]
        for one in drift
    ]
    words = "cell|metric|verdict" if has_cells else "metric|verdict"
    return table_of("Metrics that the change cannot affect", words, "new/old", rows, DRIFT)


def _beside(comparison: Comparison, effect: Control | OrderEffect | None) -> str:
    if effect is None:
        return UNKNOWN
    return with_interval(effect.estimate, effect.interval, is_difference=_is_difference(comparison))


def differences_table(differences: Sequence[Difference]) -> Table:
    """Paths with both values."""
    has_directories = len({difference.directory for difference in differences}) > 1
    rows = [
        [one.path, one.old, one.new, *([one.directory] if has_directories else [])] for one in differences
    ]
    return table_of("Differences", "path|old|new" + ("|in" if has_directories else ""), "", rows)


def _value(comparison: Comparison, value: float | None) -> str:
    metric = describe(comparison.metric)
    if metric.kind == "fraction":
        return percent(value)
    per_transaction = comparison.metric.startswith("wire_bytes_per_transaction")
    unit = "/s" if metric.kind == "rate" else metric.unit
    return quantity(value, "bytes" if per_transaction else metric.kind, unit)


def _is_difference(comparison: Comparison) -> bool:
    return comparison.scale is Scale.DIFFERENCE


def _ratio(value: float | None) -> str:
    """A ratio with three decimals; a large or a tiny one with four digits."""
    return fixed(value, -3) if value is not None and 0.01 <= value < 100 else number(value, 4)


def _signed_share(value: float | None) -> str:
    """A difference of two shares in percentage points."""
    return UNKNOWN if value is None else f"{100 * value:+.3g} pp" if value else "0 pp"
