"""The service kind `rucio`, and the driver `catalogue` with it: every operation with a verified answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plimsoll.deploy.programs import HERE
from plimsoll.deploy.servers.storage.rucio import environment_python, missing_rucio, versions_of
from tests.conftest import Lab, missing
from tests.real.test_services import REST, needs, place, run, service, stored

__all__ = ["place"]

UNTIL = REST.replace("duration: 1500ms", "until: {transactions: 40}")
OPERATIONS = ", ".join(
    (
        "{name: query, weight: 3}",
        "{name: bulk query, weight: 2, bulk: 300}",
        "{name: insert, weight: 2, operation: insert, bulk: 10}",
        "{name: delete, weight: 1, operation: delete, bulk: 2}",
        "{name: list, weight: 1, operation: list}",
    )
)


def needs_rucio() -> None:
    """Skips where Rucio is not installed."""
    needs("postgres")
    if versions_of(environment_python(HERE), HERE) is None:
        missing("Rucio", missing_rucio(HERE))


def experiment(section: str = "", service: str = "", mix: str = OPERATIONS) -> str:
    return f"""
plimsoll: 1
services:
  db: {{kind: postgres}}
  files: {{kind: rucio, database: db, workers: 1{service}}}
data:
  entries: {{into: db, kind: catalogue, entries: 500, directory: 100, replicas: 2, seed: 5}}
workload:
  driver: catalogue
  target: files
  timeout: 60s
  catalogue: {{data: {{entries: 500, directory: 100, replicas: 2, seed: 5}}{section}}}
  mix: [{mix}]
load: {{testers: 2}}
{UNTIL}"""


def assert_all_are_correct(found: dict[str, Any]) -> None:
    (result,) = found["runs"]
    assert not result["errors_by_kind"], result["errors_by_kind"]
    assert result["transactions"] > 0


def test_every_operation_is_carried_out_and_verified(lab: Lab, place: Path) -> None:
    needs_rucio()
    found = run(lab, place, experiment(", verify: 100%"))
    assert_all_are_correct(found)
    counters = service(found, "files")["counters"]
    assert counters["requests"] > 0 and counters["failed"] == 0, counters
    config = stored(lab, "files", "config")
    assert config.startswith("# Rucio ") and "workers = 1" in config


@pytest.mark.long
def test_without_sessions_each_transaction_obtains_a_token(lab: Lab, place: Path) -> None:
    needs_rucio()
    found = run(lab, place, experiment(", verify: 100%, connection: per-request", ", threads: 2"))
    assert_all_are_correct(found)
    (result,) = found["runs"]
    trips = {metric["name"]: metric for metric in result["metrics"]}["catalogue_round_trips"]
    assert trips["count"] == result["transactions"], trips
    counters = service(found, "files")["counters"]
    assert counters["logins"] > 0 and counters["failed"] == 0, counters


def test_tokens_and_operations_within_tls(lab: Lab, place: Path) -> None:
    needs_rucio()
    found = run(lab, place, experiment(", verify: 100%, connection: per-request", ", security: tls"))
    assert_all_are_correct(found)
    (result,) = found["runs"]
    assert result["connections"]["opened"] >= result["transactions"], result["connections"]
    assert result["connections"]["tls_handshake_ms"] is not None
    assert service(found, "files")["counters"]["failed"] == 0


@pytest.mark.long
def test_another_start_uses_the_same_database(lab: Lab, place: Path) -> None:
    """Only Rucio is restarted: it removes the tables of its earlier start."""
    needs_rucio()
    factor = "factors: {workers: {path: services.files.workers, levels: [1, 2]}}\n"
    found = run(lab, place, experiment(mix="{name: query}, {name: insert, operation: insert}") + factor)
    assert [result["errors_by_kind"] for result in found["runs"]] == [[], []]


def test_a_missing_installation_has_one_message_with_the_command(
    lab: Lab, place: Path, tmp_path: Path
) -> None:
    needs("postgres")
    done = lab.run("run", lab.file(experiment()), TMPDIR=str(place), XDG_CACHE_HOME=str(tmp_path))
    assert done.code != 0
    command = f"python3 -m venv {tmp_path}/plimsoll/rucio && {tmp_path}/plimsoll/rucio/bin/pip install"
    assert "service files: Rucio was not found" in done.err and command in done.err, done.err
