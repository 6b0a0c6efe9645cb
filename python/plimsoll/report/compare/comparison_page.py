"""A comparison as one self-contained HTML file, in the style of the report."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results.wording import plural
from plimsoll.compare.model import Verdict
from plimsoll.compare.result import ComparisonResult
from plimsoll.report.charts.compare import comparison as charts
from plimsoll.report.compare.answer_page import answer_page
from plimsoll.report.compare.comparison import (
    conclusion,
    control_tables,
    difference_groups,
    headline,
    remarkable,
    remarks,
    sentence,
    side_words,
    sides_of,
)
from plimsoll.report.html import Section
from plimsoll.report.tables.compare.comparison import comparisons_table, differences_table

TERMS: Final = (
    (
        "Ratio",
        "New / old: of the geometric means over the runs, or within blocks. 1.05 of a time is 5 % slower.",
    ),
    ("Margin", "The smallest change that matters."),
    (
        "Slower, worse; faster, better",
        "The interval, with Holm's correction over all comparisons, lies beyond the margin.",
    ),
    ("Same", "The 90 % interval lies within the margin."),
    ("Undecided", "The runs support none of these verdicts. More runs make the intervals narrower."),
    ("95 % interval", "The run is the unit. A side with one run has no interval."),
)
_COUNTS: Final = (
    (Verdict.SLOWER, "slower or worse", "bad"),
    (Verdict.FASTER, "faster or better", "good"),
    (Verdict.SAME, "the same", ""),
    (Verdict.UNDECIDED, "undecided", ""),
)


def comparison_page(result: ComparisonResult, *, bundle: str | None = None) -> str:
    """The page. `bundle`: a script in place of Vega, for tests of the page alone."""
    lead = headline(result)
    return answer_page(
        kind="comparison",
        name=result.experiment or "Comparison",
        question=f"{result.new.name} compared with {result.old.name}",
        facts=_facts(result),
        answer=[f"{lead[0].upper()}{lead[1:]}.", *map(sentence, remarkable(result)), *conclusion(result)],
        sections=_sections(result),
        terms=TERMS,
        made_from=f"{result.old.name} and {result.new.name}",
        key_figures=_key_figures(result),
        bundle=bundle,
    )


def _facts(result: ComparisonResult) -> list[str]:
    words = [
        f"{side}: {side_words(summary, is_analysed=bool(result.comparisons))}"
        for side, summary in sides_of(result)
    ]
    return [*words, f"margin {100 * result.margin:g} %", f"rule {result.rule}"]


def _key_figures(result: ComparisonResult) -> list[dict[str, str]]:
    """The number of comparisons with each verdict."""
    if not result.comparisons:
        return []
    found = [(len(result.with_verdict(verdict)), words, kind) for verdict, words, kind in _COUNTS]
    total = plural(len(result.comparisons), "comparison")
    return [
        {"name": words, "value": str(count), "note": f"of {total}", "kind": kind if count else ""}
        for count, words, kind in found
    ]


def _sections(result: ComparisonResult) -> list[Section]:
    """The parts of the page that have contents."""
    sections = []
    if doubts := remarks(result):
        sections.append(Section("remarks", "Remarks", warnings=tuple(doubts)))
    if result.comparisons:
        ratios, runs = charts.ratios(result), charts.runs(result)
        has_cells = any(one.cell for one in result.comparisons)
        table = comparisons_table(result.comparisons, has_cells=has_cells)
        sections.append(
            Section("comparison", "Metrics", tables=(table,), figures=() if ratios is None else (ratios,))
        )
        if controls := control_tables(result):
            sections.append(Section("controls", "Controls", tables=tuple(controls)))
        if runs is not None:
            sections.append(Section("runs", "Runs", figures=(runs,)))
    groups = tuple(difference_groups(result))
    if groups:
        tables = []
        for words, found in groups:
            made = differences_table(found)
            tables.append(type(made)(words, made.columns, made.rows))
        sections.append(Section("differences", "Differences of the setups", tables=tuple(tables)))
    elif not result.by:
        text = "No difference was found." if result.experiment else "The files do not describe their setups."
        sections.append(Section("differences", "Differences of the setups", text))
    return sections
