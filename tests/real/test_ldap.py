"""The driver `ldap` and the service kind `slapd`, with `ldapsearch` as the second implementation."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from plimsoll.deploy.counters.slapd import is_answering
from plimsoll.deploy.ports import LOOPBACK, free_port
from plimsoll.deploy.programs import find
from plimsoll.deploy.servers.glue_site import ldif
from plimsoll.deploy.servers.slapd import MODULES, ServerCertificate, configuration
from tests.conftest import Lab, missing
from tests.real.test_services import REST, events, needs, place, record, run, service, stored
from tests.real.test_trouble import measured, wait_for

__all__ = ["place"]

ENTRIES = 500
ONE = "filter: '(GlueCEUniqueID=ce-{key})', expect_entries: 1"
ALL = "filter: '(objectClass=GlueCE)'"
UNTIL = REST.replace("duration: 1500ms", "until: {transactions: 40}")


def experiment(
    mix: str, section: str = "", *, target: str = "index", service: str = "", run: str = UNTIL
) -> str:
    services = f"services: {{index: {{kind: slapd, entries: {ENTRIES}, seed: 3{service}}}}}"
    return f"""
plimsoll: 1
{services if target == "index" else ""}
workload:
  driver: ldap
  target: {target}
  ldap: {{base: o=grid{section}}}
  mix: [{mix}]
  values: {{key: {{uniform: [1, {ENTRIES}]}}}}
load: {{testers: 2}}
{run}"""


def operations(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["operation"]: dict(each) for each in found["runs"][0]["operations"]}


def test_searches_are_counted_by_both_sides(lab: Lab, place: Path) -> None:
    """Entries, the first query of each connection, a limit, and errors by their kind."""
    needs("slapd")
    mix = ", ".join(
        (
            f"{{name: first, weight: 0, first: 1, {ONE}}}",
            f"{{name: one, weight: 5, {ONE}}}",
            f"{{name: all, weight: 2, {ALL}, expect_entries: {ENTRIES}}}",
            f"{{name: limited, weight: 2, {ALL}, size_limit: 5, expect_entries: 5}}",
            "{name: missing, weight: 2, base: 'o=none'}",
        )
    )
    found = run(lab, place, experiment(mix))
    counters = service(found, "index")["counters"]
    assert (counters["search"], counters["bind"], counters["connections"]) == (40, 2, 2)
    (tier,) = found["runs"][0]["tiers"]
    assert (tier["counted"], tier["difference"]) == (40, 0)
    # The numbers in the counters that the reader receives have more digits at the end.
    assert tier["bytes"]["sent"] == pytest.approx(tier["bytes"]["received"], abs=100)
    named = operations(found)
    assert named["first"]["transactions"] == 2
    ones = sum(named[name]["transactions"] for name in ("first", "one"))
    limited = named["limited"]["transactions"]
    assert counters["entries"] == ones + ENTRIES * named["all"]["transactions"] + 5 * limited
    (error,) = found["runs"][0]["errors_by_kind"]
    assert (error["code"], error["count"]) == ("no such object", named["missing"]["errors"])
    assert "threads 16" in stored(lab, "index", "config")
    assert record(lab)["services"][0]["version"].startswith("2.")


@pytest.mark.parametrize(
    ("service_keys", "section"),
    [
        (", protocol: ldaps", ""),
        (", protocol: ldaps, tls: {clients: required}", ", bind: external"),
        (", tls: {clients: optional}", ", start_tls: true, bind: external, connection: per-request"),
    ],
)
def test_the_service_makes_the_certificates_of_server_and_testers(
    service_keys: str, section: str, lab: Lab, place: Path
) -> None:
    needs("slapd")
    found = run(lab, place, experiment(f"{{name: one, {ONE}}}", section, service=service_keys))
    (result,) = found["runs"]
    assert (result["transactions"], result["errors"]) == (40, 0)
    config = stored(lab, "index", "config")
    assert ("TLSVerifyClient demand" in config) == ("required" in service_keys)
    assert ("TLSVerifyClient" in config) == ("external" in section)


@dataclass(frozen=True)
class Directory:
    """An slapd of the test, with the same site, and files of certificates below `place`."""

    port: int
    secure_port: int
    place: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"ldap://{LOOPBACK}:{self.port}"

    @property
    def tls(self) -> str:
        return f"tls: {{ca_file: {self.place}/ca.pem, cert: {self.place}/client.pem, key: {self.place}/client.key}}"


def make_certificates(place: Path) -> None:
    def openssl(*words: str | Path) -> None:
        subprocess.run(["openssl", *words], cwd=place, check=True, capture_output=True)

    new = ("req", "-newkey", "rsa:2048", "-nodes")
    openssl(*new, "-x509", "-days", "2", "-subj", "/O=Lab/CN=Lab CA", "-keyout", "ca.key", "-out", "ca.pem")
    (place / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name in ("server", "client"):
        openssl(*new, "-subj", f"/O=Lab/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")


@pytest.fixture
def directory(place: Path) -> Iterator[Directory]:
    needs("slapd")
    slapd, slapadd = find(["slapd"]), find(["slapadd"])
    if slapd is None or slapadd is None or find(["ldapsearch"]) is None:
        missing("slapd and ldapsearch", "apt-get install slapd ldap-utils glue-schema")
    own = place / "own"
    (own / "db").mkdir(parents=True)
    make_certificates(own)
    settings = {"threads": 4, "entries": ENTRIES, "settings": []}
    modules = next((path for path in MODULES if Path(path, "back_mdb.so").exists()), None)
    tls = ServerCertificate(own / "server.pem", own / "server.key", own / "ca.pem")
    (own / "slapd.conf").write_text(configuration(settings, own, modules, tls))
    (own / "site.ldif").write_text(ldif(ENTRIES, 3))
    subprocess.run([slapadd, "-q", "-f", own / "slapd.conf", "-l", own / "site.ldif"], check=True)
    port, secure = free_port(), free_port()
    urls = f"ldap://{LOOPBACK}:{port} ldaps://{LOOPBACK}:{secure}"
    process = subprocess.Popen([slapd, "-d", "0", "-f", own / "slapd.conf", "-h", urls])
    try:
        wait_for(lambda: is_answering(LOOPBACK, port))
        yield Directory(port, secure, own, process)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(own)


def searched(url: str, *words: str) -> tuple[int, int]:
    """Number of entries and bytes of the values of their attributes, as `ldapsearch` prints them."""
    command = ["ldapsearch", "-x", "-LLL", "-o", "ldif-wrap=no", "-H", url, "-b", "o=grid", *words]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    values = [line.split(": ", 1)[1] for line in lines if ": " in line and not line.startswith("dn: ")]
    return sum(line.startswith("dn: ") for line in lines), sum(map(len, values))


@pytest.mark.long
@pytest.mark.parametrize("way", ["ldap", "ldaps", "start_tls"])
def test_entries_and_bytes_are_those_of_ldapsearch(
    way: str, lab: Lab, place: Path, directory: Directory
) -> None:
    words = ["(GlueCEAccessControlBaseRule=VO:vo3)", "GlueCEUniqueID", "GlueCEInfoHostName"]
    entries, values = searched(directory.url, *words)
    target = f"ldaps://{LOOPBACK}:{directory.secure_port}" if way == "ldaps" else directory.url
    section = {
        "ldap": "",
        "ldaps": f", bind: external, {directory.tls}",
        "start_tls": f", start_tls: true, bind: external, connection: per-request, {directory.tls}",
    }[way]
    mix = f"{{name: vo, filter: '{words[0]}', attributes: [{words[1]}, {words[2]}]}}"
    found = run(lab, place, experiment(mix, section, target=target))
    run_result = found["runs"][0]
    assert 100 < entries < ENTRIES
    assert (run_result["transactions"], run_result["errors"]) == (40, 0)
    table = pq.read_table(
        lab.results() / "runs" / "0001" / "transactions.parquet", columns=["items", "payload"]
    )
    assert set(zip(*(column.to_pylist() for column in table.columns), strict=True)) == {(entries, values)}


@pytest.mark.long
def test_pages_are_one_transaction_and_do_not_raise_the_limit(
    lab: Lab, place: Path, directory: Directory
) -> None:
    mix = ", ".join(
        (
            f"{{name: pages, {ALL}, page_size: 200, expect_entries: {ENTRIES}}}",
            f"{{name: limited, {ALL}, page_size: 200, size_limit: 250, expect_entries: 250}}",
        )
    )
    found = run(lab, place, experiment(mix, target=directory.url))
    assert found["runs"][0]["errors"] == 0
    codes = {each["code"] for each in found["runs"][0]["successes_by_code"]}
    assert "size limit exceeded" in codes


@pytest.mark.long
@pytest.mark.parametrize(
    ("section", "code"),
    [
        ("bind: {dn: 'cn=nobody,o=grid', password: {secret: '${env:LDAP_PW}'}}", "invalid credentials"),
        ("base: nonsense", "invalid dn syntax"),
    ],
)
def test_a_refusal_has_the_text_of_its_result(
    section: str, code: str, lab: Lab, place: Path, directory: Directory
) -> None:
    text = experiment("{name: one}", f", {section}", target=directory.url).replace(
        "base: o=grid, base", "base"
    )
    text = text.replace("transactions: 40", "transactions: 4")
    done = lab.run("run", lab.file(text), "--json", TMPDIR=str(place), LDAP_PW="wrong word")
    (error,) = done.json["runs"][0]["errors_by_kind"]
    assert (error["code"], error["count"]) == (code, 4)
    assert "wrong word" not in json.dumps(done.json) + events(lab)


@pytest.mark.long
def test_a_killed_server_ends_no_run_and_its_transactions_are_errors(
    lab: Lab, place: Path, directory: Directory
) -> None:
    text = experiment(f"{{{ALL}}}", target=directory.url, run=REST.replace("1500ms", "4s"))
    with lab.start("run", lab.file(text), "--json", TMPDIR=str(place)) as running:
        wait_for(lambda: measured(lab))
        os.kill(directory.process.pid, signal.SIGKILL)
        running.communicate(timeout=60)
    found = json.loads((lab.results() / "analysis.json").read_text())["runs"][0]
    assert found["transactions"] > 0
    assert {each["code"] for each in found["errors_by_kind"]} & {"refused", "closed early", "reset"}
