"""Pacing of an open load, with a core of its own: how late requests start by Plimsoll's own record, and how even they
are when they arrive at a server that watches. `python bench/pacing.py [--rounds 5] [--seconds 5] [--spin 50us]`"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

import parts

EXPERIMENT = """
plimsoll: 1
name: pacing
workload: {{driver: http, target: "http://{address}/", timeout: 5s, http: {{path: /}}}}
load: {{rate: {rate}/s, arrivals: even, in_flight: 64, when_full: wait}}
run: {{warmup: 1s, duration: {seconds}s, drain: 2s, spin: {spin}}}
"""


def once(rate: int, seconds: float, spin: str, server: int, client: int) -> tuple[float, float]:
    """p99 of lateness (us) in the window, and p99 of the gaps at the server in units of the even gap."""
    process = subprocess.Popen(
        ["taskset", "-c", str(server), parts.RELEASE / "gap-server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "pacing.yaml"
        file.write_text(EXPERIMENT.format(address=address, rate=rate, seconds=seconds, spin=spin))
        found = parts.plimsoll("run", str(file), "--out", directory, core=client)
    process.stdin.close()
    gaps = json.loads(process.stdout.read())
    process.wait(10)
    late = found["runs"][0]["lateness_ms"]["p99"]
    return late * 1e3, gaps["p99_ms"] / (1e3 / rate)


def main() -> None:
    """Three rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--spin", default="50us")
    args = parser.parse_args()
    parts.build_yardsticks()
    server, client = parts.cores()
    print(f"\n### Pacing, spin {args.spin}\n")
    print(
        "| rate | p99 of lateness, us, median (min to max) | p99 gap at the server / even gap, median (min to max) |"
    )
    print("|---|---|---|")
    for rate in (2_000, 5_000, 10_000):
        rounds = [once(rate, args.seconds, args.spin, server, client) for _ in range(args.rounds)]
        late, gap = zip(*rounds, strict=True)
        print(
            f"| {rate:,}/s | {statistics.median(late):.0f} ({min(late):.0f} to {max(late):.0f}) "
            f"| {statistics.median(gap):.2f} ({min(gap):.2f} to {max(gap):.2f}) |"
        )


if __name__ == "__main__":
    main()
