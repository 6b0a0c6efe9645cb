"""A password that is planted where people put one is in no file of the results, and reaches the service."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.conftest import Lab

PASSWORD = "hunter2-s3cr3t"
FILE = """
plimsoll: 1
name: guarded
workload: {driver: http, target: "URL", http: {headers: {Authorization: {secret: "Bearer ${env:PW}"}, X-Api-Key: none}}}
load: {testers: 1}
run: {until: {transactions: 20}}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""


class Doorman(BaseHTTPRequestHandler):
    """Lets in who knows the password, and keeps what was sent."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[dict[str, str], str, bytes]]

    def do_GET(self) -> None:
        """Answers with what was sent, as careless services do."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        type(self).seen.append((dict(self.headers), self.path, body))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_POST = do_GET  # noqa: N815 - the name is that of the base class

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def door() -> Iterator[tuple[str, list[tuple[dict[str, str], str, bytes]]]]:
    """Host and port of a doorman, and what it sees."""
    Doorman.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Doorman) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}", Doorman.seen
        server.shutdown()


def files_with(directory: Path, planted: str) -> list[Path]:
    """Files below a directory in which a text stands, as it is or in Base64."""
    forms = (planted.encode(), base64.b64encode(planted.encode()).rstrip(b"="))
    return [
        path
        for path in directory.rglob("*")
        if path.is_file() and any(form in path.read_bytes() for form in forms)
    ]


def test_the_quick_form_keeps_no_password(
    lab: Lab, door: tuple[str, list[tuple[dict[str, str], str, bytes]]]
) -> None:
    host, seen = door
    told = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    words = ["-c", "2", "-n", "20", "--out", "results"]
    secret = [
        "-H",
        f"X-Api-Key: {PASSWORD}",
        f"-HCookie: id={PASSWORD}",
        "-m",
        "POST",
        "-d",
        f"pw={PASSWORD}",
    ]
    done = lab.run(f"http://me:{PASSWORD}@{host}/in?token={PASSWORD}", *words, *secret)
    assert done.code in (0, 97), done.err
    headers, path, body = seen[0]
    assert headers["Authorization"] == f"Basic {told}"
    assert (headers["X-Api-Key"], headers["Cookie"]) == (PASSWORD, f"id={PASSWORD}")
    assert (path, body) == (f"/in?token={PASSWORD}", f"pw={PASSWORD}".encode())
    for planted in (PASSWORD, told):
        assert files_with(lab.directory, planted) == []
        assert planted not in done.out + done.err
    results = lab.results()
    command = json.loads((results / "environment.json").read_text())["command_line"]
    assert command == [
        "plimsoll", f"http://{host}/in?***", *words, "-H", "X-Api-Key: ***", "-HCookie: ***", "-m", "POST", "-d", "***",
    ]  # fmt: skip
    assert "X-Api-Key: ***" in (results / "report.html").read_text(), "the command line is shown there"
    names = ("AUTHORIZATION", "X_API_KEY", "COOKIE", "PATH", "BODY")
    again = lab.run(
        "run", results / "experiment.yaml", "--quiet", **{f"PLIMSOLL_{one}": PASSWORD for one in names}
    )
    assert again.code in (0, 97), again.err
    assert files_with(lab.directory, PASSWORD) == []


def test_set_keeps_no_password_and_resume_asks_for_it(
    lab: Lab, door: tuple[str, list[tuple[dict[str, str], str, bytes]]]
) -> None:
    host, seen = door
    file = lab.file(FILE.replace("URL", f"http://{host}/"))
    given = f"workload.http.headers.X-Api-Key={PASSWORD}"
    done = lab.run("run", file, "--set", given, "--set=workload.http.headers.Accept=a/b", PW="another-secret")
    assert done.code == 0, done.err
    assert seen[0][0]["X-Api-Key"] == PASSWORD
    assert seen[0][0]["Authorization"] == "Bearer another-secret"
    for planted in (PASSWORD, "another-secret"):
        assert files_with(lab.directory, planted) == []
    assert "--set workload.http.headers.X-Api-Key=***" in (lab.results() / "report.html").read_text()
    refused = lab.run("run", "--resume", lab.results(), PW="another-secret")
    assert refused.code == 2
    assert "--set workload.http.headers.X-Api-Key=..." in refused.err
    resumed = lab.run("run", "--resume", lab.results(), "--set", given, PW="another-secret")
    assert resumed.code == 0, resumed.err
    assert files_with(lab.directory, PASSWORD) == []
