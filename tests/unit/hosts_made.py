"""Results of many hosts, made by hand: three sites at 0.3, 60 and 315 ms from one service, in the format of the engine.

Closed loads, whose testers wait one round trip and the service's time for each transaction, so that what each site gets
is known beforehand. The clocks of the far sites are known to half their round trip, as they would be.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

OLD = Path(__file__).resolve().parents[1] / "data" / "results-v1"
S = 1_000_000_000
MS = 1_000_000
ZERO = 5_000 * S
"""The run's zero on the controller's clock."""


@dataclass(frozen=True)
class Site:
    """Hosts of one site, each with one agent; `rtt_ms` to the service, which runs beside the controller."""

    name: str
    hosts: tuple[str, ...]
    rtt_ms: float


@dataclass(frozen=True)
class Made:
    """What is made. `lost`: agents to when they were lost (s); `kept`: the part of what these did that was brought in;
    `unknown`: agents of whose clock nothing is known; `think_ms`, `service_ms` of every tester."""

    sites: tuple[Site, ...] = (
        Site("near", ("n1", "n2", "n3", "n4"), 0.3),
        Site("middle", ("m1", "m2", "m3"), 60.0),
        Site("far", ("f1", "f2", "f3"), 315.0),
    )
    testers: int = 4
    seconds: int = 30
    warmup_s: float = 2.0
    think_ms: float = 20.0
    service_ms: float = 8.0
    lost: Mapping[str, float] = field(default_factory=dict)
    kept: float = 1.0
    unknown: tuple[str, ...] = ()
    tcp: bool = True
    answered_with: float = 0.0
    """Time of the server (ms) in the round trips that the kernel tells: acknowledgements that waited for answers."""
    keep: str = "all"


@dataclass(frozen=True)
class Row:
    """One transaction, ns from the zero of the run."""

    agent: str
    tester: int
    start: int
    end: int


def rows_of(made: Made) -> list[Row]:
    """What all testers did, by their number. Rows of lost agents end with them."""
    rows = []
    hosts = [(site, host) for site in made.sites for host in site.hosts]
    for tester in range(made.testers * len(hosts)):
        # As the engine deals them: in turn.
        site, host = hosts[tester % len(hosts)]
        noise = Random(tester)
        at = round(noise.uniform(0, 5) * MS)
        until = min(made.lost.get(host, made.seconds), made.seconds) * S
        while True:
            took = site.rtt_ms + made.service_ms * noise.lognormvariate(0, 0.2)
            end = at + round(took * MS)
            if end >= until:
                break
            rows.append(Row(host, tester, at, end))
            at = end + round(made.think_ms * MS)
    return sorted(rows, key=lambda row: row.end)


def make(path: Path, made: Made = Made()) -> Path:
    """Writes the results directory."""
    path.mkdir(parents=True)
    shutil.copy(OLD / "effective.yaml", path / "effective.yaml")
    (path / "experiment.yaml").write_text("plimsoll: 1\nname: wan\n", encoding="utf-8")
    environment = json.loads((OLD / "environment.json").read_text())
    environment["hosts"] = [
        {"name": host, "site": site.name, "answers": True, "taken": True, "facts": {"cores": 2}}
        for site in made.sites
        for host in site.hosts
    ]
    (path / "environment.json").write_text(json.dumps(environment))
    plan = json.loads((OLD / "plan.json").read_text())
    told = {"id": "0001", "order": 1, "cell": {}, "values": {}, "repetition": 1, "block": None, "seed": 1}
    told |= {"warmup_s": made.warmup_s, "end_s": made.seconds}
    plan |= {"factors": [], "load_factor": None, "runs": [told], "not_estimable": []}
    plan["design"] |= {"repetitions": 1}
    plan["experiment"] |= {"name": "wan", "question": "Does the service treat remote testers fairly?"}
    (path / "plan.json").write_text(json.dumps(plan))
    _run(path / "runs" / "0001", told, made)
    return path


def _run(path: Path, told: Mapping[str, Any], made: Made) -> None:
    path.mkdir(parents=True)
    did = rows_of(made)
    rows = [
        row for row in did if row.agent not in made.lost or row.end < made.lost[row.agent] * S * made.kept
    ]
    hosts = [(site, host) for site in made.sites for host in site.hosts]
    record = json.loads((OLD / "runs" / "0001" / "run.json").read_text())
    record |= {key: told[key] for key in ("id", "cell", "values", "repetition", "order", "warmup_s")}
    record |= {"planned_end_s": told["end_s"], "agents": [host for _, host in hosts], "lost": list(made.lost)}
    record["places"] = [
        {"agent": host, "host": host, "site": site.name, "role": "testers"} for site, host in hosts
    ]
    (path / "run.json").write_text(json.dumps(record))
    (path / "summary.json").write_text(json.dumps(_summary(made, rows, hosts)))
    (path / "clock.json").write_text(json.dumps(_clocks(made, hosts)))
    live = [{"format": "plimsoll.live/1"}]
    live += [_second(second, did) for second in range(made.seconds)]
    (path / "live.jsonl").write_text("".join(json.dumps(line) + "\n" for line in live))
    if made.keep == "all":
        _transactions(path / "transactions.parquet", rows)
    if made.tcp:
        trips = {host: site.rtt_ms + made.answered_with for site, host in hosts}
        _metrics(path / "metrics.parquet", rows, trips)
    _probes(path / "probes.parquet", hosts, made)
    _samples(path / "samples.parquet", hosts, made.seconds)


def _summary(made: Made, rows: Sequence[Row], hosts: Sequence[tuple[Site, str]]) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((OLD / "runs" / "0001" / "summary.json").read_text())
    counts: dict[str, int] = {host: 0 for _, host in hosts}
    for row in rows:
        counts[row.agent] += 1
    lost = {host: round(at * S) for host, at in made.lost.items()}
    summary |= {"measured_end_ns": made.seconds * S, "in_flight": 0, "balanced": not lost, "keep": made.keep}
    summary["counters"] |= {"started": len(rows), "succeeded": len(rows), "failed": 0}
    summary["agents"] = [
        {
            "name": host,
            "host": host,
            "site": site.name,
            "t0_raw_ns": 7,
            "lost": host in lost,
            "lost_ns": lost.get(host),
            "window_ns": None if host in lost else made.seconds * S,
            "books": {"counters": {"started": counts[host]}},
        }
        for site, host in hosts
    ]
    last = max((row.end for row in rows), default=0)
    summary["rows"] = (
        {"counters": {"started": len(rows)}, "in_flight": 0, "last_end_ns": last}
        if made.keep == "all"
        else None
    )
    return summary


def _clocks(made: Made, hosts: Sequence[tuple[Site, str]]) -> dict[str, Any]:
    agents: dict[str, dict[str, Any]] = {}
    for place, (site, host) in enumerate(hosts):
        if host in made.unknown:
            agents[host] = {"same": False, "map": None, "remark": "no probe came back", "bound_ns": None}
            continue
        rtt = round(site.rtt_ms * MS)
        offset = (place - 4) * 100 * S
        pieces = [_piece(0, made.seconds, offset, "start")]
        if host == "m1":  # another way from 18 s on
            pieces = [_piece(0, 18, offset, "start"), _piece(18, made.seconds, offset, "route_change")]
        agents[host] = {
            "same": False,
            "map": {"knots": []},
            "pieces": pieces,
            "probes": made.seconds + 16,
            "rejected": 0,
            "rtt_min_ns": rtt,
            "rtt_median_ns": rtt + 20_000,
            "bound_ns": rtt // 2 + 250_000,
            "started_ns": place * 30_000,
            "steps": [[14 * S, 3 * S]] if host == "n2" else [],
            "remark": "",
        }
    return {"format": "plimsoll.clock-map/1", "t0_ns": ZERO, "assumptions": {}, "agents": agents}


def _piece(start_s: int, end_s: int, offset: int, begins: str) -> dict[str, Any]:
    return {
        "from_ns": ZERO - offset + start_s * S,
        "to_ns": ZERO - offset + end_s * S,
        "offset_ns": offset,
        "drift_ppm": 12.0,
        "drift_low_ppm": 2.0,
        "drift_high_ppm": 22.0,
        "probes": 20,
        "begins": begins,
    }


def _second(second: int, rows: Sequence[Row]) -> dict[str, Any]:
    ended = sum(second * S <= row.end < (second + 1) * S for row in rows)
    counters = dict.fromkeys(("items", "payload", "wire", "dropped", "missed", "lost_records", "failed"), 0)
    counters |= {"started": ended, "succeeded": ended}
    return {"second": second, "counters": counters, "active": 40, "in_progress": 40, "response": ""}


def _table(path: Path, name: str, columns: Mapping[str, Any]) -> None:
    table = pa.table(dict(columns)).replace_schema_metadata({"format": f"plimsoll.{name}/1"})
    pq.write_table(table, path, row_group_size=5000)


def _words(texts: Sequence[str]) -> Any:
    return pa.array(list(texts), pa.string()).dictionary_encode()


def _transactions(path: Path, rows: Sequence[Row]) -> None:
    count = len(rows)

    def whole(value: int) -> Any:
        return pa.array([value] * count, pa.uint64())

    columns = {
        "agent": _words([row.agent for row in rows]),
        "tester": pa.array([row.tester for row in rows], pa.uint32()),
        "workload": _words(["main"] * count),
        "scheduled": pa.array([0] * count, pa.int64()),
        "start": pa.array([row.start for row in rows], pa.int64()),
        "end": pa.array([row.end - row.start for row in rows], pa.int64()),
        "outcome": _words(["ok"] * count),
        "code": _words(["200"] * count),
        "cache": _words(["none"] * count),
    }
    sizes = {"items": whole(1), "payload": whole(10_000), "sent": whole(200), "received": whole(10_300)}
    _table(path, "transactions", {**columns, **sizes})


def _metrics(path: Path, rows: Sequence[Row], rtt_ms: Mapping[str, float]) -> None:
    seen: dict[int, int] = {}
    told = []
    for row in rows:  # one in three of each tester
        seen[row.tester] = seen.get(row.tester, 0) + 1
        told += [row] if seen[row.tester] % 3 == 1 else []
    _table(
        path,
        "metrics",
        {
            "agent": _words([row.agent for row in told]),
            "tester": pa.array([row.tester for row in told], pa.uint32()),
            "start": pa.array([row.start for row in told], pa.int64()),
            "metric": _words(["tcp_rtt"] * len(told)),
            "value": pa.array(
                [rtt_ms[row.agent] / 1000 + 1e-6 * (row.start % 7) for row in told], pa.float64()
            ),
        },
    )


def _probes(path: Path, hosts: Sequence[tuple[Site, str]], made: Made) -> None:
    told = [(second, site, host) for second in range(made.seconds) for site, host in hosts]
    sent = [ZERO + second * S for second, _, _ in told]
    trip = [round(site.rtt_ms * MS) + (second % 5) * 10_000 for second, site, _ in told]
    _table(
        path,
        "probes",
        {
            "t": pa.array([second * S for second, _, _ in told], pa.int64()),
            "agent": _words([host for _, _, host in told]),
            "sent": pa.array(sent, pa.int64()),
            "heard": pa.array([at + took // 2 for at, took in zip(sent, trip, strict=True)], pa.int64()),
            "answered": pa.array(
                [at + took // 2 + 5_000 for at, took in zip(sent, trip, strict=True)], pa.int64()
            ),
            "received": pa.array(
                [at + took + 5_000 for at, took in zip(sent, trip, strict=True)], pa.int64()
            ),
            "via": _words(["link" if host == "f1" else "udp" for _, _, host in told]),
        },
    )


def _samples(path: Path, hosts: Sequence[tuple[Site, str]], seconds: int) -> None:
    """Every host is busy by its own amount, one of them by far the most."""
    kinds = (("host", "cpu.busy", ""), ("testers", "cpu", ""), ("testers", "cpu.busiest_thread", "lane-0"))
    told = [
        (second, host, kind, busy)
        for second in range(1, seconds + 1)
        for place, (_, host) in enumerate(hosts)
        for kind in kinds
        for busy in [0.62 if host == "n3" else 0.05 + place / 100]
    ]
    _table(
        path,
        "samples",
        {
            "t": pa.array([second * S for second, *_ in told], pa.int64()),
            "agent": _words([host for _, host, *_ in told]),
            "component": _words([kind[0] for _, _, kind, _ in told]),
            "metric": _words([kind[1] for _, _, kind, _ in told]),
            "part": _words([kind[2] for _, _, kind, _ in told]),
            "value": pa.array([busy for *_, busy in told], pa.float64()),
        },
    )
