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
    p_value,
    percent,
    quantity,
)
from plimsoll.compare.configuration import Difference
from plimsoll.compare.history.model import MetricHistory
from plimsoll.compare.metrics import Scale
from plimsoll.compare.model import Comparison, Control, Drift, Limits, OrderEffect, Verdict
from plimsoll.compare.result import ComparisonResult
from plimsoll.report.tables.table import Table, table_of

_TIMES_AND_RATES = ("ms", "rate")
EQUAL: Final = "A/A: the old level compared with itself, in the same blocks."
ORDER: Final = (
    "Later/earlier run: the effect of the order of the two runs in a block, with its 95 % interval."
)
DRIFT: Final = "The two costs of the load generator count as moved only if both moved in the same direction."


def verdict_word(comparison: Comparison) -> str:
    """The verdict as the reader sees it: a memory is not slower, but worse."""
    return verdict_of(comparison.metric, comparison.verdict)


def verdict_of(metric: str, verdict: Verdict) -> str:
    """The word for a verdict on a metric."""
    if verdict in (Verdict.SLOWER, Verdict.FASTER):
        if describe(metric).kind in _TIMES_AND_RATES and "per_transaction" not in metric:
            return verdict.value
        return "worse" if verdict is Verdict.SLOWER else "better"
    return verdict.value


def metric_title(comparison: Comparison | MetricHistory) -> str:
    """The title of the metric, without the name that a ratio of two metrics has in results."""
    title = describe(comparison.metric).title
    return title.removeprefix("ratio ").replace("_", " ") if title.startswith("ratio ") else title


def effect_words(comparison: Comparison) -> str:
    """The ratio or the difference."""
    return change_words(comparison, comparison.estimate)


def change_words(comparison: Comparison | MetricHistory, value: float | None) -> str:
    """A ratio or a difference of the metric."""
    return _signed_share(value) if is_difference_of(comparison) else _ratio(value)


def interval_words(comparison: Comparison) -> str:
    """The 95 % interval of the ratio or the difference."""
    return limits_words(comparison.interval, is_difference=is_difference_of(comparison))


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
                value_words(comparison, comparison.old),
                value_words(comparison, comparison.new),
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
    return with_interval(effect.estimate, effect.interval, is_difference=is_difference_of(comparison))


def differences_table(differences: Sequence[Difference]) -> Table:
    """Paths with both values."""
    has_directories = len({difference.directory for difference in differences}) > 1
    rows = [
        [one.path, one.old, one.new, *([one.directory] if has_directories else [])] for one in differences
    ]
    return table_of("Differences", "path|old|new" + ("|in" if has_directories else ""), "", rows)


def value_words(comparison: Comparison | MetricHistory, value: float | None) -> str:
    """A value of the metric with its unit."""
    metric = describe(comparison.metric)
    if metric.kind == "fraction":
        return percent(value)
    per_transaction = comparison.metric.startswith("wire_bytes_per_transaction")
    unit = "/s" if metric.kind == "rate" else metric.unit
    return quantity(value, "bytes" if per_transaction else metric.kind, unit)


def is_difference_of(comparison: Comparison | MetricHistory) -> bool:
    """Whether changes of the metric are differences of shares, not ratios."""
    return comparison.scale is Scale.DIFFERENCE


def _ratio(value: float | None) -> str:
    """A ratio with three decimals; a large or a tiny one with four digits."""
    return fixed(value, -3) if value is not None and 0.01 <= value < 100 else number(value, 4)


def _signed_share(value: float | None) -> str:
    """A difference of two shares in percentage points."""
    return UNKNOWN if value is None else f"{100 * value:+.3g} pp" if value else "0 pp"


def intervals_table(comparisons: Sequence[Comparison]) -> Table:
    """All intervals behind the verdicts, with their method."""
    rows = []
    for one in comparisons:
        limits = [
            limits_words(each, is_difference=is_difference_of(one))
            for each in (one.interval, one.corrected, one.inner)
        ]
        needed = UNKNOWN if one.runs_needed is None else str(one.runs_needed)
        levels = [level_words(one.cell)] if any(other.cell for other in comparisons) else []
        pairs = f"{one.pairs} pairs" if one.pairs else one.method.value
        rows.append([*levels, metric_title(one), pairs, *limits, p_value(one.adjusted_p), needed])
    words = "cell|metric|method" if rows and len(rows[0]) > 7 else "metric|method"
    return table_of("Intervals", words, "95 %|Holm|90 %|adjusted p|runs needed", rows)


def run_values_table(result: ComparisonResult) -> Table:
    """The value of each run of both sides. The runs of a side are numbered in the order of their measurement."""
    shown = {(one.metric, tuple(one.cell.items())): one for one in result.comparisons}
    rows = []
    for sample in result.samples:
        comparison = shown.get((sample.metric.metric, tuple(sample.cell.items())))
        if comparison is None:
            continue
        for side, runs in (("old", sample.old), ("new", sample.new)):
            values = [
                value_words(comparison, run.value)
                for run in sorted(runs, key=lambda r: (r.sequence, r.order))
            ]
            rows.append(
                [level_words(sample.cell) or "all", metric_title(comparison), side, ", ".join(values)]
            )
    return table_of("Values of the runs", "cell|metric|side|runs in order", "", rows)
