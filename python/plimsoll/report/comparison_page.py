"""A comparison as one self-contained HTML file, in the style of the report."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from plimsoll import __version__
from plimsoll.analyse.results.wording import plural
from plimsoll.compare.model import Verdict
from plimsoll.compare.result import ComparisonResult
from plimsoll.report.charts import comparison as charts
from plimsoll.report.comparison import (
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
from plimsoll.report.page_data import figure_data, for_script
from plimsoll.report.tables.comparison import comparisons_table, differences_table
from plimsoll.report.template import PACKAGE, asset, page_template, policy
from plimsoll.report.vega import vega_bundle

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
    sections = _sections(result)
    figures = [figure for section in sections for figure in section.figures]
    script = asset(PACKAGE, "report.js")
    vega = vega_bundle() if bundle is None else bundle
    name = result.experiment or "Comparison"
    lead = headline(result)
    return page_template(PACKAGE, "report.html").render(
        kind="comparison report",
        name=name,
        policy=policy(vega, script),
        version=__version__,
        css=Markup(asset(PACKAGE, "report.css")),
        info={"question": f"{result.new.name} compared with {result.old.name}"},
        facts=" · ".join(_facts(result)),
        so_far="",
        key_figures=_key_figures(result),
        answer=[f"{lead[0].upper()}{lead[1:]}.", *map(sentence, remarkable(result)), *conclusion(result)],
        verdicts=[],
        contents=[*((section.key, section.title) for section in sections), ("terms", "Terms and methods")],
        sections=sections,
        with_testers=False,
        picks=[],
        left_runs="",
        terms=TERMS,
        data=Markup(for_script({"name": name, "figures": {each.key: figure_data(each) for each in figures}})),
        scripts=[Markup(vega), Markup(script)],
        made_from=f"{result.old.name} and {result.new.name}",
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
