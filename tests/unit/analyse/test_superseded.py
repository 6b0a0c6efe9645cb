"""Verdicts that newer rules supersede are kept with those of the earlier analysis, and reported."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from tests.golden.fixture import designed, set_up

from plimsoll.analyse.answer.worded import worded_superseded
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.document import as_document
from plimsoll.analyse.results.superseded import NotComparable, with_superseded
from plimsoll.analyse.results.verdict_rules import RULES, RuleName, rule
from plimsoll.report.html import render
from plimsoll.report.terminal import summary_lines


def now() -> Analysis:
    """An analysis with the present rules."""
    whole = designed(seconds=4)
    validity, bottleneck = rule(RuleName.VALIDITY), rule(RuleName.BOTTLENECK)
    return replace(
        whole,
        runs=tuple(
            replace(run, validity_rule=validity, bottleneck_rule=bottleneck, doubtful_reasons=())
            for run in whole.runs
        ),
        saturation=tuple(
            replace(saturation, rule=rule(RuleName.SATURATION)) for saturation in whole.saturation
        ),
        verdicts=tuple(replace(verdict, rule=rule(RuleName.THRESHOLD)) for verdict in whole.verdicts),
        rules=RULES,
    )


def document(whole: Analysis) -> dict[str, Any]:
    return copy.deepcopy(as_document(whole))


def older(whole: Analysis, name: RuleName, **found: Any) -> dict[str, Any]:
    """The document as version 0 of a rule would have left it; `found` changes the first verdict of that rule."""
    made = document(whole)
    for rule_ in made["rules"]:
        rule_["version"] -= rule_["name"] == name
    holders = {
        RuleName.VALIDITY: (made["runs"], "validity_rule"),
        RuleName.BOTTLENECK: (made["runs"], "bottleneck_rule"),
        RuleName.SATURATION: (made["saturation"], "rule"),
        RuleName.THRESHOLD: (made["verdicts"], "rule"),
    }
    some, key = holders[name]
    for rule_ in some:
        rule_[key]["version"] -= 1
    some[0].update(found)
    return made


def told(whole: Analysis, earlier: dict[str, Any]) -> list[str]:
    return [
        entry.text.replace("\u00a0", " ")
        for entry in worded_superseded(with_superseded(whole, earlier)).superseded
    ]


def test_the_same_verdicts_supersede_nothing() -> None:
    whole = now()
    assert with_superseded(whole, document(whole)).superseded == ()
    assert told(whole, older(whole, RuleName.VALIDITY)) == [], "another version that states the same"


def test_a_different_verdict_of_the_same_version_is_not_superseded() -> None:
    whole = now()
    earlier = document(whole)
    earlier["runs"][0]["valid"] = False
    assert told(whole, earlier) == []


def test_both_verdicts_on_a_run_are_kept() -> None:
    whole = now()
    version = rule(RuleName.VALIDITY).version
    (entry,) = with_superseded(whole, older(whole, RuleName.VALIDITY, valid=False)).superseded
    assert (entry.what, entry.subject, entry.changed) == ("validity", {"run": "0001"}, ("validity",))
    assert (entry.earlier.verdict, entry.earlier.rule, entry.earlier.version) == (
        "invalid",
        "validity",
        version - 1,
    )
    assert (entry.now.verdict, entry.now.rule, entry.now.version) == ("valid", "validity", version)
    assert told(whole, older(whole, RuleName.VALIDITY, valid=False)) == [
        f"Run 0001: validity was invalid (rule validity, version {version - 1}) and is valid "
        f"(rule validity, version {version})."
    ]


def test_an_analysis_that_recorded_no_rules() -> None:
    whole = now()
    earlier = document(whole)
    del earlier["rules"], earlier["findings"], earlier["superseded"]
    for entry in (*earlier["runs"], *earlier["saturation"], *earlier["verdicts"], *earlier["cells"]):
        for key in ("validity_rule", "bottleneck_rule", "rule", "verdict" if "counts" in entry else "rule"):
            entry.pop(key, None)
    earlier["runs"][0]["bottleneck"] = "host"
    here, newest = whole.runs[0].bottleneck, rule(RuleName.BOTTLENECK).version
    assert told(whole, earlier) == [
        f"Run 0001: bottleneck was host (no rule recorded) and is {here} (rule bottleneck, version {newest})."
    ]


def test_the_ends_of_a_bracket_belong_to_its_verdict() -> None:
    whole = now()
    version = rule(RuleName.SATURATION).version
    assert told(whole, older(whole, RuleName.SATURATION, lower=4.0, upper=8.0)) == [
        f"Zip level 0 (throughput): saturation was bracketed, lower 4.00, upper 8.00 (rule saturation, version "
        f"{version - 1}) and is bracketed, lower 2.00, upper 4.00 (rule saturation, version {version})."
    ]


def test_a_threshold_by_its_metric_its_test_and_its_cell() -> None:
    whole = now()
    (text,) = told(whole, older(whole, RuleName.THRESHOLD, passed=False))
    assert text.startswith("Zip level 0 and testers 8 (response time p(95)<500ms): threshold was failed (")


def test_a_verdict_that_rests_on_a_rule_that_changed() -> None:
    whole = now()
    earlier = older(whole, RuleName.VALIDITY, valid=False)
    earlier["saturation"][0]["verdict"] = "not reached"
    entries = with_superseded(whole, earlier).superseded
    assert [(entry.what, entry.changed) for entry in entries] == [
        ("validity", ("validity",)),
        ("saturation", ("validity",)),
    ]
    version = rule(RuleName.SATURATION).version
    assert told(whole, earlier)[1].endswith(f"(rule saturation, version {version}; changed: validity).")


def test_other_measurements_are_not_compared() -> None:
    """A run that was repeated, and verdicts over all runs."""
    whole = now()
    earlier = older(whole, RuleName.VALIDITY, valid=False)
    earlier["saturation"][0]["verdict"] = "not reached"
    earlier["runs"][0]["counts"]["succeeded"] += 1
    assert told(whole, earlier) == []
    earlier["runs"][1]["valid"] = not earlier["runs"][1]["valid"]
    assert [text[:8] for text in told(whole, earlier)] == ["Run 0002"]


def test_earlier_superseded_verdicts_are_kept_once() -> None:
    whole = now()
    first = worded_superseded(with_superseded(whole, older(whole, RuleName.VALIDITY, valid=False)))
    second = worded_superseded(with_superseded(whole, document(first)))
    assert second.superseded == first.superseded and len(second.superseded) == 1
    again = older(first, RuleName.VALIDITY, valid=False)
    assert worded_superseded(with_superseded(whole, again)).superseded == first.superseded


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"runs": 1},
        {"runs": [1]},
        {"runs": [], "cells": [{}]},
        {"runs": [], "cells": [], "saturation": [], "verdicts": [], "superseded": [{"what": "x"}]},
        {"runs": [{"id": [], "counts": {}}]},
    ],
)
def test_a_malformed_analysis_is_not_comparable(broken: dict[str, Any]) -> None:
    with pytest.raises(NotComparable, match="form of an analysis"):
        with_superseded(now(), broken)


def test_summary_and_report_show_both() -> None:
    whole = now()
    result = worded_superseded(with_superseded(whole, older(whole, RuleName.VALIDITY, valid=False)))
    result = replace(result, notes=("A note <b>.",))
    before = rule(RuleName.VALIDITY).version - 1
    lines = " ".join(" ".join(summary_lines(result, 100)).split())
    assert (
        f"superseded........: Run 0001: validity was invalid (rule validity, version {before}) and is valid"
        in lines
    )
    assert "note..............: A note <b>." in lines
    page = render(result, set_up(False), bundle="")
    assert "Verdicts changed by newer rules" in page
    assert f"rule validity, version {before}" in page and "A note &lt;b&gt;." in page
    assert "Superseded verdicts" not in render(whole, set_up(False), bundle="")


def test_of_many_the_summary_shows_some() -> None:
    whole = now()
    earlier = older(whole, RuleName.VALIDITY)
    for run in earlier["runs"]:
        run["valid"] = not run["valid"]
    result = worded_superseded(with_superseded(whole, earlier))
    assert len(result.superseded) == 24
    assert any("14 more verdicts: see analysis.json" in line for line in summary_lines(result, 100))
