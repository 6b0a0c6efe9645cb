"""`sql` against databases whose users have passwords: logged in, refused with advice, and never written down."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Lab, missing
from tests.real.guarded_databases import ENCODED, PASSWORD, ROWS, Database, database
from tests.real.test_secrets import files_with

FILE = """
plimsoll: 1
name: logins
workload: {driver: sql, target: TARGET, sql: {queries: ["SELECT n FROM t"], connection: per-query KEYS}}
load: {testers: 2}
run: {until: {transactions: 20}}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}
"""


@pytest.fixture(scope="module", params=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> Iterator[Database]:
    """One of each kind."""
    with database(request.param) as one:
        yield one


def run(lab: Lab, target: str, keys: str = "", *, probe: bool = True, **env: str) -> tuple[int, int, str]:
    """Good transactions and rows, and the events of the run. No file, and no word of the terminal, has the password."""
    file = lab.file(FILE.replace("TARGET", target).replace(" KEYS", f", {keys}" if keys else ""))
    done = lab.run("run", file, *(() if probe else ("--no-probe",)), **env)
    for planted in (PASSWORD, ENCODED, "wrong-one"):
        assert files_with(lab.directory, planted) == []
        assert planted not in done.out + done.err
    found = lab.results() / "runs" / "0001"
    counters = json.loads((found / "summary.json").read_text())["counters"]
    return counters["succeeded"], counters["items"], (found / "events.jsonl").read_text()


@pytest.mark.parametrize("user", ["reader", pytest.param("legacy", marks=pytest.mark.long)])
def test_a_password_of_the_environment_logs_in(lab: Lab, server: Database, user: str) -> None:
    done = run(lab, server.url(user), "password: {secret: '${env:PW}'}", PW=PASSWORD)
    assert done[:2] == (20, 20 * ROWS), done[2]
    shown = (lab.results() / "effective.yaml").read_text()
    assert "${env:PW}" in shown or "***" in shown


@pytest.mark.parametrize(
    ("target", "keys"),
    [
        ("URL", "password: '${env:RAW}'"),
        pytest.param("'LOGIN'", "", marks=pytest.mark.long),
        ("{secret: 'LOGIN'}", ""),
        pytest.param("'${env:WHOLE}'", "", marks=pytest.mark.long),
    ],
)
def test_a_password_may_stand_in_the_url(lab: Lab, server: Database, target: str, keys: str) -> None:
    target = target.replace("URL", server.url("reader")).replace("LOGIN", server.url("reader:${env:PW}"))
    whole = server.url(f"reader:{ENCODED}")
    done = run(lab, target, keys, PW=ENCODED, RAW=PASSWORD, WHOLE=whole)
    assert done[:2] == (20, 20 * ROWS), done[2]


def test_a_user_without_a_password_needs_none(lab: Lab, server: Database) -> None:
    assert run(lab, server.url("open"))[0] == 20


@pytest.mark.long
def test_a_wrong_password_is_refused_by_the_server_and_told(lab: Lab, server: Database) -> None:
    keys = "password: {secret: '${env:PW}'}"
    good, _, events = run(lab, server.url("reader"), keys, probe=False, PW="wrong-one")
    assert good == 0
    assert "password authentication failed" in events or "Access denied" in events, events
    assert "no password was given" not in events


@pytest.mark.long
def test_a_login_that_fails_is_found_before_the_first_run(lab: Lab, server: Database) -> None:
    """The probe logs in with the driver's own code, and leaves nothing where that fails."""
    file = lab.file(FILE.replace("TARGET", server.url("reader")).replace(" KEYS", ", password: '${env:PW}'"))
    done = lab.run("run", file, PW="wrong-one")
    assert done.code == 2, done.err
    assert ": login failed: login refused; check user, password and database (sql: " in done.err, done.err
    assert "password authentication failed" in done.err or "Access denied" in done.err, done.err
    assert "wrong-one" not in done.err
    assert not list((lab.directory / "results").glob("*")), "nothing may be left"
    file = lab.file(
        FILE.replace("TARGET", server.url("open").replace("/events", "/none")).replace(" KEYS", "")
    )
    done = lab.run("run", file)
    assert done.code == 2, done.err
    assert "/none" not in done.err and ": login failed: " in done.err, done.err


@pytest.mark.long
def test_a_password_that_is_missing_is_told_with_what_to_do(lab: Lab, server: Database) -> None:
    good, _, events = run(lab, server.url("reader"), probe=False)
    assert good == 0
    assert "no password was given: set sql: {password: " in events, events


def test_a_password_in_the_file_is_refused_before_any_run(lab: Lab, server: Database) -> None:
    for target, keys in ((server.url("reader:plain-one"), ""), (server.url("reader"), "password: plain-one")):
        file = lab.file(FILE.replace("TARGET", target).replace(" KEYS", f", {keys}" if keys else ""))
        done = lab.run("plan", file)
        assert done.code == 2
        assert "${env:NAME}" in done.err, done.err
        assert "plain-one" not in done.err.replace(str(Path(file).read_text()), "")


GATEWAY = """
plimsoll: 1
name: before
services: {gateway: {kind: frontier, database: "TARGET"}}
workload: {driver: frontier, target: gateway, frontier: {queries: ["SELECT n FROM t"]}}
load: {testers: 2}
run: {until: {transactions: 20}}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}
"""


def test_a_gateway_stands_before_a_database_that_exists(lab: Lab, server: Database) -> None:
    file = lab.file(GATEWAY.replace("TARGET", server.url("reader:${env:PW}")))
    done = lab.run("run", file, PW=ENCODED)
    assert done.code == 0, done.err
    counters = json.loads((lab.results() / "runs" / "0001" / "summary.json").read_text())["counters"]
    assert (counters["succeeded"], counters["items"]) == (20, 20 * ROWS)
    for planted in (PASSWORD, ENCODED):
        assert files_with(lab.directory, planted) == []
        assert planted not in done.out + done.err
    refused = lab.run("plan", lab.file(GATEWAY.replace("TARGET", server.url("reader:plain-one"))))
    assert refused.code == 2 and "the URL contains a password" in refused.err


def openssl(directory: Path, *words: str) -> None:
    """One command of it."""
    done = subprocess.run(["openssl", *words], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an authority of our own, and a certificate of it for 127.0.0.1."""
    if shutil.which("openssl") is None:
        missing("openssl", "apt-get install openssl")
    directory = tmp_path_factory.mktemp("authority")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl(
        directory,
        "req",
        "-x509",
        *key,
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-subj",
        "/CN=us",
        "-days",
        "30",
    )
    openssl(directory, "req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server")
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:false\n")
    sign = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile", "names"]
    openssl(directory, "x509", "-req", "-in", "server.csr", *sign, "-out", "server.pem")
    return directory


@pytest.mark.parametrize("kind", ["postgres", pytest.param("mariadb", marks=pytest.mark.long)])
def test_a_database_that_demands_tls_is_asked_within_it(lab: Lab, authority: Path, kind: str) -> None:
    login = "password: {secret: '${env:PW}'}"
    shutil.copy(authority / "ca.pem", lab.directory)
    with database(kind, authority) as server:
        url = server.url("reader")
        done = run(lab, url, f"{login}, tls: {{ca_file: ca.pem}}", PW=PASSWORD)
        assert done[:2] == (20, 20 * ROWS), done[2]
        good, _, events = run(lab, url, f"{login}, tls: {{}}", probe=False, PW=PASSWORD)
        assert good == 0, events
        good, _, events = run(lab, url, login, probe=False, PW=PASSWORD)
        assert good == 0
        assert "no encryption" in events or "Access denied" in events, events
        file = lab.file(FILE.replace("TARGET", f"{url}?sslmode=require").replace(" KEYS", ""))
        refused = lab.run("plan", file)
        assert refused.code == 2
        assert "give sql: {tls: {ca_file: ca.pem}}" in refused.err
