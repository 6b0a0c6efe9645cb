"""A page that has an answer and sections, but no single runs: of a comparison and of a history."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from plimsoll import __version__
from plimsoll.report.html import Section
from plimsoll.report.page_data import figure_data, for_script
from plimsoll.report.template import PACKAGE, asset, page_template, policy
from plimsoll.report.vega import vega_bundle


def answer_page(
    *,
    kind: str,
    name: str,
    question: str,
    facts: Sequence[str],
    answer: Sequence[str],
    sections: Sequence[Section],
    terms: Sequence[tuple[str, str]],
    made_from: str,
    key_figures: Sequence[dict[str, str]] = (),
    bundle: str | None = None,
) -> str:
    """One self-contained HTML file in the style of the report. `kind`: in its title. `bundle`: a script in place of
    Vega, for tests of the page alone."""
    figures = [figure for section in sections for figure in section.figures]
    script = asset(PACKAGE, "report.js")
    vega = vega_bundle() if bundle is None else bundle
    return page_template(PACKAGE, "report.html").render(
        # The last word is the class that the styles of the report have.
        kind=f"{kind} report",
        name=name,
        policy=policy(vega, script),
        version=__version__,
        css=Markup(asset(PACKAGE, "report.css")),
        info={"question": question},
        facts=" · ".join(facts),
        so_far="",
        key_figures=key_figures,
        answer=answer,
        verdicts=[],
        contents=[*((section.key, section.title) for section in sections), ("terms", "Terms and methods")],
        sections=sections,
        with_testers=False,
        picks=[],
        left_runs="",
        terms=terms,
        data=Markup(for_script({"name": name, "figures": {each.key: figure_data(each) for each in figures}})),
        scripts=[Markup(vega), Markup(script)],
        made_from=made_from,
    )
