"""The recorder: transactions from memory to segments, and from segments to Parquet, on one core, by the engine's own
hidden measure. `python bench/record.py [--rows 20000000]`"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile

import parts

from plimsoll.deploy.binary import find_engine


def main() -> None:
    """One table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    _, core = parts.cores()
    found = []
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory() as directory:
            words = ["taskset", "-c", str(core), str(find_engine()), "bench", "record"]
            command = [*words, "--rows", str(args.rows), "--directory", directory]
            found.append(
                json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            )
    found.sort(key=lambda one: one["to_segments_per_core_s"])
    middle = found[len(found) // 2]
    print("\n### Recorder, per core second\n")
    print("| | |\n|---|---|")
    print(f"| memory to segments | {middle['to_segments_per_core_s'] / 1e6:.1f} million transactions/s |")
    print(f"| segments to Parquet | {middle['to_parquet_per_core_s'] / 1e6:.1f} million transactions/s |")
    print(f"| in a segment | {middle['segment_bytes_per_row']:.0f} B a transaction |")
    print(f"| in Parquet | {middle['parquet_bytes_per_row']:.1f} B a transaction |")


if __name__ == "__main__":
    main()
