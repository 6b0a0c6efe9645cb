"""`plimsoll analyse` beside an analysis.json of other rules."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from plimsoll.analyse.verdict_rules import RuleName, rule
from plimsoll.cli.main import main

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A copy of real results."""
    copy = tmp_path / "results"
    shutil.copytree(DATA / "results-v1", copy)
    return copy


def read(results: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((results / "analysis.json").read_text(encoding="utf-8"))
    return found


def analyse(results: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    code = main(["analyse", str(results), *more])
    return code, " ".join(capsys.readouterr().out.split())


def test_both_verdicts_are_kept_and_shown_and_carried_over(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = analyse(results, capsys)
    earlier = read(results)
    for one in earlier["rules"]:
        one["version"] -= one["name"] == "saturation"
    earlier["saturation"][0] |= {"verdict": "bracketed", "lower": 1.0, "upper": 2.0}
    earlier["saturation"][0]["rule"]["version"] = 1
    earlier["superseded"] = []
    (results / "analysis.json").write_text(json.dumps(earlier), encoding="utf-8")
    again, out = analyse(results, capsys)
    assert again == code, "a newer rule changes no exit code by itself"
    assert "superseded........: The target (throughput): saturation was bracketed" in out
    document = read(results)
    assert document["format"] == "plimsoll.analysis/1"
    (each,) = document["superseded"]
    assert (each["what"], each["subject"]) == (
        "saturation",
        {"combination": {}, "metric": "throughput_per_s"},
    )
    assert each["earlier"] == {
        "verdict": "bracketed",
        "rule": "saturation",
        "version": 1,
        "values": {"lower": 1.0, "upper": 2.0},
    }
    assert (
        each["now"]["verdict"] == "cannot be said"
        and each["now"]["version"] == rule(RuleName.SATURATION).version
    )
    assert each["text"].startswith("The target (throughput): saturation was bracketed")
    assert "rule saturation, version 1" in (results / "report.html").read_text(encoding="utf-8")
    analyse(results, capsys)
    assert read(results)["superseded"] == [each], "carried over"
    _, shown = analyse(results, capsys, "--json")
    assert json.loads(shown)["superseded"] == [each]


def test_an_analysis_of_a_release_that_recorded_no_rules(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = read(results)
    assert "rules" not in earlier
    earlier["runs"][1]["valid"] = False
    (results / "analysis.json").write_text(json.dumps(earlier), encoding="utf-8")
    analyse(results, capsys)
    found = [each["text"] for each in read(results)["superseded"]]
    newest = rule(RuleName.VALIDITY).version
    assert (
        f"Run 0002: validity was invalid (no rule recorded) and is valid (rule validity, version {newest})."
        in found
    )


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "{",
        "[]",
        '{"format": "plimsoll.analysis/9"}',
        '{"format": "plimsoll.analysis/1"}',
        "\x00",
        "[" * 99999,
    ],
)
def test_an_earlier_analysis_that_cannot_be_read_is_noted(
    results: Path, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    code, _ = analyse(results, capsys)
    (results / "analysis.json").write_text(broken, encoding="utf-8")
    again, out = analyse(results, capsys)
    assert again == code
    assert "note..............: The earlier analysis.json was not compared with this one:" in out
    document = read(results)
    assert document["superseded"] == [] and len(document["notes"]) == 1


def test_other_options_compare_nothing(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (results / "analysis.json").write_text("{", encoding="utf-8")
    _, out = analyse(results, capsys, "--fast", "--json")
    assert json.loads(out)["notes"] == []
    assert (results / "analysis.json").read_text(encoding="utf-8") == "{", "not replaced either"
