"""Start-up: `plimsoll --help`, and what an experiment costs beside its load. `python bench/overhead.py [--rounds 7]`"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LOAD_S = 1.0
EXPERIMENT = """
plimsoll: 1
name: empty
workload: {driver: "null", "null": {}}
load: {testers: 1, think: 10ms}
run: {duration: 1s, drain: 1s}
"""


def seconds(words: list[str]) -> float:
    """Wall time of a command."""
    began = time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    if done.returncode not in (0, 97):  # 97: a busy machine made the run invalid, which costs no time
        sys.exit(f"{' '.join(words)} failed:\n{done.stderr}")
    return took


def main() -> None:
    """Both figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    command = str(Path(sys.executable).with_name("plimsoll"))
    helps = [seconds([command, "--help"]) for _ in range(rounds)]
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "empty.yaml"
        file.write_text(EXPERIMENT)
        runs = [seconds([command, "run", str(file), "--out", directory]) - LOAD_S for _ in range(rounds)]
    print("\n### Start-up\n")
    print("| | seconds, median (min to max) |\n|---|---|")
    print(f"| `plimsoll --help` | {statistics.median(helps):.2f} ({min(helps):.2f} to {max(helps):.2f}) |")
    print(
        f"| `plimsoll run` of one second, beside that second, report included | {statistics.median(runs):.2f} "
        f"({min(runs):.2f} to {max(runs):.2f}) |"
    )


if __name__ == "__main__":
    main()
