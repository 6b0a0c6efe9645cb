"""What the benchmarks share: cores, the lean server, rotation, and how a table is written."""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RELEASE = ROOT / "target" / "release"


@dataclass(frozen=True)
class Measured:
    """One figure of one contender in one round."""

    rate: float
    cpu_us: float | None = None
    """CPU time per request of the load generator, microseconds."""


def cores() -> tuple[int, int]:
    """Core of the server and core of the load generator."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        sys.exit("the benchmarks need two cores: one for the server, one for the load generator")
    return usable[0], usable[1]


def build_yardsticks() -> None:
    """The lean server and the bare loop; they are no part of the product, so `make engine` leaves them out."""
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "-p", "plimsoll-bench-lean"], cwd=ROOT, check=True
    )


@contextmanager
def lean_server(core: int) -> Iterator[str]:
    """The lean server on a core of its own; gives its address."""
    process = subprocess.Popen(
        ["taskset", "-c", str(core), RELEASE / "lean-server", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def run_with_cpu(words: Sequence[str | Path]) -> tuple[str, float]:
    """Output and CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def plimsoll(*words: str, core: int | None = None) -> dict[str, Any]:
    """`plimsoll ... --json`, bound to a core if one is given."""
    bound = ["taskset", "-c", str(core)] if core is not None else []
    command = [*bound, sys.executable, "-m", "plimsoll.cli.main", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def in_rotation(contenders: Mapping[str, Callable[[], Measured]], rounds: int) -> dict[str, list[Measured]]:
    """Each contender once a round, so that all of them see the same machine."""
    found: dict[str, list[Measured]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, measure in contenders.items():
            found[name].append(measure())
            print(f"  round {number + 1}: {name} {found[name][-1].rate:,.0f}", file=sys.stderr)
    return found


def table(found: Mapping[str, list[Measured]], against: str, unit: str) -> list[str]:
    """Medians, and the median of the ratios of each round to the contender that is compared against."""
    lines = [
        f"| | {unit}, median (min to max) | times {against}, median of rounds | CPU us a request |",
        "|---|---|---|---|",
    ]
    for name, values in found.items():
        rates = [one.rate for one in values]
        ratios = [one.rate / other.rate for one, other in zip(values, found[against], strict=True)]
        cpu = [one.cpu_us for one in values if one.cpu_us is not None]
        lines.append(
            f"| {name} | {statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f}) "
            f"| {statistics.median(ratios):.2f} | {f'{statistics.median(cpu):.2f}' if cpu else '–'} |"
        )
    return lines


def machine() -> str:
    """A line on the machine."""
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "unknown CPU",
    )
    return f"{cpu}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
