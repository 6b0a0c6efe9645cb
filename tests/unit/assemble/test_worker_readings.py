"""The workers of services, from stored readings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plimsoll.assemble.run.components import worker_readings
from plimsoll.collect.results import RunFiles


def run_with(path: Path, kind: str, settings: dict[str, Any], **values: float) -> RunFiles:
    """A run of one service with two readings."""
    directory = path / "services" / "web"
    directory.mkdir(parents=True)
    lines: list[dict[str, Any]] = [{"format": "plimsoll.counters/1", "gauges": []}]
    lines += [{"t": 1000.0 + t, "values": values} for t in (1, 2)]
    (directory / "counters.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    services = [{"name": "web", "kind": kind, "counters": {}}]
    effective = {"services": {"web": settings}}
    return RunFiles("0001", path, {"t0_unix_ns": 1000 * 10**9, "services": services, "effective": effective})


@pytest.mark.parametrize(
    ("kind", "settings", "values", "limit"),
    [
        ("catalogue", {"threads": 7}, {"in_progress": 3, "threads_limit": 20, "connections_waiting": 1}, 20),
        ("slapd", {"threads": 8}, {"threads_active": 3, "threads_pending": 1}, 8),
        ("slapd", {}, {"threads_active": 3, "threads_pending": 1}, 16),
        ("tomcat", {}, {"threads_busy": 3}, 200),
    ],
)
def test_the_limit_is_read_or_configured(
    tmp_path: Path, kind: str, settings: dict[str, Any], values: dict[str, float], limit: float
) -> None:
    [pool] = worker_readings(run_with(tmp_path, kind, settings, **values))
    assert list(pool.t_s) == [1, 2]
    # A thread of slapd carries out the search of the reader, which is not among those that are stored.
    assert list(pool.in_use) == [4 if kind == "slapd" else 3] * 2
    assert list(pool.limit) == [limit, limit]
    assert (pool.waiting is None) == (kind == "tomcat")


def test_readings_of_older_versions_have_no_limit(tmp_path: Path) -> None:
    [pool] = worker_readings(run_with(tmp_path, "frontier", {"connections": 4}, connections_in_use=4))
    assert np.isnan(pool.limit).all() and pool.waiting is None


@pytest.mark.parametrize(("kind", "values"), [("echo", {"answered": 1}), ("catalogue", {"answered": 1})])
def test_services_without_such_counts_have_no_workers(tmp_path: Path, kind: str, values: Any) -> None:
    assert worker_readings(run_with(tmp_path, kind, {}, **values)) == []
