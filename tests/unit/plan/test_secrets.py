"""A password is in no stored or printed text and in no message, and the engine receives it."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest
from tests.unit.plan.helpers import BASE, edited, load, problems

from plimsoll.plan import Redactor, Secret, engine_document, make_plan
from plimsoll.plan.source.secret import shown_words

PASSWORD = "hunter2-s3cr3t/+"
WITH_SECRETS = (
    edited(
        "target: web",
        "target: web\n"
        "  http:\n"
        "    path: /login\n"
        "    headers:\n"
        '      Authorization: {secret: "Bearer ${env:PW}"}\n'
        "      X-Region: ${env:REGION}\n"
        "      X-Token: ${vars.token}\n",
    )
    + 'vars: {token: {secret: "${env:PW}"}, region: "${env:REGION}"}\n'
)
ENVIRON = {"PW": PASSWORD, "REGION": "eu-north-77"}


def test_secrets_are_only_in_the_document_of_the_engine() -> None:
    experiment = load(WITH_SECRETS, environ=ENVIRON)
    plan = make_plan(experiment, 1)
    kept = [
        json.dumps(plan.to_json()),
        experiment.effective_yaml(),
        experiment.text,
        repr(experiment),
        repr(plan),
        repr(plan.runs[0].config),
        repr(experiment.cells),
        str(experiment.cells[0].stored),
        json.dumps(engine_document(plan.runs[0], {"web": ["http://h:1"]}, Path("/d"), "x", redacted=True)),
    ]
    for text in kept:
        assert PASSWORD not in text
    assert "***" in kept[1]
    document = engine_document(plan.runs[0], {"web": ["http://h:1"]}, Path("/d"), "x")
    headers = document["workloads"][0]["operations"][0]["request"]["headers"]
    assert headers == [
        ["Authorization", f"Bearer {PASSWORD}"],
        ["X-Region", "eu-north-77"],
        ["X-Token", PASSWORD],
    ]


def test_values_of_the_environment_are_stored_as_they_were_written() -> None:
    stored = load(WITH_SECRETS, environ=ENVIRON).effective_yaml()
    assert "eu-north-77" not in stored
    assert "${env:REGION}" in stored
    assert "${vars.token}" in stored or "***" in stored


def test_problems_do_not_contain_values_of_the_environment() -> None:
    text = edited("target: web", "target: web\n  timeout: ${env:PW}")
    (message,) = problems(text, environ=ENVIRON)
    assert PASSWORD not in message
    assert "${env:PW}" in message
    (message,) = problems(edited("{testers: 1}", '{testers: {secret: "${env:PW}"}}'), environ=ENVIRON)
    assert PASSWORD not in message
    (message,) = problems(BASE + 'question: {secret: "${env:PW}"}\n', environ=ENVIRON)
    assert "a secret is not allowed here" in message


def test_names_in_the_results_are_those_of_the_file() -> None:
    text = edited(
        "target: web",
        "target: http://${env:HOST}:80/\n  http: {path: '/${env:KEY}/x?k=${env:KEY}'}",
    )
    (work,) = load(text, environ={"HOST": "inside.example", "KEY": PASSWORD}).cells[0].config.workloads
    assert work.operations[0].name == "GET /${env:KEY}/x"
    assert work.target.endpoints[0].name == "http://${env:HOST}:80/"
    assert work.target.endpoints[0].url == "http://inside.example:80/"


def test_short_secrets_are_refused() -> None:
    text = BASE + 'vars: {token: {secret: "${env:PW}"}}\n'
    (message,) = problems(text, environ={"PW": "abc"})
    assert message.startswith("x.yaml:10: vars.token: the secret has fewer than 4 characters")


def test_logs_are_redacted_in_all_forms_of_a_secret() -> None:
    redactor = load(WITH_SECRETS, environ=ENVIRON).redactor
    log = f"auth {PASSWORD} failed; ?pw=hunter2-s3cr3t%2F%2B&x; aHVudGVyMi1zM2NyM3QvKw== end"
    shown = redactor.text(log)
    assert "hunter2" not in shown and "aHVudGVy" not in shown
    assert shown.endswith(" end")
    assert b"hunter2" not in redactor.data(log.encode() + b"\xff")


def test_a_variable_with_the_name_of_a_secret_is_redacted() -> None:
    text = edited("target: web", "target: web\n  http: {headers: {A: '${env:DB_PASSWORD}'}}")
    experiment = load(text, environ={"DB_PASSWORD": PASSWORD})
    assert PASSWORD not in experiment.redactor.text(f"x {PASSWORD} y")
    assert PASSWORD not in experiment.effective_yaml()


def test_a_secret_is_always_printed_as_stars() -> None:
    secret = Secret(PASSWORD)
    assert f"{secret}" == str(secret) == repr(secret) == f"{secret:>5}" == "***"
    assert copy.deepcopy(secret) is secret
    assert secret == Secret(PASSWORD) and hash(secret) == hash(Secret(PASSWORD))
    assert secret != PASSWORD
    with pytest.raises(TypeError):
        json.dumps(secret)
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    assert not Redactor([])


def test_only_a_canonical_number_of_the_environment_is_a_number() -> None:
    text = edited("testers: 1", "testers: '${env:N}'")
    assert (
        load(text, environ={"N": "12"}).cells[0].config.workloads[0].load
        == load(edited("testers: 1", "testers: 12")).cells[0].config.workloads[0].load
    )
    assert "expected a whole number" in problems(text, environ={"N": "012"})[0]


def test_braces_of_requests_are_not_expanded() -> None:
    text = (
        edited("target: web", "target: web\n  http: {path: '/{tester}/$${x}/${vars.a}/{n}'}")
        + "vars: {a: 5}\n"
    )
    (workload,) = load(text).cells[0].config.workloads
    assert workload.operations[0].request["path"] == "/{tester}/${x}/5/{n}"


HEADERS = edited(
    "target: web",
    "target: web\n"
    "  http:\n"
    "    headers: {Authorization: {secret: 'Bearer ${env:PW}'}, Accept: a}\n"
    "    body: {secret: '${env:PW}-body'}\n",
)


@pytest.mark.parametrize(
    "given",
    [
        f"workload.http.headers.Authorization={PASSWORD}",
        f"workload.http.headers.X-Api-Key='{PASSWORD}'",
        f"workload.http.headers={{Cookie: '{PASSWORD}', Accept: b}}",
        f"workload.http.body={PASSWORD}",
        f"workload.http.body={{secret: '{PASSWORD}'}}",
        "workload.http.headers.My-Secret=90210777",
        f"vars.password={PASSWORD}",
        f"vars.token.secret={PASSWORD}",
    ],
)
def test_a_secret_of_the_command_line_is_sent_and_not_stored(given: str) -> None:
    text = HEADERS.replace("Accept: a", "Accept: a, X-T: {secret: '${vars.password}x'}, X-U: '${vars.token}'")
    text += "vars: {password: p123, token: {secret: t123}}\n"
    experiment = load(text, [given, "load.testers=2"], environ={"PW": "another-one"})
    plan = make_plan(experiment, 1)
    words = shown_words(
        ["plimsoll", "--set", given, f"--set={given}"], experiment.instead, experiment.redactor
    )
    kept = json.dumps(plan.to_json()) + experiment.effective_yaml() + repr(plan) + " ".join(words)
    sent = json.dumps(engine_document(plan.runs[0], {"web": ["http://h:1"]}, Path("/d"), "x"))
    for planted in (PASSWORD, "90210777"):
        assert planted not in kept
        assert (planted in sent) == (planted in given)
    assert plan.to_json()["experiment"]["sets"][1] == "load.testers=2"
    assert words[2] == given.partition("=")[0] + "=***"


def test_a_reference_in_a_secret_of_the_command_line_is_stored_as_written() -> None:
    given = "workload.http.headers.Authorization=Token ${env:OTHER}"
    experiment = load(HEADERS, [given], environ={"PW": PASSWORD, "OTHER": "something"})
    assert experiment.sets == (given,)
    assert not experiment.instead
    assert "something" not in experiment.effective_yaml()


def test_a_problem_does_not_contain_a_secret_of_the_command_line() -> None:
    (message,) = problems(HEADERS, ["workload.http.headers.X-Key=abc"], environ={"PW": PASSWORD})
    assert message.startswith("--set workload.http.headers.X-Key=***: ")
    assert "fewer than 4 characters" in message


@pytest.mark.parametrize(
    "changed",
    [
        edited("target: web", f"target: 'http://me:{PASSWORD}@h:1/'"),
        edited("target: web", "target: 'http://me:${env:PW}@h:1/'"),
        edited("target: web", f"target: web\n  http: {{proxy: 'http://me:{PASSWORD}@h:1/'}}"),
        edited("target: web", "target: web\n  http: {proxy: {secret: 'http://me:${env:PW}@h:1/'}}"),
        edited("target: web", "target: t")
        + f"targets: {{t: {{endpoints: [web], proxies: ['http://me:{PASSWORD}@h:1']}}}}\n",
        edited("target: web", "target: t") + f"targets: {{t: {{endpoints: ['http://me:{PASSWORD}@h:1']}}}}\n",
    ],
)
def test_a_url_with_a_password_is_rejected_and_not_shown(changed: str) -> None:
    lines = problems(changed, environ={"PW": PASSWORD})
    assert PASSWORD not in "".join(lines)
    assert "a user or a password" in lines[0]


@pytest.mark.parametrize("word", ["seed", "runs", "one-at-a-time", "throughput", "plimsoll.plan/1", "0001"])
def test_a_secret_equal_to_a_key_of_plan_json_does_not_damage_it(word: str) -> None:
    text = HEADERS + (
        f"factors: {{load.testers: [1, 2], word: {{path: vars.word, levels: [{word!r}, b]}}}}\n"
        "vars: {word: a}\n"
        "design: {kind: one-at-a-time}\n"
        "responses: [{metric: throughput}]\n"
    )
    planned, other = (
        make_plan(load(text, environ={"PW": pw}), 1).to_json() for pw in (word, "nothing-like-it")
    )
    assert planned.keys() == other.keys()
    assert planned["design"]["kind"] == "one-at-a-time"
    assert planned["responses"] == other["responses"]
    assert [run["id"] for run in planned["runs"]] == [run["id"] for run in other["runs"]]
    assert word not in planned["factors"][1]["levels"]
    assert word in other["factors"][1]["levels"]
    assert all(word not in run["cell"].values() for run in planned["runs"])
