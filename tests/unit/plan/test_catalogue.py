"""The section `catalogue` of a workload, the service kind and the data set of this name."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.plan.helpers import load, problems

from plimsoll.errors import BadInput
from plimsoll.plan.model.cell import Config
from plimsoll.plan.services.section import Addresses
from plimsoll.plan.services.table import SERVICE_KINDS
from plimsoll.plan.tiers import tiers_of


def config(
    section: str = "", *, service: str = "", database: str = "sqlite", extra: str = "", data: str = ""
) -> Config:
    text = f"""
plimsoll: 1
services:
  db: {{kind: {database}}}
  files: {{kind: catalogue, database: db{service}}}
data:
  entries: {{into: db, kind: catalogue, entries: 1000{data}}}
workload: {{driver: catalogue, target: files, catalogue: {{data: {{entries: 1000}}{section}}}{extra}}}
run: {{duration: 1s}}
load: {{testers: 1}}
"""
    (cell,) = load(text).cells
    return cell.config


def test_every_key_has_a_value_for_the_engine() -> None:
    (work,) = config().workloads
    assert work.settings == {
        "connection": "kept",
        "data": {"entries": 1000, "directory": 1000, "replicas": 1, "seed": 1},
        "keys": {"kind": "uniform"},
        "round_trips": "one",
        "transactions": False,
        "subject": "/O=Plimsoll/CN=tester",
        "verify": 0.01,
        "tls": None,
        "rucio": {"account": "root", "user": "plimsoll", "password": "plimsoll", "scope": "plimsoll"},
    }
    (operation,) = work.operations
    assert (operation.name, operation.request) == (
        "query",
        {"operation": "query", "by": "name", "bulk": 1, "page": 100},
    )


def test_testers_have_a_proxy_of_their_own_or_share_one() -> None:
    for proxy in ("run", "tester"):
        (work,) = config(f", tls: {{proxy: {proxy}}}", service=", security: tls").workloads
        tls = {"ca_file": None, "ca_dir": None, "cert": None, "key": None, "verify": True, "proxy": proxy}
        assert work.settings["tls"] == tls
    (work,) = config(", tls: {}", service=", security: tls").workloads
    assert isinstance(tls := work.settings["tls"], dict)
    assert tls["proxy"] is None


def test_a_mix_has_different_operations() -> None:
    mix = "mix: [{name: read, by: guid, bulk: 100}, {name: write, operation: insert}]"
    (work,) = config(", keys: {zipf: 1.1}", extra=f", {mix}").workloads
    assert work.settings["keys"] == {"kind": "zipf", "s": 1.1}
    read, write = (operation.request for operation in work.operations)
    assert (read["operation"], read["by"], read["bulk"]) == ("query", "guid", 100)
    assert (write["operation"], write["by"], write["bulk"]) == ("insert", "name", 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"section": ", bulk: 1001"}, "bulk"),
        ({"section": ", operation: list, bulk: 2"}, "a list reads one directory"),
        ({"section": ", operation: insert, by: guid"}, "is used only by the operations query and delete"),
        ({"section": ", connection: per-request, transactions: true"}, "transactions need a session"),
        ({"section": ", operation: rename"}, "operation"),
        ({"section": ", operation: get-acl, bulk: 2"}, "reads one ACL"),
        ({"section": ", operation: delete, by: link"}, "link is used only by the operation query"),
        ({"section": ", operation: set-acl, by: link"}, "is used only by the operations query and delete"),
        (
            {"section": ", round_trips: lfc", "service": ", protocol: soap"},
            "only the stateful protocol has this",
        ),
        ({"section": ", rucio: {password: abcdef}"}, "the file contains the password"),
        ({"section": ", rucio: {account: a b}"}, "account"),
        ({"service": ", threads: 0"}, "threads"),
        (
            {"service": ", security: tls, key_file: key.pem"},
            "give cert_file, key_file, ca_file, or none of them",
        ),
        ({"service": ", ca_file: ca.pem"}, "is used only with `security: tls`"),
        ({"service": ", protocol: rest"}, "protocol"),
        ({"service": ", logic: client"}, "logic"),
        ({"service": ", logic: database"}, "with postgres only, not sqlite"),
        ({"service": ", logic: database", "database": "mariadb"}, "with postgres only, not mariadb"),
        ({"data": ", replicas: 21"}, "replicas"),
        ({"section": ", tls: {proxy: all}"}, "proxy"),
        ({"section": ", tls: {proxy: run, key: a.pem}"}, "key needs a certificate"),
    ],
)
def test_what_cannot_be_used_is_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        config(**words)
    assert message in str(refused.value)


@pytest.mark.parametrize("key", ["transactions: true", "round_trips: lfc"])
def test_only_the_stateful_protocol_has_transactions_and_the_calls_of_lfc(key: str) -> None:
    (name, _) = key.split(":")
    for service in (", protocol: soap", ", protocol: soap, security: tls"):
        with pytest.raises(BadInput) as refused:
            config(f", {key}", service=service)
        assert str(refused.value) == (
            f"x.yaml:8: workload.catalogue.{name}: files uses SOAP, and only the stateful protocol has this: leave "
            "this key out, or give the service files `protocol: stateful`"
        )
    (work,) = config(f", {key}").workloads
    assert work.settings[name] in (True, "lfc")


def test_a_target_with_soap_has_no_transactions() -> None:
    text = """
plimsoll: 1
workload:
  driver: catalogue
  target: grid
  catalogue:
    data: {entries: 10}
    transactions: true
targets: {grid: {endpoints: ["catalogue://one.example.org:5010", "soap://two.example.org:5010"]}}
run: {duration: 1s}
load: {testers: 1}
"""
    (line,) = problems(text)
    assert line == (
        "x.yaml:8: workload.catalogue.transactions: two.example.org:5010 uses SOAP, and only the stateful protocol has "
        "this: leave this key out, or use a target catalogue:// or catalogues://"
    )


@pytest.mark.parametrize(
    ("service", "scheme"),
    [
        ("", "catalogue"),
        (", security: tls", "catalogues"),
        (", protocol: soap", "soap"),
        (", protocol: soap, security: tls", "soaps"),
    ],
)
def test_the_scheme_of_the_service_determines_the_protocol_of_the_testers(service: str, scheme: str) -> None:
    found = config(service=service)
    assert found.services[1].scheme == scheme
    assert [(tier.service, tier.counter) for tier in tiers_of(found)] == [("files", "received")]


def test_the_service_reads_the_database_of_another_service() -> None:
    found = config(", keys: single", service=", threads: 5", data=", replicas: 2, seed: 7")
    database, service = found.services
    assert (service.scheme, service.needs) == ("catalogue", ("db",))
    (data,) = found.data
    assert data.settings == {
        "kind": "catalogue",
        "entries": 1000,
        "directory": 1000,
        "replicas": 2,
        "owner": "/O=Plimsoll/CN=owner",
        "seed": 7,
    }
    addresses = Addresses({database.name: ["sqlite:/tmp/db.sqlite"]})
    assert SERVICE_KINDS["catalogue"].engine_config(service, addresses) == {
        "database": "/tmp/db.sqlite",
        "logic": "server",
        "protocol": "stateful",
        "threads": 5,
        "security": "none",
        "idle_timeout_s": 60.0,
        "cert_file": None,
        "key_file": None,
        "ca_file": None,
    }


@pytest.mark.parametrize(
    ("database", "logic"),
    [("sqlite", "server"), ("postgres", "server"), ("postgres", "database"), ("mariadb", "server")],
)
def test_functions_of_postgres_can_carry_out_the_operations(database: str, logic: str) -> None:
    service = config(service=f", logic: {logic}", database=database).services[1]
    assert service.settings["logic"] == logic


@pytest.mark.parametrize(
    ("section", "is_compared"),
    [
        ("", True),
        (", operation: insert, verify: 0%", True),
        (", operation: insert", False),
        (", operation: delete, verify: 0%", False),
        (", operation: list", False),
        (", operation: get-acl", True),
        (", operation: set-acl, verify: 0%", False),
        (", by: link", False),
        (", round_trips: lfc", False),
    ],
)
def test_operations_of_one_call_are_compared_with_those_that_the_service_counts(
    section: str, is_compared: bool
) -> None:
    tiers = list(tiers_of(config(section)))
    assert [(tier.service, tier.counter) for tier in tiers] == [("files", "received")] * is_compared


def rucio(
    section: str = "", *, service: str = "", database: str = "postgres", target: str = "files"
) -> Config:
    text = f"""
plimsoll: 1
services:
  db: {{kind: {database}}}
  files: {{kind: rucio, database: db{service}}}
workload: {{driver: catalogue, target: {target}, catalogue: {{data: {{entries: 1000}}{section}}}}}
run: {{duration: 1s}}
load: {{testers: 1}}
"""
    (cell,) = load(text).cells
    return cell.config


def test_a_rucio_needs_its_database_and_counts_requests_without_those_for_tokens() -> None:
    found = rucio(", connection: per-request", service=", workers: 3")
    database, service = found.services
    assert (service.scheme, service.needs) == ("rucio", (database.name,))
    assert service.settings == {
        "database": "db",
        "workers": 3,
        "threads": 4,
        "security": "none",
        **dict.fromkeys(("python", "cert_file", "key_file")),
    }
    assert [(tier.service, tier.counter) for tier in tiers_of(found)] == [("files", "requests")]


def test_a_rucio_with_tls_is_counted_like_one_without() -> None:
    found = rucio(service=", security: tls")
    assert found.services[-1].scheme == "rucios"
    assert [(tier.service, tier.counter) for tier in tiers_of(found)] == [("files", "requests")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"service": ", security: tls, cert_file: a.pem"}, "give cert_file and key_file, or none of them"),
        ({"service": ", cert_file: a.pem, key_file: a.pem"}, "is used only with `security: tls`"),
        ({"section": ", operation: chmod"}, "Rucio has no chmod"),
        ({"section": ", operation: forbidden"}, "Rucio has no forbidden"),
        ({"section": ", by: guid"}, "Rucio is queried by name"),
        ({"section": ", round_trips: lfc"}, "only the stateful protocol has this"),
        ({"section": ", transactions: true"}, "only the stateful protocol has this"),
        ({"section": ", operation: chmod", "target": "'rucios://rucio.example'"}, "Rucio has no chmod"),
        ({"database": "mariadb"}, "db is a service of kind mariadb: expected one of kind postgres"),
        ({"service": ", workers: 0"}, "workers"),
        ({"service": ", python: missing/bin/python"}, "python"),
    ],
)
def test_what_rucio_does_not_have_is_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        rucio(**words)
    assert message in str(refused.value)
