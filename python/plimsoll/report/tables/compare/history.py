"""The tables of a history: the level of each metric now, the changes, and the values of all directories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from plimsoll.analyse.results.wording import UNKNOWN, count, level_words
from plimsoll.compare.history.model import Entry, LatestPoint, MetricHistory, Step
from plimsoll.compare.history.result import HistoryResult
from plimsoll.compare.model import Limits
from plimsoll.report.tables.compare.comparison import (
    change_words,
    is_difference_of,
    limits_words,
    metric_title,
    value_words,
    verdict_of,
)
from plimsoll.report.tables.table import Table, table_of


def directory_name(entry: Entry) -> str:
    """The last part of the path of a results directory."""
    return PurePath(entry.directory).name


def day(entry: Entry) -> str:
    """The date at which a directory was started; its name if it has none."""
    return entry.started[:10] or directory_name(entry)


def levels_table(result: HistoryResult, metrics: Sequence[MetricHistory], *, has_cells: bool) -> Table:
    """The newest level of each metric, since when, the changes before, and the newest value. `has_cells`: with a
    column for the cell."""
    rows = []
    for one in metrics:
        level = one.levels[-1]
        rows.append(
            [
                *([level_words(one.cell)] if has_cells else []),
                metric_title(one),
                day(result.directories[level.first]),
                latest_word(one.latest),
                value_words(one, level.mean),
                value_limits(one, level.interval),
                value_words(one, one.latest.value),
                count(level.points),
                count(len(one.steps)),
            ]
        )
    words = "cell|metric" if has_cells else "metric"
    return table_of(
        "Levels",
        f"{words}|since|newest",
        "level|95 % interval|newest value|points|changes",
        rows,
        "Newest: inside or outside the range that the other values of its level predict with 99 %.",
    )


def steps_table(result: HistoryResult) -> Table:
    """All changes, the newest first."""
    has_cells = any(one.cell for one in result.metrics)
    rows = [
        [
            *([level_words(one.cell)] if has_cells else []),
            metric_title(one),
            verdict_of(one.metric, step.verdict),
            day(result.directories[step.first]),
            directory_name(result.directories[step.first]),
            *_ends(one, step),
            change_words(one, step.estimate),
            limits_words(step.interval, is_difference=is_difference_of(one)),
        ]
        for one, step in all_steps(result)
    ]
    words = "cell|metric" if has_cells else "metric"
    return table_of(
        "Changes", f"{words}|verdict|date|first directory", "before|after|after/before|95 % interval", rows
    )


def values_table(result: HistoryResult, cells: Sequence[MetricHistory]) -> Table:
    """The value of each directory in each cell of a metric, and the mean of its level."""
    has_cells = any(one.cell for one in cells)
    rows = []
    for one in cells:
        means = {at: level.mean for level in one.levels for at in range(level.first, level.last + 1)}
        rows += [
            [
                *([level_words(one.cell)] if has_cells else []),
                _minute(entry),
                directory_name(entry),
                value_words(one, value),
                value_words(one, means.get(at)),
            ]
            for at, (entry, value) in enumerate(zip(result.directories, one.values, strict=True))
        ]
    words = "cell|started|directory" if has_cells else "started|directory"
    return table_of("Values", words, "value|level", rows)


def directories_table(result: HistoryResult) -> Table:
    """The directories in the order of their start, with what differs from the one before."""
    rows = [
        [
            _minute(entry),
            directory_name(entry),
            entry.mark,
            "; ".join(f"{one.path}: {one.old} -> {one.new}" for one in entry.differences),
            count(entry.runs),
            count(entry.valid),
        ]
        for entry in result.directories
    ]
    return table_of(
        "Directories", "started|directory|mark|differences from the one before", "runs|valid", rows
    )


def all_steps(result: HistoryResult) -> list[tuple[MetricHistory, Step]]:
    """Each change with its metric, the newest first."""
    steps = [(one, step) for one in result.metrics for step in one.steps]
    return sorted(steps, key=lambda found: -found[1].first)


def latest_word(latest: LatestPoint) -> str:
    """`inside`, `outside`, or unknown."""
    if latest.range is None:
        return UNKNOWN
    return "outside" if latest.is_outside else "inside"


def value_limits(one: MetricHistory, limits: Limits | None) -> str:
    """Both ends of an interval of values of the metric."""
    return UNKNOWN if limits is None else f"{value_words(one, limits.low)} to {value_words(one, limits.high)}"


def _ends(one: MetricHistory, step: Step) -> tuple[str, str]:
    """The levels before and after a change."""
    at = next(at for at, level in enumerate(one.levels) if level.first == step.first)
    return value_words(one, one.levels[at - 1].mean), value_words(one, one.levels[at].mean)


def _minute(entry: Entry) -> str:
    return entry.started[:16].replace("T", " ")
