"""The growth of memory in the report: a table and a chart, only where memory grows."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.golden.fixture import designed

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.components.memory import GrowthPoint, GrowthVerdict, MemoryGrowth
from plimsoll.analyse.stats.interval import Interval
from plimsoll.report.charts import load_figures, spec
from plimsoll.report.html import _sections
from plimsoll.report.labels import Labels
from plimsoll.report.setup.setup import SetUp
from plimsoll.report.tables.resources import memory

MB = 1e6


def grown(zip_level: str, verdict: GrowthVerdict, component: str = "gateway") -> MemoryGrowth:
    points = tuple(
        GrowthPoint(f"{at:04}", testers, (20 + 0.5 * testers) * MB)
        for at, testers in enumerate((1, 2, 4, 8), start=1)
    )
    linear = verdict == GrowthVerdict.LINEAR
    return MemoryGrowth(
        component=component,
        combination={"zip level": zip_level},
        runs=4,
        loads=(1, 2, 4, 8),
        verdict=verdict,
        slope=Interval(0.5 * MB, 0.46 * MB, 0.54 * MB, df=2),
        mean=22 * MB,
        curvature_p=0.61,
        capacity=30 * MB,
        of="limit",
        full_at=Interval(20.0, 18.4, 21.9, df=2) if linear else None,
        reach=80.0,
        points=points,
        intercept=20 * MB,
    )


def analysis(*growths: MemoryGrowth) -> Analysis:
    return replace(designed(), memory_growth=growths)


def test_the_table_states_the_slope_with_its_interval_and_where_memory_is_full() -> None:
    shown = memory.table(Labels(analysis(grown("0", GrowthVerdict.LINEAR), grown("1", GrowthVerdict.CURVED))))
    assert shown is not None
    head = [column.name for column in shown.columns]
    first, second = (dict(zip(head, row, strict=True)) for row in shown.rows)
    assert (first["Service"], first["Combination"]) == ("gateway", "zip level 0")
    assert first["Slope (per tester)"].replace("\u00a0", " ") == "500 ± 40 kB"
    assert first["Full size"].replace("\u00a0", " ") == "30 MB (limit)"
    assert first["Full at (testers)"] == "20 (18 to 22)"
    assert second["Growth"] == "grows, but not in proportion" and second["Full at (testers)"] == "–"


def test_a_panel_for_each_service_with_points_lines_and_the_full_size() -> None:
    labels = Labels(
        analysis(
            grown("0", GrowthVerdict.LINEAR),
            grown("1", GrowthVerdict.LINEAR, "db"),
            grown("5", GrowthVerdict.NONE),
        )
    )
    [figure] = [figure for figure in load_figures(labels) if figure.key == "memory"]
    figure.chart.to_dict(validate=True)
    drawn = spec(figure.chart)
    assert len(drawn["vconcat"]) == 2
    assert [row["memory"] for row in drawn["datasets"]["memory0"]] == [20.5, 21.0, 22.0, 24.0]
    assert [row["memory"] for row in drawn["datasets"]["memory0_lines"]] == [20.5, 24.0]
    assert '"at": 30.0' in json.dumps(drawn)  # the limit, in MB
    assert "zip level 5" not in json.dumps(drawn["datasets"])
    assert len(figure.table.rows) == 8 and figure.table.rows[0][-1].replace("\u00a0", " ") == "20.50 MB"


def test_without_growth_there_is_neither() -> None:
    labels = Labels(analysis(grown("0", GrowthVerdict.NONE)))
    assert memory.table(labels) is None
    assert "memory" not in {figure.key for figure in load_figures(labels)}


def test_the_section_of_bottlenecks_shows_both() -> None:
    labels = Labels(analysis(grown("0", GrowthVerdict.LINEAR)))
    [section] = [
        section for section in _sections(labels, SetUp(), (), with_runs=False) if section.key == "utilization"
    ]
    assert [figure.key for figure in section.figures] == ["utilization", "memory"]
    assert section.tables[0].title == "Memory against the number of testers"
