"""The files of a comparison: JUnit XML and the HTML page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from tests.golden.fixture import designed, set_up
from tests.unit.report.test_comparison import HOSTILE, SAMPLES, result

from plimsoll.compare.configuration import Difference
from plimsoll.compare.result import SideSummary
from plimsoll.compare.verdicts import compare
from plimsoll.report.compare.comparison_page import comparison_page
from plimsoll.report.compare.junit import comparison_junit
from plimsoll.report.html import render

FULL = result(samples=SAMPLES)


def page_data(page: str) -> dict[str, object]:
    found = re.search(r'id="plimsoll-data">(.*?)</script>', page, re.S)
    assert found
    data: dict[str, object] = json.loads(found[1])
    return data


def test_junit_has_a_case_for_each_metric_and_cell() -> None:
    suite = ET.fromstring(comparison_junit(FULL))[0]
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "2", "errors": "0", "skipped": "1",
    }  # fmt: skip
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    slower = cases["p95 of response time (testers 8)"].find("failure")
    assert slower is not None and slower.get("type") == "slower"
    assert "2.000 times the old value" in str(slower.get("message"))
    better = cases["memory of web (testers 8)"]
    assert [child.tag for child in better] == ["system-out"]
    skipped = cases["throughput (testers 8)"].find("skipped")
    assert skipped is not None and "only one valid run" in str(skipped.get("message"))


def test_an_undecided_comparison_fails_in_junit_if_it_does_in_the_exit_code() -> None:
    suite = ET.fromstring(comparison_junit(FULL, fails_on_undecided=True))[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("3", "0")


@pytest.mark.parametrize(
    "changes",
    [
        {
            "comparisons": (),
            "is_comparable": False,
            "differences": (Difference("load.think", "1", "2", "b", True),),
        },
        {"without_valid": ({"load.testers": "8"},)},
    ],
)
def test_results_that_cannot_be_compared_are_an_error_in_junit(changes: dict[str, object]) -> None:
    suite = ET.fromstring(comparison_junit(result(**changes)))[0]
    assert suite.get("errors") == "1" and suite.find("testcase/error") is not None


def test_no_text_of_the_results_is_markup_in_the_files() -> None:
    hostile = result(
        experiment=HOSTILE,
        old=SideSummary("</script><b>", 1, 0, 0),
        differences=(Difference("services.web.version", "1", HOSTILE, "b", is_gate=False),),
        samples=SAMPLES,
    )
    assert (
        "<img" not in comparison_page(hostile, bundle="")
        and "<b>" not in comparison_page(hostile, bundle="").split("</header>")[0]
    )
    assert ET.fromstring(comparison_junit(hostile)).tag == "testsuites"


def test_the_page_has_the_verdicts_the_charts_and_the_values_of_the_runs() -> None:
    page = comparison_page(FULL, bundle="")
    figures = page_data(page)["figures"]
    assert isinstance(figures, dict) and set(figures) == {"ratios", "runs"}
    assert "2 of 4 comparisons are slower or worse." in page and "Values of the runs" in page
    rows = figures["ratios"]["data"]["ratios0"]
    # The error rate has a panel of its own, throughput with one run has no interval.
    assert rows["value"] == pytest.approx([2.0, 0.5], rel=1e-3)
    assert figures["ratios"]["data"]["ratios1"]["value"] == [2.0]


def test_a_page_without_comparisons_states_why() -> None:
    gate = Difference("load.think", "20ms", "50ms", "b", is_gate=True)
    page = comparison_page(result(comparisons=(), is_comparable=False, differences=(gate,)), bundle="")
    assert "Not comparable" in page and "--accept load.think" in page and "50ms" in page
    assert page_data(page)["figures"] == {}


def test_a_chart_of_many_cells_is_limited() -> None:
    samples = [
        type(sample)(sample.metric, {"load.testers": str(at)}, sample.old, sample.new)
        for at in range(20)
        for sample in SAMPLES[:1]
    ]
    page = comparison_page(result(comparisons=compare(samples), samples=tuple(samples)), bundle="")
    assert "8 more panels are left out" in page


def test_the_page_names_the_runs_of_a_control() -> None:
    page = comparison_page(result(control=SideSummary("a again", 5, 1, 0)), bundle="")
    assert "control: 5 runs, 4 valid, 1 invalid (left out)" in page


def test_the_answer_of_a_paired_design_begins_with_the_comparison() -> None:
    page = render(replace(designed(), comparison=FULL), set_up(), bundle="")
    answer = page.split('<div class="answer">')[1].split("</div>")[0]
    lead, first = re.findall(r"<p[^>]*>(.*?)</p>", answer)[:2]
    assert lead == f"{FULL.new.name} compared with {FULL.old.name}: 2 of 4 comparisons are slower or worse."
    assert first.startswith("slower: p95 of response time")
