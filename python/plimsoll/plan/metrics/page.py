"""Generates docs/metrics.md from the table of metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from plimsoll.plan.metrics.table import (
    KINDS,
    Distribution,
    Kind,
    Metric,
    MetricTable,
    Part,
    Quotient,
    Source,
    Total,
    Use,
    Value,
    Values,
    capitals,
)

_HEAD: Final = """\
# Metrics

Generated from `python/plimsoll/plan/metrics/catalogue.py` by `tests/unit/plan/test_metrics.py`
(`PLIMSOLL_GOLDEN=write`). Do not edit this page: [how to add a metric](extending.md#a-metric).

The metrics that [responses](experiment-file.md#responses), [thresholds](experiment-file.md#thresholds) and
[ceilings](experiment-file.md#ceiling) name.
"""
_COLUMNS: Final = (
    "metric",
    "meaning",
    "kind",
    "unit",
    "in thresholds, over the runs of a cell",
    "computed from",
)


def metrics_page(table: MetricTable) -> str:
    """The whole page, in Markdown."""
    rows = [row for kind in Kind for row in table.rows if row.kind is kind]
    parts = [
        _HEAD,
        _table(_COLUMNS, [_meaning_row(row) for row in rows]),
        "## Names and statistics\n",
        "A response is named with its statistic: `response_p95`. Without one, the first of the list is meant.\n"
        'A rule names the metric, and the statistic is in the test: `{metric: response, test: "p(95)<500ms"}`.\n',
        _table(
            ("metric", "further names", "in results", "as a response", "in thresholds", "in ceilings"),
            [_names_row(row) for row in rows],
        ),
        "## Kinds\n",
        _table(
            ("kind", "meaning", "unit in results", "example of a rule"),
            [
                (kind, facts.meaning, facts.unit or "–", f"`{facts.example}`" if facts.rules else "–")
                for kind, facts in KINDS.items()
            ],
        ),
    ]
    if table.scopes:
        parts.append("## Parts of a run\n")
        parts.append(
            _table(
                ("after the name", "meaning"),
                [
                    (f"`{capitals(scope.suffix)}`", capitals(scope.meaning or scope.title.strip()))
                    for scope in table.scopes
                ],
            )
        )
    return "\n".join(parts)


def _meaning_row(row: Metric) -> Sequence[str]:
    meaning = row.title + (f": {row.note}" if row.note else "")
    unit = row.unit or KINDS[row.kind].unit or "–"
    return _code([capitals(row.name)]), capitals(meaning), row.kind, unit, _over_runs(row), _source(row)


def _source(row: Metric) -> str:
    return "the two metrics" if row.source is Source.METRICS else f"`{row.source}`"


def _names_row(row: Metric) -> Sequence[str]:
    uses = set(row.uses())
    statistics = [f"_{statistic}" for statistic in row.statistics]
    as_response = _code(statistics) if statistics else "yes"
    rules = ["p(N)" if statistic == "p" else statistic for statistic in row.rule_statistics]
    return (
        _code([capitals(row.name)]),
        _code(row.aliases) or "–",
        _code([capitals(row.result), *statistics]),
        "–" if Use.RESPONSE not in uses else ", ".join(filter(None, [as_response, _code(row.as_response)])),
        _code(rules) or "–",
        _code(row.live) or "–",
    )


def _over_runs(row: Metric) -> str:
    if not row.rule_statistics:
        return "–"
    match row.reader:
        case Value() | Quotient():
            return "mean of the runs"
        case Total():
            return "sum of the runs"
        case Part():
            return "sum of the parts / sum of the wholes"
        case Values():
            return "merged values; `avg`: mean of the runs"
        case Distribution():
            return "merged histograms"


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
