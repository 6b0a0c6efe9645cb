"""Comparisons of results directories: copies of recorded results, with changes that a comparison has to notice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plimsoll.assemble.compare import compare_levels, compare_paths, stored_runs
from plimsoll.cli.results.compare import exit_code
from plimsoll.compare.model import Method, Verdict
from plimsoll.compare.result import ComparisonResult, as_document
from plimsoll.compare.stored import baseline_document
from plimsoll.drive.directory import write_json
from plimsoll.errors import BadInput, DamagedResults
from plimsoll.report.compare.comparison import comparison_lines, comparison_markdown

RECORDED = Path(__file__).resolve().parents[2] / "data" / "results-v1"
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    """Four copies of results with two cells of one run each."""
    return [Path(shutil.copytree(RECORDED, tmp_path / name)) for name in "abcd"]


def change(path: Path, how: Change) -> None:
    document = json.loads(path.read_text())
    how(document)
    path.write_text(json.dumps(document))


def change_runs(directory: Path, how: Change) -> None:
    for record in directory.glob("runs/*/run.json"):
        change(record, how)


def compared(copies: list[Path], *accept: str) -> ComparisonResult:
    return compare_paths(copies[:2], copies[2:], 0.03, accept)


def test_equal_directories_are_the_same_in_every_metric_with_enough_transactions(copies: list[Path]) -> None:
    result = compared(copies)
    assert result.is_comparable and not result.differences and not result.unmatched
    assert {comparison.cell["load.testers"] for comparison in result.comparisons} == {"1", "2"}
    metrics = {comparison.metric.partition(" =")[0] for comparison in result.comparisons}
    assert {
        "throughput",
        "response_p50",
        "errors",
        "wire_bytes_per_transaction",
        "cpu_per_transaction.web",
        "memory.web",
    } <= metrics
    # So few transactions do not exclude errors of half a percentage point; all other values are equal.
    for comparison in result.comparisons:
        wanted = Verdict.UNDECIDED if comparison.metric == "errors" else Verdict.SAME
        assert comparison.verdict is wanted, comparison
        assert (comparison.old_runs, comparison.new_runs, comparison.method) == (2, 2, Method.WELCH)
    assert exit_code(result) == 0 and exit_code(result, fails_on_undecided=True) == 99
    document = as_document(result)
    assert document["format"] == "plimsoll.comparison/1" and json.loads(json.dumps(document)) == document


def test_a_difference_in_the_load_is_a_gate_until_it_is_accepted(copies: list[Path]) -> None:
    change_runs(copies[2], lambda record: record["effective"]["load"].update(think="50ms"))
    result = compared(copies)
    assert not result.is_comparable and result.comparisons == () and exit_code(result) == 97
    [found] = result.differences
    assert (found.path, found.old, found.new, found.directory) == (
        "load.think",
        "20ms",
        "50ms",
        str(copies[2]),
    )
    text = " ".join(" ".join(comparison_lines(result, 100)).split())
    assert "Not comparable" in text and "--accept load.think" in text and "50ms" in text
    assert "not comparable" in comparison_markdown(result)
    accepted = compared(copies, "load.think")
    assert accepted.is_comparable and accepted.differences[0].is_accepted and exit_code(accepted) == 0


def test_hosts_and_the_design_are_gates_and_services_and_versions_are_listed(copies: list[Path]) -> None:
    change_runs(copies[3], lambda record: record["effective"]["services"]["web"].update(body="1kB"))
    change(copies[3] / "environment.json", lambda facts: facts["versions"].update(plimsoll="0.2.0"))
    listed = compared(copies)
    assert {found.path for found in listed.differences} == {"services.web.body", "versions.plimsoll"}
    assert listed.is_comparable and exit_code(listed) == 0
    assert "services, targets and versions" in "\n".join(comparison_lines(listed, 100))
    change(copies[3] / "environment.json", lambda facts: facts["cpu"].update(cores=64))
    change(copies[3] / "plan.json", lambda plan: plan["design"].update(order="as-written"))
    gated = [found.path for found in compared(copies).differences if found.is_gate]
    assert gated == ["design.order", "host.cpu.cores"]


def test_invalid_runs_are_left_out_and_counted(copies: list[Path]) -> None:
    change(
        copies[0] / "runs" / "0001" / "run.json", lambda record: record.update(status="failed", reason="x")
    )
    result = compared(copies)
    assert (result.old.runs, result.old.invalid, result.new.invalid) == (4, 1, 0)
    few = [one for one in result.comparisons if one.old_runs == 1]
    assert few and all(one.verdict is Verdict.UNDECIDED and one.interval is None for one in few)
    assert "invalid (left out)" in "\n".join(comparison_lines(result, 100))


def test_a_cell_without_a_valid_run_on_a_side_is_an_invalid_measurement(copies: list[Path]) -> None:
    for copy in copies[:2]:
        change(copy / "runs" / "0001" / "run.json", lambda record: record.update(status="failed", reason="x"))
    result = compared(copies)
    assert len(result.without_valid) == 1 and exit_code(result) == 97
    assert "without a valid run" in "\n".join(comparison_lines(result, 100))


def test_input_that_cannot_be_compared_is_refused(copies: list[Path]) -> None:
    with pytest.raises(BadInput, match="results without repetitions"):
        compare_paths(copies[:1], copies[1:], 0.03)
    with pytest.raises(BadInput, match="given twice"):
        compare_paths(copies[:2], [copies[1] / ".." / "a", copies[2]], 0.03)
    change(copies[3] / "plan.json", lambda plan: plan["experiment"].update(name="other"))
    with pytest.raises(
        BadInput, match=r'contains the experiment "small", .* contains the experiment "other"'
    ):
        compared(copies)


def test_levels_that_do_not_exist_are_refused_with_those_that_do(copies: list[Path]) -> None:
    for by, message in (
        ("build", 'no factor "build"; its factors: load.testers'),
        ("load.testers=1,9", 'no level "9"; its levels: 1, 2'),
        ("load.testers=1", "expected two levels, got 1"),
        ("load.testers", "results without repetitions"),
    ):
        with pytest.raises(BadInput, match=message):
            compare_levels(copies[0], by, 0.03)


def stored(path: Path, directories: list[Path]) -> Path:
    write_json(path, baseline_document("2026-11-27T20:00:00+00:00", "0.1.0", stored_runs(directories)))
    return path


def test_a_baseline_leads_to_the_verdicts_of_its_directories(copies: list[Path], tmp_path: Path) -> None:
    def slower(record: dict[str, Any]) -> None:
        record["effective"]["services"]["web"].update(body="1kB")

    change_runs(copies[2], slower)
    change(
        copies[0] / "runs" / "0001" / "run.json", lambda record: record.update(status="failed", reason="x")
    )
    file = stored(tmp_path / "main.json", copies[:2])
    wanted = as_document(compared(copies))
    for directory in copies[:2]:
        shutil.rmtree(directory)
    found = as_document(compare_paths([file], copies[2:], 0.03))
    for side in ("comparisons", "samples", "serial", "short", "without_valid", "differences"):
        assert found[side] == wanted[side], side
    assert {**found["old"], "name": ""} == {**wanted["old"], "name": ""} and str(file) in found["old"]["name"]
    # The checks of comparability work without the directories, too.
    change_runs(copies[3], lambda record: record["effective"]["load"].update(think="50ms"))
    assert not compare_paths([file], copies[2:], 0.03).is_comparable


def test_a_baseline_that_cannot_be_read_is_refused(copies: list[Path], tmp_path: Path) -> None:
    file = stored(tmp_path / "main.json", copies[:2])
    change(file, lambda document: document["sources"][0]["runs"][0].update(order="first"))
    with pytest.raises(
        DamagedResults, match=r"main.json: sources.0.runs.0.order: .*store the baseline again"
    ):
        compare_paths([file], copies[2:], 0.03)
    change(file, lambda document: document.update(format="plimsoll.compared-runs/2"))
    with pytest.raises(DamagedResults, match="use a newer Plimsoll"):
        compare_paths([file], copies[2:], 0.03)


def test_a_baseline_needs_valid_runs_of_one_setup(copies: list[Path]) -> None:
    change_runs(copies[1], lambda record: record["effective"]["load"].update(think="50ms"))
    with pytest.raises(BadInput, match=r"differs from .* in load.think \(20ms, 50ms\)"):
        stored_runs(copies[:2])
    change_runs(copies[0], lambda record: record.update(status="failed", reason="x"))
    with pytest.raises(BadInput, match="no valid run"):
        stored_runs(copies[:1])


def test_results_without_runs_and_paths_without_results_are_named(copies: list[Path], tmp_path: Path) -> None:
    shutil.rmtree(copies[0] / "runs")
    shutil.rmtree(copies[1] / "runs")
    with pytest.raises(BadInput, match="no run has measurements"):
        compared(copies)
    with pytest.raises(BadInput, match="missing does not exist"):
        compare_paths([tmp_path / "missing"], copies[2:], 0.03)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DamagedResults, match=r"empty is not a results directory"):
        compare_paths([tmp_path / "empty"], copies[2:], 0.03)
