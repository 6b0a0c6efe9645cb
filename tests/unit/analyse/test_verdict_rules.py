"""Every verdict carries the rule that made it, with its version."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ROOT
from tests.golden.fixture import designed, wan

from plimsoll.analyse.answer.compose import findings
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.document import as_document
from plimsoll.analyse.results.verdict_rules import RULES, RuleName, newest, rule, rule_of
from plimsoll.analyse.results.verdicts import RunReason, Topic
from plimsoll.api import analysis

DATA = Path(__file__).resolve().parents[2] / "data"


def test_each_rule_stands_in_the_table_once_with_one_sentence() -> None:
    assert [each.name for each in RULES] == list(dict.fromkeys(each.name for each in RULES))
    assert {each.name for each in RULES} == set(RuleName)
    for each in RULES:
        assert each.version >= 1
        assert (
            each.statement[0].isupper() and each.statement.endswith(".") and each.statement.count(". ") == 0
        )


def test_validity_is_as_new_as_the_rules_that_it_is_made_of() -> None:
    checks = [each for each in RULES if each.name.startswith("validity.")]
    assert rule(RuleName.VALIDITY).version == newest(checks)
    changed = [replace(each, version=each.version + (at == 3)) for at, each in enumerate(checks)]
    assert newest(changed) == newest(checks) + 1


@pytest.mark.parametrize("reason", RunReason)
def test_each_reason_against_a_run_has_its_rule(reason: RunReason) -> None:
    assert rule_of(reason) in [rule(name) for name in RuleName]


def test_the_rules_are_documented() -> None:
    methods = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    assert [each.name for each in RULES if f"| `{each.name}` | {each.version} |" not in methods] == []


def made_by(holder: dict[str, Any], key: str = "rule") -> str:
    """The name of the rule behind a verdict, which has a version."""
    found = holder[key]
    assert found["version"] >= 1
    return str(found["name"])


@pytest.mark.parametrize("directory", ["results-v1", "results-hosts-v1"])
def test_every_verdict_of_a_document_has_its_rule(directory: str) -> None:
    document = as_document(analysis(DATA / directory))
    assert document["format"] == "plimsoll.analysis/1"
    assert [each["name"] for each in document["rules"]] == [each.name for each in RULES]
    for run in document["runs"]:
        assert made_by(run, "validity_rule") == "validity"
        assert made_by(run, "bottleneck_rule") == made_by(run["bottleneck_why"]) == "bottleneck"
        assert run["bottleneck_reason"] == run["bottleneck_why"]["text"]
        told = [each["text"] for each in run["reasons"]]
        assert told == [*run["invalid_reasons"], *run["doubtful_reasons"]]
    for cell in document["cells"]:
        assert made_by(cell, "bottleneck_rule") == "bottleneck.common"
    for one in document["saturation"]:
        assert made_by(one) == "saturation"
        for capacity in one["capacities"]:
            assert made_by(capacity) == f"capacity.{capacity['kind']}"
            assert capacity["remark"] == "; ".join(each["text"] for each in capacity["reasons"])
    for verdict in document["verdicts"]:
        assert made_by(verdict) == "threshold"
    assert [each["text"] for each in document["findings"]] == document["answer"]


def of_topic(whole: Analysis, topic: Topic) -> list[tuple[str, str]]:
    found = [each for each in findings(whole) if each.topic == topic]
    return [(each.verdict, each.rule.name if each.rule else "") for each in found]


def test_findings_say_what_they_are_about_and_which_rule_made_them() -> None:
    whole = designed(finished=20)
    assert [each.text for each in findings(whole)] == list(whole.answer)
    assert of_topic(whole, Topic.PROGRESS) == [("", "")]
    assert of_topic(whole, Topic.RANKING) == [("highest", "capacity.ranking")]
    assert of_topic(whole, Topic.THRESHOLDS) == [("", "")]
    assert of_topic(wan(), Topic.SITES_FAIRNESS) == [("alike", "fairness.sites")]
