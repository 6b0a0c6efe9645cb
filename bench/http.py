"""HTTP keep-alive on one core against a lean server on the other: Plimsoll (every transaction recorded), wrk, and a
bare epoll loop, in rotation. `python bench/http.py [--rounds 5] [--seconds 5]`"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from functools import partial
from pathlib import Path

import parts


def of_plimsoll(address: str, connections: int, seconds: float, core: int) -> parts.Measured:
    """Requests that ended in the window; CPU of the agent from the monitor's own samples."""
    found = parts.plimsoll(f"http://{address}/", "-c", str(connections), "-z", f"{seconds:g}s", core=core)
    run = found["runs"][0]
    rate = run["throughput_per_s"]
    cpu = next(
        (one["detail"]["cores_used"] for one in run["utilization"].values() if one["role"] == "testers"), None
    )
    if run["counts"]["failed"] or not run["counts"]["balanced"]:
        sys.exit(f"the run is not sound: {run['counts']}")
    return parts.Measured(rate, None if cpu is None else cpu / rate * 1e6)


def of_wrk(address: str, connections: int, seconds: float, core: int) -> parts.Measured:
    """wrk with one thread."""
    words = [
        "taskset",
        "-c",
        str(core),
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{seconds:g}s",
        f"http://{address}/",
    ]
    out, cpu = parts.run_with_cpu(words)
    match = re.search(r"(\d+) requests in ([\d.]+)s", out)
    if match is None:
        sys.exit(f"wrk said:\n{out}")
    requests = int(match[1])
    return parts.Measured(requests / float(match[2]), cpu / requests * 1e6)


def of_loop(address: str, connections: int, seconds: float, core: int) -> parts.Measured:
    """The bare loop."""
    loop = parts.RELEASE / "epoll-loop"
    words: list[str | Path] = ["taskset", "-c", str(core), loop, address, str(connections), f"{seconds:g}"]
    out, cpu = parts.run_with_cpu(words)
    rate = float(out)
    return parts.Measured(rate, cpu / (rate * seconds) * 1e6)


def main() -> None:
    """Both numbers of connections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing: apt-get install wrk")
    parts.build_yardsticks()
    server, client = parts.cores()
    for connections in (64, 256):
        with parts.lean_server(server) as address:
            given = (address, connections, args.seconds, client)
            contenders = {
                "wrk": partial(of_wrk, *given),
                "plimsoll": partial(of_plimsoll, *given),
                "bare epoll loop": partial(of_loop, *given),
            }
            found = parts.in_rotation(contenders, args.rounds)
        print(f"\n### {connections} connections\n")
        print("\n".join(parts.table(found, "wrk", "requests/s")))


if __name__ == "__main__":
    main()
