"""Traces of file I/O: what taking them in costs, what recording costs, how long a replay takes beside the program.

`python bench/traces.py [--only NAME ...] [--quick]`, with NAME import, record, replay or jobs. It needs strace, and
2 GB in TMPDIR. All compared things take turns within one run. The tables go into README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import parts
import traces_peers
from traces_programs import PROGRAMS

from plimsoll.deploy.binary import find_engine

Took = TypeVar("Took")

ROUNDS: Final = 7
LOG_BYTES: Final = 300_000_000
JOBS: Final = (1, 2, 4, 8, 12)


def timed(command: Sequence[object], cpus: str | None = None, **options: Any) -> float:
    """Seconds that a command takes; it must succeed."""
    words = [str(word) for word in command]
    if cpus is not None:
        words = ["taskset", "-c", cpus, *words]
    since = time.perf_counter()
    done = subprocess.run(words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)
    took = time.perf_counter() - since
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.decode(errors='replace')[-500:]}")
    return took


def in_turn(rounds: int, things: dict[str, Callable[[], Took]]) -> dict[str, list[Took]]:
    """Each of them once a round."""
    took: dict[str, list[Took]] = {name: [] for name in things}
    for _ in range(rounds):
        for name, work in things.items():
            took[name].append(work())
    return took


def of(values: Sequence[float], unit: float = 1.0, digits: int = 2) -> str:
    """Median and range."""
    scaled = sorted(value * unit for value in values)
    return f"{statistics.median(scaled):.{digits}f} ({scaled[0]:.{digits}f} to {scaled[-1]:.{digits}f})"


def engine(*words: object) -> list[str]:
    """A command of the engine."""
    return [str(find_engine()), *map(str, words)]


def import_(place: Path, rounds: int, quick: bool) -> None:
    """Text of strace into a trace file, on one core and on two; the file back again."""
    log = place / "log"
    tar = "for i in $(seq 40); do tar -C / -cf - usr/include/linux | gzip -1 >x.$i & done"
    script = f"{tar}; wait; grep -rq nothing /usr/include"
    options = ["-f", "-ttt", "-T", "-y", "-q", "-s", "0", "-a", "1", "-e", "trace=file,desc,process"]
    subprocess.run(["strace", *options, "-o", log, "sh", "-c", script], check=True, cwd=place)
    piece, wanted = log.read_bytes(), LOG_BYTES // (10 if quick else 1)
    with log.open("wb") as out:
        for _ in range(max(1, wanted // len(piece))):
            out.write(piece)
    size = log.stat().st_size
    trace = place / "log.trace"
    took = in_turn(
        rounds,
        {
            "wc -l": lambda: timed(["wc", "-l", log]),
            "import, one core": lambda: timed(engine("trace", "import", "-o", trace, log), "0"),
            "import, two cores": lambda: timed(engine("trace", "import", "-o", trace, log)),
            "profile of the file": lambda: timed(engine("trace", "profile", trace)),
        },
    )
    lines = piece.count(b"\n") * max(1, wanted // len(piece))
    print(
        f"{size / 1e6:.0f} MB of text, {lines:,} lines; trace file {trace.stat().st_size / lines:.2f} B a line\n"
    )
    print("| | s, median (min to max) | MB/s of text |\n|---|---|---|")
    for name, values in took.items():
        print(f"| {name} | {of(values)} | {size / 1e6 / statistics.median(values):.0f} |")
    print()
    traces_peers.compare(log, place, rounds)


def record(place: Path, rounds: int, quick: bool) -> None:
    """`dd` with small blocks, by itself and recorded."""
    calls = 20_000 if quick else 200_000
    dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=512", f"count={calls}"]
    record = engine("trace", "record", "--uncalibrated", "--force", "-o", place / "dd.trace")

    def itself(source: str) -> float:
        """Seconds that the program took, without what comes before and after it."""
        words = [*record, "--source", source, "--", *dd]
        done = subprocess.run(words, check=True, capture_output=True)
        return float(json.loads(done.stdout)["elapsed_ns"]) / 1e9

    took = in_turn(
        rounds,
        {
            "untraced": lambda: timed(dd),
            "preload": lambda: itself("preload"),
            "strace": lambda: itself("strace"),
        },
    )
    bare = statistics.median(took["untraced"])
    print(f"{2 * calls:,} calls\n\n| | s | times untraced | us a call more |\n|---|---|---|---|")
    for name, values in took.items():
        middle = statistics.median(values)
        more = (middle - bare) / (2 * calls) * 1e6
        print(f"| {name} | {of(values)} | {middle / bare:.1f} | {more:.2f} |")


SOURCES: Final = {
    "preload": ("--source", "preload"),
    "strace": ("--source", "strace"),
    "strace on one core": ("--source", "strace", "--one-core"),
}


def replay(place: Path, rounds: int, quick: bool) -> None:
    """Programs by themselves, and their replays in `diff` from each recorder."""
    heads = ["program", "by itself, s", "itself / itself", "replay from preload / itself"]
    for source in list(SOURCES)[1:]:
        heads += [f"replay from {source} / itself", "share of tracing", "by the trace it took", "right"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    names = list(PROGRAMS)[:3] if quick else list(PROGRAMS)
    for name in names:
        program = place / f"{name}.py"
        program.write_text(PROGRAMS[name])
        root = place / f"root-{name}"
        root.mkdir()
        timed([sys.executable, program], cwd=place)  # its data are there from now on
        itself = [sys.executable, program]
        took = [a_round(itself, place, place / f"{name}.trace", root) for _ in range(rounds)]
        bare = [one for per_round in took for pair, _ in per_round.values() for one in pair]
        # What the host does to the same program within seconds: no ratio says more than that.
        again = [after / before for per_round in took for (before, after), _ in per_round.values()]
        cells = [name, of(bare), of(again, digits=3)]
        for source in SOURCES:
            own = [statistics.mean(per_round[source][0]) for per_round in took]
            said = [per_round[source][1] for per_round in took]
            cells.append(of([one["wall_s"] / alone for one, alone in zip(said, own, strict=True)], digits=3))
            if source != "preload":
                cells += by_its_trace(said, own)
        print(f"| {' | '.join(cells)} |", flush=True)


def a_round(
    itself: list[object], place: Path, trace: Path, root: Path
) -> dict[str, tuple[tuple[float, float], dict[str, Any]]]:
    """By source: how long the program takes by itself before and after it, s; what the engine says of its replay.

    The host is faster in one minute than in the next, and a trace keeps the speed of its own minute: so the
    program runs before and after each recording.
    """
    found = {}
    before = timed(itself, cwd=place)
    for source, options in SOURCES.items():
        timed(engine("trace", "record", *options, "--force", "-o", trace, "--", *itself), cwd=place)
        after = timed(itself, cwd=place)
        found[source] = ((before, after), replayed(trace, root))
        before = timed(itself, cwd=place)
    return found


def by_its_trace(said: Sequence[dict[str, Any]], bare: Sequence[float]) -> list[str]:
    """What traces of strace tell of the time without it; in how many rounds that is right."""
    ends = [one["untraced_s"] for one in said]
    low, middle, high = (
        statistics.median(one[end] for one in ends) for end in ("low_s", "middle_s", "high_s")
    )
    shares = [1 - one["untraced_s"]["middle_s"] / one["recorded_s"] for one in said]
    return [
        f"{statistics.median(shares):.0%}",
        f"{low:.2f} to {high:.2f} s, about {middle:.2f}",
        f"in {sum(map(contains, ends, bare))} of {len(said)}",
    ]


def contains(ends: dict[str, float], bare: float) -> bool:
    """Whether the time of the program lies in what its trace tells."""
    return ends["low_s"] <= bare <= ends["high_s"]


def replayed(trace: Path, root: Path) -> dict[str, Any]:
    """What the engine says of a replay of a root that is made ready before."""
    words = ("--root", root, "--allow-root", "--prepare", "--run", "--compressible", "0", trace)
    done = subprocess.run(engine("replay", *words), check=True, capture_output=True)
    answer: dict[str, Any] = json.loads(done.stdout)["replayed"]
    return answer


def jobs(place: Path, rounds: int, quick: bool) -> None:
    """Concurrent jobs on two cores: the program itself beside its replay."""
    program = place / "mixed.py"
    program.write_text(PROGRAMS["mixed"])
    trace = place / "mixed.trace"
    timed([sys.executable, program], cwd=place)
    record = engine("trace", "record", "--source", "preload", "-o", trace, "--", sys.executable, program)
    timed(record, cwd=place)
    print("| jobs | the program, s | its replay, s | ratio |\n|---|---|---|---|")
    for number in JOBS[:2] if quick else JOBS:
        roots = []
        for one in range(number):
            root = place / f"jobs-{number}-{one}"
            root.mkdir()
            subprocess.run(
                engine("replay", "--root", root, "--prepare", trace), check=True, capture_output=True
            )
            roots.append(root)
        # Recorded anew each round, as in `replay`.
        replays = [engine("replay", "--root", root, "--allow-root", trace) for root in roots]
        took = in_turn(
            rounds,
            {
                "real": lambda n=number: together([[sys.executable, program]] * n, place),
                "replay": lambda r=tuple(replays): [timed(record, cwd=place), together(r, place)][1],
            },
        )
        ratio = statistics.median(took["replay"]) / statistics.median(took["real"])
        print(f"| {number} | {of(took['real'])} | {of(took['replay'])} | {ratio:.3f} |", flush=True)


def together(commands: Sequence[Sequence[object]], place: Path) -> float:
    """Seconds until all of them have ended."""
    since = time.perf_counter()
    running = []
    for number, command in enumerate(commands):
        own = place / f"job-{number}"
        own.mkdir(exist_ok=True)
        words = [str(word) for word in command]
        running.append(subprocess.Popen(words, cwd=own, stdout=subprocess.DEVNULL))
    codes = [process.wait() for process in running]
    if any(codes):
        raise SystemExit(f"jobs ended with {codes}")
    return time.perf_counter() - since


BENCHES: Final[dict[str, Callable[[Path, int, bool], None]]] = {
    "import": import_,
    "record": record,
    "replay": replay,
    "jobs": jobs,
}


def main() -> None:
    """All, or those that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=list(BENCHES))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    print(f"{parts.machine()}\n", flush=True)
    for name in args.only or BENCHES:
        print(f"\n### {name}\n", flush=True)
        with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as place:
            os.sync()
            BENCHES[name](Path(place), 3 if args.quick else args.rounds, args.quick)


if __name__ == "__main__":
    main()
