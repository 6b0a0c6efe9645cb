"""The service kind `slurm` in the experiment file."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.helpers import load, problems

from plimsoll.plan import engine_document, make_plan

FILE = """\
plimsoll: 1
services:
  batch: {kind: slurm, nodes: 2, slots: 64, settings: ["KillWait=9"]}
workload:
  driver: exec
  target: batch
  exec:
    command: [srun, --quiet, /bin/true]
    env: {SLURM_CONF: "{batch.path}"}
load: {testers: 1}
run: {duration: 1s}
"""


def test_clients_receive_the_path_of_the_configuration() -> None:
    (planned,) = make_plan(load(FILE), 1).runs
    addresses = {"batch": ["slurm://127.0.0.1:6817/w/batch-1/slurm.conf"]}
    (work,) = engine_document(planned, addresses, Path("/run"), "x")["workloads"]
    assert work["settings"]["env"] == {"SLURM_CONF": "/w/batch-1/slurm.conf"}
    (service,) = load(FILE).cells[0].config.services
    assert service.settings == {"nodes": 2, "slots": 64, "settings": ["KillWait=9"]}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("nodes: 2", "nodes: 0", "nodes"),
        ("slots: 64", "instances: 2", "instances"),
        ('["KillWait=9"]', '["a\\nb"]', "expected a single line"),
    ],
)
def test_invalid_settings_are_rejected(before: str, after: str, message: str) -> None:
    assert before in FILE
    assert message in "\n".join(problems(FILE.replace(before, after)))
