"""The service kind, the data set and the driver `catalogue`: every operation with a verified answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plimsoll.deploy.programs import find
from tests.conftest import Lab, missing
from tests.real.test_services import REST, needs, place, run, service

__all__ = ["place"]

UNTIL = REST.replace("duration: 1500ms", "until: {transactions: 60}")
OPERATIONS = ", ".join(
    (
        "{name: query, weight: 4}",
        "{name: by guid, weight: 2, by: guid, bulk: 50}",
        "{name: insert, weight: 2, operation: insert, bulk: 10}",
        "{name: delete, weight: 1, operation: delete}",
        "{name: chmod, weight: 1, operation: chmod}",
        "{name: list, weight: 1, operation: list}",
        "{name: forbidden, weight: 1, operation: forbidden}",
        "{name: link, weight: 1, operation: link}",
        "{name: by link, weight: 1, by: link, bulk: 5}",
        "{name: set ACL, weight: 1, operation: set-acl}",
        "{name: get ACL, weight: 1, operation: get-acl}",
        "{name: forbidden ACL, weight: 1, operation: forbidden-acl}",
    )
)


def experiment(
    mix: str, section: str = "", service: str = "", database: str = "sqlite", run: str = UNTIL
) -> str:
    return f"""
plimsoll: 1
services:
  db: {{kind: {database}}}
  files: {{kind: catalogue, database: db, threads: 4{service}}}
data:
  entries: {{into: db, kind: catalogue, entries: 500, directory: 100, replicas: 2, seed: 5}}
workload:
  driver: catalogue
  target: files
  catalogue: {{data: {{entries: 500, directory: 100, replicas: 2, seed: 5}}{section}}}
  mix: [{mix}]
load: {{testers: 2}}
{run}"""


def assert_all_are_correct(found: dict[str, Any]) -> None:
    (result,) = found["runs"]
    assert not result["errors_by_kind"], result["errors_by_kind"]
    assert result["transactions"] > 0


def test_every_operation_is_carried_out_and_verified(lab: Lab, place: Path) -> None:
    found = run(lab, place, experiment(OPERATIONS, ", verify: 100%"))
    assert_all_are_correct(found)
    counters = service(found, "files")["counters"]
    assert (counters["connections"], counters["database_errors"], counters["refused"]) == (2, 0, 0)
    assert counters["entries_read"] > counters["entries_inserted"] > 0


def test_queries_are_counted_by_both_sides(lab: Lab, place: Path) -> None:
    found = run(lab, place, experiment("{name: query}", ", connection: per-request"))
    assert_all_are_correct(found)
    (tier,) = found["runs"][0]["tiers"]
    assert (tier["counted"], tier["difference"]) == (60, 0)


def test_certificates_are_made_for_a_catalogue_with_tls(lab: Lab, place: Path) -> None:
    if find(["openssl"]) is None:
        missing("openssl", "apt-get install openssl")
    found = run(lab, place, experiment(OPERATIONS, ", verify: 0%", ", security: tls"))
    assert_all_are_correct(found)
    assert service(found, "files")["counters"]["handshakes"] == 2


@pytest.mark.parametrize("proxy", ["run", "tester"])
def test_a_proxy_is_its_end_entity(lab: Lab, place: Path, proxy: str) -> None:
    """The testers change permissions of entries that they own, which the catalogue permits only to the owner."""
    if find(["openssl"]) is None:
        missing("openssl", "apt-get install openssl")
    section = f", verify: 100%, tls: {{proxy: {proxy}}}"
    found = run(lab, place, experiment("{name: chmod, operation: chmod}", section, ", security: tls"))
    assert_all_are_correct(found)
    counters = service(found, "files")["counters"]
    assert (counters["handshakes"], counters["failed_handshakes"]) == (2, 0)


def test_every_operation_is_a_soap_message(lab: Lab, place: Path) -> None:
    found = run(lab, place, experiment(OPERATIONS, ", verify: 100%", ", protocol: soap"))
    assert_all_are_correct(found)
    counters = service(found, "files")["counters"]
    assert (counters["connections"], counters["database_errors"], counters["refused"]) == (2, 0, 0)


@pytest.mark.long
@pytest.mark.parametrize("connection", ["kept", "per-request"])
def test_soap_messages_over_https(lab: Lab, place: Path, connection: str) -> None:
    if find(["openssl"]) is None:
        missing("openssl", "apt-get install openssl")
    section = f", verify: 0%, connection: {connection}"
    found = run(lab, place, experiment(OPERATIONS, section, ", protocol: soap, security: tls"))
    assert_all_are_correct(found)
    assert (service(found, "files")["counters"]["handshakes"] == 2) == (connection == "kept")


def test_every_operation_over_mariadb(lab: Lab, place: Path) -> None:
    needs("mariadb")
    found = run(lab, place, experiment(OPERATIONS, ", verify: 100%", database="mariadb"))
    assert_all_are_correct(found)
    assert service(found, "files")["counters"]["database_errors"] == 0


@pytest.mark.parametrize("protocol", ["stateful", "soap"])
def test_functions_of_postgres_carry_out_insertions_queries_and_deletions(
    lab: Lab, place: Path, protocol: str
) -> None:
    needs("postgres")
    service_keys = f", logic: database, protocol: {protocol}"
    found = run(lab, place, experiment(OPERATIONS, ", verify: 100%", service_keys, database="postgres"))
    assert_all_are_correct(found)
    counters = service(found, "files")["counters"]
    # Queries by links are carried out by the service.
    assert counters["database_errors"] == 0
    assert counters["function_calls"] > counters["function_fallbacks"] > 0


@pytest.mark.long
@pytest.mark.parametrize("connection", ["kept", "per-request"])
def test_every_operation_over_postgres(lab: Lab, place: Path, connection: str) -> None:
    needs("postgres")
    section = f", verify: 100%, round_trips: lfc, connection: {connection}"
    assert_all_are_correct(run(lab, place, experiment(OPERATIONS, section, database="postgres")))
