"""The report of fixed data, letter for letter.

A change of wording, layout or charts shows here as a difference to be looked at. When it is meant, renew the files and
read what changed before it is committed:

    PLIMSOLL_GOLDEN=write .venv/bin/python -m pytest tests/golden

The files leave out what is not of the report's making or stands in the repository anyway: Vega, our script and style
sheet, the hashes of the scripts, our version.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from tests.golden.fixture import designed, empty, set_up, single, wan

from plimsoll import __version__
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.report.html import render
from plimsoll.report.page_data import frames
from plimsoll.report.template import PACKAGE
from plimsoll.report.terminal import summary_lines

HERE = Path(__file__).parent / "expected"
FRAMES = Path(str(files(PACKAGE))) / "page" / "frames.json"
CASES: dict[str, Callable[[], Analysis]] = {
    "designed": lambda: designed(seconds=12),
    "one-repetition": lambda: designed(repetitions=1, finished=5, seconds=8),
    "single": single,
    "hostile": lambda: designed(hostile=True, finished=4, seconds=6),
    "empty": empty,
    "wan": wan,
}


def reduced(page: str) -> str:
    """The page without scripts, styles, hashes and version, one element a line."""
    page = re.sub(r"<style>.*?</style>", "<style/>", page, flags=re.DOTALL)
    page = re.sub(r"<script>.*?</script>", "<script/>", page, flags=re.DOTALL)
    page = re.sub(r"&#39;sha256-[^&]+&#39;", "&#39;sha256&#39;", page)
    # data in one line has no readable difference either
    page = re.sub(r'(\{"spec"|"data":|"facts":|"series":|"testers":|"encoding":|"layer":)', r"\n\1", page)
    return page.replace(f"Plimsoll {__version__}", "Plimsoll VERSION")


def compare(path: Path, found: str) -> None:
    if os.environ.get("PLIMSOLL_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert path.exists(), f"{path.name} is missing: see the head of this file for how it is made"
    # line by line: a difference in a page of one string is not readable
    assert found.splitlines() == path.read_text(encoding="utf-8").splitlines()


def test_the_frames_of_the_charts_of_a_run() -> None:
    compare(FRAMES, json.dumps(frames(), indent=1) + "\n")


@pytest.mark.parametrize("case", CASES)
def test_the_page(case: str) -> None:
    compare(HERE / f"{case}.html", reduced(render(CASES[case](), set_up(case == "hostile"), bundle="")))


@pytest.mark.parametrize("case", CASES)
def test_the_summary(case: str) -> None:
    compare(HERE / f"{case}.txt", "\n".join(summary_lines(CASES[case](), 80, files=("report.html",))) + "\n")
