"""Summaries of results directories, and their stored form."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from studies.__main__ import main
from studies.summary import Summary, load, save, summarise
from tests.conftest import ROOT

from plimsoll import api
from plimsoll.analyse.results.analysis import Consistency, ConsistencyResult
from plimsoll.analyse.results.run import StageResult
from plimsoll.analyse.stats.interval import Interval
from plimsoll.errors import BadInput

RESULTS = ROOT / "tests" / "data" / "results-v1"


@pytest.fixture(scope="module")
def summary() -> Summary:
    environment = json.loads((RESULTS / "environment.json").read_text(encoding="utf-8"))
    return summarise("example", api.analysis(RESULTS), environment)


def test_a_summary_has_the_figures_of_the_analysis(summary: Summary) -> None:
    analysis = api.analysis(RESULTS)
    valid = [run for run in analysis.runs if run.valid]
    assert summary.valid == len(valid) > 0
    assert summary.requests == sum(run.traffic.transactions for run in valid)
    shares = [tier.share for run in valid for tier in run.tiers if tier.share is not None]
    assert summary.count_difference == max(map(abs, shares), default=None)
    assert summary.answer == list(analysis.answer)
    for stored, cell in zip(summary.cells, analysis.cells, strict=True):
        assert stored.levels == cell.cell and stored.runs == cell.valid
        mean, low, high = stored.figures["throughput_per_s"]
        interval = cell.responses["throughput_per_s"]
        assert mean == pytest.approx(interval.mean, rel=1e-4)
        assert low == pytest.approx(interval.low, rel=1e-4) and high == pytest.approx(interval.high, rel=1e-4)
        assert all(0 <= least <= most for least, most in stored.busy.values())


def test_the_stages_of_a_load_are_means_over_the_runs() -> None:
    analysis = api.analysis(RESULTS)
    runs = [
        replace(
            run, stages=(StageResult(1, "few", 0.0, 1.0, replace(run.traffic, throughput_per_s=float(at))),)
        )
        for at, run in enumerate(analysis.runs)
    ]
    environment = json.loads((RESULTS / "environment.json").read_text(encoding="utf-8"))
    staged = summarise("example", replace(analysis, runs=tuple(runs)), environment)
    for cell in staged.cells:
        rates = [at for at, run in enumerate(runs) if run.valid and run.cell == cell.levels]
        times = [run.traffic.response_ms.mean for run in runs if run.valid and run.cell == cell.levels]
        assert cell.stages["throughput_per_s"] == {"few": pytest.approx(sum(rates) / len(rates), rel=1e-4)}
        known = [time for time in times if time is not None]
        assert cell.stages["response_ms_mean"] == {"few": pytest.approx(sum(known) / len(known), rel=1e-4)}


def test_cells_have_the_figures_of_their_readers_and_levels_follow_them() -> None:
    analysis = api.analysis(RESULTS)
    levels = [cell.cell for cell in analysis.cells]
    factor, whole = "policy", {"policy": "none"}

    def read(cell: dict[str, str], share: float) -> Consistency:
        return Consistency(cell, 2, 1000, 3, Interval(share, 0.0, 2 * share), None, 5.0, None, 0.25, None, {})

    found = ConsistencyResult(
        tuple(read(cell, 0.001 * (at + 1)) for at, cell in enumerate(levels)), factor, (read(whole, 0.5),)
    )
    environment = json.loads((RESULTS / "environment.json").read_text(encoding="utf-8"))
    cells = summarise("example", replace(analysis, consistency=found), environment).cells
    assert [cell.levels for cell in cells] == [*levels, whole]
    for at, cell in enumerate(cells[:-1]):
        share = 0.001 * (at + 1)
        assert cell.figures["stale_share"] == pytest.approx([share, 0.0, 2 * share])
        assert cell.figures["origin_share"] == [0.25, None, None] and "throughput_per_s" in cell.figures
    assert cells[-1].figures == {
        "stale_share": [0.5, 0.0, 1.0], "stale_age_ms_p95": [5.0, None, None], "origin_share": [0.25, None, None]
    }  # fmt: skip


def test_the_stored_form_is_small_and_complete(summary: Summary, tmp_path: Path) -> None:
    path = tmp_path / "results" / "example.json"
    save(summary, path)
    assert load(path) == summary
    assert path.stat().st_size < 20_000
    tree = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**tree, "format": "plimsoll.study-summary/2"}), encoding="utf-8")
    with pytest.raises(BadInput, match=r"expected the format plimsoll.study-summary/1, got 'plimsoll"):
        load(path)


def test_a_results_directory_is_stored_under_the_name_of_its_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", str(RESULTS), "studies/x/01-example.yaml", "--folder", str(tmp_path)]) == 0
    path = tmp_path / "results" / "01-example.json"
    assert capsys.readouterr().out == f"{path}\n"
    assert load(path).study == "01-example"
    missing = tmp_path / "02.yaml"
    missing.write_text("plimsoll: 1\n", encoding="utf-8")
    assert main(["measure", str(missing)]) == 2
    assert "expected a line `# page: --set PATH=VALUE ...` in the header" in capsys.readouterr().err
