"""The Frontier gateway over PostgreSQL: CPU per request beside that of the database for the same query, documents a
second, memory with big results, a thousand connections. `python bench/gateway.py [--rounds 5] [--seconds 10]`

Plimsoll's own monitor says who used how much CPU. Two cores are too few for a database, a gateway and testers with a
core each, so the rate that each could reach alone is what its CPU per request allows, and is said to be that.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import parts
import pyarrow.parquet as pq

PUBLIC_SERVLET = {0: 188, 5: 166}
"""Documents of 100 kB a second that servlet 3.42 gave on shared cores, by zip level."""

ROWS_100_KB, ROWS_30_MB = 1_000, 300_000


@dataclass(frozen=True)
class Cost:
    """Of one method in one round: requests a second, CPU microseconds a request of database and gateway."""

    rate: float
    database_us: float
    gateway_us: float

    @property
    def alone(self) -> float:
        """Requests a second if database and gateway had a core each, and nothing else stopped them."""
        return 1e6 / max(self.database_us, self.gateway_us)


def experiment(rows: int, load: dict[str, Any], run: dict[str, Any], **more: Any) -> dict[str, Any]:
    """One query, by the gateway; `more` replaces parts of it."""
    query = f"SELECT string FROM t_string LIMIT {rows}"
    return {
        "plimsoll": 1,
        "name": "gateway-bench",
        "services": {
            "db": {"kind": "postgres", "settings": {"max_connections": 200}},
            "gateway": {"kind": "frontier", "database": "db", "connections": 10, "threads": 10_000},
        },
        "data": {"t_string": {"into": "db", "rows": rows, "row": "100B", "compressibility": "25%"}},
        "workload": {
            "driver": "frontier",
            "target": "gateway",
            "timeout": "300s",
            "frontier": {"zip": 0, "queries": [query], "connect_timeout": "60s", "read_timeout": "300s"},
            "sql": {"queries": [query], "connection": "kept"},
        },
        "load": load,
        "run": run,
        # Shared, as the public servlet's were.
        "cpus": {"mode": "none"},
        # The bench looks at the services; that the testers have no core of their own is known.
        "validity": {"lateness_floor": "100s", "tester_cpu": "100%", "trend": False, "steal": "100%"},
        **more,
    }


def run_it(document: dict[str, Any], place: Path) -> tuple[dict[str, Any], Path]:
    """The result of the one run, and its directory."""
    file, out = place / "bench.yaml", place / "out"
    file.write_text(json.dumps(document))
    found = parts.plimsoll("run", str(file), "--out", str(out))
    run: dict[str, Any] = found["runs"][0]
    counts = run["counts"]
    if counts["failed"] or not counts["balanced"]:
        sys.exit(f"the run is not sound: {counts}")
    newest = max(out.iterdir(), key=lambda one: one.stat().st_mtime)
    return run, newest / "runs" / "0001"


def cost(method: dict[str, Any], seconds: float) -> Cost:
    """One method, 8 testers, results of 100 kB."""
    document = experiment(
        ROWS_100_KB, {"testers": 8, "think": "0s"}, {"warmup": "2s", "duration": f"{seconds:g}s"}
    )
    document["workload"] |= {key: value for key, value in method.items() if key != "zip"}
    document["workload"]["frontier"]["zip"] = method.get("zip", 0)
    with tempfile.TemporaryDirectory() as place:
        run, _ = run_it(document, Path(place))
    used = {name: one["detail"].get("cores_used", 0.0) for name, one in run["utilization"].items()}
    rate = run["throughput_per_s"]
    return Cost(rate, used["db"] / rate * 1e6, used["gateway"] / rate * 1e6)


def costs(rounds: int, seconds: float) -> None:
    """Three methods in rotation."""
    methods: dict[str, dict[str, Any]] = {
        "PostgreSQL directly": {"driver": "sql", "target": "db"},
        "gateway, zip 0": {"zip": 0},
        "gateway, zip 5": {"zip": 5},
    }
    found: dict[str, list[Cost]] = {name: [] for name in methods}
    for number in range(rounds):
        for name, method in methods.items():
            found[name].append(cost(method, seconds))
            print(f"  round {number + 1}: {name} {found[name][-1]}", file=sys.stderr)
    direct = found["PostgreSQL directly"]
    titles = ("documents/s", "CPU us of the database", "of the gateway", "gateway / database directly")
    print(f"| results of 100 kB | {' | '.join(titles)} | rate with a core each / directly |")
    print("|---|---|---|---|---|---|")
    for name, values in found.items():
        pairs = list(zip(values, direct, strict=True))
        print(
            f"| {name} | {spread(one.rate for one in values)} | {spread(one.database_us for one in values)} "
            f"| {spread(one.gateway_us for one in values)} "
            f"| {spread((one.gateway_us / other.database_us for one, other in pairs), 2)} "
            f"| {spread((one.alone / other.alone for one, other in pairs), 2)} |"
        )
    for level, servlet in PUBLIC_SERVLET.items():
        rate = statistics.median(one.rate for one in found[f"gateway, zip {level}"])
        print(f"\nAt zip {level} {rate / servlet:.1f} times the public servlet's {servlet} documents/s.")


def spread(values: Any, digits: int = 0) -> str:
    """Median (min to max)."""
    known = list(values)
    middle, low, high = statistics.median(known), min(known), max(known)
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def big_results() -> None:
    """50 testers with one result of 30 MB each."""
    document = experiment(ROWS_30_MB, {"testers": 50}, {"until": {"each_tester": 2}})
    with tempfile.TemporaryDirectory() as place:
        run, directory = run_it(document, Path(place))
        print(
            f"\n50 testers, results of 30 MB: the gateway's memory was {memory(directory) / 1e6:.0f} MB at most, with "
            f"{run['payload_bytes_per_s'] / 1e6:.0f} MB/s of payload and {run['counts']['succeeded']} answers."
        )


def many_connections() -> None:
    """1,000 testers at once."""
    document = experiment(100, {"testers": 1000, "think": "0s"}, {"warmup": "5s", "duration": "20s"})
    with tempfile.TemporaryDirectory() as place:
        run, directory = run_it(document, Path(place))
        print(
            f"\n1,000 testers, results of 10 kB: {run['throughput_per_s']:,.0f} documents/s, "
            f"{run['counts']['failed']} errors, {memory(directory) / 1e6:.0f} MB of memory at most."
        )


def memory(directory: Path) -> float:
    """Greatest resident size of the gateway in a run, bytes, of one sample a second."""
    samples = pq.read_table(directory / "samples.parquet").to_pylist()
    sizes = [
        one["value"]
        for one in samples
        if one["component"] == "service:gateway" and one["metric"] == "memory.rss"
    ]
    return float(max(sizes))


def main() -> None:
    """All three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    costs(args.rounds, args.seconds)
    big_results()
    many_connections()


if __name__ == "__main__":
    main()
