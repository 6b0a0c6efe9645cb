"""What is looked at before an experiment, and what is made of it; nothing is connected here."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll.drive.probe.judge import IN_FILE, judged
from plimsoll.drive.probe.visit import Answer, Failure, VisitResult
from plimsoll.drive.probe.wanted import Address, ProgramVisit, Visit, Wanted, _filled, wanted
from plimsoll.plan import parse_experiment

REST = "load: {testers: 1}\nrun: {duration: 1s}\n"


def of(text: str, **environ: str) -> tuple[Wanted, ...]:
    """What is to be looked at of an experiment."""
    experiment = parse_experiment(f"plimsoll: 1\nname: x\n{text}\n{REST}", "x", Path("/"), (), environ)
    return wanted([cell.config for cell in experiment.cells])


def visit(text: str, **environ: str) -> Visit:
    """The only one."""
    (one,) = of(text, **environ)
    assert isinstance(one, Visit)
    return one


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
def test_what_cannot_be_looked_at_yet_is_left_alone(text: str) -> None:
    assert of(text) == ()


def test_an_endpoint_of_several_cells_is_visited_once() -> None:
    assert len(of("workload: {driver: http, target: 'http://h/'}\nfactors: {load.testers: [1, 2, 3]}")) == 1
    assert (
        len(of("workload: {driver: http, target: 'http://h/'}\nfactors: {workload.http.path: [/a, /b]}")) == 2
    )


def test_the_request_is_the_first_that_changes_nothing() -> None:
    found = visit(
        "workload: {driver: http, target: 'http://h:81/base/', mix: [{method: POST, path: /p}, {method: HEAD, "
        "path: '/{a}/{n}'}], http: {headers: {host: other, X-A: '{a}'}}, values: {a: {uniform: [7, 9]}}}"
    )
    assert found.request is not None
    assert (found.request.method, found.request.target) == ("HEAD", "/base/7/0")
    assert dict(found.request.headers) == {
        "User-Agent": "plimsoll", "Accept": "*/*", "Connection": "close", "host": "other", "X-A": "7",
    }  # fmt: skip
    assert (
        visit("workload: {driver: http, target: 'http://h/', http: {method: PUT, body: x}}").request is None
    )


@pytest.mark.parametrize(
    ("url", "path", "asked"),
    [
        ("http://h", "/", "/"),
        ("http://h/page", "/", "/page"),
        ("http://h/page/", "/", "/page/"),
        ("http://h/?a=b", "/", "/?a=b"),
        ("http://h/page?a=b", "/", "/page?a=b"),
        ("http://h/base", "/p?q", "/base/p?q"),
    ],
)
def test_paths_are_joined_as_by_the_driver(url: str, path: str, asked: str) -> None:
    found = visit(f"workload: {{driver: http, target: '{url}', http: {{path: '{path}'}}}}")
    assert found.request is not None and found.request.target == asked


def test_ports_and_passwords_of_databases() -> None:
    text = "workload: {driver: sql, target: 'postgresql://me:${env:PW}@[::1]/db', sql: {queries: [select 1]}}"
    found = visit(text, PW="hunter2")
    assert found.address == Address("::1", 5432)
    assert found.shown == "postgresql://[::1]:5432"


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
def test_where_a_target_may_come_up_later_or_elsewhere_it_is_excused(more: str, excuse: str) -> None:
    found = visit(f"workload: {{driver: http, target: 'http://h/'}}\n{more}")
    assert found.excuse == excuse
    judgement = judged(VisitResult(found, Failure("connect", "Connection refused")), IN_FILE)
    assert judgement is not None and judgement.fatal == (excuse == "")


def test_frontier_fails_over() -> None:
    text = "workload: {driver: frontier, target: far, frontier: {queries: [select 1]}}\ntargets: {far: {endpoints: "
    assert visit(text + "['http://a/f']}}").excuse == ""
    assert [one.excuse for one in of(text + "['http://a/f', 'http://b/f']}}")] == [
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
    found = visit("workload: {driver: http, target: 'http://h/'}")
    judgement = judged(VisitResult(found, Answer(302, "Found", location, False)), IN_FILE)
    assert judgement is not None and f", Location: {shown}. " in judgement.text
    assert not judgement.fatal


def test_a_status_beside_the_expected_ones_is_a_warning() -> None:
    found = visit("workload: {driver: http, target: 'http://h/', http: {expect: {status: 201}}}")
    judgement = judged(VisitResult(found, Answer(200, "OK", "", False)), IN_FILE)
    assert judgement is not None and judgement.text.endswith(
        "is answered with 200 OK. It counts as a failure"
    )
    assert judged(VisitResult(found, Answer(201, "Created", "", True)), IN_FILE) is None


def test_a_program_is_named() -> None:
    judgement = judged(
        VisitResult(ProgramVisit("x", None, None), Failure("program", "not found in PATH")), IN_FILE
    )
    assert judgement is not None and judgement.fatal
    assert judgement.text.startswith("the program x cannot be started: not found in PATH; install it")


def test_double_braces_are_filled_as_the_driver_fills_them() -> None:
    assert _filled("/{{n}}/{n}/{unknown}{{}}", {"n": "5"}) == "/{n}/5/{unknown}{{}}"
