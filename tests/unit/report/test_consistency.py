"""Stale answers in the page, the terminal and the JSON: they are shown only if versions were read."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.golden.fixture import HOSTILE, set_up, single
from tests.golden.fixture import designed as without_versions
from tests.unit.versioned import analysed

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.document import as_document
from plimsoll.report.charts import load_figures, spec
from plimsoll.report.figures import write_figures
from plimsoll.report.html import render
from plimsoll.report.labels import Labels
from plimsoll.report.tables import consistency
from plimsoll.report.terminal import summary_lines


def page(analysis: Analysis) -> str:
    return render(analysis, set_up(False), bundle="").replace("\u00a0", " ")


def test_the_section_is_there_only_where_versions_were_read() -> None:
    for analysis in (without_versions(), single()):
        assert "Stale answers" not in page(analysis)
        assert "needless" not in page(analysis).lower()
        assert not any("readers" in line for line in summary_lines(analysis))
    shown = page(analysed())
    for text in (
        "Stale answers, per level of cache",
        "Stale answers, per cell",
        "Cost of the answers, per cell",
    ):
        assert f"<caption>{text}</caption>" in shown
    assert "<dt>Stale</dt>" in shown


def test_the_tables_of_cells_have_staleness_and_cost() -> None:
    labels = Labels(analysed())
    table = consistency.cells(labels)
    assert [row[0] for row in table.rows] == [
        "no cache, writes 4/s",
        "no cache, writes 20/s",
        "cache 1 s, writes 4/s",
        "cache 1 s, writes 20/s",
    ]
    by_cell = {
        row[0]: dict(zip((column.name for column in table.columns), row, strict=True)) for row in table.rows
    }
    assert by_cell["no cache, writes 4/s"]["Stale"] == "0\u00a0%"
    assert by_cell["no cache, writes 4/s"]["Oldest"] == "–"
    assert re.fullmatch(r"[\d.]+\u00a0%", by_cell["cache 1 s, writes 20/s"]["Stale"])
    assert "Wilson" in table.note and "pooled over the design" in table.note
    costs = consistency.costs(labels)
    assert [column.name for column in costs.columns][-2:] == ["cache", "db"]
    assert {row[-1] for row in costs.rows} == {"40\u00a0%"}
    assert costs.rows[0][2] == "100\u00a0%"
    assert len(consistency.runs(labels).rows) == 8


def test_levels_have_a_table_where_there_are_other_factors() -> None:
    analysis = analysed()
    table = consistency.levels(Labels(analysis))
    assert table is not None
    assert [row[0] for row in table.rows] == ["no cache", "1 s"]
    assert "most" in [row[5] for row in table.rows]
    assert analysis.consistency is not None
    alike = replace(analysis.consistency, levels=analysis.consistency.cells)
    assert consistency.levels(Labels(replace(analysis, consistency=alike))) is None


def test_the_chart_has_a_point_for_each_cell_coloured_by_the_first_factor() -> None:
    figure = next(figure for figure in load_figures(Labels(analysed())) if figure.key == "consistency")
    drawn = spec(figure.chart)
    rows = drawn["datasets"]["consistency"]
    assert [row["level"] for row in rows] == ["no cache", "no cache", "1 s", "1 s"]
    assert all(row["low"] <= row["share"] <= row["high"] for row in rows)
    assert all(row["least"] <= row["reads"] <= row["most"] for row in rows)
    colours = [layer["encoding"]["color"]["scale"] for layer in drawn["layer"]]
    assert all(colour == colours[0] for colour in colours)
    assert colours[0]["domain"] == ["no cache", "1 s"]
    figure.chart.to_dict()  # valid, or it raises


def test_one_repetition_has_no_bars_up_and_down_but_those_within_the_run() -> None:
    figure = next(figure for figure in load_figures(Labels(analysed(1))) if figure.key == "consistency")
    rows = spec(figure.chart)["datasets"]["consistency"]
    assert not any("least" in row for row in rows)
    assert all("low" in row for row in rows)
    assert len(spec(figure.chart)["layer"]) == 2


@pytest.mark.long
def test_figures_are_drawn_as_files(tmp_path: Path) -> None:
    written = {path.name for path in write_figures(analysed(), tmp_path, "svg")}
    assert "consistency.svg" in written
    assert "share of stale answers" in (tmp_path / "consistency.svg").read_text(encoding="utf-8")


def test_the_terminal_has_a_line_for_each_cell() -> None:
    lines = summary_lines(analysed(), 100)
    head = next(at for at, line in enumerate(lines) if line.split()[:2] == ["readers", "reads/s"])
    assert [line.split(",")[0].strip() for line in lines[head + 1 : head + 5]] == [
        "no cache",
        "no cache",
        "cache 1 s",
        "cache 1 s",
    ]
    assert "<=" in lines[head + 1]
    quiet = summary_lines(analysed(), 100, quiet=True)
    assert not any(line.split()[:2] == ["readers", "reads/s"] for line in quiet)
    assert any("has no stale answers" in line for line in lines)


def test_the_document_has_runs_cells_and_levels() -> None:
    document = json.loads(json.dumps(as_document(analysed()), allow_nan=False))
    assert document["runs"][0]["staleness"]["readers"]["stale_share"]["mean"] == 0.0
    assert document["runs"][0]["staleness"]["readers"]["stale_age_ms"]["count"] == 0
    assert {"stale_share", "origin_share", "reads_per_s"} <= set(document["cells"][0]["responses"])
    assert [level["cell"] for level in document["consistency"]["levels"]] == [
        {"cache": "no cache"},
        {"cache": "1 s"},
    ]
    assert as_document(without_versions())["consistency"] is None


def test_names_from_outside_are_escaped() -> None:
    analysis = analysed()
    assert analysis.consistency is not None
    levels = tuple(replace(level, cell={"cache": HOSTILE}) for level in analysis.consistency.levels)
    shown = page(
        replace(analysis, consistency=replace(analysis.consistency, levels=(*levels, *levels, levels[0])))
    )
    assert HOSTILE not in shown
    assert "&lt;img src=x onerror=alert(1)&gt;" in shown


@pytest.mark.parametrize("ways", [("no cache",), ("1 s",)])
def test_one_level_alone(ways: tuple[str, ...]) -> None:
    analysis = analysed(1, ways)
    assert "Stale answers" in page(analysis)
    assert not any("cheapest" in text or "Only" in text for text in analysis.answer)
