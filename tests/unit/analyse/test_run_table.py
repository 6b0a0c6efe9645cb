"""Levels of factors as columns: numbers with their unit in the name, texts where there is no number."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.analyse.made import run

from plimsoll.analyse.design.run_table import run_columns
from plimsoll.collect.run_table import as_table


def record(id: str, cell: dict[str, str], values: dict[str, float]) -> dict[str, Any]:
    named = {"id": id, "order": int(id), "cell": cell, "values": values}
    return {**named, "repetition": 1, "block": 2, "status": "finished"}


@pytest.mark.parametrize(
    ("labels", "values", "name", "unit", "expected"),
    [
        (["1", "8"], [1.0, 8.0], "f", "", [1.0, 8.0]),
        (["20/s", "40/s"], [20.0, 40.0], "f_per_s", "1/s", [20.0, 40.0]),
        (["4MB", "1kB"], [4e6, 1e3], "f_bytes", "B", [4e6, 1e3]),
        (["10ms", "1s"], [0.01, 1.0], "f_s", "s", [0.01, 1.0]),
        (["5%", "10%"], [0.05, 0.1], "f", "", [0.05, 0.1]),
        (["squid", "nginx"], [None, None], "f", "", ["squid", "nginx"]),
        (["none", "8"], [None, 8.0], "f", "", ["none", "8"]),
        (["4MB", "10ms"], [4e6, 0.01], "f", "", ["4MB", "10ms"]),
    ],
)
def test_a_level(
    labels: list[str], values: list[float | None], name: str, unit: str, expected: list[object]
) -> None:
    records = [
        record(f"{at:04d}", {"f": label}, {} if value is None else {"f": value})
        for at, (label, value) in enumerate(zip(labels, values, strict=True), 1)
    ]
    columns = {column.name: column for column in run_columns({"f": labels}, records, {})}
    assert (list(columns[name].values), columns[name].unit) == (expected, unit)


def test_a_run_without_a_measurement_has_a_row() -> None:
    records = [record("0001", {}, {}), {**record("0002", {}, {}), "status": "failed"}]
    table = as_table(run_columns({}, records, {"0001": run("0001")}))
    assert table.column("valid").to_pylist() == [True, False]
    assert table.column("status").to_pylist() == [run().status, "failed"]
    assert table.column("throughput_per_s").to_pylist() == [100.0, None]
    assert table.column("start").to_pylist() == [None, None]


def test_a_factor_named_like_a_column() -> None:
    names = [column.name for column in run_columns({"run": ["a"]}, [record("0001", {"run": "a"}, {})], {})]
    assert names.count("run") == 1
    assert "level.run" in names
