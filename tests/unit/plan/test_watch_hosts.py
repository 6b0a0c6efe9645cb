"""Hosts in `watch:` of a target: how they are resolved and reached, and invalid keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.helpers import load, problems
from tests.unit.plan.test_watch import URL, file

from plimsoll.plan import make_plan
from plimsoll.plan.hosts.lookouts import lookouts, required
from plimsoll.plan.model.hosts import Host, Ssh, WatchedHost, WatchedProcess
from plimsoll.plan.schema.experiment import json_schema

WHERE = "kind: ssh, hosts: [h1], controller: {address: 127.0.0.1}"
ELSEWHERE = f"hosts: {{{WHERE}, directory: ~/p/x, ssh: {{options: [-4]}}}}\n"


def test_hosts_and_exporters_are_entries_of_the_same_list() -> None:
    config = (
        load(
            file(
                f"{{prometheus: '{URL}', name: squid, kind: squid}}",
                "{host: db1.example.org, name: db1, process: postgres, link: 10Gbit/s}",
                "{host: db2, user: me, port: 2222, process: [a b, c], pid: 17, unit: squid, optional: true}",
            )
        )
        .cells[0]
        .config
    )
    assert [exporter.name for exporter in config.watched] == ["squid"]
    first, second = config.watched_hosts
    expected_host = Host("db1", "db1.example.org", "target", link_bytes_s=1.25e9)
    assert first == WatchedHost(expected_host, (WatchedProcess("process", "postgres"),))
    assert (second.host.user, second.host.port, second.optional) == ("me", 2222, True)
    assert [process.name for process in second.processes] == ["a b", "c", "pid 17", "squid"]
    assert required([config]) == {"db1"}
    (hosts,) = lookouts(config)
    assert [host.name for host in hosts.hosts] == ["db1", "db2"]
    assert (hosts.kind, hosts.ssh, hosts.directory) == ("ssh", Ssh(), "~/.cache/plimsoll")


def test_ssh_options_of_a_watched_host_override_those_of_hosts() -> None:
    own = "{host: db2, ssh: {unknown_host_keys: accept}, directory: /var/tmp/me}"
    config = load(ELSEWHERE + file("{host: db1}", own)).cells[0].config
    first, second = lookouts(config)
    assert (first.ssh, first.directory) == (Ssh(None, ("-4",)), "~/p/x")
    assert (second.ssh, second.directory) == (Ssh(None, (), True), "/var/tmp/me")
    assert [host.name for host in config.hosts.hosts] == ["h1"], "watched hosts have no testers"


def test_the_effective_file_has_the_same_watched_hosts(tmp_path: Path) -> None:
    text = file("{host: db1, process: [postgres], link: 1Gbit/s}", "{host: local, unit: squid}")
    experiment = load(text)
    again = load(experiment.effective_yaml())
    assert again.cells[0].config.watched_hosts == experiment.cells[0].config.watched_hosts
    assert lookouts(experiment.cells[0].config)[0].hosts[0].name == "db1", "this host is reached without ssh"
    assert make_plan(experiment, 1).to_json() is not None


WRONG = [
    ("{host: -oProxyCommand=x}", "targets.site.watch.0.host: expected a host: its name, its address"),
    ("{host: db1, proces: x}", 'targets.site.watch.0.proces: unknown key; did you mean "process"?'),
    (
        "{host: db1, process: ' '}",
        'targets.site.watch.0.process: expected the name of a program or unit, got " "',
    ),
    ("{host: db1, pid: 0}", "targets.site.watch.0.pid: must be at least 1, got 0"),
    (
        "{host: db1, link: 10}",
        "targets.site.watch.0.link: expected the capacity of a link such as 10Gbit/s, got 10",
    ),
    ("{host: db1, unit: x, process: x}", "targets.site.watch.0: x is listed twice"),
    ("{host: 'fe80::1'}", "targets.site.watch.0: fe80::1 is not valid in a file name: give the host a name"),
    (
        "{host: lab}",
        "targets.site.watch.0.host: the name lab is reserved for a component that is always watched: "
        "choose another name",
    ),
    ("{host: db1, name: web}", "targets.site.watch.0.name: web is a service of this file"),
    ("{host: local}", "targets.site.watch.0: this machine is always watched: give process"),
    (
        "{host: local, unit: x, user: me}",
        "targets.site.watch.0.user: host: local is this machine: only process",
    ),
    (
        "{host: local, process: web}",
        "targets.site.watch.0.host: web is a service of this file, and services are always watched",
    ),
    (
        "{host: h1}",
        "targets.site.watch.0.host: testers run on a host with the name h1: choose another name for what "
        "is watched",
    ),
    ("{name: db1, process: x}", "targets.site.watch.0.prometheus: required key missing"),
]


@pytest.mark.parametrize(("entry", "message"), WRONG)
def test_invalid_watched_hosts_are_rejected(entry: str, message: str) -> None:
    lines = problems(ELSEWHERE + file(entry))
    assert any(message in line for line in lines), lines


def test_the_schema_has_every_kind_in_a_list_or_a_mapping() -> None:
    schema = json_schema()
    watch = schema["$defs"]["TargetRaw"]["properties"]["watch"]
    listed, mapped = watch.get("oneOf", watch.get("anyOf"))
    for items in (
        listed["items"],
        next(iter(mapped.get("patternProperties", {"": mapped.get("additionalProperties")}).values())),
    ):
        names = {item["$ref"].rpartition("/")[2] for item in items.get("oneOf", items.get("anyOf"))}
        assert names == {"WatchRaw", "WatchDatabaseRaw", "WatchGroupRaw", "WatchHostRaw"}
    assert schema["$defs"]["WatchHostRaw"]["required"] == ["host"]


def test_a_process_of_this_host_may_have_a_name() -> None:
    entries = ("{host: local, name: nginx, pid: 1}", "{host: local, name: php, process: php-fpm}")
    first, second = load(file(*entries)).cells[0].config.watched_hosts
    assert [process.name for process in (*first.processes, *second.processes)] == ["nginx", "php"]
    assert first.is_here and second.is_here and first.host.name != second.host.name
