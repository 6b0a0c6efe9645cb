"""Speed and memory of the standard summary of a run: `python bench/analysis.py [--transactions 50e6]`.

Transactions are made in memory (their making is not timed) and summarised in chunks, once with exact quantiles and
once with histograms. Each way runs in a process of its own, so that its peak memory is its own. Wanted on one core:
5 million/s below 3 GB exact, 10 million/s below 1 GB with histograms.
"""

from __future__ import annotations

import argparse
import platform
import resource
import subprocess
import sys
import time

import numpy as np

from plimsoll.analyse.run.summary import Accumulator, Layout
from plimsoll.analyse.window.transactions import Transactions, Window

CHUNK = 1 << 20
LENGTH = 600_000_000_000
TESTERS = 256


def chunk(number: int, chunks: int, rng: np.random.Generator) -> Transactions:
    """A million transactions: late by up to 10 us, log-normal response times, one of a hundred failed."""
    step = LENGTH // (chunks * CHUNK)
    start = (np.arange(CHUNK, dtype=np.int64) + number * CHUNK) * step
    zeros = np.zeros(CHUNK, dtype=np.uint16)
    return Transactions(
        scheduled=np.maximum(start - rng.integers(0, 10_000, CHUNK), 0),
        start=start,
        end=start + rng.lognormal(14, 1, CHUNK).astype(np.int64),
        outcome=(2 * (rng.random(CHUNK) < 0.01)).astype(np.uint8),
        code=zeros,
        tester=rng.integers(0, TESTERS, CHUNK).astype(np.uint32),
        workload=zeros,
        items=np.ones(CHUNK, dtype=np.int64),
        payload=np.full(CHUNK, 1000, dtype=np.int64),
        sent=np.full(CHUNK, 100, dtype=np.int64),
        received=np.full(CHUNK, 1100, dtype=np.int64),
    )


def measure(transactions: int, *, exact: bool) -> str:
    """One line of figures."""
    chunks = max(1, transactions // CHUNK)
    rng = np.random.default_rng(20061)
    layout = Layout(Window(10_000_000_000, LENGTH), LENGTH + 10**9, [""], ["main"], ["local"] * TESTERS)
    accumulator = Accumulator(layout, exact=exact)
    seconds = 0.0
    for number in range(chunks):
        made = chunk(number, chunks, rng)
        began = time.process_time()
        accumulator.add(made)
        seconds += time.process_time() - began
    began = time.process_time()
    found = accumulator.result()
    seconds += time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    rate = chunks * CHUNK / seconds / 1e6
    way = "exact quantiles" if exact else "histograms"
    p99 = found.traffic.response_ms.p99
    return f"{way:15} {chunks * CHUNK / 1e6:5.1f} million {rate:6.2f} million/s CPU  {memory:5.2f} GB  p99 {p99:.4f} ms"


def main() -> None:
    """Runs both ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=float, default=50e6)
    parser.add_argument("--way", choices=["exact", "histograms"])
    given = parser.parse_args()
    if given.way:
        print(measure(int(given.transactions), exact=given.way == "exact"))
        return
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}", flush=True)
    for way in ("exact", "histograms"):
        command = [sys.executable, __file__, "--transactions", str(given.transactions), "--way", way]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
