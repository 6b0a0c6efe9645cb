"""A history as one self-contained HTML file, in the style of the report."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results.wording import plural
from plimsoll.compare.history.levels import LATEST_LEVEL
from plimsoll.compare.history.result import HistoryResult
from plimsoll.report.charts.compare.history import figures
from plimsoll.report.compare.answer_page import answer_page
from plimsoll.report.compare.history import MAX_SENTENCES, conclusion, remarks, sentence
from plimsoll.report.html import Section
from plimsoll.report.tables.compare.history import (
    all_steps,
    day,
    directories_table,
    levels_table,
    steps_table,
)

TERMS: Final = (
    (
        "Level",
        "The mean of a metric between two changes or marks; of ratios the geometric mean over directories.",
    ),
    (
        "Change",
        "A split of the directories whose levels differ by at least the margin, and by more than the correlated noise "
        "of the history explains.",
    ),
    ("Mark", "A known cause, such as a new server. New levels begin; nothing is compared across it."),
    (
        "Newest value",
        f"Outside: out of the range in which {100 * LATEST_LEVEL:g} % of new values of the level are expected, and "
        "further from it than the margin. One value outside is no change yet.",
    ),
)


def history_page(result: HistoryResult, *, bundle: str | None = None) -> str:
    """The page. `bundle`: a script in place of Vega, for tests of the page alone."""
    steps = [sentence(result, one, step) for one, step in all_steps(result)[:MAX_SENTENCES]]
    lead, *others = conclusion(result)
    directories = plural(len(result.directories), "results directory", "results directories")
    dates = f"{day(result.directories[0])} to {day(result.directories[-1])}"
    return answer_page(
        kind="history",
        name=result.experiment,
        question=f"Did the results change from {dates}?",
        facts=[directories, dates, f"margin {100 * result.margin:g} %", f"rule {result.rule}"],
        answer=[lead, *steps, *others, *remarks(result)],
        sections=_sections(result),
        terms=TERMS,
        made_from=directories,
        bundle=bundle,
    )


def _sections(result: HistoryResult) -> list[Section]:
    has_cells = any(one.cell for one in result.metrics)
    levels = levels_table(result, result.metrics, has_cells=has_cells)
    changes = (steps_table(result),) if any(one.steps for one in result.metrics) else ()
    return [
        Section("levels", "Levels and changes", tables=(levels, *changes)),
        Section("charts", "Over time", figures=tuple(figures(result))),
        Section("directories", "Directories", tables=(directories_table(result),)),
    ]
