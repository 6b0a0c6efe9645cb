"""`perf` of services: its default, and where it is refused."""

from __future__ import annotations

from tests.unit.plan.helpers import load, problems

from plimsoll.deploy.perf.permission import profiled_hosts

TEXT = """\
plimsoll: 1
name: x
services:
  files: {kind: sqlite}
  web: {kind: echo, instances: 2, perf: true}
  other: {kind: echo}
workload: {driver: http, target: web}
load: {testers: 1}
run: {duration: 1s}
"""


def test_every_instance_is_sampled_and_others_are_not() -> None:
    (cell,) = load(TEXT).cells
    perf = {service.name: service.perf for service in cell.config.services}
    assert perf == {"files": False, "web.1": True, "web.2": True, "other": False}
    assert "perf" not in cell.config.service("web.1").settings
    assert list(profiled_hosts([cell.config])) == [None]


def test_a_file_cannot_be_sampled() -> None:
    (line,) = problems(TEXT.replace("{kind: sqlite}", "{kind: sqlite, perf: true}"))
    assert "services.files.perf: a file has no processes that perf could sample" in line
    assert line.startswith("x.yaml:4:")


def test_other_values_are_refused() -> None:
    (line,) = problems(TEXT.replace("perf: true", "perf: 99"))
    assert line.startswith("x.yaml:5: services.web.perf")
