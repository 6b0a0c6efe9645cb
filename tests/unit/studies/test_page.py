"""Pages of studies equal what their templates and the stored summaries produce; figures have intervals and units."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from studies.__main__ import page_options, written
from studies.page import Study, page, ratio_of, runs_table
from studies.summary import Cell, Summary, read_folder
from tests.conftest import ROOT

from plimsoll.analyse.stats.interval import Interval
from plimsoll.errors import BadInput

RATE = "throughput_per_s"
BYTES = "payload_bytes_per_s"
SUMMARY = Summary(
    "02-gateway", "", "2026-11-27", "0.1.0", [], "2 cores", {}, 8, 7, 1234, 5.0, 2, 0.031, [],
    [
        Cell({"zip": "0", "testers": "7"}, 2, {BYTES: [176e6, 165e6, 187e6], RATE: [40.0, None, None]}, 0.0, "db",
             {"db": [0.5, 0.69]}),
        Cell({"zip": "5", "testers": "7"}, 2, {BYTES: [44e6, 40e6, 48.4e6]}, 0.82, "not resolved", {"db": [0.8, 0.9]}),
        Cell({"zip": "9", "testers": "7"}, 0, {}),
    ],
)  # fmt: skip
STUDY = Study(SUMMARY)


@pytest.mark.parametrize(
    "folder", sorted(path.parent.name for path in (ROOT / "studies").glob("*/page.md.j2")), ids=str
)
def test_a_page_equals_what_its_template_and_the_summaries_produce(folder: str) -> None:
    """After a change of either: `python -m studies write FOLDER`."""
    path, text = written(folder)
    assert path.read_text(encoding="utf-8") == text


def test_figures_have_their_intervals_and_units() -> None:
    assert STUDY.figure(BYTES, zip=0) == "176 ± 11\u00a0MB/s"
    assert STUDY.figure(RATE, zip=0) == "40.0\u00a0requests/s"
    assert STUDY.figure(RATE, zip=5) == "–", "another cell has this figure"
    assert STUDY.row(BYTES, "zip", 5, 0, testers=7) == "44.0 ± 4.4, 176 ± 11\u00a0MB/s"
    assert STUDY.span(BYTES) == "44.0 to 176\u00a0MB/s"
    assert STUDY.span(BYTES, zip=0) == "176\u00a0MB/s"
    assert STUDY.busy("db", zip=[0, 5]) == "50 to 90\u00a0%"
    assert STUDY.errors(zip=5) == "82\u00a0%"
    assert STUDY.bottleneck() == "db or not identified"
    assert STUDY.requests() == "1,234"


def test_rates_per_minute_keep_their_relative_interval() -> None:
    rates: dict[str, list[float | None]] = {"0": [2.0, 1.9, 2.1], "5": [4.0, None, None]}
    cells = [Cell({"zip": level}, 2, {RATE: rate}) for level, rate in rates.items()]
    study = Study(replace(SUMMARY, cells=cells))
    assert study.per_minute("jobs/min", "zip", 0, 5) == "120.0 ± 6.0, 240\u00a0jobs/min"


def test_stages_are_in_their_order_and_have_one_unit() -> None:
    cell = replace(
        SUMMARY.cells[0], stages={"response_ms_mean": {"few": 5012.0, "many": 55200.0, "few again": 5000.0}}
    )
    study = Study(replace(SUMMARY, cells=[cell]))
    assert study.stages("response_ms_mean", zip=0) == "5.01, 55.2, 5.00\u00a0s"
    with pytest.raises(BadInput, match="no stage with the figure 'throughput_per_s' is stored"):
        study.stages(RATE, zip=0)


def test_a_sentence_of_the_answer_is_quoted() -> None:
    study = Study(replace(SUMMARY, answer=["The gateway is full.", "The memory grows by 1 MB."]))
    assert study.sentence("memory") == "The memory grows by 1 MB."
    with pytest.raises(BadInput, match="no sentence of the answer contains 'disk'"):
        study.sentence("disk")


def test_a_table_has_the_levels_of_two_factors() -> None:
    assert STUDY.table(BYTES, "zip", "testers").splitlines() == [
        "| zip (MB/s) | testers 7 |",
        "| --- | --- |",
        "| 0 | 176 ± 11 |",
        "| 5 | 44.0 ± 4.4 |",
    ]
    other = replace(
        SUMMARY, cells=[*SUMMARY.cells, replace(SUMMARY.cells[0], levels={"zip": "1", "testers": "8"})]
    )
    assert Study(other).table(RATE, "zip", "testers").splitlines()[2:] == [
        "| 0 | 40.0 | – |",
        "| 5 | – | – |",
        "| 1 | – | 40.0 |",
    ]
    assert STUDY.table(BYTES, "zip", "testers", means=True).splitlines()[2:] == [
        "| 0 | 176 |",
        "| 5 | 44.0 |",
    ]


def test_a_table_has_the_order_of_the_design_if_cells_lack_valid_runs() -> None:
    first = SUMMARY.cells[0]
    cells = [
        replace(first, levels={"zip": zip_, "testers": testers}, runs=runs)
        for zip_, testers, runs in [("0", "7", 1), ("0", "8", 0), ("0", "9", 1), ("5", "7", 1), ("5", "8", 1)]
    ]
    table = Study(replace(SUMMARY, cells=cells)).table(BYTES, "zip", "testers", means=True).splitlines()
    assert table[0] == "| zip (MB/s) | testers 7 | testers 8 | testers 9 |"
    assert table[2:] == ["| 0 | 176 | – | 176 |", "| 5 | 176 | 176 | – |"]


def test_a_ratio_adds_the_squares_of_both_widths_on_the_logarithmic_scale() -> None:
    half = math.log(1.1)
    one = Interval(2.0, 2.0 / 1.1, 2.0 * 1.1)
    ratio = ratio_of(one, Interval(0.5, 0.5 / 1.1, 0.5 * 1.1))
    assert ratio.low is not None and ratio.high is not None
    assert ratio.mean == 4.0
    assert ratio.high / 4 == pytest.approx(math.exp(half * math.sqrt(2)))
    assert 4 / ratio.low == pytest.approx(math.exp(half * math.sqrt(2)))
    assert ratio_of(one, Interval(0.5, None, None)).low is None
    assert ratio_of(one, Interval(0.5, -0.1, 1.1)).low is None
    assert STUDY.ratio(BYTES, {"zip": 0}, {"zip": 5}, testers=7) == "4.0 (3.6 to 4.5)"


def test_what_is_not_stored_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match=r"02-gateway: no cell with a valid run has the levels {'zip': 9}"):
        STUDY.figure(BYTES, zip=9)
    with pytest.raises(BadInput, match=r"2 cells have the levels {'testers': 7}; expected one"):
        STUDY.figure(BYTES, testers=7)
    with pytest.raises(BadInput, match="no figure 'items' is stored: expected one of payload_bytes_per_s"):
        STUDY.figure("items", zip=5)
    with pytest.raises(BadInput, match="no utilization of 'squid' is stored"):
        STUDY.busy("squid")
    with pytest.raises(BadInput, match="no summary of '99': run `python -m studies measure` with its file"):
        page('{{ study("99") }}', {})


def test_the_table_of_runs_states_their_conditions() -> None:
    counted = replace(SUMMARY, count_difference=0.004)
    table = runs_table([counted, replace(SUMMARY, study="01", transcribed="typed", outside_cpu=None)])
    assert "| 02-gateway | 2026-11-27 | 8 (7) | 5.0\u00a0s | 2 | 3.1\u00a0% | 0.40\u00a0% |" in table
    assert "| 01 † |" in table and table.endswith("| – | – |")


@pytest.mark.parametrize(
    "path",
    [ROOT / "examples" / "access-methods.yaml", *sorted((ROOT / "studies").glob("*/*.yaml"))],
    ids=lambda path: path.stem,
)
def test_a_study_states_its_form_for_the_page(path: Path) -> None:
    assert "--set" in page_options(path)


def test_each_summary_has_the_name_of_its_study() -> None:
    for folder in (ROOT / "studies").glob("*/results"):
        for name, summary in read_folder(folder.parent).items():
            assert summary.study == name and summary.cells


def test_a_level_over_several_cells_is_selected_by_its_level_alone() -> None:
    cells = [
        Cell({"policy": policy, "testers": testers}, 2, {RATE: [rate, None, None]})
        for policy, testers, rate in [("none", "1", 10.0), ("none", "2", 20.0), ("purge", "1", 5.0)]
    ]
    over = Cell({"policy": "none"}, 4, {"stale_share": [0.1, None, None]})
    study = Study(replace(SUMMARY, cells=[*cells, over]))
    assert study.figure("stale_share", policy="none") == "10.0\u00a0%"
    assert study.figure(RATE, policy="none", testers=2) == "20.0\u00a0requests/s"
    assert study.span(RATE, policy="none") == "10.0 to 20.0\u00a0requests/s"
    assert study.table(RATE, "policy", "testers").splitlines()[2:] == [
        "| none | 10.0 | 20.0 |",
        "| purge | 5.00 | – |",
    ]
