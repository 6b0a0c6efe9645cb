"""The tables of a comparison: one row for each metric and cell, and the differences between the directories."""

from __future__ import annotations

from collections.abc import Sequence

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
from plimsoll.compare.model import Comparison, Verdict
from plimsoll.report.tables.table import Table, table_of

_TIMES_AND_RATES = ("ms", "rate")


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
    if comparison.interval is None:
        return UNKNOWN
    low, high = comparison.interval.low, comparison.interval.high
    if _is_difference(comparison):
        return f"{_signed_share(low)} to {_signed_share(high)}"
    return f"{_ratio(low)} to {_ratio(high)}"


def comparisons_table(comparisons: Sequence[Comparison], *, has_cells: bool) -> Table:
    """All comparisons, in their order; `has_cells`: with a column for the cell."""
    rows = []
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
            ]
        )
    words = "cell|metric|verdict" if has_cells else "metric|verdict"
    return table_of("Comparison", words, "old|new|new/old|95 % interval|runs", rows)


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
