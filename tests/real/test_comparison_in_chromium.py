"""The page of a comparison in headless Chromium: both charts drawn, no message on the console, no network."""

from __future__ import annotations

from pathlib import Path

from plimsoll.report.compare.comparison_page import comparison_page
from tests.real.test_report_in_chromium import opened
from tests.unit.report.test_comparison import SAMPLES, result


def test_both_charts_are_drawn_without_a_message(tmp_path: Path) -> None:
    page = tmp_path / "comparison.html"
    page.write_text(comparison_page(result(samples=SAMPLES)), encoding="utf-8")
    seen = opened(page, tmp_path)
    assert seen.console == () and seen.requests == ()
    assert seen.document.count('data-drawn="yes"') == 2 and 'data-charts="2"' in seen.document
    assert "2 of 4 comparisons are slower or worse." in seen.document
