"""Real agents whose clocks differ by days, in time namespaces, against what a server saw by the controller's clock."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from plimsoll.deploy.binary import find_engine
from tests.conftest import Lab, missing
from tests.real.dial_in import finish, no_secret_stays, starting, until

DAYS_S = 1_000_000
Arrivals = dict[tuple[int, int], int]
"""By tester and number of its request, ns of CLOCK_MONOTONIC_RAW."""

EXPERIMENT = """
plimsoll: 1
name: shifted
workload: {{driver: http, target: "{url}", timeout: 10s, http: {{path: "/{{tester}}/{{n}}"}}}}
load: {{testers: 6, think: 20ms}}
run: {{duration: 6s}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%, started: 0%}}
hosts: {{kind: join, join: {{agents: 3}}, link: quic, controller: {{address: 127.0.0.1}}}}
"""


@contextmanager
def noting() -> Iterator[tuple[str, Arrivals]]:
    """A server that notes when each request came; its URL and what it has noted."""
    arrivals: Arrivals = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            tester, number = map(int, self.path.strip("/").split("/"))
            arrivals[tester, number] = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/", arrivals
        finally:
            server.shutdown()
            thread.join()


def shifted(offset_s: int) -> list[str]:
    """What stands before a command that is to live with another clock."""
    rootless = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    offset = [f"--monotonic={offset_s}", f"--boottime={offset_s}"]
    return ["unshare", *rootless, "--time", *offset, "--fork", "--kill-child"]


@pytest.fixture
def offsets() -> dict[str, int]:
    """Of the agents, s: days ahead, none, and behind; a clock cannot go below zero."""
    if (
        not shutil.which("unshare")
        or subprocess.run([*shifted(1), "true"], check=False, capture_output=True).returncode
    ):
        missing(
            "the right to make time namespaces", "be root or allow user namespaces, on Linux 5.6 or later"
        )
    return {"ahead": DAYS_S, "same": 0, "behind": -int(time.clock_gettime(time.CLOCK_MONOTONIC) / 2)}


@pytest.mark.long
def test_clocks_that_differ_by_days_change_no_number(lab: Lab, offsets: dict[str, int]) -> None:
    agents: list[subprocess.Popen[bytes]] = []
    with noting() as (url, arrivals), starting(lab) as start:
        process = start(lab.file(EXPERIMENT.format(url=url)))
        try:
            until("token", lambda: list(lab.directory.glob("results/*/.work/hosts/join/token")))
            [token] = lab.directory.glob("results/*/.work/hosts/join/token")
            for name, offset in offsets.items():
                words = [find_engine(), "agent", "--join", "-", "--name", name, "--directory"]
                with token.open("rb") as stdin:
                    argv = [*shifted(offset), *map(str, [*words, lab.directory / f"agent-{name}"])]
                    agents.append(subprocess.Popen(argv, stdin=stdin))
            done = finish(process)
            assert done.code == 0, done.err
            assert [agent.wait(20) for agent in agents] == [0] * 3
        finally:
            for agent in agents:
                agent.kill()
                agent.wait()
    run = lab.results() / "runs" / "0001"
    offsets_are_found(run, offsets)
    times_are_those_of_the_server(run, arrivals)
    timelines_are_one(lab, run, arrivals)
    assert not list(lab.directory.glob("agent-*"))
    no_secret_stays(lab.directory)


def offsets_are_found(run: Path, offsets: dict[str, int]) -> None:
    clocks = json.loads((run / "clock.json").read_text())["agents"]
    for name, offset in offsets.items():
        clock = clocks[name]
        for piece in clock["pieces"]:  # a busy machine can look like a change of route
            error = piece["offset_ns"] + offset * 1_000_000_000  # controller less agent
            print(f"CLOCK {name}: shifted by {offset:,} s, found with {error / 1e3:.1f} us error,", end=" ")
            print(f"bound {clock['bound_ns'] / 1e3:.1f} us, drift {piece['drift_ppm']:.3f} ppm")
            assert abs(error) <= clock["bound_ns"]
            assert piece["drift_low_ppm"] <= 0 <= piece["drift_high_ppm"], "it is one crystal"
        assert 0 < clock["bound_ns"] < 100_000_000, "of an offset of days"
        assert not clock["steps"] and clock["probes"] >= 16 and not clock["remark"]


def times_are_those_of_the_server(run: Path, arrivals: Arrivals) -> None:
    """A request came after it was sent and before its answer was there, but for the bound of the clocks."""
    clocks = json.loads((run / "clock.json").read_text())
    rows = pq.read_table(run / "transactions.parquet").to_pylist()
    number: dict[int, int] = {}
    worst = 0
    for row in sorted(rows, key=lambda row: row["start"]):
        tester = row["tester"]
        which = (tester, number.get(tester, 0))
        number[tester] = which[1] + 1
        if row["end"] < 0:
            continue  # cut off at the end
        bound = clocks["agents"][row["agent"]]["bound_ns"]
        arrived = arrivals[which] - clocks["t0_ns"]
        assert row["start"] - bound <= arrived <= row["start"] + row["end"] + bound, row
        worst = max(worst, row["start"] - arrived, arrived - row["start"] - row["end"])
    print(f"CLOCK {len(rows)} transactions, at worst {worst / 1e3:.1f} us outside of their request times")
    assert len(rows) >= 300 and set(arrivals) <= {(t, n) for t, most in number.items() for n in range(most)}


def timelines_are_one(lab: Lab, run: Path, arrivals: Arrivals) -> None:
    """As if nobody's clock were shifted: all begin together, as far apart as is reported, and go on to the end."""
    clocks = json.loads((run / "clock.json").read_text())["agents"]
    rows = pq.read_table(run / "transactions.parquet", columns=["agent", "start"])
    for name in clocks.keys() - {"lab"}:
        own = [row["start"] for row in rows.to_pylist() if row["agent"] == name]
        assert -0.1e9 <= min(own) < 3e9 and 3e9 < max(own) <= 7e9, (name, min(own), max(own))
    [analysed] = lab.run("show", lab.results(), "--json").json["runs"]
    begun = [clocks[name]["started_ns"] / 1e6 for name in clocks if name != "lab"]
    spread, bound = analysed["hosts"]["start_spread_ms"], analysed["hosts"]["start_spread_bound_ms"]
    assert spread == pytest.approx(max(begun) - min(begun), abs=0.01) and spread < 3000
    assert analysed["hosts"]["bound_ms"] < 100 and analysed["hosts"]["coverage_mean"] == 1
    print(f"CLOCK starts {spread:.3f} ms apart, ± {bound:.3f} ms; {len(arrivals)} arrivals")
