"""`services.NAME.instances`: several equal services behind one name."""

from __future__ import annotations

import pytest
from tests.unit.plan.helpers import load, problems

from plimsoll.plan.metrics import catalogue
from plimsoll.plan.model.cell import ClosedLoad, Config

FILE = """\
plimsoll: 1
services:
  web:   {kind: echo, instances: 3}
  front: {kind: nginx, origin: web}
targets: {both: {endpoints: [{at: web, name: direct}, front]}}
cpus: {testers: [0], services: {web: [1]}}
workload: {driver: http, target: web}
load: {testers: 4}
run: {duration: 1s}
"""


def config_of(text: str = FILE, *sets: str) -> Config:
    return load(text, sets).cells[0].config


def endpoints(config: Config) -> list[tuple[str, str | None]]:
    return [(endpoint.name, endpoint.service) for endpoint in config.workloads[0].target.endpoints]


def test_each_instance_is_a_service_and_an_endpoint() -> None:
    config = config_of()
    assert [service.name for service in config.services] == ["web.1", "web.2", "web.3", "front"]
    assert {service.kind for service in config.services[:3]} == {"echo"}
    assert endpoints(config) == [(f"web.{number}", f"web.{number}") for number in (1, 2, 3)]
    assert config.cpus.services == {f"web.{number}": (1,) for number in (1, 2, 3)}
    assert "instances" not in config.services[0].settings


def test_nginx_balances_over_the_instances_and_needs_all_of_them() -> None:
    front = config_of().services[-1]
    assert front.settings["origins"] == ["web.1", "web.2", "web.3"]
    assert front.needs == ("web.1", "web.2", "web.3")
    assert config_of(FILE.replace("origin: web", "origin: web.2")).services[-1].needs == ("web.2",)
    listed = FILE.replace("  front:", "  own: {kind: echo}\n  front:").replace(
        "origin: web", "origin: [own, web]"
    )
    assert config_of(listed).services[-1].needs == ("own", "web.1", "web.2", "web.3")


def test_a_target_contains_the_instances_in_its_order() -> None:
    config = config_of(FILE, "workload.target=both")
    assert [name for name, _ in endpoints(config)] == ["direct.1", "direct.2", "direct.3", "front"]


def test_the_number_of_instances_is_a_path_for_levels() -> None:
    text = FILE.replace(", instances: 3", "").replace("  services: {web: [1]}", "")
    text = text.replace("cpus: {testers: [0], services: {web: [1]}}\n", "")
    experiment = load(text + "factors: {services.web.instances: [1, 2]}\n")
    assert [len(cell.config.services) for cell in experiment.cells] == [2, 3]
    assert [service.name for service in experiment.cells[0].config.services] == ["web.1", "front"]
    assert [service.name for service in config_of(text).services] == ["web", "front"]


def test_other_factors_act_beside_instances() -> None:
    text = FILE + "factors: {workload.target: [web, front], load.testers: [2, 4]}\n"
    configs = [cell.config for cell in load(text).cells]
    assert [len(config.workloads[0].target.endpoints) for config in configs] == [3, 3, 1, 1]
    loads = [config.workloads[0].load for config in configs]
    assert [load.testers for load in loads if isinstance(load, ClosedLoad)] == [2, 4, 2, 4]


def test_instances_have_metrics_of_their_own() -> None:
    responses = "responses: [{metric: cpu.web.2}, {metric: counter.web.3.received}]\n"
    actions = "actions: [{at: 300ms, kill: {service: web.1}}]\n"
    assert config_of(FILE + responses + actions).actions
    named = catalogue.METRICS.find("counter.web.3.received")
    assert named is not None and named.parts == {"service": "web.3", "counter": "received"}
    assert named.name == "counter.web.3.received"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("instances: 3", "instances: 0"), "services.web.instances: must be at least 1, got 0"),
        (
            ("{kind: nginx, origin: web}", "{kind: squid, origin: web}"),
            "a cache has one origin: add a service",
        ),
        (("{kind: nginx, origin: web}", "{kind: nginx, origin: []}"), "the list is empty"),
        (
            ("{kind: nginx, origin: web}", "{kind: squid, instances: 2}"),
            "services.front.instances: unknown key",
        ),
        (("both:", "web:"), "web is also a service with instances"),
        (("run:", "actions: [{at: 300ms, kill: {service: web}}]\nrun:"), "there is no service web"),
        (
            ("run:", "responses: [{metric: cpu.web.4}]\nrun:"),
            "there is no component web.4",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(change: tuple[str, str], message: str) -> None:
    found = [str(problem) for problem in problems(FILE.replace(*change))]
    assert any(message in text for text in found), found
    assert len(found) == len(set(found))
