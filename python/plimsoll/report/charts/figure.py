"""A figure: a chart, a description, and a table of its numbers."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.report.charts.theme import Chart
from plimsoll.report.tables.table import Table


@dataclass(frozen=True)
class Figure:
    """One figure of the report. `key` names it in the page and as a file; `alt` describes it for screen readers."""

    key: str
    title: str
    chart: Chart
    alt: str
    table: Table
    caption: str = ""
    on_demand: bool = False
    """The figure is folded, and drawn when the reader opens it."""
