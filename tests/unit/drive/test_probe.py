"""Visits before an experiment, and judgements of their outcomes. These tests make no connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll.drive.probe.judge import IN_FILE, judge_visit
from plimsoll.drive.probe.visit import Answer, Failure, VisitResult
from plimsoll.drive.probe.wanted import Address, AnyVisit, ProgramVisit, Visit, _filled, visits_of
from plimsoll.plan import parse_experiment

REST = "load: {testers: 1}\nrun: {duration: 1s}\n"


def of(text: str, **environ: str) -> tuple[AnyVisit, ...]:
    """The visits of an experiment."""
    experiment = parse_experiment(f"plimsoll: 1\nname: x\n{text}\n{REST}", "x", Path("/"), (), environ)
    return visits_of([cell.config for cell in experiment.cells])


def visit(text: str, **environ: str) -> Visit:
    """The only visit."""
    (only,) = of(text, **environ)
    assert isinstance(only, Visit)
    return only


@pytest.mark.parametrize(
    "text",
    [
        "services: {web: {kind: echo, http: true}}\nworkload: {driver: http, target: web}",
        "services: {p: {kind: squid}}\ntargets: {far: {endpoints: ['http://h/'], proxies: [p]}}\n"
        "workload: {driver: http, target: far}",
        "workload: {driver: sql, target: 'sqlite:/usr/bin/env', sql: {queries: [select 1]}}",
        "workload: {driver: 'null'}",
        "hosts: {kind: ssh, sites: {far: [h1]}}\nworkload: {driver: exec, exec: {command: [nothing-there]}}",
        "workload: {driver: exec, exec: {command: ['{word}']}, values: {word: {list: [a, b]}}}",
    ],
)
def test_targets_that_cannot_be_reached_yet_are_not_visited(text: str) -> None:
    assert of(text) == ()


def test_an_endpoint_of_several_cells_is_visited_once() -> None:
    assert len(of("workload: {driver: http, target: 'http://h/'}\nfactors: {load.testers: [1, 2, 3]}")) == 1
    assert (
        len(of("workload: {driver: http, target: 'http://h/'}\nfactors: {workload.http.path: [/a, /b]}")) == 2
    )


def test_the_request_is_the_first_one_that_changes_nothing() -> None:
    planned = visit(
        "workload: {driver: http, target: 'http://h:81/base/', mix: [{method: POST, path: /p}, {method: HEAD, "
        "path: '/{a}/{n}'}], http: {headers: {host: other, X-A: '{a}'}}, values: {a: {uniform: [7, 9]}}}"
    )
    assert planned.request is not None
    assert (planned.request.method, planned.request.target) == ("HEAD", "/base/7/0")
    assert dict(planned.request.headers) == {
        "User-Agent": "plimsoll", "Accept": "*/*", "Connection": "close", "host": "other", "X-A": "7",
    }  # fmt: skip
    assert (
        visit("workload: {driver: http, target: 'http://h/', http: {method: PUT, body: x}}").request is None
    )


@pytest.mark.parametrize(
    ("url", "path", "target"),
    [
        ("http://h", "/", "/"),
        ("http://h/page", "/", "/page"),
        ("http://h/page/", "/", "/page/"),
        ("http://h/?a=b", "/", "/?a=b"),
        ("http://h/page?a=b", "/", "/page?a=b"),
        ("http://h/base", "/p?q", "/base/p?q"),
    ],
)
def test_paths_are_joined_as_by_the_driver(url: str, path: str, target: str) -> None:
    planned = visit(f"workload: {{driver: http, target: '{url}', http: {{path: '{path}'}}}}")
    assert planned.request is not None and planned.request.target == target


def test_a_database_has_its_default_port_and_shows_no_password() -> None:
    text = "workload: {driver: sql, target: 'postgresql://me:${env:PW}@[::1]/db', sql: {queries: [select 1]}}"
    planned = visit(text, PW="hunter2")
    assert planned.address == Address("::1", 5432)
    assert planned.shown == "postgresql://[::1]:5432"


@pytest.mark.parametrize(
    ("more", "excuse"),
    [
        ("", ""),
        ("before_run: [{run: ['true']}]", "a command of before_run may change this"),
        ("hosts: {kind: ssh, sites: {far: [h1]}}", "testers run on other hosts, where the result may differ"),
        ("services: {own: {kind: command, command: [x], url: 'http://127.0.0.1:1'}}",
         "a service of kind command may change this"),
    ],
)  # fmt: skip
def test_a_target_that_may_start_later_or_is_used_elsewhere_is_excused(more: str, excuse: str) -> None:
    planned = visit(f"workload: {{driver: http, target: 'http://h/'}}\n{more}")
    assert planned.excuse == excuse
    judgement = judge_visit(VisitResult(planned, Failure("connect", "Connection refused")), IN_FILE)
    assert judgement is not None and judgement.fatal == (excuse == "")


def test_several_frontier_endpoints_are_excused() -> None:
    text = "workload: {driver: frontier, target: far, frontier: {queries: [select 1]}}\ntargets: {far: {endpoints: "
    assert visit(text + "['http://a/f']}}").excuse == ""
    assert [planned.excuse for planned in of(text + "['http://a/f', 'http://b/f']}}")] == [
        "the driver fails over"
    ] * 2


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("https://h/a?b=c", "https://h/a?b=c"),
        ("https://h/a?token=b&c=d", "https://h/a?***"),
        ("https://me:pw@h/a", "https://***@h/a"),
        ("http://[", "***"),
    ],
)
def test_a_location_shows_no_credentials(location: str, shown: str) -> None:
    planned = visit("workload: {driver: http, target: 'http://h/'}")
    judgement = judge_visit(VisitResult(planned, Answer(302, "Found", location, False)), IN_FILE)
    assert judgement is not None and f", Location: {shown}. " in judgement.text
    assert not judgement.fatal


def test_an_unexpected_status_is_a_warning() -> None:
    planned = visit("workload: {driver: http, target: 'http://h/', http: {expect: {status: 201}}}")
    judgement = judge_visit(VisitResult(planned, Answer(200, "OK", "", False)), IN_FILE)
    assert judgement is not None and judgement.text.endswith(
        "is answered with 200 OK. It counts as a failure"
    )
    assert judge_visit(VisitResult(planned, Answer(201, "Created", "", True)), IN_FILE) is None


def test_a_missing_program_is_named() -> None:
    judgement = judge_visit(
        VisitResult(ProgramVisit("x", None, None), Failure("program", "not found in PATH")), IN_FILE
    )
    assert judgement is not None and judgement.fatal
    assert judgement.text.startswith("the program x cannot be started: not found in PATH; install it")


def test_double_braces_are_filled_as_the_driver_fills_them() -> None:
    assert _filled("/{{n}}/{n}/{unknown}{{}}", {"n": "5"}) == "/{n}/5/{unknown}{{}}"
