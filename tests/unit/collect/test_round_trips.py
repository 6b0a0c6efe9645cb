"""The least round trip of each tester and endpoint, from the files of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from plimsoll.collect.columns.round_trips import UNKNOWN, read_route_round_trips


def written(path: Path, name: str, columns: Mapping[str, Any]) -> Path:
    table = pa.table(dict(columns)).replace_schema_metadata({"format": f"plimsoll.{name}/1"})
    pq.write_table(table, path)
    return path


def files(tmp_path: Path, endpoints: list[str]) -> tuple[Path, Path]:
    """Two testers with two transactions each; the first transaction of each has a reading of 30 ms, the second of
    10 ms; tester 1 also retransmits."""
    metrics = written(
        tmp_path / "metrics.parquet",
        "metrics",
        {
            "tester": [0, 0, 1, 1, 1],
            "start": [10, 20, 10, 20, 20],
            "metric": ["tcp_rtt", "tcp_rtt", "tcp_rtt", "tcp_rtt", "tcp_retransmits"],
            "value": [0.03, 0.01, 0.03, 0.01, 7.0],
        },
    )
    transactions = written(
        tmp_path / "transactions.parquet",
        "transactions",
        {
            "tester": pa.array([0, 0, 1, 1], pa.uint32()),
            "start": pa.array([10, 20, 10, 20], pa.int64()),
            "endpoint": pa.array(endpoints).dictionary_encode(),
        },
    )
    return metrics, transactions


def test_an_endpoint_has_its_own_round_trip(tmp_path: Path) -> None:
    found = read_route_round_trips(*files(tmp_path, ["far", "near", "near", "near"]))
    assert found is not None and found.endpoints == ("far", "near")
    assert found.least.tolist() == [[30_000_000, 10_000_000], [UNKNOWN, 10_000_000]]
    trips = found.of(np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0]))
    assert trips.tolist() == [30_000_000, 10_000_000, UNKNOWN, UNKNOWN]


def test_a_single_endpoint_has_the_least_of_all_readings(tmp_path: Path) -> None:
    found = read_route_round_trips(*files(tmp_path, ["web"] * 4))
    assert found is not None and found.least.tolist() == [[10_000_000], [10_000_000]]


def test_short_round_trips_and_none(tmp_path: Path) -> None:
    metrics, transactions = files(tmp_path, ["web"] * 4)
    assert read_route_round_trips(metrics, transactions, 30_000_001) is None
    assert read_route_round_trips(metrics, transactions, 30_000_000) is not None, "half of them are as long"
    assert read_route_round_trips(tmp_path / "none.parquet", transactions) is None
