"""Our view against the server's: what 1,000 testers on 20 emulated hosts measured, beside what the service counted.

The service says how many requests it has answered, and when it said so, by its own clock, which is the controller's.
Between two such readings lies a quantum of about a second. A transaction ends at its tester after the way back, so the
server had answered it half a round trip before (the emulated links are symmetric, and how long they are is known).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.conftest import Lab
from tests.real.emulated import VALIDITY, Emulated, emulated, record, summary

RTT_S = {"near": 0.0003, "mid": 0.060, "far": 0.315}
SECONDS = 60
BED = """
testbed: 1
name: views
lab: here
sites: {here: {hosts: 0}, near: {hosts: 6}, mid: {hosts: 7}, far: {hosts: 7}}
links:
  - {between: [here, near], rtt: 0.3ms}
  - {between: [here, mid], rtt: 60ms}
  - {between: [here, far], rtt: 315ms}
"""


def experiment(bed: Emulated) -> Path:
    sites: dict[str, list[str]] = {}
    for host in bed.bed.hosts[1:]:
        sites.setdefault(host.site, []).append(host.name)
    hosts = {
        "kind": "ssh",
        "sites": sites,
        "ssh": {"config": str(bed.bed.ssh_config)},
        "controller": {"address": bed.bed.lab_address},
        "directory": str(bed.directory),
    }
    return bed.lab.file(f"""
plimsoll: 1
name: views
services: {{web: {{kind: echo, body: 100B}}}}
workload: {{driver: http, target: web, timeout: 30s}}
load: {{testers: 1000, think: {{exponential: 1.3s}}}}
run: {{warmup: 5s, duration: {SECONDS}s, drain: 20s}}
validity: {VALIDITY}
hosts: {json.dumps(hosts)}
""")


@dataclass(frozen=True)
class Views:
    """Seconds from the zero of the run. `at`, `answered`: the server's readings; `start`, `end` of each transaction at
    its tester, and `left`: when the server had answered it."""

    at: np.ndarray
    answered: np.ndarray
    start: np.ndarray
    end: np.ndarray
    left: np.ndarray

    def in_flight(self, at: float) -> int:
        """Transactions in progress."""
        return int(((self.start <= at) & (self.end > at)).sum())


def views(run: Path) -> Views:
    """From the files of a run."""
    zero = json.loads((run / "clock.json").read_text())["t0_ns"]
    lines = [json.loads(line) for line in (run / "services/web/counters.jsonl").read_text().splitlines()[1:]]
    rows = pq.read_table(run / "transactions.parquet", columns=["agent", "start", "end"]).to_pydict()
    site = {one["agent"]: one["site"] for one in record(run)["places"]}
    start, lasted = np.array(rows["start"]) / 1e9, np.array(rows["end"]) / 1e9
    way_back = np.array([RTT_S[site[str(agent)]] for agent in rows["agent"]]) / 2
    end = start + lasted
    return Views(
        np.array([line["values"]["clock_ns"] - zero for line in lines]) / 1e9,
        np.array([line["values"]["answered"] for line in lines]),
        start,
        end,
        end - way_back,
    )


def grown(times: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many of the times lie in (edge, next edge]."""
    return np.diff(np.searchsorted(np.sort(times), edges, side="right"))


@pytest.mark.long
@pytest.mark.timeout(400)
def test_our_view_is_the_servers(lab: Lab) -> None:
    lab.limit_s = 300
    with emulated(lab, BED) as bed:
        bed.lab.limit_s = 300
        done = bed.lab.run("run", "--no-probe", experiment(bed), "--quiet")
        assert done.code == 0, done.err
        run = bed.lab.results() / "runs" / "0001"
        books = summary(run)
        assert books["balanced"] and not books["damage"], books["damage"]
        assert len(books["agents"]) == 21 and books["counters"]["failed"] == 0
        both = views(run)
        # All over, nothing in flight: exactly.
        assert books["in_flight"] == 0
        assert both.answered[-1] - both.answered[0] == books["counters"]["succeeded"] == len(both.end)
        quanta_agree(both)
        peak_agrees(bed, both)


def quanta_agree(both: Views) -> None:
    inside = (both.at >= 0) & (both.at <= SECONDS)
    at, theirs = both.at[inside], np.diff(both.answered[inside])
    assert len(theirs) >= SECONDS * 0.8, "a quantum is about a second"
    ended, left = grown(both.end, at), grown(both.left, at)
    in_flight = np.array([both.in_flight(edge) for edge in at])
    print(
        f"VIEWS {len(theirs)} quanta, {theirs.mean():.0f} answers each; in flight at an edge: {in_flight.mean():.0f}"
    )
    for name, ours in (("ends", ended), ("ends less the way back", left)):
        off = np.abs(ours - theirs)
        print(
            f"VIEWS {name}: off by {off.mean():.2f} on average, {np.median(off):g} in the median, {off.max()} at most; "
            f"{(off / theirs).max():.2%} at most"
        )
    allowed = 0.01 * theirs + in_flight[:-1] + in_flight[1:]
    assert (np.abs(ended - theirs) <= allowed).all(), np.abs(ended - theirs) - allowed
    assert (np.abs(left - theirs) <= allowed).all(), np.abs(left - theirs) - allowed
    # With the way back taken off nothing is left to explain but frames that a busy machine hands on late.
    assert np.abs(left - theirs).mean() <= 0.01 * theirs.mean()


def peak_agrees(bed: Emulated, both: Views) -> None:
    """From the first reading in the window to the last: all testers begin at once, so that between the reading before
    it and the first answers do not come evenly."""
    [analysed] = bed.lab.run("show", bed.lab.results(), "--json").json["runs"]
    peak = analysed["peak"]
    length = peak["end_s"] - peak["start_s"]
    assert peak["active_testers"] == 1000 and length > SECONDS / 2
    inside = (both.at >= peak["start_s"]) & (both.at <= peak["end_s"])
    at, answered = both.at[inside][[0, -1]], both.answered[inside][[0, -1]]
    theirs = answered[1] - answered[0]
    for name, times in (("ends", both.end), ("ends less the way back", both.left)):
        [ours] = grown(times, at)
        print(
            f"VIEWS peak, {at[1] - at[0]:.1f} of {length:.1f} s, {name}: {ours} and {theirs}, {ours / theirs - 1:+.3%}"
        )
        assert ours == pytest.approx(theirs, rel=0.01)
    # The figure of the analysis is that of the same transactions.
    [direct] = grown(both.end, np.array([peak["start_s"], peak["end_s"]]))
    print(f"VIEWS peak: {peak['throughput_per_s']:.2f}/s in the report, {direct / length:.2f}/s counted")
    assert peak["throughput_per_s"] == pytest.approx(direct / length, rel=0.01)
