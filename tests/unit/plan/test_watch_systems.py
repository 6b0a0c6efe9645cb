"""Databases, control groups and containers in `watch:` of a target, in a list or in a mapping."""

from __future__ import annotations

import json

import pytest
from tests.unit.plan.helpers import edited, load, problems

from plimsoll.plan import make_plan
from plimsoll.plan.model.cell import WatchedDatabase, WatchedExporter, WatchedGroup
from plimsoll.plan.source.secret import Secret

TARGET = edited("target: web", "target: site")
PG = "postgresql://me@db1.example:5433/events"


def file(*entries: str, rest: str = "") -> str:
    lines = "".join(f"      {entry}\n" for entry in entries)
    return f"{TARGET}{rest}targets:\n  site:\n    endpoints: [web]\n    watch:\n{lines}"


def test_databases_and_groups_have_their_names_from_a_list_or_a_mapping() -> None:
    entries = {
        "db1": f"postgres: '{PG}'",
        "db2": "mariadb: 'mysql://me@db2.example', every: 5s, optional: true, tls: {}",
        "web1": "container: web_1",
        "jobs": "cgroup: /system.slice/jobs.service",
        "page": "prometheus: 'http://h:9100', kind: node",
    }
    listed = load(file(*(f"- {{name: {name}, {keys}}}" for name, keys in entries.items())))
    mapped = load(file(*(f"{name}: {{{keys}}}" for name, keys in entries.items())))
    assert listed.cells[0].config.watched == mapped.cells[0].config.watched
    pg, maria, container, group, page = mapped.cells[0].config.watched
    assert pg == WatchedDatabase("db1", "postgres", PG, PG, "db1.example", "events", 10**9)
    assert isinstance(maria, WatchedDatabase)
    assert (maria.kind, maria.database, maria.every_ns, maria.optional) == ("mariadb", "", 5 * 10**9, True)
    assert maria.tls is not None and maria.tls["verify"] is True
    assert container == WatchedGroup("web1", "", "web_1", 10**9)
    assert group == WatchedGroup("jobs", "/system.slice/jobs.service", "", 10**9)
    assert isinstance(page, WatchedExporter) and page.every_ns == 5 * 10**9
    assert [system.shown for system in (container, group)] == [
        "container web_1",
        "cgroup /system.slice/jobs.service",
    ]


def test_the_effective_file_of_a_mapping_can_be_loaded_again() -> None:
    first = load(file(f"db1: {{postgres: '{PG}'}}"))
    again = load(first.effective_yaml())
    assert again.cells[0].config.watched == first.cells[0].config.watched


@pytest.mark.parametrize(
    "keys",
    [
        "postgres: 'postgresql://me:${env:PW}@db1/x'",
        "postgres: {secret: 'postgresql://me:${env:PW}@db1/x'}",
        "postgres: 'postgresql://me@db1/x', password: '${env:PW}'",
        "postgres: 'postgresql://me@db1/x', password: {secret: '${env:PW}'}",
    ],
)
def test_passwords_are_used_and_not_stored(keys: str) -> None:
    experiment = load(file(f"db1: {{{keys}}}"), environ={"PW": "hunter2-s3cr3t"})
    (system,) = experiment.cells[0].config.watched
    assert isinstance(system, WatchedDatabase)
    revealed = [each.reveal() for each in (system.url, system.password) if isinstance(each, Secret)]
    assert any("hunter2-s3cr3t" in text for text in revealed)
    kept = experiment.effective_yaml() + json.dumps(make_plan(experiment, 1).to_json()) + repr(system)
    assert "hunter2" not in kept and "hunter2" not in system.shown


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            "db1: {postgres: db1.example/x}",
            "db1.postgres: this is not a URL: expected postgresql://USER@HOST:PORT/DATABASE",
        ),
        ("db1: {postgres: {secret: 'me:topsecret@x'}}", "db1.postgres: this is not a URL"),
        (
            "db1: {postgres: 'mysql://me@h/x'}",
            "db1.postgres: the URL has the scheme mysql: expected postgresql: or postgres:",
        ),
        ("db1: {postgres: 'postgresql://me@h'}", "db1.postgres: the URL names no database"),
        ("db1: {postgres: 'postgresql://h/x'}", "db1.postgres: the URL names no user"),
        (
            "db1: {postgres: 'postgresql://me:topsecret@h/x'}",
            "db1.postgres: the URL contains a password, and the file is stored: write ${env:NAME} in its place, "
            'or give password: {secret: "${env:NAME}"}',
        ),
        (
            "db1: {postgres: 'postgresql://me@h/x', password: topsecret}",
            "db1.password: the file contains the password",
        ),
        (
            "db1: {postgres: 'postgresql://me:${env:PW}@h/x', password: '${env:PW}'}",
            "db1.password: the URL also contains a password: give only one",
        ),
        (
            "db1: {postgres: 'postgresql://me@h/x?sslmode=require'}",
            "db1.postgres: sslmode in a URL is not supported: give tls: {ca_file: ca.pem} for TLS",
        ),
        (
            "db1: {postgres: 'postgresql://me@h/x?sslmode=disable', tls: {}}",
            "db1.tls: the URL contains sslmode=disable",
        ),
        (
            "db1: {postgres: 'postgresql://me@h/x', tls: {ca_file: none.pem}}",
            "db1.tls.ca_file: there is no file",
        ),
        (
            "db1: {postgres: 'postgresql://me@h/x', mariadb: 'mysql://me@h'}",
            "db1: give one URL, as postgres or as mariadb",
        ),
        ("db1: {postgress: 'postgresql://me@h/x'}", 'db1.postgress: unknown key; did you mean "postgres"?'),
        (
            "db1: {postgres: 'postgresql://me@h/x', every: 100ms}",
            "db1.every: the interval must be from 1s to 1h",
        ),
        (
            "db1: {postgres: 'postgresql://me@h/x', name: db2}",
            "db1.name: the name of this entry is its key, db1",
        ),
        ("host: {container: web}", "the name host is reserved"),
        ("web: {container: web}", "web.name: web is a service of this file: choose another name"),
        ("- {container: x}", "watch.0.name: required key missing"),
        ("a: {container: -x}", "a.container: "),
        ("a: {container: x, cgroup: /x}", "a: give either container or cgroup"),
        (
            "a: {cgroup: system.slice}",
            "a.cgroup: expected the path of a control group such as /system.slice/nginx.service",
        ),
        ("a: {cgroup: /x/../..}", "a.cgroup: expected the path of a control group"),
        ("a: 5", "watch.a: "),
        ("'a b': {container: x}", "watch"),
    ],
)
def test_invalid_entries_are_refused(entry: str, message: str) -> None:
    lines = problems(file(entry), environ={"PW": "topsecret"})
    assert any(message in line for line in lines), lines
    assert all(line.startswith("x.yaml:") for line in lines)
    assert not any("topsecret" in line for line in lines)


def test_metrics_of_watched_systems_can_be_responses() -> None:
    rest = (
        "responses: [{metric: counter.db1.xact_commit}, {metric: buffer_hit_ratio.db1}, {metric: cpu.web1}]\n"
    )
    entries = (f"db1: {{postgres: '{PG}'}}", "web1: {container: web_1}")
    assert len(load(file(*entries, rest=rest)).responses) == 3
    (message,) = problems(file(*entries, rest="responses: [{metric: cpu.db1}]\n"))
    assert "there is no component db1" in message


def test_a_level_can_set_a_key_of_a_mapping() -> None:
    rest = "factors: {targets.site.watch.a.container: [x, y]}\n"
    cells = load(file("a: {container: x}", rest=rest)).cells
    assert [cell.config.watched[0].shown for cell in cells] == ["container x", "container y"]
