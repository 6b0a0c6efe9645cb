"""Trials of the testers' hosts before the first run, and the lines about their failures. Pure."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll.drive.probe.trial import TrialResult, failures, runs, trials
from plimsoll.plan import load_experiment, make_plan
from plimsoll.plan.hosts.spread import Place
from plimsoll.plan.model.cell import Config

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
def test_only_requests_that_change_nothing_are_tried(
    tmp_path: Path, workload: str, more: str, expected: list[tuple[str, str, str]]
) -> None:
    planned = trials(config(tmp_path, workload, more))
    described = [
        (trial.work.driver, str(trial.work.target.endpoints[0].url), trial.work.operations[0].name)
        for trial in planned
    ]
    assert described == expected


def test_each_host_tries_each_target_once(tmp_path: Path) -> None:
    base = config(tmp_path, "{driver: http, target: both}", SSH + BOTH)
    [(planned, named)] = runs(base, trials(base), AGENTS)
    assert [work.name for work in planned.workloads] == ["probe-1", "probe-2"] == list(named)
    assert all(work.load.testers == 2 for work in planned.workloads), "one on each host"  # type: ignore[union-attr]
    assert planned.run.each_tester == 1 and planned.run.warmup_ns == 0


def test_failures_are_reported_by_target_and_host(tmp_path: Path) -> None:
    base = config(tmp_path, '{driver: http, target: "http://a:1"}', SSH)
    (trial,) = trials(base)
    hosts = {"h1": "h1", "h2": "h2"}

    def lines_of(*outcomes: tuple[str, str]) -> list[str]:
        tried = [TrialResult(trial, f"h{n}", outcome, code) for n, (outcome, code) in enumerate(outcomes, 1)]
        return failures(tried, hosts, [])

    assert lines_of(("ok", "200"), ("wrong", "503")) == [], "an answer is an answer"
    assert lines_of(("ok", "200"), ("refused", "refused")) == [
        "http://a:1: from h2: no connection: refused; check the address, and that the service runs"
    ]
    assert lines_of(("refused", "unreachable"), ("refused", "unreachable"))[0].startswith(
        "http://a:1: from h1, h2: "
    )
    assert lines_of(("timeout", "timeout connect"))[0].endswith("s; check the route and the firewall")
    assert lines_of(("error", "tls invalid peer certificate: unknown authority")) == [
        "http://a:1: from h1: the TLS handshake failed: invalid peer certificate: unknown authority"
    ]
    assert lines_of(("timeout", "timeout first byte")) == [], "it may be slow"
