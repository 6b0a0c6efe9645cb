"""Results directories made by hand: readers behind a make-believe cache, and a writer, of objects with versions.

Written in the format of the engine, from the documents of the kept results of version 1; what the readers get follows
from a plan of writes and the ways of the cache, so that the figures are known beforehand to tests that ask.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.api import analysis

OLD = Path(__file__).resolve().parents[1] / "data" / "results-v1"
S = 1_000_000_000
EPOCH_US = 1_790_000_000_000_000


@dataclass(frozen=True)
class Row:
    """One transaction, times in ns from the zero of the run; `object` and `version` None: it told none."""

    start: int
    end: int
    writes: bool = False
    object: int | None = 1
    version: int | None = 0
    cache: str = "none"
    outcome: str = "ok"
    tester: int = 0
    workload: str = ""

    @property
    def population(self) -> str:
        return self.workload or ("writer" if self.writes else "readers")


@dataclass(frozen=True)
class Way:
    """How a cache keeps objects: for `ttl_s`, and thrown away at a write if `told`."""

    ttl_s: float
    told: bool = False
    hit_ms: float = 0.5
    miss_ms: float = 4.0


WAYS = {"no cache": Way(0), "invalidated": Way(1000, told=True), "1 s": Way(1), "10 s": Way(10)}


def simulated(way: Way, writes_per_s: float, seconds: float, seed: int, objects: int = 20) -> list[Row]:
    """Eight readers without think time and one writer."""
    noise = Random(seed)
    rows: list[Row] = []
    newest = dict.fromkeys(range(objects), EPOCH_US)
    writes: list[tuple[int, int, int]] = []  # end, object, version
    at = 0
    while (at := at + round(noise.expovariate(writes_per_s) * S)) < seconds * S:
        which = noise.randrange(objects)
        end = at + round(noise.uniform(2, 6) * 1e6)
        version = EPOCH_US + at // 1000 + 1
        rows.append(Row(at, end, True, which, version, tester=8))
        writes.append((end - 500_000, which, version))
    writes.sort()
    kept: dict[int, tuple[int, int]] = {}  # version, when it was fetched
    free = [(tester * 1000, tester) for tester in range(8)]
    due = 0
    while min(free)[0] < seconds * S:
        start, tester = min(free)
        while due < len(writes) and writes[due][0] <= start:
            _, which, version = writes[due]
            newest[which] = version
            if way.told:
                kept.pop(which, None)
            due += 1
        which = min(int(noise.expovariate(0.25)), objects - 1)
        hit = which in kept and start - kept[which][1] < way.ttl_s * S
        took = (way.hit_ms if hit else way.miss_ms) * noise.uniform(0.8, 1.3) * 4
        version = kept[which][0] if hit else newest[which]
        if not hit and way.ttl_s:
            kept[which] = (version, start)
        cache = "hit" if hit else "miss" if way.ttl_s else "none"
        end = start + round(took * 1e6)
        rows.append(Row(start, end, False, which, version, cache, tester=tester))
        free[tester] = (end + 1000, tester)
    return rows


def make_results(
    path: Path,
    runs: Sequence[tuple[Mapping[str, str], Sequence[Row]]],
    *,
    seconds: float = 1.0,
    warmup_s: float = 0.0,
    busy: Mapping[str, float] | None = None,
    **plan: Any,
) -> Path:
    """Writes a results directory with these runs, each a cell and its transactions. `plan`: changes of plan.json;
    `busy`: cores that a service used."""
    path.mkdir(parents=True)
    for name in ("experiment.yaml", "effective.yaml", "environment.json"):
        shutil.copy(OLD / name, path / name)
    document = json.loads((OLD / "plan.json").read_text())
    factors: dict[str, list[str]] = {}
    for cell, _ in runs:
        for name, level in cell.items():
            if level not in factors.setdefault(name, []):
                factors[name].append(level)
    times: dict[str, int] = {}
    planned = []
    for order, (cell, rows) in enumerate(runs, start=1):
        times[str(cell)] = times.get(str(cell), 0) + 1
        told = {
            "id": f"{order:04d}",
            "order": order,
            "cell": dict(cell),
            "values": {},
            "repetition": times[str(cell)],
            "block": None,
            "seed": order,
            "warmup_s": warmup_s,
            "end_s": seconds,
        }
        planned.append(told)
        _make_run(path / "runs" / f"{order:04d}", told, rows, dict(busy or {}))
    document |= {
        "factors": [{"name": name, "levels": levels, "when": {}} for name, levels in factors.items()],
        "load_factor": None,
        "runs": planned,
        "not_estimable": [],
    }
    document["design"] |= {"repetitions": max(times.values(), default=1)}
    document["experiment"] |= {"name": "freshness", "question": "What does how much consistency cost?"}
    (path / "plan.json").write_text(json.dumps(document | plan))
    return path


def _make_run(path: Path, told: Mapping[str, Any], rows: Sequence[Row], busy: dict[str, float]) -> None:
    path.mkdir(parents=True)
    record = json.loads((OLD / "runs" / "0001" / "run.json").read_text())
    populations = sorted({row.population for row in rows}) or ["readers"]
    does = {name: {} for name in populations}  # type: dict[str, dict[str, str]]
    for row in rows:
        does[row.population]["put" if row.writes else "get"] = "write" if row.writes else "read"
    record |= {key: told[key] for key in ("id", "cell", "values", "repetition", "order")}
    record |= {"warmup_s": told["warmup_s"], "planned_end_s": told["end_s"], "workloads": populations}
    record |= {"versions": does, "services": [record["services"][0] | {"name": name} for name in busy]}
    (path / "run.json").write_text(json.dumps(record))
    done = sum(row.outcome == "ok" and row.end >= 0 for row in rows)
    flying = sum(row.end < 0 for row in rows)
    summary = json.loads((OLD / "runs" / "0001" / "summary.json").read_text())
    summary["counters"] |= {"started": len(rows), "succeeded": done, "failed": len(rows) - done - flying}
    last = max([row.end for row in rows], default=0)
    summary |= {"measured_end_ns": round(told["end_s"] * S), "in_flight": flying}
    summary["rows"] |= {"last_end_ns": max(last, 0)}
    (path / "summary.json").write_text(json.dumps(summary))
    _transactions(path / "transactions.parquet", rows)
    _metrics(path / "metrics.parquet", rows)
    if busy:
        _samples(path / "samples.parquet", busy, told["end_s"])


def _table(path: Path, name: str, columns: Mapping[str, Any]) -> None:
    table = pa.table(dict(columns)).replace_schema_metadata({"format": f"plimsoll.{name}/1"})
    # Small groups: a dictionary of one differs from that of the next.
    pq.write_table(table, path, row_group_size=1000)


def _words(texts: Sequence[str]) -> Any:
    return pa.array(list(texts), pa.string()).dictionary_encode()


def _transactions(path: Path, rows: Sequence[Row]) -> None:
    count = len(rows)
    zeros = pa.array([0] * count, pa.uint64())
    _table(
        path,
        "transactions",
        {
            "agent": _words(["local"] * count),
            "tester": pa.array([row.tester for row in rows], pa.uint32()),
            "workload": _words([row.population for row in rows]),
            "operation": _words(["put" if row.writes else "get" for row in rows]),
            "scheduled": pa.array([0] * count, pa.int64()),
            "start": pa.array([row.start for row in rows], pa.int64()),
            "end": pa.array([row.end - row.start if row.end >= 0 else -1 for row in rows], pa.int64()),
            "outcome": _words([row.outcome for row in rows]),
            "code": _words([""] * count),
            "cache": _words([row.cache for row in rows]),
            **dict.fromkeys(("items", "payload", "sent", "received"), zeros),
        },
    )


def _metrics(path: Path, rows: Sequence[Row]) -> None:
    told = [
        (row, name, float(value))
        for row, name in product(rows, ("object", "version", "other"))
        if (value := 1 if name == "other" else getattr(row, name)) is not None
    ]
    _table(
        path,
        "metrics",
        {
            "agent": _words(["local"] * len(told)),
            "tester": pa.array([row.tester for row, _, _ in told], pa.uint32()),
            "start": pa.array([row.start for row, _, _ in told], pa.int64()),
            "metric": _words([name for _, name, _ in told]),
            "value": pa.array([value for _, _, value in told], pa.float64()),
        },
    )


def _samples(path: Path, busy: Mapping[str, float], seconds: float) -> None:
    told = [(second, name) for second in range(1, round(seconds) + 1) for name in busy]
    _table(
        path,
        "samples",
        {
            "t": pa.array([second * S for second, _ in told], pa.int64()),
            "agent": _words(["local"] * len(told)),
            "component": _words([f"service:{name}" for _, name in told]),
            "metric": _words(["cpu"] * len(told)),
            "part": _words([""] * len(told)),
            "value": pa.array([busy[name] for _, name in told], pa.float64()),
        },
    )


@cache
def analysed(repetitions: int = 2, ways: tuple[str, ...] = ("no cache", "1 s")) -> Analysis:
    """Ways of a cache at two rates of writes, two seconds each."""
    runs = [
        (
            {"cache": name, "writes": f"{rate}/s"},
            simulated(WAYS[name], rate, 2.0, seed=10 * again + rate, objects=5),
        )
        for again in range(repetitions)
        for name in ways
        for rate in (4, 20)
    ]
    busy = {"db": 0.4, "cache": 0.1}
    with TemporaryDirectory() as path:
        return analysis(make_results(Path(path) / "results", runs, seconds=2.0, warmup_s=0.5, busy=busy))
