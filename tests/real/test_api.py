"""`plimsoll.api` on real results: the example notebook, data frames, the files of the table of runs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from plimsoll import api
from plimsoll.errors import BadInput, DamagedResults
from tests.conftest import ROOT, Lab

NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the cells of the notebook define, run in order."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path_factory.mktemp("notebook"))
        for cell in cells:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
        names["results"] = Path.cwd() / names["results"]
    return names


def test_the_notebook_is_stripped() -> None:
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_the_table_of_runs(ran: dict[str, Any]) -> None:
    table = ran["table"]
    assert sorted(table["load.testers"]) == [1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
    assert str(table["start"].dt.tz) == "UTC"
    assert table["start"].is_monotonic_increasing
    found = {run.id: run for run in ran["found"].runs}
    for row in table.to_dict("records"):
        run = found[row["run"]]
        assert row["throughput_per_s"] == run.traffic.throughput_per_s
        p50 = run.traffic.response_ms.p50
        assert math.isnan(row["response_ms_p50"]) if p50 is None else row["response_ms_p50"] == p50, (
            "a run of a few transactions has no median"
        )
        assert (row["valid"], row["succeeded"]) == (run.valid, run.counts.succeeded)


def test_the_files_of_the_table(ran: dict[str, Any], lab: Lab) -> None:
    results = ran["results"]
    stored = pq.read_table(results / "runs.parquet")
    assert stored.schema.metadata[b"format"] == b"plimsoll.runs/1"
    units = {field.name: field.metadata[b"unit"].decode() for field in stored.schema}
    kinds = {field.name: field.metadata[b"kind"].decode() for field in stored.schema}
    assert (units["response_ms_p50"], units["throughput_per_s"]) == ("ms", "requests/s")
    assert (units["window_s"], units["error_rate"], units["utilization.host"]) == ("s", "", "")
    assert (kinds["load.testers"], kinds["agents"], kinds["error_rate"]) == ("plan", "covariate", "response")
    assert pacsv.read_csv(results / "runs.csv").column_names == stored.column_names
    assert not list(results.glob(".runs*"))
    done = lab.run("export", results, "--to", "runs", "--out", lab.directory / "table")
    assert done.code == 0, done.err
    assert pq.read_table(lab.directory / "table" / "runs.parquet").equals(stored)


def test_frames_of_cells_transactions_and_samples(ran: dict[str, Any]) -> None:
    results = ran["results"]
    cells = api.cells(results)
    assert list(cells.columns) == ["load.testers", "runs", "valid", "mean", "low", "high"]
    assert list(cells["runs"]) == [2, 2, 2]
    with pytest.raises(BadInput, match="expected one of"):
        api.cells(results, "speed")
    books = {run.id: run.counts for run in ran["found"].runs}
    assert len(api.transactions(results, "0002")) == books["0002"].started
    assert (ran["response_ms"] >= 9.9).all(), "a server takes 10 ms"
    assert "testers" in set(api.samples(results, 1)["component"])
    with pytest.raises(BadInput, match="has no run 0099"):
        api.transactions(results, 99)
    with pytest.raises(DamagedResults):
        api.runs(results.parent)


def test_the_rest(ran: dict[str, Any], tmp_path: Path) -> None:
    results = ran["results"]
    assert api.check(results) == []
    assert api.report(results) == results / "report.html"
    assert api.document(ran["found"])["format"] == "plimsoll.analysis/1"
    assert all(len(line) <= 80 for line in api.summary(ran["found"]).splitlines())
    assert len(api.open_results(results).runs) == len(ran["plan"].runs) == 6
    with pytest.raises(BadInput, match="svg, png or pdf"):
        api.figures(results, tmp_path, "gif")
