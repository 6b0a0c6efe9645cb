"""`plimsoll analyse` if an analysis.json of other rules exists."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.cli.main import main

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A copy of real results."""
    copy = tmp_path / "results"
    shutil.copytree(DATA / "results-v1", copy)
    return copy


def read(results: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((results / "analysis.json").read_text(encoding="utf-8"))
    return document


def analyse(results: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    code = main(["analyse", str(results), *more])
    return code, " ".join(capsys.readouterr().out.split())


def test_both_verdicts_are_stored_shown_and_transferred(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = analyse(results, capsys)
    earlier = read(results)
    for rule_version in earlier["rules"]:
        rule_version["version"] -= rule_version["name"] == "saturation"
    earlier["saturation"][0] |= {"verdict": "bracketed", "lower": 1.0, "upper": 2.0}
    earlier["saturation"][0]["rule"]["version"] = 1
    earlier["superseded"] = []
    (results / "analysis.json").write_text(json.dumps(earlier), encoding="utf-8")
    again, out = analyse(results, capsys)
    assert again == code, "a newer rule changes no exit code by itself"
    assert "superseded........: The target (throughput): saturation was bracketed" in out
    document = read(results)
    assert document["format"] == "plimsoll.analysis/1"
    (superseded,) = document["superseded"]
    assert (superseded["what"], superseded["subject"]) == (
        "saturation",
        {"combination": {}, "metric": "throughput_per_s"},
    )
    assert superseded["earlier"] == {
        "verdict": "bracketed",
        "rule": "saturation",
        "version": 1,
        "values": {"lower": 1.0, "upper": 2.0},
    }
    assert (
        superseded["now"]["verdict"] == "cannot be said"
        and superseded["now"]["version"] == rule(RuleName.SATURATION).version
    )
    assert superseded["text"].startswith("The target (throughput): saturation was bracketed")
    assert "rule saturation, version 1" in (results / "report.html").read_text(encoding="utf-8")
    analyse(results, capsys)
    assert read(results)["superseded"] == [superseded], "carried over"
    _, shown = analyse(results, capsys, "--json")
    assert json.loads(shown)["superseded"] == [superseded]


def test_an_analysis_of_a_release_that_recorded_no_rules(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = read(results)
    assert "rules" not in earlier
    earlier["runs"][1]["valid"] = False
    (results / "analysis.json").write_text(json.dumps(earlier), encoding="utf-8")
    analyse(results, capsys)
    texts = [superseded["text"] for superseded in read(results)["superseded"]]
    newest = rule(RuleName.VALIDITY).version
    assert (
        f"Run 0002: validity was invalid (no rule recorded) and is valid (rule validity, version {newest})."
        in texts
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


def effects_of_table(
    path: Path, rows: list[str], capsys: pytest.CaptureFixture[str]
) -> dict[tuple[str, str], float]:
    path.write_text("\n".join(["load,way,y", *rows]) + "\n", encoding="utf-8")
    assert main(["analyse", str(path), "--response", "y", "--factors", "load,way", "--json"]) == 0
    effects = json.loads(capsys.readouterr().out)["effects"]
    return {(effect["term"], effect["level"]): effect["effect"] for effect in effects}


def test_the_order_of_the_rows_changes_no_sign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Levels that are numbers are sorted: 10 is the high one, not the low one. An empty field is no level."""
    rows = ["2,a,1", "10,a,5", "2,b,1.5", "10,b,5.5", "2,a,1.1", "10,a,5.1", "2,b,1.6", "10,b,5.6"]
    first = effects_of_table(tmp_path / "one.csv", rows, capsys)
    second = effects_of_table(tmp_path / "other.csv", [rows[1], rows[0], *rows[2:]], capsys)
    assert first == pytest.approx(second) and list(first) == list(second)
    assert first["load", "10"] == pytest.approx(2) and first["load", "2"] == pytest.approx(-2)
    nested = effects_of_table(tmp_path / "nested.csv", [*rows, "2,,1.2", "10,,5.2"], capsys)
    assert ("way", "") not in nested and ("way", "a") in nested


def test_a_table_with_numbers_has_regressions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "table.csv"
    rows = [
        f"{size}kB,{zip_},{100 * size**-0.5 * (1 + 0.01 * ((3 * size + 7 * r + len(zip_)) % 5))}"
        for r in range(3)
        for size in (1, 2, 4, 8)
        for zip_ in ("on", "off")
    ]
    path.write_text("\n".join(["size,zip,rate", *rows]) + "\n", encoding="utf-8")
    words = ["analyse", str(path), "--response", "rate", "--factors", "size,zip"]
    assert main([*words, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["regressions"]
    chosen = found["fits"][found["chosen"]]
    assert (found["factors"], found["others"], found["units"]) == (["size"], ["zip"], {"size": "B"})
    assert (chosen["form"], chosen["slopes"]) == ("log-log", "common")
    assert chosen["coefficients"][-1]["interval"]["mean"] == pytest.approx(-0.5, abs=0.02)
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "regression on size" in out and "log-log (reported)" in out
    assert "The rate is proportional to size^-0." in out and "at each level of zip; the model fits" in out
