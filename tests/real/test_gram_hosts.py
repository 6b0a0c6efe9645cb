"""Hosts of kind gram: agents as jobs of a real GRAM gatekeeper."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.services import RunningServices
from plimsoll.plan import load_experiment
from tests.conftest import Lab
from tests.real.dial_in import carried, experiment, no_secret_stays, summary
from tests.real.test_gram import needs_gram
from tests.real.test_services import place

GATEKEEPER = """
plimsoll: 1
services: {grid: {kind: gram}}
workload: {driver: exec, target: grid, exec: {command: ['true']}}
load: {testers: 1}
run: {duration: 1s}
"""

__all__ = ["place"]  # the fixture


@pytest.fixture
def contact(lab: Lab, place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The contact of a gatekeeper, whose credentials are in the environment of the lab."""
    needs_gram()
    monkeypatch.setenv("TMPDIR", str(place))
    services = RunningServices(find_engine(), lab.directory / "gatekeeper", lambda: None)
    try:
        services.ensure(load_experiment(lab.file(GATEKEEPER)).cells[0].config, {}, False)
        parts = urlsplit(services.addresses()["grid"][0])
        credentials = Path(parts.path).parent / "credentials"
        lab.env["X509_CERT_DIR"] = str(credentials / "certificates")
        lab.env["X509_USER_PROXY"] = str(credentials / "proxy")
        yield f"127.0.0.1:{parts.port}/jobmanager-fork:/O=Plimsoll/CN=127.0.0.1"
    finally:
        services.stop()


def hosts(contact: str, more: str = "", agents: int = 2) -> str:
    return f"kind: gram\ngram: {{contact: '{contact}', agents: {agents}}}\n{more}"


def test_jobs_of_a_gatekeeper_carry_the_load_and_leave_nothing(lab: Lab, contact: str) -> None:
    before = set(Path("/tmp").iterdir())
    done = lab.run("run", lab.file(experiment(hosts(contact), duration="1s")))
    assert done.code == 0, done.err
    books = summary(lab.results())
    assert books["balanced"] and not books["damage"]
    assert [one["name"] for one in carried(lab.results())] == ["gram.1", "gram.2"]
    assert {(one["host"], one["site"]) for one in carried(lab.results())} == {
        (os.uname().nodename, "127.0.0.1")
    }
    assert all(one["books"]["counters"]["succeeded"] > 0 for one in carried(lab.results()))
    no_secret_stays(lab.directory)
    left = [path for path in set(Path("/tmp").iterdir()) - before if "gram" in path.name]
    assert not left, left


@pytest.mark.long
def test_a_gatekeeper_that_refuses_the_jobs_is_reported(lab: Lab, contact: str) -> None:
    wrong = contact.replace("jobmanager-fork", "jobmanager-none")
    done = lab.run("run", lab.file(experiment(hosts(wrong))))
    assert done.code != 0
    assert "its job has ended; output of gram.1: GRAM Job" in done.err
    no_secret_stays(lab.directory)
