"""All benchmarks, one after the other: `make bench`. Prints Markdown; bench/README.md keeps the last one looked at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import parts

HERE = Path(__file__).parent


def main() -> None:
    """Each in a process of its own."""
    print(f"{parts.machine()}\n", flush=True)
    for name in ("http.py", "pacing.py", "record.py", "analysis.py", "overhead.py", "gateway.py"):
        subprocess.run([sys.executable, HERE / name], check=True)


if __name__ == "__main__":
    main()
