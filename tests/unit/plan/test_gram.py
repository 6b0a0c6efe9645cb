"""The service kind `gram` in the experiment file."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.helpers import load, problems

from plimsoll.plan import engine_document, make_plan

FILE = """\
plimsoll: 1
services:
  grid: {kind: gram, settings: ["-save-logfile on_error"]}
workload:
  driver: exec
  target: grid
  exec:
    command: [globusrun, -a, -r, "{grid.host}:{grid.port}/jobmanager-fork"]
    env: {X509_USER_PROXY: "{grid.credentials}/proxy"}
load: {testers: 1}
run: {duration: 1s}
"""


def test_the_engine_receives_the_contact_and_the_credentials() -> None:
    (planned,) = make_plan(load(FILE), 1).runs
    addresses = {"grid": ["gram://127.0.0.1:2119/w/grid-1/gram"]}
    (work,) = engine_document(planned, addresses, Path("/run"), "x")["workloads"]
    (operation,) = work["operations"]
    assert operation["request"]["command"][-1] == "127.0.0.1:2119/jobmanager-fork"
    assert work["settings"]["env"] == {"X509_USER_PROXY": "/w/grid-1/credentials/proxy"}
    (service,) = load(FILE).cells[0].config.services
    assert service.settings == {"settings": ["-save-logfile on_error"]}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('["-save-logfile on_error"]', '["a\\nb"]', "expected a single line"),
        ("settings:", "security: gsi, settings:", "security"),
        ("kind: gram", "kind: gramm", "gram"),
    ],
)
def test_invalid_settings_are_rejected(before: str, after: str, message: str) -> None:
    assert before in FILE
    assert message in "\n".join(problems(FILE.replace(before, after)))
