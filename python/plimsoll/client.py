"""For client programs: report transactions to Plimsoll's `exec` driver. One file, standard library only.

Copy it next to the program or import `plimsoll.client`. Without Plimsoll the program runs as before, and the reports
go to stdout.

A program that makes one transaction and exits (`mode: per-transaction`)::

    import client

    with client.transaction() as done:
        data = fetch()
        done.bytes = len(data)

A program that makes many transactions (`mode: long-lived`)::

    for request in client.requests():
        with client.transaction() as done:
            done.bytes = len(fetch(request["n"]))

An exception inside the block makes the transaction an error. Only the first form raises it again.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Done:
    """The result of a transaction. Set the fields that are known.

    `bytes`: payload bytes; `items`: rows, files, entries; `ok`: False marks an error; `code`: a
    short word for the kind of error; `metrics`: further numbers by name.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.items = 0
        self.ok = True
        self.code = ""
        self.metrics: dict[str, float] = {}


_long_lived = False


@contextmanager
def transaction() -> Iterator[Done]:
    """Times the block with CLOCK_MONOTONIC_RAW, the clock of Plimsoll's own stamps, and reports it as one JSON line."""
    done = Done()
    start = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    try:
        yield done
    except Exception as error:
        done.ok = False
        done.code = done.code or type(error).__name__
        if not _long_lived:
            raise
    finally:
        report(done, start, time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW))


def requests() -> Iterator[dict[str, Any]]:
    """The requests that Plimsoll sends to a long-lived program, one dict each: `n`, `tester`,
    `endpoint`."""
    global _long_lived
    _long_lived = True
    for line in sys.stdin:
        if line.strip():
            yield json.loads(line)


def report(done: Done, start_ns: int, end_ns: int) -> None:
    """Writes the line of JSON that the driver reads."""
    line = {
        "bytes": done.bytes,
        "items": done.items,
        "ok": done.ok,
        "code": done.code,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "metrics": done.metrics,
    }
    print(json.dumps(line, separators=(",", ":")), flush=True)
