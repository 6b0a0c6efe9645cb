"""Logs that real servers write on this machine, from their lines to an experiment and back."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from plimsoll.deploy.programs import find
from plimsoll.plan.queries.access_line import LineFormat
from plimsoll.plan.queries.access_log import AccessLog, read_access_log
from plimsoll.plan.queries.log_format import line_format
from tests.conftest import Lab
from tests.real.test_services import needs, place, run, stored

__all__ = ["place"]

CUSTOM = (
    '$msec $request_time $remote_addr $http_host "$http_user_agent" $request_method $request_uri $status '
    "$bytes_sent"
)
CONFIG = """
daemon off;
pid {place}/pid;
error_log {place}/error.log;
events {{}}
http {{
  log_format timed '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
                   '"$http_referer" "$http_user_agent" $request_time';
  log_format custom '{CUSTOM}';
  access_log {place}/access.log timed;
  access_log {place}/custom.log custom;
  client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/fastcgi;
  uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;
  server {{ listen 127.0.0.1:{port}; root {place}/www; }}
}}
"""
OBJECTS = 20


@dataclass(frozen=True)
class Server:
    """A running nginx and its log."""

    port: int
    log: Path

    def request(self, method: str, path: str, agent: str = "test") -> int:
        """The status of a request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, headers={"User-Agent": agent})
            return connection.getresponse().status
        finally:
            connection.close()

    def send(self, raw: bytes) -> None:
        """Sends bytes that need not be a request, and waits for the end of the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(raw)
            while connection.recv(4096):
                pass

    def lines(self, count: int) -> list[str]:
        """The lines of the log, once there are `count`: nginx writes a line after the response."""
        end = time.monotonic() + 20
        while len(found := self.log.read_text("latin-1").splitlines()) < count and time.monotonic() < end:
            time.sleep(0.05)
        return found


@pytest.fixture
def nginx(tmp_path: Path, place: Path) -> Iterator[Server]:
    needs("nginx")
    program = find(["nginx"])
    assert program is not None
    (place / "www" / "data").mkdir(parents=True)
    for number in range(OBJECTS):
        (place / "www" / "data" / f"{number}.bin").write_bytes(b"x" * (100 + number))
    (place / "www" / "index.html").write_text("ok")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (place / "nginx.conf").write_text(CONFIG.format(place=place, port=port, CUSTOM=CUSTOM))
    command: list[str | Path] = [program, "-p", place, "-c", place / "nginx.conf", "-e", place / "error.log"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            server = Server(port, place / "access.log")
            for _ in range(200):
                try:
                    server.request("GET", "/")
                    break
                except OSError:
                    time.sleep(0.05)
            yield server
        finally:
            process.terminate()
            process.wait(timeout=20)
            for each in sorted(place.rglob("*"), reverse=True):
                each.rmdir() if each.is_dir() else each.unlink()


def test_the_log_of_nginx_becomes_an_experiment_that_runs(lab: Lab, nginx: Server) -> None:
    before = len(nginx.lines(1))
    for at in range(300):
        assert nginx.request("HEAD" if at % 10 == 0 else "GET", f"/data/{at * at % OBJECTS}.bin") == 200
    assert nginx.request("GET", "/missing") == 404
    assert nginx.request("POST", "/data/1.bin") == 405
    text = nginx.lines(before + 302)
    log = read_access_log(nginx.log, LineFormat("nginx", "s"))
    assert (log.counts.lines, log.counts.used) == (len(text), before + 300)
    assert (log.counts.failed, log.counts.other_methods, log.counts.all_malformed) == (1, 1, 0)
    assert sum(log.is_head) == 30
    assert all(0 <= duration < 10**9 for duration in log.duration_ns)

    url = f"http://127.0.0.1:{nginx.port}"
    done = lab.run(
        "import", "access-log", nginx.log, "--format", "nginx", "--duration", "s", "--target", url, "-o", "site.yaml"
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "Zipf exponent" in done.out and "wrote site.yaml and site.data.txt, " in done.out
    plan = lab.run("plan", "site.yaml")
    assert plan.code == 0, plan.err
    sets = [
        "load={rate: 50/s}", "design.repetitions=1", "run.duration=2s", "run.warmup=0s", "validity.trend=false",
        "validity.lateness_floor=10s", "validity.tester_cpu=100%", "validity.gaps=100%",
    ]  # fmt: skip
    words = [word for each in sets for word in ("--set", each)]
    done = lab.run("run", "site.yaml", *words)
    assert done.code == 0, done.err
    rows = pq.read_table(lab.results() / "runs" / "0001" / "transactions.parquet").to_pylist()
    assert len(rows) > 40
    assert {row["outcome"] for row in rows} == {"ok"}
    known = {path for path in re.findall(r'"(?:GET|HEAD) (\S+) ', "\n".join(text)) if path != "/missing"}
    repeated = re.findall(r'"(GET|HEAD) (\S+) ', "\n".join(nginx.lines(len(text) + len(rows))[len(text) :]))
    assert {path for _, path in repeated} <= known
    assert {method for method, _ in repeated} == {"GET", "HEAD"}


def test_a_format_string_reads_a_log_of_custom_order(lab: Lab, nginx: Server) -> None:
    before = len(nginx.lines(1))
    begin_ns = time.time_ns()
    for at in range(20):
        assert (
            nginx.request("HEAD" if at % 10 == 0 else "GET", f"/data/{at % OBJECTS}.bin?a=%20{at}", 'a "b" c')
            == 200
        )
    end_ns = time.time_ns()
    nginx.lines(before + 20)
    path = nginx.log.with_name("custom.log")
    log, timed = (
        read_access_log(path, line_format(CUSTOM)),
        read_access_log(nginx.log, LineFormat("nginx", "s")),
    )
    assert (log.counts.used, log.counts.all_malformed, log.grain_ns) == (before + 20, 0, 10**6)
    assert (log.paths, log.is_head, list(log.duration_ns)) == (
        timed.paths,
        timed.is_head,
        list(timed.duration_ns),
    )
    assert all(begin_ns - 2 * 10**6 <= start <= end_ns for start in log.start_ns[before:])
    assert set(log.hosts) == {f"127.0.0.1:{nginx.port}".encode()}
    assert all(size > other for size, other in zip(log.size[before:], timed.size[before:], strict=True))

    done = lab.run("import", "access-log", path, "--format", CUSTOM, "-o", "custom.yaml")
    assert done.code == 0, done.err
    text = (lab.directory / "custom.yaml").read_text()
    (line,) = re.findall(r"^  # (http: .*)$", text, re.MULTILINE)
    replay = f"plimsoll: 1\nworkload:\n  driver: http\n  target: http://h\n  {line}\nload: {{replay: log}}\n"
    plan = lab.run("plan", lab.file(replay + "run: {duration: 1s}\n"))
    assert plan.code == 0 and f"{before + 20} requests in {before + 20} lines" in plan.out, plan.err
    wrong = lab.run("import", "access-log", path, "--format", "$msec $request", "-o", "x.yaml")
    assert wrong.code == 2 and "--format: the format has no status" in wrong.err


def test_hostile_requests_stay_one_line_each(lab: Lab, nginx: Server) -> None:
    before = len(nginx.lines(1))
    forged = '" 200 5 "-" "x" 0.001\\n10.9.9.9 - - [25/Nov/2026:00:00:00 +0000] "GET /forged HTTP/1.1'
    nginx.send(f"GET /{forged.replace(' ', '%20')} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    nginx.send(b'GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: a" 9.9\t\\x0a"\r\nConnection: close\r\n\r\n')
    nginx.send(b"\x16\x03\x01\x02\x00\x01\x00\xff\x00\n\n")
    nginx.send(
        b"GET /data/1.bin?a={tester}&b=\xff\xfe\xc3\xa4 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    nginx.send(b"GET /data/2.bin\r\n\r\n")  # HTTP/0.9
    text = nginx.lines(before + 5)
    assert len(text) == before + 5
    log = read_access_log(nginx.log, LineFormat("nginx", "s"))
    # The binary request has no method and no path; the forged line is a missing file.
    assert (log.counts.all_malformed, log.counts.failed, log.counts.used) == (1, 1, before + 3)
    assert set(log.paths) == {b"/", b"/data/1.bin?a={tester}&b=%FF%FE%C3%A4", b"/data/2.bin"}
    done = lab.run("import", "access-log", nginx.log, "--format", "nginx", "--duration", "s", "-o", "x.yaml")
    assert done.code == 97
    assert "1 of 6 lines cannot be read; check --format" in done.err


SQUID = """
plimsoll: 1
services: {web: {kind: echo, body: 1kB}, cache: {kind: squid, origin: web}}
workload:
  driver: http
  target: cache
  WORK
LOAD
design: {seed: 1}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""


@pytest.mark.long
def test_the_log_of_squid_is_repeated_with_its_methods_and_times(lab: Lab, place: Path) -> None:
    needs("squid")
    work = (
        "mix: [{weight: 9, path: '/a/{k}'}, {weight: 1, method: HEAD, path: '/b/{k}'}]\n"
        "  values: {k: {zipf: {n: 50, s: 1.0}}}"
    )
    counted = "run: {until: {transactions: 150}, duration: 8s}"
    run(lab, place, SQUID.replace("WORK", work).replace("LOAD", f"load: {{rate: 60/s}}\n{counted}"))
    path = lab.directory / "squid.log"
    path.write_text(stored(lab, "cache", "access.log"))
    first = read_access_log(path, LineFormat())
    assert (first.counts.used, first.counts.lines, first.counts.all_malformed) == (150, 150, 0)
    assert 0 < sum(first.is_head) < 50

    done = lab.run("import", "access-log", "squid.log", "-o", "laws.yaml")
    assert done.code == 0, done.err
    assert "150 requests in 150 lines" in done.out
    assert lab.run("plan", "laws.yaml").code == 0

    replay = "http: {from_log: {file: squid.log, as: replay, speed: 2.0}}"
    load = f"load: {{replay: log}}\n{counted}"
    run(lab, place, SQUID.replace("WORK", replay).replace("LOAD", load))
    transactions = lab.results() / "runs" / "0001" / "transactions.parquet"
    rows = pq.read_table(transactions).to_pylist()
    assert {row["outcome"] for row in rows} == {"ok"}
    planned = sorted(row["start"] + row["scheduled"] for row in rows)
    assert planned == [round((at - first.start_ns[0]) / 2) for at in first.start_ns]
    path.write_text(stored(lab, "cache", "access.log"))
    second = read_access_log(path, LineFormat())

    def requests(log: AccessLog) -> list[tuple[bytes, int]]:
        return sorted((log.paths[index], head) for index, head in zip(log.object, log.is_head, strict=True))

    assert requests(second) == requests(first)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_log_of_a_million_lines_needs_bounded_memory(lab: Lab) -> None:
    """100,003 objects, 9,991 clients; the kernel reports the peak of the process."""
    path = lab.directory / "large.log"
    with path.open("w") as file:
        for start in range(0, 1_000_000, 10_000):
            file.writelines(
                f"{1_795_000_000 + at / 50:.3f} {at % 300} 10.1.{at % 97}.{at % 103} TCP_HIT/200 {at % 9999} GET "
                f"http://h/objects/of/a/long/name/{at * at % 100_003:030d} - NONE/- -\n"
                for at in range(start, start + 10_000)
            )
    command = (
        "import resource, sys\n"
        "from plimsoll.cli.main import main\n"
        "code = main(['import', 'access-log', 'large.log'])\n"
        "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", command],
        cwd=lab.directory,
        env=lab.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "1,000,000 requests in 1,000,000 lines" in done.stdout
    peak = int(done.stdout.split("peak ")[1])
    assert peak < 500 * 1024, f"{peak} KiB"
