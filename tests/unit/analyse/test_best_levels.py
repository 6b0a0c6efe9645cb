"""The level with the most reads in each combination of the other factors."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.analyse.test_consistency import analysis_of, with_readers

from plimsoll.analyse.answer.load.best_levels import of_best_levels
from plimsoll.analyse.results.analysis import Analysis, CellResult
from plimsoll.analyse.stats.interval import Interval

READS = {
    ("cache", "90 %", "2/s"): Interval(100.0, 95.0, 105.0),
    ("replica", "90 %", "2/s"): Interval(50.0, 45.0, 55.0),
    ("cache", "50 %", "2/s"): Interval(40.0, 35.0, 45.0),
    ("replica", "50 %", "2/s"): Interval(50.0, 46.0, 54.0),
    ("cache", "90 %", "9/s"): Interval(70.0, 65.0, 75.0),
    ("replica", "90 %", "9/s"): Interval(68.0, 63.0, 73.0),
    ("cache", "50 %", "9/s"): Interval(20.0, None, None),
    ("replica", "50 %", "9/s"): Interval(48.0, None, None),
}


def measured(reads: dict[tuple[str, str, str], Interval]) -> Analysis:
    runs = [
        with_readers(f"{number:04}", {"access": access, "repeated": repeated, "writes": writes})
        for number, (access, repeated, writes) in enumerate(reads, 1)
    ]
    cells = tuple(
        CellResult(run.cell, None, 2, 2, {"reads_per_s": interval}, 0.0, 0.0, None, None, "")
        for run, interval in zip(runs, reads.values(), strict=True)
    )
    return replace(analysis_of(runs), cells=cells)


def test_each_best_level_is_named_with_its_combinations() -> None:
    found = [text.replace("\u00a0", " ") for text in of_best_levels(measured(READS))]
    assert found == [
        "Access cache has the most reads/s with repeated 90 % and writes 2/s.",
        "Access replica has the most reads/s with repeated 50 % and writes 2/s; with repeated 50 % and writes 9/s.",
        "No difference in reads/s between the levels cache and replica of access was detected, and no other level has "
        "more, with repeated 90 % and writes 9/s.",
    ]


def test_a_single_combination_and_a_study_without_readers_have_no_sentence() -> None:
    one = {key: value for key, value in READS.items() if key[1:] == ("90 %", "2/s")}
    assert of_best_levels(measured(one)) == []
    assert of_best_levels(replace(measured(READS), consistency=None)) == []


def test_a_level_that_is_the_best_everywhere_has_one_sentence() -> None:
    levels = {"cache": Interval(100.0, 95.0, 105.0), "replica": Interval(50.0, 45.0, 55.0)}
    always = {key: levels[key[0]] for key in READS}
    assert [text.replace("\u00a0", " ") for text in of_best_levels(measured(always))] == [
        "Access cache has the most reads/s in each combination of the other factors."
    ]
