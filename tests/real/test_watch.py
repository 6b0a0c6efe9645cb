"""Systems that exist, watched through real exporters: a Squid that the lab did not start, and the host it is on."""

from __future__ import annotations

import contextlib
import http.server
import json
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plimsoll.collect.columns.parquet import read_samples
from plimsoll.collect.results import open_results
from plimsoll.collect.watched import watched_readings
from plimsoll.deploy.account import account
from plimsoll.deploy.programs import find
from tests.conftest import Lab, missing
from tests.real.test_trouble import wait_for

SQUID = """
http_port 127.0.0.1:{manager}
http_port 127.0.0.1:{port} accel defaultsite=127.0.0.1:{origin} no-vhost
cache_peer 127.0.0.1 parent {origin} 0 no-query no-digest originserver name=origin
acl here src 127.0.0.0/8
http_access allow here
icp_port 0
access_log none
cache_log /dev/null
cache_store_log none
pid_filename {place}/squid.pid
coredump_dir {place}
netdb_filename none
pinger_enable off
"""
REST = """
load: {testers: 2, think: 5ms}
design: {seed: 1, order: listed}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%}  # a busy machine
"""
LOAD = "workload: {driver: http, target: site, timeout: 20s, http: {paths: [/a, /b, /c]}}" + REST
CORES_SECOND_S = 0.25
"""What is not known of a cumulative busy time at an instant between two samples a second apart: it lies between rising
at once and rising last, s(1 - s) <= 1/4 seconds from the straight line for any share s."""
TICKS_S = 0.06
"""What six modes of a core, each cut to a hundredth of a second, may lack."""


class Origin(http.server.BaseHTTPRequestHandler):
    """What the Squid stands before; its answers may be kept."""

    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        body = b"x" * 1024
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=3600")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@dataclass
class Site:
    """A Squid before an origin, and its exporters; nothing of it was started by the lab."""

    squid: str
    exporter: str
    node: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def targets(self, more: str = "") -> str:
        """`more`: further keys of each exporter."""
        return f"""
plimsoll: 1
name: watched
targets:
  site:
    endpoints: ["{self.squid}"]
    watch:
      - {{prometheus: "{self.exporter}", name: squid, kind: squid, every: 1s{more}}}
      - {{prometheus: "{self.node}", name: squid-host, kind: node, every: 1s{more}}}
"""


def ports(count: int) -> list[int]:
    """Free ones, all different."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def page(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return ""


@pytest.fixture
def site() -> Iterator[Site]:
    programs = {}
    for name, package in (
        ("squid", "squid"),
        ("prometheus-squid-exporter", "prometheus-squid-exporter"),
        ("prometheus-node-exporter", "prometheus-node-exporter"),
    ):
        found = find([name])
        if found is None:
            missing(name, f"apt-get install --no-install-recommends {package}")
        programs[name] = found
    manager, squid, exporter, node = ports(4)
    nobody = account()
    place = Path(tempfile.mkdtemp(prefix="plimsoll-test-", dir="/var/tmp"))
    nobody.set_owner(place, 0o755)
    Origin.asked = 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin) as origin, contextlib.ExitStack() as ended:
        threading.Thread(target=origin.serve_forever, daemon=True).start()
        ended.callback(shutil.rmtree, place, ignore_errors=True)
        ended.callback(origin.shutdown)
        config = place / "squid.conf"
        config.write_text(
            SQUID.format(place=place, manager=manager, port=squid, origin=origin.server_address[1])
        )
        config.chmod(0o644)
        here = Site(
            f"http://127.0.0.1:{squid}",
            f"http://127.0.0.1:{exporter}/metrics",
            f"http://127.0.0.1:{node}/metrics",
        )
        commands: dict[str, list[str | Path]] = {
            # One process, which the pid file names: the exporter then sees the one that works.
            "squid": [programs["squid"], "-N", "-n", f"plimsolltest{squid}", "-f", config],
            "exporter": [
                *(programs["prometheus-squid-exporter"], "-listen", f"127.0.0.1:{exporter}"),
                *("-squid-hostname", "127.0.0.1", "-squid-port", str(manager)),
                *("-squid-pidfile", place / "squid.pid"),
            ],
            "node": [programs["prometheus-node-exporter"], f"--web.listen-address=127.0.0.1:{node}"],
        }
        for name, command in commands.items():
            with (place / f"{name}.log").open("wb") as log:
                here.processes[name] = subprocess.Popen(
                    nobody.command(command, {}), cwd=place, stdout=log, stderr=subprocess.STDOUT
                )
            ended.callback(end, here.processes[name], signal.SIGINT if name == "squid" else signal.SIGTERM)
        wait_for(lambda: "squid_client_http_requests_total" in page(here.exporter))
        wait_for(lambda: "node_cpu_seconds_total" in page(here.node))
        yield here


def end(process: subprocess.Popen[bytes], how: int) -> None:
    process.send_signal(how)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def service(found: dict[str, Any], name: str) -> dict[str, Any]:
    (one,) = [each for each in found["runs"][0]["services"] if each["name"] == name]
    return dict(one)


def has_readings(lab: Lab, name: str, number: int) -> bool:
    path = lab.directory / "results" / "latest" / "runs" / "0001" / "services" / name / "counters.jsonl"
    return path.exists() and path.read_text().count('"values"') >= number


def run_record(lab: Lab) -> dict[str, Any]:
    return dict(json.loads((lab.results() / "runs" / "0001" / "run.json").read_text()))


def test_the_exporters_count_what_was_sent_and_see_what_our_own_monitor_saw(lab: Lab, site: Site) -> None:
    done = lab.run(
        "run", "--no-probe", lab.file(site.targets() + LOAD + "run: {duration: 8s, drain: 2s}\n"), "--json"
    )
    assert done.code == 0, done.err
    assert lab.run("check", lab.results()).code == 0
    counts = done.json["runs"][0]["counts"]
    squid = service(done.json, "squid")
    asked = squid["counters"]["client_http.requests"]
    assert asked == counts["started"] == counts["succeeded"] > 100, "without those of the exporter"
    [tier] = done.json["runs"][0]["tiers"]
    assert (tier["service"], tier["counted"], tier["difference"]) == ("squid", asked, 0)
    # Three paths; testers that ask for the same one before it is stored all miss.
    fetched = Origin.asked
    assert squid["counters"]["server.all.requests"] == fetched >= 3
    assert squid["counters"]["client_http.hits"] == asked - fetched
    assert squid["derived"]["hit_ratio"] == pytest.approx((asked - fetched) / asked)
    assert squid["counters"]["client_http.kbytes_out"] > asked, (
        "each answer has a kilobyte of 1024, and a head"
    )
    assert squid["counters"]["client_http.hit_kbytes_out"] > asked - fetched, (
        "kilobytes, whatever the exporter's name says"
    )
    used = done.json["runs"][0]["utilization"]
    assert used["squid-host"]["role"] == "host"
    assert 0 < used["squid-host"]["detail"]["cpu.busy"] <= used["squid-host"]["mean"] <= 1
    assert used["squid"]["role"] == "service" and used["squid"]["resource"] == "cpu of its process"
    assert 0 < used["squid"]["mean"] < 1
    assert not [note for note in done.json["runs"][0]["notes"] if "squid" in note], "nothing is missing"
    told = run_record(lab)["watched"]
    assert [one["gaps"] for one in told] == [[], []]
    assert "Linux" in told[1]["version"]
    assert_same_cpu(lab)


def assert_same_cpu(lab: Lab) -> None:
    """Both read /proc/stat of this host. Busy time of our monitor, a second a step, is taken at the moments of the
    first and the last reading of the exporter within its samples, on the straight line between two samples."""
    (run,) = open_results(lab.results()).runs
    (readings,) = [one for one in watched_readings(run) if one.name == "squid-host"]
    assert run.samples is not None
    (ours,) = [
        one
        for one in read_samples(run.samples)
        if (one.component, one.metric, one.part) == ("host", "cpu.busy", "")
    ]
    ends = np.concatenate(([ours.t_s[0] - 1.0], ours.t_s))
    busy = np.concatenate(([0.0], np.cumsum(ours.value * np.diff(ends))))
    (inside,) = np.nonzero((readings.t_s >= ends[1]) & (readings.t_s <= ends[-1]))
    first, last = int(inside[0]), int(inside[-1])
    span = float(readings.t_s[last] - readings.t_s[first])
    assert span > 4
    theirs = (readings.values["cpu.busy"][last] - readings.values["cpu.busy"][first]) / (
        readings.values["cpu.all"][last] - readings.values["cpu.all"][first]
    )
    own = float(np.diff(np.interp(readings.t_s[[first, last]], ends, busy))[0]) / span
    assert own > 0
    assert abs(theirs - own) <= 2 * (CORES_SECOND_S + TICKS_S) / span


@pytest.mark.long
def test_an_exporter_that_dies_is_a_gap_in_the_notes_and_nothing_else(lab: Lab, site: Site) -> None:
    process = lab.start("run", lab.file(site.targets() + LOAD + "run: {duration: 6s, drain: 2s}\n"), "--json")
    # Counters are differences between readings, which are a second apart.
    wait_for(lambda: has_readings(lab, "squid-host", 2))
    end(site.processes["node"], signal.SIGKILL)
    for _ in range(50):
        page(f"{site.squid}/foreign")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    run = json.loads(out)["runs"][0]
    assert run["status"] == "finished" and run["valid"]
    assert any(note.startswith("no reading of squid-host from ") for note in run["notes"])
    asked = int(service(json.loads(out), "squid")["counters"]["client_http.requests"])
    assert asked == run["counts"]["started"] + 50
    assert (
        f"squid counted {asked:,} requests, 50 more than the testers sent: it has other clients"
        in run["notes"]
    )
    assert not [reason for reason in run["doubtful_reasons"] if "counted" in reason], "others may use it, too"
    assert service(json.loads(out), "squid-host")["counters"]["cpu.all"] > 0, "what was read before is kept"
    assert "watch-lost" in (lab.results() / "runs" / "0001" / "events.jsonl").read_text()
    assert "no reading of squid-host" in (lab.results() / "report.html").read_text()
    assert lab.run("check", lab.results()).code == 0


def test_one_that_does_not_answer_at_the_start_is_named(lab: Lab, site: Site) -> None:
    end(site.processes["node"], signal.SIGTERM)
    text = LOAD + "run: {duration: 1s}\n"
    done = lab.run("run", "--no-probe", lab.file(site.targets() + text))
    assert done.code == 1
    assert f"squid-host ({site.node}): Connection refused" in done.err and "optional: true" in done.err
    assert "squid (" not in done.err, "this one answers"
    assert not list((lab.directory / "results").glob("watched-*")), "nothing was begun"
    done = lab.run("run", lab.file(site.targets(", optional: true") + text), "--json")
    assert done.code == 0, done.err
    assert "watch: squid-host (" in done.err
    assert [one["name"] for one in done.json["runs"][0]["services"]] == ["squid"]
    assert done.json["runs"][0]["notes"] == [
        "squid-host could not be read during the run (Connection refused)"
    ]
    assert lab.run("check", lab.results()).code == 0


def test_a_squid_that_is_gone_behind_its_exporter_is_told_of(lab: Lab, site: Site) -> None:
    end(site.processes["squid"], signal.SIGKILL)
    done = lab.run("run", "--no-probe", lab.file(site.targets() + LOAD + "run: {duration: 1s}\n"))
    assert done.code == 1
    assert "squid_up is 0" in done.err


def test_what_lets_somebody_in_is_stored_nowhere(lab: Lab, site: Site) -> None:
    token = "s3cr3t-of-the-exporter"
    more = ', headers: {Authorization: {secret: "Bearer ${env:EXPORTER_TOKEN}"}}'
    text = site.targets(more) + LOAD + "run: {duration: 1s}\n"
    done = lab.run("run", lab.file(text), EXPORTER_TOKEN=token)
    assert done.code == 0, done.err
    assert token not in done.out + done.err
    for file in lab.results().rglob("*"):
        assert not file.is_file() or token.encode() not in file.read_bytes(), file
