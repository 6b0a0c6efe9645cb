"""A history in the terminal, and as a page with charts."""

from __future__ import annotations

import numpy as np

from plimsoll.compare.configuration import Difference
from plimsoll.compare.history.levels import histories
from plimsoll.compare.history.model import Entry, Series
from plimsoll.compare.history.result import HistoryResult
from plimsoll.compare.sides import metric_names
from plimsoll.report.charts.compare.history import MAX_PANELS, figures
from plimsoll.report.compare.history import history_lines
from plimsoll.report.compare.history_page import history_page

HOSTILE = "<img src=x>|`a`\x1b[31m"
CELLS = ("2", "8")


def made(cells: tuple[str, ...] = CELLS, *, hostile: bool = False, days: int = 30) -> HistoryResult:
    """All metrics of 30 days: 20 % more from day 15 on, a mark at day 25, an unknown value, and a newest value that is
    half of its level."""
    rng = np.random.default_rng(2)
    name = HOSTILE if hostile else "new server"
    series = []
    for cell in cells:
        for metric in metric_names(["web"]):
            values = 10 * np.exp(rng.normal(0, 0.01, days)) * np.where(np.arange(days) >= 15, 1.2, 1.0)
            values[-1] /= 2
            row = [0.0 if metric.metric == "errors" else float(value) for value in values]
            series.append(Series(metric, {"load.testers": cell}, (*row[:3], None, *row[4:])))
    difference = Difference("services.web.time", "2ms", HOSTILE if hostile else "3ms", "", is_gate=False)
    entries = tuple(
        Entry(
            f"results/nightly-{day}",
            f"2026-11-{day + 1:02}T03:00:00+00:00",
            6,
            5 if day else 0,
            name if day == 25 else "",
            (difference,) if day == 15 else (),
        )
        for day in range(days)
    )
    experiment = HOSTILE if hostile else "nightly"
    return HistoryResult(experiment, 0.03, True, entries, histories(series, [25] if days > 25 else []))


def test_the_terminal_shows_levels_changes_and_what_differed() -> None:
    lines = history_lines(made(), 120)
    text = " ".join(" ".join(lines).split())
    assert "nightly: 30 results directories, 2026-11-01 to 2026-11-30" in text
    assert "slower: p95 of response time, testers 2, since 2026-11-16 (nightly-15): 1.2" in text
    assert "Listed: the 10 newest changes." in text
    assert "faster: throughput, testers 2, since 2026-11-16" in text
    assert "Since nightly-15: services.web.time 2ms -> 3ms." in text
    assert "The newest value is outside the range of its level: throughput, testers 2 (5.91" in text
    assert "Without a valid run: nightly-0." in text
    assert "Too few directories to find a change: 5 since the last mark" in text
    row = next(line for line in lines if "median response time" in line)
    assert "2026-11-26" in row and "outside" in row and "ms" in row
    assert "No change was found in 18 series" in " ".join(" ".join(history_lines(made(days=12))).split())


def test_charts_are_valid_and_those_without_a_change_are_folded() -> None:
    drawn = figures(made())
    assert len(drawn) == 9
    for figure in drawn:
        figure.chart.to_dict(validate=True)
        assert figure.table.rows and figure.alt
    assert [figure.title for figure in drawn if figure.on_demand] == ["Error rate"]
    many = figures(made(tuple(map(str, range(MAX_PANELS + 2)))))[0]
    assert "2 more cells are in the tables" in many.caption
    assert len(many.chart.to_dict(validate=False)["vconcat"]) == MAX_PANELS


def test_texts_from_outside_are_escaped() -> None:
    page = history_page(made(hostile=True), bundle="")
    assert "<img" not in page and "&lt;img" in page
    assert "\x1b" not in "".join(history_lines(made(hostile=True)))
