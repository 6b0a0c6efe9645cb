"""Real GridFTP and XRootD servers, read and written by their own clients and by the http driver."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from plimsoll.deploy.programs import find
from plimsoll.deploy.servers.needs import missing_programs
from tests.conftest import Lab, missing
from tests.real.test_services import place, record, run, service, stored

CLIENTS = {
    "gridftp": ("globus-url-copy", "globus-gass-copy-progs"),
    "xrootd": ("xrdcp", "xrootd-client"),
}
SIZE = 1_000_000
REST = """
design: {seed: 1, order: listed}
validity:     # the machine of the tests may be busy
  {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, steal: 100%, trend: false, success: false}
"""

__all__ = ["place"]  # the fixture


def needs(kind: str) -> None:
    """Skips where a server or its client is not installed."""
    for text in missing_programs({kind}):
        what, _, command = text.rpartition(": ")
        missing(what, command)
    program, package = CLIENTS[kind]
    if find([program]) is None:
        missing(program, f"apt-get install {package}")


def outcomes(lab: Lab, operation: str) -> set[tuple[str, str]]:
    """The outcomes of an operation, with their codes."""
    rows = pq.read_table(lab.results() / "runs/0001/transactions.parquet").to_pylist()
    return {(row["outcome"], row["code"]) for row in rows if row["operation"] == operation}


def counters(found: dict[str, Any], name: str) -> dict[str, float]:
    return dict(service(found, name)["counters"])


def test_gridftp_counts_what_globus_url_copy_reads_and_writes(lab: Lab, place: Path) -> None:
    needs("gridftp")
    (place / "in").write_bytes(b"x" * 1000)
    (place / "in").chmod(0o644)
    try:
        found = run(
            lab,
            place,
            f"""
plimsoll: 1
services:
  store: {{kind: gridftp, files: {{count: 3, size: 1MB, seed: 7}}, settings: {{banner: hello}}}}
workload:
  driver: exec
  target: store
  timeout: 60s
  mix:
    - {{name: read, bytes: {{fixed: 1MB}}, command: [globus-url-copy, "{{endpoint}}/f{{k}}", "file://{place}/out"]}}
    - name: write
      bytes: {{fixed: 1kB}}
      command: [globus-url-copy, "file://{place}/in", "{{store.url}}/up{{tester}}"]
  values: {{k: {{uniform: [0, 2]}}}}
load: {{testers: 1}}
run: {{duration: 120s, until: {{transactions: 6}}, drain: 2s}}
{REST}""",
        )
        read = (place / "out").read_bytes()
    finally:
        for file in place.glob("*"):
            if file.is_file():
                file.unlink()
    assert found["runs"][0]["counts"]["succeeded"] == 6
    counted = counters(found, "store")
    assert counted["transfers"] == 6
    assert counted["failed"] == 0
    assert counted["bytes_sent"] == SIZE * counted["downloads"] > 0
    assert counted["bytes_received"] == 1000 * counted["uploads"] > 0
    assert len(set(read)) == 256, "the files are not compressible"
    assert stored(lab, "store", "transfers.log").count(" NBYTES=") == 6
    assert 'banner "hello"' in stored(lab, "store", "config")
    assert record(lab)["services"][0]["urls"][0].startswith("ftp://127.0.0.1:")


def test_xrootd_serves_the_same_files_over_http_and_its_own_protocol(lab: Lab, place: Path) -> None:
    needs("xrootd")
    files = "files: {count: 2, size: 1MB, seed: 7}"
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
name: a-long-name-so-that-the-paths-of-its-sockets-would-be-too-long
services:
  disk: {{kind: xrootd, protocol: http, {files}}}
workloads:
  http:
    driver: http
    target: disk
    timeout: 20s
    http: {{paths: [/f0, /f1], headers: {{Range: "bytes=0-999"}}}}
    load: {{testers: 1, think: 20ms}}
  copy:
    driver: exec
    timeout: 60s
    exec:
      command: [xrdcp, -f, -N, --cksum, "adler32:source", "root://{{disk.host}}:{{disk.port}}//data/f1", "{place}/out"]
      bytes: {{fixed: 1MB}}
    load: {{testers: 1, think: 20ms}}
run: {{duration: 60s, until: {{transactions: 20}}, drain: 5s}}
{REST}""",
    )
    read = (place / "out").read_bytes()
    (place / "out").unlink()
    rows = pq.read_table(lab.results() / "runs/0001/transactions.parquet").to_pylist()
    assert {(row["outcome"], row["code"]) for row in rows} <= {("ok", ""), ("ok", "206")}
    payload = {name: {row["payload"] for row in rows if row["workload"] == name} for name in ("http", "copy")}
    assert payload == {"http": {1000}, "copy": {SIZE}}
    counted = counters(found, "disk")
    assert counted["opens"] >= len(rows)
    assert counted["bytes_out"] >= sum(row["payload"] for row in rows)
    assert counted["redirects"] == counted["errors"] == 0
    assert hashlib.sha256(read).hexdigest().startswith("1052f30884ce"), "the contents follow from the seed"
    assert "login" in stored(lab, "disk", "log")


@pytest.mark.long
def test_gsi_clients_need_the_proxy_of_the_service(lab: Lab, place: Path) -> None:
    needs("gridftp")
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  store: {{kind: gridftp, security: gsi, files: {{count: 1}}}}
workload:
  driver: exec
  target: store
  timeout: 60s
  exec: {{env: {{X509_CERT_DIR: "{{store.credentials}}/certificates"}}, bytes: {{fixed: 1MB}}}}
  mix:
    - name: with
      command: [env, "X509_USER_PROXY={{store.credentials}}/proxy", globus-url-copy, -verify-checksum, -dcpriv, -p, "4",
                "{{endpoint}}/f0", "file://{place}/out"]
    - {{name: without, command: [globus-url-copy, "{{endpoint}}/f0", "file:///dev/null"]}}
load: {{testers: 1}}
run: {{duration: 120s, until: {{transactions: 8}}, drain: 2s}}
{REST}""",
    )
    (place / "out").unlink(missing_ok=True)
    assert outcomes(lab, "with") == {("ok", "")}
    assert outcomes(lab, "without") == {("error", "exit 1")}
    assert counters(found, "store")["bytes_sent"] == SIZE * found["runs"][0]["counts"]["succeeded"]
    assert record(lab)["services"][0]["urls"][0].startswith("gsiftp://127.0.0.1:")


@pytest.mark.long
def test_clients_of_a_redirector_continue_from_another_replica(lab: Lab, place: Path) -> None:
    needs("xrootd")
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  head: {{kind: xrootd, role: redirector}}
  data: {{kind: xrootd, redirector: head, instances: 2, files: {{count: 4, size: 1MB}}}}
workload:
  driver: exec
  target: head
  timeout: 60s
  exec: {{command: [xrdcp, -f, -N, "{{endpoint}}/f{{k}}", /dev/null], bytes: {{fixed: 1MB}}}}
  values: {{k: {{uniform: [0, 3]}}}}
load: {{testers: 2, think: 100ms}}
actions: [{{at: 3s, kill: {{service: data.1}}}}]
run: {{duration: 120s, until: {{transactions: 100}}, drain: 5s}}
{REST}""",
    )
    counts = found["runs"][0]["counts"]
    assert counts["succeeded"] == counts["started"] >= 100
    assert counters(found, "head")["redirects"] >= counts["succeeded"]
    assert counters(found, "data.2")["bytes_out"] > counters(found, "data.2")["opens"] * SIZE * 0.99
    assert "data.1" in (lab.results() / "runs/0001/events.jsonl").read_text()


@pytest.mark.long
def test_a_wrong_checksum_is_an_error(lab: Lab, place: Path) -> None:
    needs("xrootd")
    run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  disk: {{kind: xrootd, files: {{count: 1}}}}
workload:
  driver: exec
  target: disk
  timeout: 60s
  mix:
    - {{name: right, command: [xrdcp, -f, -N, --cksum, "adler32:source", "{{endpoint}}/f0", "{place}/out"]}}
    - {{name: wrong, command: [xrdcp, -f, -N, --cksum, "adler32:00000001", "{{endpoint}}/f0", "{place}/out"]}}
load: {{testers: 1}}
run: {{duration: 60s, until: {{transactions: 8}}, drain: 2s}}
{REST}""",
    )
    (place / "out").unlink(missing_ok=True)
    assert outcomes(lab, "right") == {("ok", "")}
    assert outcomes(lab, "wrong") == {("error", "exit 53")}
