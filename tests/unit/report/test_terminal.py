"""The summary of the terminal: order, width, plain text, nothing that a name could do to a terminal."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.golden.fixture import designed, empty, single

from plimsoll.analyse.results import Analysis
from plimsoll.report.terminal import summary_lines

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def text(analysis: Analysis, **options: object) -> str:
    return "\n".join(summary_lines(analysis, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
@pytest.mark.parametrize("colour", [True, False])
def test_no_line_is_wider_than_the_terminal(width: int, colour: bool) -> None:
    for analysis in (designed(), single(), empty(), designed(hostile=True, finished=9)):
        lines = summary_lines(analysis, width, colour)
        wide = [line for line in lines if len(ANSI.sub("", line)) > max(width, 40)]
        assert wide == []


def test_80_columns_hold_the_table_of_cells() -> None:
    assert max(len(line) for line in summary_lines(designed(), 80)) <= 80


def test_plain_text_is_ascii() -> None:
    for analysis in (designed(), single(), empty()):
        assert text(analysis).isascii()
        assert "\x1b" not in text(analysis)


def test_colour_brings_signs_and_colours() -> None:
    shown = text(designed(), colour=True)
    assert "\x1b[32m" in shown
    assert "✓" in shown
    assert "±" in shown


def test_the_order_is_that_of_k6() -> None:
    shown = text(designed(), files=("results/report.html",))
    marks = ["ok     response time", "FAILED response time", "requests....", "combination", "errors....",
             "Zip level 0 carries most", "written...."]  # fmt: skip
    places = [shown.index(mark) for mark in marks]
    assert places == sorted(places)
    assert "995 +/- 18   1.79 +/- 0.03 ms       0 %  not resolved" in shown


def test_a_single_run_has_totals_latency_and_a_histogram() -> None:
    shown = text(single())
    marks = ["34 846 succeeded, 0 failed", "1 452 +/- 22 requests/s", "avg=2.93ms", "p(99.9)=8.13ms", "histogram",
             "errors............: none", "4 testers on 1 agent, Jain's index 0.9984", "The target carried"]  # fmt: skip
    places = [shown.index(mark) for mark in marks]
    assert places == sorted(places)
    shares = [float(share) for share in re.findall(r" (\d+(?:\.\d+)?) %  ?#*$", shown, re.MULTILINE)]
    assert sum(shares) == pytest.approx(100, abs=3)


def test_errors_are_counted_by_kind() -> None:
    shown = text(designed())
    assert re.search(r"errors\.+: 18 \(0\.00421 %\)\n    error 503\.+: 12\n    timeout\.+: 6", shown)


def test_quiet_keeps_the_answer_and_what_failed() -> None:
    shown = text(designed(), quiet=True)
    assert "FAILED" in shown
    assert "1 of 24 runs invalid" in shown
    assert "Zip level 0 carries most" in shown
    assert "requests...." not in shown
    assert "ok     " not in shown


def test_unfinished_says_so_far_once() -> None:
    assert text(designed(finished=7)).count("So far: 7 of 24 runs.") == 1


def test_damaged_books_are_shown() -> None:
    analysis = single()
    run = analysis.runs[0]
    bad = replace(run, counts=replace(run.counts, balanced=False, lost_records=12))
    assert "DAMAGED...........: the books do not balance, 12 records lost" in text(
        replace(analysis, runs=(bad,))
    )


def test_names_cannot_steer_the_terminal() -> None:
    analysis = designed()
    info = replace(analysis.experiment, name="evil \x1b[2J\x9b\r\u202ename", question="what\nnow?")
    for colour in (False, True):
        shown = ANSI.sub("", text(replace(analysis, experiment=info), colour=colour))
        assert not set(shown) & {"\x1b", "\x9b", "\r", "\u202e"}
        assert "\\x1b[2J" in shown


def test_nothing_measured() -> None:
    assert "Nothing has been measured yet." in text(empty())
