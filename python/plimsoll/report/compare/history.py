"""A history as lines for the terminal. Pure: prints nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.results.wording import level_words, listing, plural
from plimsoll.analyse.stats.change_points import MIN_SEGMENT
from plimsoll.compare.configuration import Difference
from plimsoll.compare.history.model import MetricHistory, Step
from plimsoll.compare.history.result import HistoryResult
from plimsoll.compare.model import Verdict
from plimsoll.report.tables.compare.comparison import (
    change_words,
    differences_table,
    is_difference_of,
    limits_words,
    metric_title,
    value_words,
    verdict_of,
)
from plimsoll.report.tables.compare.history import (
    all_steps,
    day,
    directory_name,
    levels_table,
    value_limits,
)
from plimsoll.report.terminal import NARROWEST, Style, aligned

MAX_SENTENCES: Final = 10
"""Maximum number of sentences about single changes; the table contains all."""
_COLOURS: Final = {Verdict.SLOWER: "bad", Verdict.FASTER: "good"}


def history_lines(result: HistoryResult, width: int = 80, colour: bool = False) -> list[str]:
    """The history for the terminal: levels, changes, what differed, remarks."""
    style = Style(max(width, NARROWEST), colour)
    first, last = result.directories[0], result.directories[-1]
    head = f"{result.experiment}: {plural(len(result.directories), 'results directory', 'results directories')}, "
    lines = [style.paint(line, "bold") for line in style.wrapped(f"{head}{day(first)} to {day(last)}")]
    for cell in dict.fromkeys(level_words(one.cell) for one in result.metrics):
        metrics = [one for one in result.metrics if level_words(one.cell) == cell]
        table = levels_table(result, metrics, has_cells=False)
        cell_head = style.wrapped(f"{cell}:") if cell else []
        lines += ["", *cell_head, *aligned(style, table.columns, table.rows)]
    lines.append("")
    for one, step in all_steps(result)[:MAX_SENTENCES]:
        wrapped = style.wrapped(sentence(result, one, step), hang="    ")
        lines += [style.paint(line, _COLOURS[step.verdict]) for line in wrapped]
    more = (f"Listed: the {MAX_SENTENCES} newest changes. --json and --html contain all.",)
    is_long = len(all_steps(result)) > MAX_SENTENCES
    for text in (*(more if is_long else ()), *conclusion(result), *remarks(result)):
        lines += style.wrapped(text, hang="    ")
    if result.gates:
        table = differences_table(result.gates)
        lines += ["", *aligned(style, table.columns, table.rows)]
    return lines


def sentence(result: HistoryResult, one: MetricHistory, step: Step) -> str:
    """`slower: p95 of the response time, testers 8, since 2026-11-03 (NAME): 1.12 times the level before (...)`."""
    entry = result.directories[step.first]
    cell = f", {level_words(one.cell)}" if one.cell else ""
    effect = change_words(one, step.estimate)
    change = effect if effect.endswith("pp") else f"{effect} times the level before"
    return (
        f"{verdict_of(one.metric, step.verdict)}: {metric_title(one)}{cell}, since {day(entry)} "
        f"({directory_name(entry)}): {change} ({limits_words(step.interval, is_difference=is_difference_of(one))})"
    )


def conclusion(result: HistoryResult) -> list[str]:
    """What the history shows, and by which rule; or why there is none."""
    if not result.is_comparable:
        paths = list(dict.fromkeys(one.path for one in result.gates))
        accept = " ".join(f"--accept {path}" for path in paths)
        return [
            f"Not comparable: the directories differ in {listing(paths)}. Mark the change (--marks), so that new "
            f"levels begin after it, or accept the difference: {accept}"
        ]
    if not result.metrics:
        return ["No valid run has a value."]
    steps = all_steps(result)
    texts = [
        f"{plural(len(steps), 'change')} in {plural(len(result.metrics), 'series', 'series')} (metrics and cells). "
        f"Margin: {100 * result.margin:g} %; a change has at least {MIN_SEGMENT} directories on each side."
        if steps
        else f"No change was found in {plural(len(result.metrics), 'series', 'series')} (metrics and cells). "
        f"Margin: {100 * result.margin:g} %."
    ]
    outside = [one for one in result.metrics if one.latest.is_outside]
    if outside:
        shown = [
            f"{_named(one)} ({value_words(one, one.latest.value)}; expected {value_limits(one, one.latest.range)})"
            for one in outside[:MAX_SENTENCES]
        ]
        more = len(outside) - MAX_SENTENCES
        values = listing([*shown, f"{more} more"] if more > 0 else shown)
        texts.append(f"The newest value is outside the range of its level: {values}.")
    return texts + _causes(result)


def remarks(result: HistoryResult) -> list[str]:
    """What makes the history doubtful or incomplete."""
    if not result.is_comparable:
        return []
    texts = []
    longest = len(_since_mark(result))
    if longest < 2 * MIN_SEGMENT:
        texts.append(
            f"Too few directories to find a change: {longest} since the last mark; at least {2 * MIN_SEGMENT} are "
            "needed."
        )
    empty = [directory_name(entry) for entry in result.directories if entry.runs and not entry.valid]
    if empty:
        texts.append(f"Without a valid run: {listing(empty)}.")
    return texts


def _since_mark(result: HistoryResult) -> Sequence[object]:
    marked = [at for at, entry in enumerate(result.directories) if entry.mark]
    return result.directories[marked[-1] if marked else 0 :]


def _named(one: MetricHistory) -> str:
    return f"{metric_title(one)}, {level_words(one.cell)}" if one.cell else metric_title(one)


def _causes(result: HistoryResult) -> list[str]:
    """What differs between the directories on both sides of each change: a possible cause."""
    positions = sorted({step.first for _, step in all_steps(result)})
    return [
        f"Since {directory_name(entry)}: {_difference_words(entry.differences)}."
        for entry in (result.directories[at] for at in positions)
        if entry.differences
    ]


def _difference_words(differences: Sequence[Difference]) -> str:
    shown = listing(f"{one.path} {one.old} -> {one.new}" for one in differences[:MAX_SENTENCES])
    more = len(differences) - MAX_SENTENCES
    return f"{shown}, and {more} more" if more > 0 else shown
