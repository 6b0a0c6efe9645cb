"""`hosts.limits`: of the agents with their testers, in the file."""

from __future__ import annotations

import pytest
from tests.unit.plan.helpers import BASE, load, problems

from plimsoll.deploy.limits import limited_resources
from plimsoll.plan.load_hosts import limits_of_testers
from plimsoll.plan.model.limits import NO_LIMITS, Limits

SSH = "hosts:\n  kind: ssh\n  controller: {address: 10.0.0.1}\n"


def test_this_host_without_a_list_of_hosts_has_limits() -> None:
    config = load(BASE + "hosts: {limits: {cpu: 20%}}\n").cells[0].config
    assert config.hosts.hosts[0].limits == Limits(cpu=0.2)
    assert config.hosts.named
    assert limited_resources([config], None) == ("cpu",)
    assert not load(BASE).cells[0].config.hosts.named


def test_a_host_replaces_single_limits_of_the_section() -> None:
    text = BASE + SSH + "  limits: {cpu: 20%, memory: 64MB}\n  hosts:\n"
    text += "    - h1\n    - {host: h2, limits: {cpu: none}}\n    - {host: h3, limits: {disk_read: 1MB/s}}\n"
    text += "    - {host: h4, agents: 0}\n"
    config = load(text).cells[0].config
    assert {host.name: host.limits for host in config.hosts.hosts} == {
        "h1": Limits(64_000_000, 0.2),
        "h2": Limits(64_000_000),
        "h3": Limits(64_000_000, 0.2, 1_000_000),
    }
    assert limits_of_testers([config.hosts])["h3"] == ("cpu", "disk_read", "memory")
    assert limited_resources([config], None) == (), "other hosts are tried there"


def test_a_level_sets_the_limit_of_all_hosts_or_of_one() -> None:
    file = BASE + "hosts: {kind: local, hosts: [a, b]}\nfactors: {hosts.limits.cpu: [20%, none]}\n"
    cells = load(file).cells
    assert [[host.limits for host in cell.config.hosts.hosts] for cell in cells] == [
        [Limits(cpu=0.2)] * 2,
        [NO_LIMITS] * 2,
    ]
    assert cells[0].config.hosts.without_limits() == cells[1].config.hosts
    one = (
        BASE
        + "hosts: {kind: local, hosts: [{host: a}, {host: b}]}\nfactors: {hosts.hosts.1.limits.cpu: [5%]}\n"
    )
    assert load(one).cells[0].config.hosts.limits_by_host == {"b": Limits(cpu=0.05)}


@pytest.mark.parametrize("kind", ["slurm: {tasks: 2}", "join: {agents: 2}", "dask: {address: 'tcp://x:1'}"])
def test_agents_that_something_else_starts_are_refused_by_name(kind: str) -> None:
    name = kind.partition(":")[0]
    hosts = f"hosts:\n  kind: {name}\n  {kind}\n  controller: {{address: 10.0.0.1}}\n  limits: {{cpu: 20%}}\n"
    (line,) = problems(BASE + hosts)
    assert f"hosts.limits: agents of kind {name} dial in" in line
    assert "request the limits where the agents are started" in line


def test_a_host_without_testers_has_no_limits_of_testers() -> None:
    text = BASE + SSH + "  hosts: [h1, {host: h2, agents: 0, limits: {cpu: 20%}}]\n"
    (line,) = problems(text)
    assert "h2 has no testers: `limits` of a service are a key of the service" in line


def test_limits_of_hosts_and_of_client_programs_exclude_each_other() -> None:
    driver = "driver: exec\n  exec: {command: [true], limits: {memory: 64MB}}"
    text = BASE.replace("driver: http\n  target: web", driver) + "hosts: {limits: {cpu: 20%}}\n"
    (line,) = problems(text)
    assert "workload.exec.limits: the client programs already run within hosts.limits" in line


def test_values_are_those_of_services() -> None:
    (line,) = problems(BASE + "hosts: {limits: {cpu: 0%}}\n")
    assert 'hosts.limits.cpu: "0%": the limit must be from 1% to 100000%' in line
