"""Very many agents, and very many transactions brought in from agents. See `hosts.py`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import parts
from hosts_parts import Watch, conditions, run, workplace

sys.path.insert(0, str(parts.ROOT))

from tests.real.sshd import running_sshd

LINKS: Final = 100_000
BROUGHT: Final = 20_000_000
MADE_A_SECOND: Final = 400_000
"""By all agents together: what two cores record without loss beside the testers."""
LENGTHS_S: Final = (10, 60, 300)
JOIN: Final = """#!/bin/sh
for i in $(seq {count}); do
  setsid {engine} agent --join {token} --name {name}.$i --directory "{directory}/{name}.$i" >/dev/null 2>&1 </dev/null &
done
"""
"""What `kind: join` hands in."""


def quic_agents(quick: bool) -> None:
    """Links only, by crates/link/examples/many_quic.rs."""
    links, seconds = (2_000, 65) if quick else (LINKS, 95)
    target = Path(os.environ.get("CARGO_TARGET_DIR", parts.ROOT / "target"))
    build = ["cargo", "build", "--release", "--locked", "-p", "plimsoll-link", "--example", "many_quic"]
    subprocess.run(build, cwd=parts.ROOT, check=True)
    words = [str(target / "release" / "examples" / "many_quic"), str(links), str(seconds)]
    with conditions() as took:
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout

    def told(pattern: str) -> str:
        found = re.search(pattern, said)
        return found[1] if found else sys.exit(f"many_quic says\n{said}")

    print(f"| {links:,} QUIC agents of one controller; each says 200 B every 30 s | |\n|---|---|")
    print(f"| handshakes, both ends on this machine | {told('([0-9]+)/s')}/s |")
    print(
        f"| memory | {told('while: .*peak ([0-9.]+) MB')} MB: {told('while: .*: ([0-9]+) bytes')} B an agent |"
    )
    print(f"| not heard for more than 33 s | {told('([0-9]+) links were not')} |")
    print(f"| longest silence | {told('silence was ([0-9.]+) s')} s |")
    print(f"| cores of the controller | {told('([0-9.]+) cores')} |")
    print(f"\n{took[0]}\n", flush=True)


@dataclass(frozen=True)
class Brought:
    """What came in of one run."""

    rows: int
    bytes: int
    """Of the segments."""
    here_s: float
    """From the first byte of them to the last."""
    parquet_s: float
    """From there until the books were closed."""


def bring_in(quick: bool) -> None:
    """The null driver fills segments at agents; they come to the controller after the load, and into Parquet."""
    rows = 400_000 if quick else BROUGHT
    ways: dict[str, Callable[[Path, int], contextlib.AbstractContextManager[dict[str, Any]]]] = {
        "TCP, TLS 1.3": lambda place, agents: joined(place, agents, "tcp"),
        "QUIC": lambda place, agents: joined(place, agents, "quic"),
        "ssh": over_ssh,
    }
    titles = (
        "stored here, million/s",
        "MB/s",
        "stored and in Parquet, million/s",
        "CPU us each: agents, controller",
    )
    print(f"| {rows:,} transactions | {' | '.join(titles)} |\n|---|---|---|---|---|")
    with conditions() as took:
        for name, way in ways.items():
            for agents in (1, 4):
                with workplace() as place, way(place, agents) as hosts, Watch(place) as watch:
                    found = brought(place, hosts, rows)
                cpu = [watch.cpu_s(role) / found.rows * 1e6 for role in ("agent", "control")]
                figures = (
                    f"{found.rows / found.here_s / 1e6:.2f}",
                    f"{found.bytes / found.here_s / 1e6:.0f}",
                    f"{found.rows / (found.here_s + found.parquet_s) / 1e6:.2f}",
                    f"{cpu[0]:.2f}, {cpu[1]:.2f}",
                )
                print(f"| {name}, {agents} agent{'s' * (agents > 1)} | {' | '.join(figures)} |", flush=True)
    print(f"\n{took[0]}\n", flush=True)


@contextlib.contextmanager
def joined(place: Path, agents: int, link: str) -> Iterator[dict[str, Any]]:
    """Agents that dial in over loopback."""
    template = place / "join.sh"
    template.write_text(JOIN)
    yield {
        "kind": "join",
        "join": {"agents": agents, "template": str(template), "submit": ["sh", "{file}"]},
        "controller": {"address": "127.0.0.1"},
        "link": link,
        "directory": str(place / "spool"),
        "wait": "1m",
    }


@contextlib.contextmanager
def over_ssh(place: Path, agents: int) -> Iterator[dict[str, Any]]:
    """Agents behind a real sshd on loopback."""
    with running_sshd(place / "sshd") as sshd:
        yield {
            "kind": "ssh",
            "hosts": [{"host": "h1", "agents": agents}],
            "ssh": {"config": str(sshd.aliases("h1"))},
            "controller": {"address": "127.0.0.1"},
            "directory": str(place / "spool"),
        }


def brought(place: Path, hosts: dict[str, Any], rows: int) -> Brought:
    """One run, watched from outside: files appear in the results directory."""
    document = {
        "name": "bring-in",
        "workload": {"driver": "null"},
        "load": {"rate": f"{MADE_A_SECOND}/s", "arrivals": "even"},
        "run": {"duration": f"{rows / MADE_A_SECOND:g}s"},
        "cpus": {"mode": "none"},
        "hosts": hosts,
    }
    times: dict[str, float] = {}
    ended = threading.Event()
    looking = threading.Thread(target=look_at_files, args=(place / "out", times, ended), daemon=True)
    looking.start()
    try:
        found = run(document, place, lossy=True)
    finally:
        ended.set()
        looking.join()
    summary = json.loads((Path(found["directory"]) / "summary.json").read_text())
    counts = found["counts"]
    return Brought(
        counts["started"] - counts["lost_records"],
        sum(one["bytes"] for one in summary["segments"]),
        times["parquet"] - times["first"],
        times["summary"] - times["parquet"],
    )


def look_at_files(out: Path, times: dict[str, float], ended: threading.Event) -> None:
    """When the first piece of a segment is here, when all are (the Parquet file is begun then), and when the books are
    closed."""
    while not ended.wait(0.005):
        for directory in out.glob("*Z/runs/0001"):
            now = time.monotonic()
            # What agents of this host write is there from the beginning; what comes over a link is a part at first.
            if "first" not in times and next((directory / "segments").glob("*.arrow.part"), None):
                times["first"] = now
            if "parquet" not in times and (directory / "transactions.parquet.part").exists():
                times["parquet"] = now
            if "summary" not in times and (directory / "summary.json").exists():
                times["summary"] = now


def memory(quick: bool) -> None:
    """The same load for ever longer: what the controller holds must not grow with it."""
    rate = 2_000 if quick else 20_000
    lengths = [seconds // 5 for seconds in LENGTHS_S[:2]] if quick else LENGTHS_S
    print(
        f"| 4 agents over TCP, {rate:,} transactions/s | memory of the controller | more than the shortest |"
    )
    print("|---|---|---|")
    first: tuple[int, int] | None = None
    with conditions() as took:
        for seconds in lengths:
            with workplace() as place, joined(place, 4, "tcp") as hosts, Watch(place) as watch:
                run(steady(rate, seconds, hosts), place)
                found = (seconds, watch.largest("control"))
            grown = ""
            if first is not None:
                more = found[1] - first[1]
                grown = f"{more / 1e6:+.1f} MB: {more / (seconds - first[0]):+,.0f} B for each second"
            first = first or found
            print(f"| {seconds} s | {found[1] / 1e6:.1f} MB | {grown} |", flush=True)
    print(f"\n{took[0]}\n", flush=True)


def steady(rate: int, seconds: int, hosts: dict[str, Any]) -> dict[str, Any]:
    """An open load of the null driver."""
    return {
        "name": "memory",
        "workload": {"driver": "null"},
        "load": {"rate": f"{rate}/s", "arrivals": "even"},
        "run": {"duration": f"{seconds}s"},
        "cpus": {"mode": "none"},
        "hosts": hosts,
    }
