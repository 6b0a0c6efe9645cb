"""Other programs that read strace's text, beside the import, on the same log in rotation.

`traces.py` calls `compare`; by itself: `python bench/traces_peers.py LOG [--rounds N]`. A peer is looked for by its
name in PATH, or where its environment variable says; one that is not there is left out, with a word. None of them does
the import's work: `PEERS` says what each does.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import parts

from plimsoll.deploy.binary import find_engine

Command = tuple[object, ...]
"""A program and its arguments."""


@dataclass(frozen=True)
class Used:
    """What one run of a command took."""

    wall_s: float
    cpu_s: float
    """User and system time of all its threads."""

    peak_bytes: int
    """Largest resident set."""

    status: int
    """Exit status; the negative number of the signal that ended it."""


@dataclass(frozen=True)
class Peer:
    """A program that reads strace's text."""

    program: str
    variable: str
    """Of the environment: where the program is, if not in PATH."""

    does: str
    command: Callable[[str, Path, Path], Command]
    """Of the program, the log, and a directory for what it writes."""

    untimed: bool = False
    """It reads calls of one process without times only: it gets the same lines without pid, time and duration."""


PEERS: Final = (
    Peer(
        "strace-parser",
        "PLIMSOLL_PEER_STRACE_PARSER",
        "times by process and call; follows no descriptor",
        lambda program, log, _: (program, log, "summary"),
    ),
    Peer(
        "ioreplay",
        "PLIMSOLL_PEER_IOREPLAY",
        "a binary file of the calls that it knows: no openat",
        lambda program, log, place: (program, "-c", "-f", log, "-o", place / "ioreplay.bin"),
    ),
    Peer(
        "strace-analyzer",
        "PLIMSOLL_PEER_STRACE_ANALYZER",
        "sums by file, as if of one process; no times",
        lambda program, log, _: (program, log),
        untimed=True,
    ),
)


def find(peer: Peer) -> str | None:
    """Where a peer's program is. A variable that names no program is an error: it was meant."""
    named = os.environ.get(peer.variable)
    if named is None:
        return shutil.which(peer.program)
    if shutil.which(named) is None:
        raise SystemExit(f"{peer.variable}={named}: there is no such program")
    return named


def used(command: Command, cpus: str) -> Used:
    """Runs a command on some cores."""
    words = ["taskset", "-c", cpus, *map(str, command)]
    since = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - since
    process.returncode = os.waitstatus_to_exitcode(status)
    return Used(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, process.returncode)


def without_times(log: Path, place: Path) -> Path:
    """The lines of a log as strace writes those of one process without times."""
    plain = place / "untimed.log"
    # It would look for a log of each child of clone, and end where there is none.
    script = r"s/^[0-9]+ +[0-9.]+ //; s/ <[0-9.]+>$//; s/^clone\(/clone3(/"
    with plain.open("wb") as out:
        subprocess.run(["sed", "-E", script, log], check=True, stdout=out)
    return plain


def contenders(log: Path, place: Path) -> tuple[dict[str, Command], list[str]]:
    """Commands by the words of their rows, and words on what is missing."""
    engine = find_engine()
    commands: dict[str, Command] = {
        "Plimsoll: a trace file, descriptors followed": (
            *(engine, "trace", "import", "-o", place / "peers.trace", log),
        )
    }
    missing = []
    for peer in PEERS:
        program = find(peer)
        if program is None:
            missing.append(f"{peer.program} is not in PATH ({peer.variable} may say where it is): left out.")
            continue
        own = without_times(log, place) if peer.untimed else log
        commands[f"{peer.program}: {peer.does}"] = peer.command(program, own, place)
    return commands, missing


def compare(log: Path, place: Path, rounds: int) -> None:
    """Prints a table for one core, and one for two: the import and every peer that is here, each once a round."""
    commands, missing = contenders(log, place)
    size = log.stat().st_size
    first, second = parts.cores()
    took: dict[tuple[str, str], list[Used]] = {}
    for _ in range(rounds):
        for cpus in (f"{first}", f"{first},{second}"):
            for name, command in commands.items():
                took.setdefault((cpus, name), []).append(used(command, cpus))
    print(f"\n{size / 1e6:.0f} MB of text, {rounds} rounds, load {os.getloadavg()[0]:.1f} at their end\n")
    print("\n".join([*rows(took, size), *(["", *missing] if missing else [])]), flush=True)


def rows(took: Mapping[tuple[str, str], Sequence[Used]], size: int) -> list[str]:
    """A table: medians, and the range of the wall time."""
    # A process begins with what its parent had, so that no less is seen of it.
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    lines = [
        "| cores | | s, median (min to max) | MB/s of text | CPU s | peak memory, MB |",
        "|---|---|---|---|---|---|",
    ]
    for (cpus, name), runs in took.items():
        walls = [run.wall_s for run in runs]
        wall = statistics.median(walls)
        cpu = statistics.median(run.cpu_s for run in runs)
        peak = statistics.median(run.peak_bytes for run in runs)
        failed = [run.status for run in runs if run.status != 0]
        word = f"; ended with {failed[0]}" if failed else ""
        lines.append(
            f"| {cpus.count(',') + 1} | {name}{word} | {wall:.2f} ({min(walls):.2f} to {max(walls):.2f}) "
            f"| {size / 1e6 / wall:.0f} | {cpu:.2f} | {'at most ' if peak <= own else ''}{peak / 1e6:.0f} |"
        )
    return lines


def main() -> None:
    """A log that is here."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print(parts.machine())
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as place:
        compare(args.log, Path(place), args.rounds)


if __name__ == "__main__":
    main()
