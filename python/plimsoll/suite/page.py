"""The page of a suite: one HTML file without scripts, which loads nothing and links to the reports."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from markupsafe import Markup

from plimsoll import __version__
from plimsoll.analyse.results.wording import plural
from plimsoll.report.template import PACKAGE as REPORT
from plimsoll.report.template import asset, page_template, policy
from plimsoll.suite.summary import ExperimentRow, SuiteResult, counted

PACKAGE: Final = "plimsoll.suite"
SHOWN: Final = 2
"""Number of sentences of an answer that are not folded."""
_SIGNS: Final = {
    "done": "good", "failed": "bad", "invalid": "bad", "interrupted": "warn", "refused": "open", "not run": "open",
}  # fmt: skip


def render(suite: SuiteResult) -> str:
    """The page as HTML."""
    return page_template(PACKAGE, "suite.html").render(
        kind="suite",
        name=suite.name,
        policy=policy(),
        version=__version__,
        css=Markup(f"{asset(REPORT, 'report.css')}\n{asset(PACKAGE, 'suite.css')}"),
        target=suite.target,
        facts=_facts(suite),
        so_far="" if suite.ended else "The suite has not ended: this page shows what is done so far.",
        rows=[_row(row) for row in suite.rows if row.state not in ("refused", "invalid")],
        left_out=[row for row in suite.rows if row.state in ("refused", "invalid")],
        made_from="suite.json",
        data="{}",
        scripts=[],
    )


def _row(row: ExperimentRow) -> dict[str, object]:
    is_valid = bool(row.runs) and row.valid_runs == row.runs and not row.doubtful_runs
    return {
        "row": row,
        "kind": _SIGNS[row.state],
        "title": row.name or row.file,
        "shown": row.answer[:SHOWN],
        "folded": row.answer[SHOWN:],
        "more": plural(len(row.answer[SHOWN:]), "more sentence"),
        "report": quote(row.report),
        "validity_kind": "good" if is_valid else "warn" if row.valid_runs else "bad" if row.runs else "",
        "thresholds": [_mark(threshold.passed) | {"text": threshold.text} for threshold in row.thresholds],
    }


def _mark(passed: bool | None) -> dict[str, str]:
    if passed is None:
        return {"kind": "open", "sign": "–"}
    return {"kind": "good", "sign": "✓"} if passed else {"kind": "bad", "sign": "✗"}


def _facts(suite: SuiteResult) -> str:
    failed = sum(threshold.passed is False for row in suite.rows for threshold in row.thresholds)
    facts = [
        _minute(suite.started),
        f"{plural(len(suite.rows), 'file')}: {counted(suite.rows)}",
        f"{plural(failed, 'threshold')} failed" if failed else "",
        "short form (--quick)" if suite.quick else "",
    ]
    return " · ".join(fact for fact in facts if fact)


def _minute(time: str) -> str:
    return f"{datetime.fromisoformat(time).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
