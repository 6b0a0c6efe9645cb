"""Targets are looked at before the first run: real servers that are down, unknown, not trusted, or answer wrongly."""

from __future__ import annotations

import select
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from plimsoll.deploy.ports import free_port
from plimsoll.deploy.programs import find
from tests.conftest import Done, Lab, missing

NGINX = """
daemon off; master_process off; worker_processes 1; pid {place}/pid; error_log {place}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log {place}/access.log; client_body_temp_path {place}/body; proxy_temp_path {place}/proxy;
  fastcgi_temp_path {place}/fastcgi; uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;
  server {{
    listen 127.0.0.1:{plain};
    location = /good {{ return 200 "good"; }}
    location = /moved {{ return 301 https://new.example/there?token=qwertz$is_args$args; }}
    location = /login {{ return 401; }}
    location = /forbidden {{ return 403; }}
    location = /enough {{ return 429; }}
    location = /ill {{ return 503; }}
    location = /nothing {{ return 204; }}
    location = /key {{ if ($http_authorization != "Bearer open sesame") {{ return 401; }} return 200 "in"; }}
  }}
  server {{
    listen 127.0.0.1:{secure} ssl; ssl_certificate {place}/server.pem; ssl_certificate_key {place}/server.key;
    location / {{ return 200 "good"; }}
  }}
  server {{
    listen 127.0.0.1:{mutual} ssl; ssl_certificate {place}/member.pem; ssl_certificate_key {place}/member.key;
    ssl_client_certificate {place}/ca.pem; ssl_verify_client on;
    location / {{ return 200 "good"; }}
  }}
}}
"""
END = """
load: {testers: 1, think: 10ms}
run: {duration: 300ms, warmup: 0s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""
QUICK = ("-c", "1", "-n", "3")


@dataclass(frozen=True)
class Site:
    """A running nginx. `secure`: its certificate is signed by nobody else; `mutual`: it has one of our authority, and
    wants one of its clients."""

    place: Path
    plain: int
    secure: int
    mutual: int

    def url(self, path: str) -> str:
        """Of the plain server."""
        return f"http://127.0.0.1:{self.plain}{path}"

    def asked(self) -> list[str]:
        """The request lines that it got."""
        return [line.split('"')[1] for line in (self.place / "access.log").read_text().splitlines()]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    nginx = find(["nginx"])
    if nginx is None:
        missing("nginx", "apt-get install nginx-light")
    if shutil.which("openssl") is None:
        missing("openssl", "apt-get install openssl")
    place = tmp_path_factory.mktemp("nginx")
    certificates(place)
    found = Site(place, free_port(), free_port(), free_port())
    ports = {"plain": found.plain, "secure": found.secure, "mutual": found.mutual}
    (place / "nginx.conf").write_text(NGINX.format(place=place, **ports))
    words = [str(nginx), "-p", str(place), "-c", str(place / "nginx.conf"), "-e", str(place / "error.log")]
    process = subprocess.Popen(words)
    try:
        _until_it_answers(process, found)
        yield found
    finally:
        process.terminate()
        process.wait(20)


def certificates(place: Path) -> None:
    """`server`: signed by itself; `member`: signed by `ca`."""
    key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout"
    (place / "names").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:false\n")
    for words in (
        f"req -x509 {key} server.key -out server.pem -days 30 -subj /CN=us -addext subjectAltName=IP:127.0.0.1",
        f"req -x509 {key} ca.key -out ca.pem -days 30 -subj /CN=authority",
        f"req {key} member.key -out member.csr -subj /CN=member",
        "x509 -req -in member.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile names -out member.pem",
    ):
        subprocess.run(["openssl", *words.split()], cwd=place, check=True, capture_output=True)


def _until_it_answers(process: subprocess.Popen[bytes], site: Site) -> None:
    deadline = time.monotonic() + 20
    while True:
        assert process.poll() is None and time.monotonic() < deadline, (site.place / "error.log").read_text()
        try:
            socket.create_connection(("127.0.0.1", site.mutual), 1).close()
            return
        except OSError:
            time.sleep(0.05)


def experiment(workload: str, rest: str = "") -> str:
    """An experiment of a short run."""
    return f"plimsoll: 1\nname: probed\nworkload: {workload}\n{rest}{END}"


def refused(lab: Lab, done: Done) -> str:
    """The message of an experiment that did not start, on one line."""
    assert done.code == 2, done.err
    assert done.out == ""
    assert not (lab.directory / "results").exists(), "nothing may be left"
    return done.err.strip()


def test_a_closed_port_is_refused_before_anything_is_started(lab: Lab) -> None:
    port = free_port()
    done = lab.run(f"http://127.0.0.1:{port}/", *QUICK, "--out", "results")
    assert refused(lab, done) == (
        f"plimsoll: http://127.0.0.1:{port}: no connection: Connection refused; check the address, and that the "
        "service runs (--no-probe starts anyway)"
    )
    file = lab.file(experiment(f'{{driver: http, target: "http://127.0.0.1:{port}"}}'))
    assert f"http://127.0.0.1:{port}: no connection: Connection refused" in refused(lab, lab.run("run", file))


@pytest.mark.parametrize(
    "workload",
    [
        '{driver: tcp, target: "tcp://127.0.0.1:PORT", tcp: {send: x, expect_bytes: 1}}',
        '{driver: sql, target: "postgresql://me@127.0.0.1:PORT/db", sql: {queries: [select 1]}}',
        '{driver: frontier, target: "http://127.0.0.1:PORT/f", frontier: {queries: [select 1]}}',
        '{driver: http, target: "http://far.example/", http: {proxy: "http://127.0.0.1:PORT"}}',
    ],
)
def test_every_driver_that_connects_is_refused_at_a_closed_port(lab: Lab, workload: str) -> None:
    port = str(free_port())
    message = refused(lab, lab.run("run", lab.file(experiment(workload.replace("PORT", port)))))
    assert f"127.0.0.1:{port}" in message and "no connection: Connection refused" in message


def test_each_endpoint_that_is_down_is_named(lab: Lab, site: Site) -> None:
    down = [free_port(), free_port()]
    urls = ", ".join(f'"http://127.0.0.1:{port}"' for port in (site.plain, *down))
    file = lab.file(
        experiment(
            "{driver: http, target: all, http: {path: /good}}", f"targets: {{all: {{endpoints: [{urls}]}}}}"
        )
    )
    message = refused(lab, lab.run("run", file))
    assert [f"http://127.0.0.1:{port}: no connection" in message for port in (site.plain, *down)] == [
        False,
        True,
        True,
    ]


def test_no_probe_measures_what_is_down(lab: Lab) -> None:
    done = lab.run(f"http://127.0.0.1:{free_port()}/", *QUICK, "--no-probe")
    assert done.code == 0, done.err
    assert "refused" in done.out
    file = lab.file(experiment(f'{{driver: http, target: "http://127.0.0.1:{free_port()}"}}'))
    assert lab.run("run", "--no-probe", file).code == 0
    assert (lab.results() / "runs" / "0001" / "run.json").exists()


def test_an_unknown_name_is_refused(lab: Lab) -> None:
    done = lab.run("http://nowhere.invalid/", *QUICK, "--out", "results")
    message = refused(lab, done)
    assert "the name nowhere.invalid cannot be resolved" in message and "check its spelling" in message


def test_a_target_that_swallows_connections_is_given_up(lab: Lab) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        place = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:  # a queue that is full drops what comes next, as a firewall does
            one.setblocking(False)
            one.connect_ex(place)
        message = refused(lab, lab.run(f"http://127.0.0.1:{place[1]}/", *QUICK, "--out", "results"))
        for one in waiting:
            one.close()
    assert f"http://127.0.0.1:{place[1]}: no connection: no answer within 5 s" in message


def test_a_certificate_that_is_not_trusted_is_refused_with_the_option_that_trusts_it(
    lab: Lab, site: Site
) -> None:
    url = f"https://127.0.0.1:{site.secure}"
    message = refused(lab, lab.run(url, *QUICK, "--out", "results"))
    assert (
        f"{url}: the certificate of the server is not trusted: self-signed certificate; give --insecure"
        in message
    )
    workload = f'{{driver: http, target: "{url}", http: {{tls: {{TLS}}}}}}'
    message = refused(lab, lab.run("run", lab.file(experiment(workload.replace("TLS", "")))))
    assert (
        "give its certificate authority with http.tls.ca_file or http.tls.ca_dir, or http.tls.verify: false"
        in message
    )


def test_what_the_user_trusts_is_not_mentioned(lab: Lab, site: Site) -> None:
    url = f"https://127.0.0.1:{site.secure}/"
    done = lab.run(url, *QUICK, "--insecure", "--json")
    assert done.json["runs"][0]["counts"]["failed"] == 0, done.err
    assert "warning" not in done.err


@pytest.mark.parametrize(
    "authority", ["ca_file: PLACE/ca.pem", pytest.param("ca_dir: PLACE", marks=pytest.mark.long)]
)
def test_files_of_tls_are_those_of_the_driver(lab: Lab, site: Site, authority: str) -> None:
    own = f'cert: "{site.place}/member.pem", key: "{site.place}/member.key"'
    trust = authority.replace("PLACE", str(site.place))
    workload = (
        f'{{driver: http, target: "https://127.0.0.1:{site.mutual}", http: {{tls: {{{trust}, {own}}}}}}}'
    )
    done = lab.run("run", lab.file(experiment(workload)), "--json")
    assert done.json["runs"][0]["counts"]["failed"] == 0, done.err
    assert "warning" not in done.err
    stranger = workload.replace(f", {own}", "")
    assert "GET / is answered with 400 Bad Request" in lab.run("run", lab.file(experiment(stranger))).err


def test_a_certificate_of_another_name_is_refused(lab: Lab, site: Site) -> None:
    tls = f'{{ca_file: "{site.place}/ca.pem"}}'
    workload = f'{{driver: http, target: "https://localhost:{site.mutual}", http: {{tls: {tls}}}}}'
    message = refused(lab, lab.run("run", lab.file(experiment(workload))))
    assert "is not trusted: Hostname mismatch, certificate is not valid for 'localhost'" in message


def test_a_key_of_another_certificate_is_refused(lab: Lab, site: Site) -> None:
    own = f'cert: "{site.place}/member.pem", key: "{site.place}/server.key", verify: false'
    workload = f'{{driver: http, target: "https://127.0.0.1:{site.mutual}", http: {{tls: {{{own}}}}}}}'
    message = refused(lab, lab.run("run", lab.file(experiment(workload))))
    assert "the key of http.tls does not match the certificate" in message


def test_a_port_without_tls_is_refused(lab: Lab, site: Site) -> None:
    message = refused(
        lab, lab.run(f"https://127.0.0.1:{site.plain}/", *QUICK, "--insecure", "--out", "results")
    )
    assert "the TLS handshake failed: " in message and "check that this port uses TLS" in message


class Tunnel(BaseHTTPRequestHandler):
    """A forward proxy: tunnels, and an answer of its own to whole URLs."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[str]] = []

    def do_CONNECT(self) -> None:
        """Passes bytes on until one side ends."""
        self.asked.append(self.requestline)
        host, _, port = self.path.partition(":")
        self.send_response_only(200)
        self.end_headers()
        self.close_connection = True
        with socket.create_connection((host, int(port))) as other:
            ways = {self.connection: other, other: self.connection}
            while data := [(one, one.recv(65536)) for one in select.select(list(ways), [], [], 20)[0]]:
                for one, bytes_ in data:
                    if not bytes_:
                        return
                    ways[one].sendall(bytes_)

    def do_GET(self) -> None:
        """Sends everybody elsewhere."""
        self.asked.append(self.requestline)
        self.send_response(302)
        self.send_header("Location", "http://login.example/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.mark.long
def test_a_proxy_is_spoken_to_as_the_driver_does(lab: Lab, site: Site) -> None:
    Tunnel.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Tunnel) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy = f"http://127.0.0.1:{server.server_address[1]}"
        workload = f'{{driver: http, target: "URL", http: {{tls: {{verify: false}}, proxy: "{proxy}"}}}}'
        plain = lab.run("run", lab.file(experiment(workload.replace("URL", "http://far.invalid/a"))))
        secret = workload.replace("URL", f"https://127.0.0.1:{site.secure}")
        tunnelled = lab.run("run", lab.file(experiment(secret)))
        server.shutdown()
    assert (
        "http://far.invalid:80/a: GET is answered with 302 Found, Location: http://login.example/"
        in plain.err
    )
    assert Tunnel.asked[0] == "GET http://far.invalid/a HTTP/1.1"
    assert tunnelled.code == 0 and "warning" not in tunnelled.err, tunnelled.err
    assert f"CONNECT 127.0.0.1:{site.secure} HTTP/1.1" in Tunnel.asked


@pytest.mark.parametrize("name", ["no-such-program-of-ours", "./no-such-file", "./plain"])
def test_a_missing_program_is_refused(lab: Lab, name: str) -> None:
    (lab.directory / "plain").write_text("no program")
    program = name.replace("./", f"{lab.directory}/")
    file = lab.file(experiment(f'{{driver: exec, exec: {{command: ["{program}", "-x"]}}}}'))
    why = {"no-": "not found in PATH", "./n": "no such file", "./p": "not executable"}[name[:3]]
    message = refused(lab, lab.run("run", file))
    assert message == (
        f"plimsoll: the program {program} cannot be started: {why}; install it, or correct `command` "
        "(--no-probe starts anyway)"
    )


def test_a_program_is_looked_for_where_the_driver_looks(lab: Lab) -> None:
    own = lab.directory / "bin"
    own.mkdir()
    (own / "mine").write_text("#!/bin/sh\nexit 0\n")
    (own / "mine").chmod(0o755)
    text = experiment(f'{{driver: exec, exec: {{command: [mine], env: {{PATH: "{own}:/usr/bin:/bin"}}}}}}')
    done = lab.run("run", lab.file(text), "--json")
    assert done.json["runs"][0]["counts"]["failed"] == 0, done.err


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "/moved",
            "GET /moved is answered with 301 Moved Permanently, Location: https://new.example/there?***. "
            "Redirects are not followed: this answer is measured and counts as a success",
        ),
        (
            "/login",
            "GET /login is answered with 401 Unauthorized. It counts as a failure: give credentials with "
            "http.headers or http.token_file",
        ),
        pytest.param(
            "/forbidden",
            "GET /forbidden is answered with 403 Forbidden. It counts as a failure: give credentials with "
            "http.headers or http.token_file",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "/enough",
            "GET /enough is answered with 429 Too Many Requests. It counts as a failure: the service limits the "
            "rate of requests",
            marks=pytest.mark.long,
        ),
        (
            "/ill",
            "GET /ill is answered with 503 Service Temporarily Unavailable. It counts as a failure",
        ),
        pytest.param(
            "/nothing",
            "GET /nothing is answered with 204 No Content and an empty body. It counts as a success: check that this "
            "is the URL to measure",
            marks=pytest.mark.long,
        ),
    ],
)
def test_an_answer_that_is_hardly_meant_is_a_warning(lab: Lab, site: Site, path: str, text: str) -> None:
    workload = f'{{driver: http, target: "{site.url("")}", http: {{path: {path}}}}}'
    done = lab.run("run", lab.file(experiment(workload)), "--quiet")
    assert f"plimsoll: warning: {site.url('')}: {text}" in done.err.splitlines()
    assert done.code == 0, done.err
    assert (lab.results() / "runs" / "0001" / "transactions.parquet").exists(), "the run goes on"


def test_url_mode_warns_with_its_own_options(lab: Lab, site: Site) -> None:
    done = lab.run(site.url("/login"), *QUICK, "--json")
    assert f"{site.url('/login')}: GET is answered with 401 Unauthorized" in done.err
    assert "give credentials with -H" in done.err
    assert done.json["runs"], "stdout is the analysis only"
    assert "warning" not in lab.run(site.url("/login"), *QUICK, "--json", "--no-probe").err


def test_a_status_that_the_file_expects_needs_no_word(lab: Lab, site: Site) -> None:
    workload = f'{{driver: http, target: "{site.url("")}", http: {{path: /moved, expect: {{status: 301}}}}}}'
    done = lab.run("run", lab.file(experiment(workload)))
    assert done.code == 0 and "warning" not in done.err, done.err


def test_the_request_is_that_of_the_workload_and_is_not_counted(lab: Lab, site: Site) -> None:
    (lab.directory / "token").write_text("open sesame\n")
    http = "{paths: ['/key?a={word}'], token_file: token}"
    workload = (
        f'{{driver: http, target: "{site.url("")}", http: {http}, values: {{word: {{list: [one, two]}}}}}}'
    )
    before = len(site.asked())
    text = experiment(workload).replace("duration: 300ms", "until: {transactions: 4}")
    done = lab.run("run", lab.file(text), "--json")
    assert "warning" not in done.err, done.err
    asked = site.asked()[before:]
    assert asked[0] == "GET /key?a=one HTTP/1.1"
    assert done.json["runs"][0]["counts"]["succeeded"] == 4 and len(asked) == 5


def test_a_request_that_changes_something_is_never_sent(lab: Lab, site: Site) -> None:
    before = len(site.asked())
    done = lab.run(site.url("/login"), *QUICK, "-m", "POST", "-d", "x", "--json")
    assert "warning" not in done.err
    assert site.asked()[before:] == ["POST /login HTTP/1.1"] * 3


def test_what_may_still_be_started_is_a_warning(lab: Lab) -> None:
    rest = "before_run: [{run: ['true']}]\n"
    file = lab.file(experiment(f'{{driver: http, target: "http://127.0.0.1:{free_port()}"}}', rest))
    done = lab.run("run", file)
    assert done.code == 0, done.err
    assert "(the experiment continues: a command of before_run may change this)" in done.err


@pytest.mark.long
def test_resuming_looks_at_what_is_left_only(lab: Lab, site: Site) -> None:
    file = lab.file(experiment(f'{{driver: http, target: "{site.url("")}", http: {{path: /nothing}}}}'))
    assert lab.run("run", file).code == 0
    before = len(site.asked())
    done = lab.run("run", "--resume", lab.results())
    assert done.code == 0 and "warning" not in done.err, done.err
    assert len(site.asked()) == before
    (lab.results() / "runs" / "0001" / "run.json").unlink()
    assert "warning" in lab.run("run", "--resume", lab.results()).err
