"""What the hosts of the testers try before the first run, and what is said of it. Pure."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll.drive.probe.trial import Tried, failures, runs, trials
from plimsoll.plan import load_experiment, make_plan
from plimsoll.plan.hosts.spread import Place
from plimsoll.plan.model import Config

END = """
load: {testers: 7}
run: {duration: 1s}
"""
SSH = "hosts: {kind: ssh, sites: {far: [h1, h2]}, controller: {address: 10.0.0.1}}\n"
BOTH = 'targets: {both: {endpoints: ["http://a:1", "http://b:1"]}}\n'
AGENTS = (Place("h1", "h1", "far"), Place("h2", "h2", "far"))


def config(tmp_path: Path, workload: str, more: str = "") -> Config:
    file = tmp_path / "e.yaml"
    file.write_text(f"plimsoll: 1\nname: e\nworkload: {workload}\n{more}{END}")
    return make_plan(load_experiment(file), 1).runs[0].config


@pytest.mark.parametrize(
    ("workload", "more", "expected"),
    [
        ('{driver: http, target: "http://a:1"}', "", []),
        ('{driver: http, target: "http://a:1"}', SSH, [("http", "http://a:1", "GET /")]),
        (
            '{driver: http, target: "http://a:1", http: {method: POST, body: x}}',
            SSH,
            [("tcp", "tcp://a:1", "connect")],
        ),
        ('{driver: tcp, target: "tcp://a:1", tcp: {send: x}}', SSH, [("tcp", "tcp://a:1", "connect")]),
        (
            '{driver: sql, target: "postgresql://me@a/d", sql: {queries: ["update t set n = 1"]}}',
            "",
            [("sql", "postgresql://me@a/d", "login")],
        ),
        ("{driver: exec, exec: {command: [true]}}", SSH, []),
    ],
)
def test_only_what_changes_nothing_is_tried(
    tmp_path: Path, workload: str, more: str, expected: list[tuple[str, str, str]]
) -> None:
    found = trials(config(tmp_path, workload, more))
    told = [
        (one.work.driver, str(one.work.target.endpoints[0].url), one.work.operations[0].name) for one in found
    ]
    assert told == expected


def test_each_host_tries_each_target_once(tmp_path: Path) -> None:
    of = config(tmp_path, "{driver: http, target: both}", SSH + BOTH)
    [(made, named)] = runs(of, trials(of), AGENTS)
    assert [work.name for work in made.workloads] == ["probe-1", "probe-2"] == list(named)
    assert all(work.load.testers == 2 for work in made.workloads), "one on each host"  # type: ignore[union-attr]
    assert made.run.each_tester == 1 and made.run.warmup_ns == 0


def test_failures_are_told_by_target_and_host(tmp_path: Path) -> None:
    of = config(tmp_path, '{driver: http, target: "http://a:1"}', SSH)
    (trial,) = trials(of)
    hosts = {"h1": "h1", "h2": "h2"}

    def said(*outcomes: tuple[str, str]) -> list[str]:
        tried = [Tried(trial, f"h{n}", outcome, code) for n, (outcome, code) in enumerate(outcomes, 1)]
        return failures(tried, hosts, [])

    assert said(("ok", "200"), ("wrong", "503")) == [], "an answer is an answer"
    assert said(("ok", "200"), ("refused", "refused")) == [
        "http://a:1: from h2: no connection: refused; check the address, and that the service runs"
    ]
    assert said(("refused", "unreachable"), ("refused", "unreachable"))[0].startswith(
        "http://a:1: from h1, h2: "
    )
    assert said(("timeout", "timeout connect"))[0].endswith("s; check the route and the firewall")
    assert said(("error", "tls invalid peer certificate: unknown authority")) == [
        "http://a:1: from h1: the TLS handshake failed: invalid peer certificate: unknown authority"
    ]
    assert said(("timeout", "timeout first byte")) == [], "it may be slow"
