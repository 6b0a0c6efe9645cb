"""The exit code of a suite, and its page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plimsoll.drive.directory import write_json
from plimsoll.errors import DamagedResults
from plimsoll.suite.page import render
from plimsoll.suite.resume import read_suite
from plimsoll.suite.summary import ExperimentRow, SuiteResult, ThresholdRow

DONE = ExperimentRow(
    "a.yaml", "a", "Is <b>it</b> fast?", "done", answer=("It <i>is</i>.", "Two.", "Three."), planned_runs=2, runs=2,
    valid_runs=2, thresholds=(ThresholdRow("errors < 1 %", True),), directory="a-1", report="a-1/report.html",
)  # fmt: skip
REFUSED = ExperimentRow("r.yaml", state="refused", reason="`<script>`")


def suite(*rows: ExperimentRow, ended: str = "2026-11-25T10:01:00Z") -> SuiteResult:
    return SuiteResult("x", "http://h/<x>", False, "2026-11-25T10:00:00Z", ended, rows)


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ((0, 0), 0), ((99, 0), 99), ((99, 98), 98), ((98, 97), 97), ((97, 2), 2), ((2, 1), 1), ((1, 130), 130),
    ],
)  # fmt: skip
def test_the_exit_code_is_the_worst(codes: tuple[int, int], worst: int) -> None:
    for pair in (codes, codes[::-1]):
        assert suite(*(replace(DONE, exit_code=code) for code in pair), REFUSED).exit_code == worst


def test_refused_files_alone_are_bad_input_and_files_that_were_not_reached_an_interrupt() -> None:
    assert suite(REFUSED, REFUSED).exit_code == 2
    assert suite(DONE, replace(DONE, state="not run")).exit_code == 130


@pytest.mark.parametrize(
    ("runs", "valid", "doubtful", "text"),
    [
        (0, 0, 0, "no run"), (1, 1, 0, "valid"), (1, 1, 1, "doubtful"), (1, 0, 0, "invalid"),
        (2, 2, 0, "all 2 runs valid"), (3, 2, 1, "2 of 3 runs valid, 1 doubtful"),
    ],
)  # fmt: skip
def test_validity_as_text(runs: int, valid: int, doubtful: int, text: str) -> None:
    assert replace(DONE, runs=runs, valid_runs=valid, doubtful_runs=doubtful).validity == text


def test_the_page_escapes_every_text_and_links_to_the_reports() -> None:
    failed = replace(DONE, state="failed", reason="<u>no</u>", report="", answer=())
    page = render(suite(DONE, failed, REFUSED, ended=""))
    for text in ("<b>it", "<i>is", "<u>no", "<script>`", "h/<x>"):
        assert text not in page
    assert 'href="a-1/report.html"' in page and "1 more sentence" in page
    assert "This page shows" in page or "this page shows" in page
    assert "<code>&lt;script&gt;</code>" in page
    assert "this page shows" not in render(suite(DONE))


def test_the_document_has_a_format_and_an_entry_for_each_file() -> None:
    document = suite(DONE, REFUSED).to_json()
    assert document["format"] == "plimsoll.suite/1"
    assert [entry["state"] for entry in document["experiments"]] == ["done", "refused"]
    assert document["experiments"][0]["thresholds"] == ({"text": "errors < 1 %", "passed": True},)


def test_a_suite_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = replace(suite(DONE, REFUSED, ended=""), working_directory="/srv/lab")
    write_json(tmp_path / "suite.json", written.to_json())
    assert read_suite(tmp_path) == written


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"format": "plimsoll.suite/1"}', "is not a suite"),
        ('{"format": "plimsoll.suite/2"}', "use a newer Plimsoll"),
        ('{"format": "plimsoll.plan/1"}', "not a plimsoll.suite file"),
        ("{", "cannot be read"),
    ],
)
def test_another_file_is_not_a_suite(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "suite.json").write_text(text)
    with pytest.raises(DamagedResults, match=why):
        read_suite(tmp_path)
    with pytest.raises(DamagedResults, match=r"has no suite\.json"):
        read_suite(tmp_path / "other")
