"""Every verdict contains the rule that made it, with its version."""

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
from plimsoll.analyse.results.verdict_rules import RULES, RuleName, combined_version, rule, rule_of
from plimsoll.analyse.results.verdicts import RunReason, Topic
from plimsoll.api import analysis

DATA = Path(__file__).resolve().parents[2] / "data"


def test_each_rule_is_in_the_table_once_with_one_sentence() -> None:
    assert [rule_.name for rule_ in RULES] == list(dict.fromkeys(rule_.name for rule_ in RULES))
    assert {rule_.name for rule_ in RULES} == set(RuleName)
    for rule_ in RULES:
        assert rule_.version >= 1
        assert (
            rule_.statement[0].isupper()
            and rule_.statement.endswith(".")
            and rule_.statement.count(". ") == 0
        )


def test_the_version_of_validity_rises_with_its_rules() -> None:
    checks = [rule_ for rule_ in RULES if rule_.name.startswith("validity.")]
    assert rule(RuleName.VALIDITY).version == combined_version(checks)
    changed = [replace(check, version=check.version + (at == 3)) for at, check in enumerate(checks)]
    assert combined_version(changed) == combined_version(checks) + 1


@pytest.mark.parametrize("reason", RunReason)
def test_each_reason_against_a_run_has_its_rule(reason: RunReason) -> None:
    assert rule_of(reason) in [rule(name) for name in RuleName]


def test_the_rules_are_documented() -> None:
    methods = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    assert [rule_.name for rule_ in RULES if f"| `{rule_.name}` | {rule_.version} |" not in methods] == []


def made_by(holder: dict[str, Any], key: str = "rule") -> str:
    """The name of the rule behind a verdict, which has a version."""
    rule_ = holder[key]
    assert rule_["version"] >= 1
    return str(rule_["name"])


@pytest.mark.parametrize("directory", ["results-v1", "results-hosts-v1"])
def test_every_verdict_of_a_document_has_its_rule(directory: str) -> None:
    document = as_document(analysis(DATA / directory))
    assert document["format"] == "plimsoll.analysis/1"
    assert [rule_["name"] for rule_ in document["rules"]] == [rule_.name for rule_ in RULES]
    for run in document["runs"]:
        assert made_by(run, "validity_rule") == "validity"
        assert made_by(run, "bottleneck_rule") == made_by(run["bottleneck_why"]) == "bottleneck"
        assert run["bottleneck_reason"] == run["bottleneck_why"]["text"]
        texts = [reason["text"] for reason in run["reasons"]]
        assert texts == [*run["invalid_reasons"], *run["doubtful_reasons"]]
    for cell in document["cells"]:
        assert made_by(cell, "bottleneck_rule") == "bottleneck.common"
    for saturation in document["saturation"]:
        assert made_by(saturation) == "saturation"
        for capacity in saturation["capacities"]:
            assert made_by(capacity) == f"capacity.{capacity['kind']}"
            assert capacity["remark"] == "; ".join(reason["text"] for reason in capacity["reasons"])
    for verdict in document["verdicts"]:
        assert made_by(verdict) == "threshold"
    assert [finding["text"] for finding in document["findings"]] == document["answer"]


def of_topic(whole: Analysis, topic: Topic) -> list[tuple[str, str]]:
    selected = [finding for finding in findings(whole) if finding.topic == topic]
    return [(finding.verdict, finding.rule.name if finding.rule else "") for finding in selected]


def test_findings_contain_topic_and_rule() -> None:
    whole = designed(finished=20)
    assert [finding.text for finding in findings(whole)] == list(whole.answer)
    assert of_topic(whole, Topic.PROGRESS) == [("", "")]
    assert of_topic(whole, Topic.RANKING) == [("highest", "capacity.ranking")]
    assert of_topic(whole, Topic.THRESHOLDS) == [("", "")]
    assert of_topic(wan(), Topic.SITES_FAIRNESS) == [("alike", "fairness.sites")]
