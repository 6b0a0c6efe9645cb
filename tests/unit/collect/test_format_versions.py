"""Every stored format has a version: older and equal ones are read, newer ones are refused with a message that states
what to do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plimsoll.api import analysis
from plimsoll.collect.check import check
from plimsoll.collect.columns.parquet import TransactionFile, read_samples
from plimsoll.collect.files import READABLE, read_lines, require_readable
from plimsoll.collect.results import open_results
from plimsoll.errors import DamagedResults

OLD = Path(__file__).resolve().parents[2] / "data" / "results-v1"
HERE = Path("file.json")


@pytest.mark.parametrize("name", sorted(READABLE))
def test_a_newer_major_is_refused_with_a_clear_message(name: str) -> None:
    require_readable(f"{name}/{READABLE[name]}", name, HERE)
    with pytest.raises(DamagedResults, match=r"this release reads up to .*use a newer Plimsoll"):
        require_readable(f"{name}/{READABLE[name] + 1}", name, HERE)


@pytest.mark.parametrize("stated_format", [None, "", "plimsoll.plan", "plimsoll.plan/x", "other/1", 1])
def test_another_format_is_reported(stated_format: object) -> None:
    with pytest.raises(DamagedResults, match=r"not a plimsoll\.plan file"):
        require_readable(stated_format, "plimsoll.plan", HERE)


def test_a_real_directory_of_version_1_is_still_read() -> None:
    results = open_results(OLD)
    assert list(check(results)) == []
    analysed = analysis(OLD)
    stored = json.loads((OLD / "analysis.json").read_text())
    assert analysed.experiment.complete
    assert [run.id for run in analysed.runs] == [run["id"] for run in stored["runs"]]
    for run, stored_run in zip(analysed.runs, stored["runs"], strict=True):
        assert run.traffic.transactions == stored_run["transactions"] > 0
        assert run.traffic.response_ms.p50 == pytest.approx(stored_run["response_ms"]["p50"])
        assert run.counts.balanced


@pytest.mark.parametrize(
    "file", ["plan.json", "environment.json", "runs/0001/run.json", "runs/0001/summary.json"]
)
def test_a_directory_of_a_newer_version_is_refused(tmp_path: Path, file: str) -> None:
    copy = tmp_path / "results"
    shutil.copytree(OLD, copy)
    document = json.loads((copy / file).read_text())
    document["format"] = document["format"].replace("/1", "/2")
    (copy / file).write_text(json.dumps(document))
    with pytest.raises(DamagedResults, match="use a newer Plimsoll"):
        analysis(copy)


@pytest.mark.parametrize("name", ["transactions", "samples"])
def test_parquet_of_a_newer_version_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file.parquet"
    table = pa.table({"a": [1]}).replace_schema_metadata({"format": f"plimsoll.{name}/2"})
    pq.write_table(table, path)
    with pytest.raises(DamagedResults, match="use a newer Plimsoll"):
        if name == "transactions":
            TransactionFile(path, ("main",))
        else:
            read_samples(path)


@pytest.mark.parametrize("name", ["transactions", "samples"])
def test_parquet_without_the_columns_is_reported(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file.parquet"
    table = pa.table({"a": [1]}).replace_schema_metadata({"format": f"plimsoll.{name}/1"})
    pq.write_table(table, path)
    with pytest.raises(DamagedResults, match=r"no column|missing column"):
        if name == "transactions":
            TransactionFile(path, ("main",))
        else:
            read_samples(path)


def test_a_truncated_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"a": 1}\nrubbish\n[1]\n{"a": 2}\n{"a": ')
    assert read_lines(path) == [{"a": 1}, {"a": 2}]
    assert read_lines(tmp_path / "none") == []


@pytest.mark.parametrize("file", ["transactions.parquet", "samples.parquet"])
def test_a_truncated_file_is_reported(tmp_path: Path, file: str) -> None:
    copy = tmp_path / "results"
    shutil.copytree(OLD, copy)
    path = copy / "runs" / "0001" / file
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DamagedResults, match="cannot be read"):
        analysis(copy)
    assert any(file in finding.what for finding in check(open_results(copy)))
