"""The file catalogue over PostgreSQL: queries in sessions beside `pgbench -M prepared` with a select of one row, and
insertions in bulk of 1,000 beside a `COPY` of the same rows. `python bench/catalogue.py [--rounds 5] [--seconds 10]`.
With `--logic database`, functions of PostgreSQL carry out the operations.

Server, catalogue and load generator share the cores of this machine, with pgbench and with Plimsoll alike. The server
is a temporary one of `pg_virtualenv` (Debian: postgresql-common) with its defaults, except for `shared_buffers`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import parts
import psycopg

ENGINE = Path(os.environ.get("PLIMSOLL_ENGINE") or parts.ROOT / "target" / "engine" / "plimsoll-engine")
OPTIONS = ("shared_buffers=1GB", "max_wal_size=8GB")
"""So that the tables are in memory, and no checkpoint begins within a round."""
BULK = 1_000
COPIES = (
    "COPY Cns_file_metadata (fileid, parent_fileid, guid, name, filemode, owner_uid, filesize, atime, mtime, ctime, "
    "nlink, gid, fileclass, status) FROM STDIN",
    "COPY Cns_file_replica (fileid, ctime, atime, host, sfn, nbaccesses, ptime, ltime, r_type, status, f_type, "
    "poolname, fs) FROM STDIN",
)


def url() -> str:
    """Of the database that `pg_virtualenv` has made."""
    login = f"{os.environ['PGUSER']}:{os.environ['PGPASSWORD']}"
    return f"postgresql://{login}@127.0.0.1:{os.environ['PGPORT']}/{os.environ['PGDATABASE']}"


def load(entries: int) -> None:
    """Writes the data set."""
    tables = [{"kind": "catalogue", "entries": entries, "seed": 1}]
    config = json.dumps({"database": url(), "tables": tables})
    begun = time.monotonic()
    subprocess.run(
        [ENGINE, "data", "--config", "-"], input=config, text=True, check=True, stdout=subprocess.DEVNULL
    )
    print(f"{entries:,} entries in {time.monotonic() - begun:.0f} s", file=sys.stderr)


@contextmanager
def served(logic: str) -> Iterator[str]:
    """A catalogue over the database; gives its address."""
    config = json.dumps({"database": url(), "threads": 40, "logic": logic})
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(config)
        file.flush()
        words: list[str | Path] = [
            ENGINE,
            "serve",
            "catalogue",
            "--listen",
            "127.0.0.1:0",
            "--config",
            file.name,
        ]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["listening"]
        finally:
            process.terminate()
            process.wait(10)


def of_pgbench(entries: int, clients: int, seconds: float) -> parts.Measured:
    """Selects of one row by its primary key."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(
            f"\\set n random(1, {entries})\n"
            "SELECT fileid, guid, filemode, filesize FROM Cns_file_metadata WHERE fileid = :n;\n"
        )
        script.flush()
        words = ["pgbench", "-n", "-M", "prepared", "-f", script.name, "-T", f"{seconds:.0f}"]
        out, cpu = parts.run_with_cpu([*words, "-c", str(clients), "-j", str(min(clients, 2))])
    match = re.search(r"tps = ([\d.]+)", out)
    if match is None:
        sys.exit(f"pgbench said:\n{out}")
    rate = float(match[1])
    return parts.Measured(rate, cpu / (rate * seconds) * 1e6)


def of_catalogue(
    address: str, entries: int, clients: int, seconds: float, section: dict[str, Any]
) -> parts.Measured:
    """Entries per second of one operation of the driver."""
    document = {
        "plimsoll": 1,
        "name": "catalogue-bench",
        "workload": {
            "driver": "catalogue",
            "target": f"catalogue://{address}",
            "timeout": "60s",
            "catalogue": {"data": {"entries": entries, "seed": 1}, "verify": "0%", **section},
        },
        "load": {"testers": clients, "think": "0s"},
        "run": {"warmup": "1s", "duration": f"{seconds:g}s"},
        "cpus": {"mode": "none"},  # shared, as those of pgbench are
        "validity": {"lateness_floor": "100s", "tester_cpu": "100%", "trend": False, "steal": "100%"},
    }
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "bench.yaml"
        file.write_text(json.dumps(document))
        run = parts.plimsoll("run", str(file), "--out", str(Path(place) / "out"))["runs"][0]
    counts = run["counts"]
    if counts["failed"] or not counts["balanced"]:
        sys.exit(f"the run is not sound: {counts} {run['errors_by_kind']}")
    return parts.Measured(run["throughput_per_s"] * section.get("bulk", 1))


def of_copy(seconds: float) -> parts.Measured:
    """The rows of insertions, by one session, without a catalogue."""
    done, first = 0, time.time_ns()
    with psycopg.connect(url()) as connection, connection.cursor() as cursor:
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            metadata, replicas = [], []
            for number in range(first, first + BULK):
                guid = uuid.uuid4()
                metadata.append(f"{number}\t4\t{guid}\tn{number}\t33188\t101\t1\t1\t1\t1\t1\t0\t0\t-\n")
                replicas.append(
                    f"{number}\t1\t1\tse01.example.org\tsrm://se01.example.org/data/{guid}\t0\t0\t0\tP\t-\tP\t\t\n"
                )
            first += BULK
            for statement, rows in zip(COPIES, (metadata, replicas), strict=True):
                with cursor.copy(statement) as copy:
                    copy.write("".join(rows))
            connection.commit()
            done += BULK
        elapsed = time.monotonic() - begun
    return parts.Measured(done / elapsed)


def show(title: str, contenders: Mapping[str, Callable[[], parts.Measured]], rounds: int, unit: str) -> None:
    """A table, with the first contender as the yardstick."""
    found = parts.in_rotation(contenders, rounds)
    print(f"\n### {title}\n")
    print("\n".join(parts.table(found, next(iter(contenders)), unit)), flush=True)


def measure(entries: int, rounds: int, seconds: float, clients: Sequence[int], logic: str) -> None:
    """Queries, then insertions, which make the tables larger."""
    load(entries)
    with served(logic) as address:
        for number in clients:
            given = partial(of_catalogue, address, entries, number, seconds)
            contenders = {
                "pgbench -M prepared": partial(of_pgbench, entries, number, seconds),
                "query by name": partial(given, {}),
                "query by GUID": partial(given, {"by": "guid"}),
            }
            show(f"{number} sessions", contenders, rounds, "queries/s")
        insert = {"operation": "insert", "bulk": BULK}
        copies = {"COPY by one session": partial(of_copy, seconds)}
        for number in (1, 2, 4):
            copies[f"insert, {number} sessions"] = partial(
                of_catalogue, address, entries, number, seconds, insert
            )
        show(f"Insertions in bulk of {BULK:,}", copies, rounds, "entries/s")


def main() -> None:
    """Within the environment of a temporary server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--logic", choices=["server", "database"], default="server")
    args = parser.parse_args()
    if shutil.which("pg_virtualenv") is None or shutil.which("pgbench") is None:
        sys.exit("pg_virtualenv or pgbench is missing: apt-get install postgresql postgresql-common")
    if "PGPASSWORD" not in os.environ:
        options = [word for option in OPTIONS for word in ("-o", option)]
        words = ["pg_virtualenv", *options, sys.executable, *sys.argv]
        os.execvp(words[0], words)
    measure(args.entries, args.rounds, args.seconds, args.sessions, args.logic)


if __name__ == "__main__":
    main()
