"""Options of `plimsoll URL`: credentials are sent, and stored nowhere."""

from __future__ import annotations

import argparse
import base64
import io
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from plimsoll.cli.experiments.quick import StoredOptions, add_arguments, document
from plimsoll.errors import BadInput
from plimsoll.plan import Experiment, engine_document, make_plan, parse_experiment
from plimsoll.plan.source.secret import shown_words


def made(
    *words: str, environ: dict[str, str] | None = None
) -> tuple[str, list[str], dict[str, Any], Experiment]:
    """The file that stands for these words, the words as they are kept, the engine's request, the experiment."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    options = StoredOptions(environ or {})
    stream = io.StringIO()
    YAML().dump(document(parser.parse_args(words), options), stream)
    experiment = parse_experiment(stream.getvalue(), "the command line", Path("/x"), (), options.environ)
    plan = make_plan(experiment, 1)
    sent = engine_document(plan.runs[0], {}, Path("/d"), "quick")["workloads"][0]
    request = {**sent["operations"][0]["request"], "url": sent["endpoints"][0]["url"]}
    shown = shown_words(words, options.instead, experiment.redactor)
    for text in (stream.getvalue(), experiment.effective_yaml(), str(plan.to_json()), " ".join(shown)):
        assert "hunter2" not in text
    return stream.getvalue(), shown, request, experiment


@pytest.mark.parametrize(
    "header",
    [
        "Authorization: Bearer hunter2",
        "Proxy-Authorization: Basic hunter2",
        "authorization:hunter2 and more",
        "Cookie: session=hunter2; theme=dark",
        "X-Api-Key: hunter2",
        "X-Amz-Security-Token: hunter2",
        "Client-Secret: {hunter2",
        "X-Password: 'hunter2' # \\ \" ",
    ],
)
@pytest.mark.parametrize("option", ["-H", "-H="])
def test_a_header_with_credentials_is_sent_and_not_stored(header: str, option: str) -> None:
    words = ["-H", header] if option == "-H" else [option + header]
    _, shown, request, experiment = made("http://h:1/", *words, "-H", "Accept: a/b")
    name, _, value = header.partition(":")
    assert request["headers"] == [[name, value.strip()], ["Accept", "a/b"]]
    assert f"{name}: ***" in shown[-3]
    assert shown[-1] == "Accept: a/b"
    assert "hunter2" not in experiment.redactor.text(f"the service says {value.strip()}")


def test_a_kind_of_credential_is_no_part_of_the_secret() -> None:
    text, _, _, experiment = made("http://h:1/", "-H", "Authorization: Bearer hunter2")
    assert "Bearer ${env:PLIMSOLL_AUTHORIZATION}" in text
    assert experiment.redactor.text("token hunter2, Bearer of news") == "token ***, Bearer of news"


def test_the_file_can_be_run_again_with_the_variables_set() -> None:
    text, _, request, _ = made("http://h:1/", "-H", "X-Key: hunter2", "-d", "hunter2!", "-m", "POST")
    environ = {"PLIMSOLL_X_KEY": "hunter3", "PLIMSOLL_BODY": "other"}
    again = make_plan(parse_experiment(text, "x", Path("/x"), (), environ), 1)
    other = engine_document(again.runs[0], {}, Path("/d"), "quick")["workloads"][0]["operations"][0][
        "request"
    ]
    assert (request["headers"], request["body"]) == ([["X-Key", "hunter2"]], "hunter2!")
    assert (other["headers"], other["body"]) == ([["X-Key", "hunter3"]], "other")


def test_two_headers_with_the_same_variable_name() -> None:
    _, _, request, _ = made("http://h:1/", "-H", "X-Key: hunter2-1", "-H", "x.key: hunter2-2")
    assert request["headers"] == [["X-Key", "hunter2-1"], ["x.key", "hunter2-2"]]


@pytest.mark.parametrize(
    "body", ["user=me&pw=hunter2", '{"pw": "hunter2"}', "a: hunter2\nb: [", "12345", "true", "x"]
)
def test_a_body_is_sent_and_not_kept(body: str) -> None:
    text, shown, request, _ = made("http://h:1/", "-d", body)
    assert request["body"] == body
    assert shown == ["http://h:1/", "-d", "***"]
    assert "body: ${env:PLIMSOLL_BODY}" in text


def test_a_user_and_a_password_of_the_url_become_a_header() -> None:
    text, shown, request, _ = made("http://me:hunter2%21@h:1/a?b=c", "-c", "3")
    login = base64.b64encode(b"me:hunter2!").decode()
    assert request["headers"] == [["Authorization", f"Basic {login}"]]
    assert request["url"] == "http://h:1/a?b=c"
    assert shown == ["http://h:1/a?b=c", "-c", "3"]
    assert login not in text
    _, _, request, _ = made("http://me:hunter2@h:1/", "-H", "Authorization: Bearer hunter2x")
    assert request["headers"] == [["Authorization", "Bearer hunter2x"]], "-H has precedence over the URL"

    _, _, request, _ = made("http://me:hunter2@h:1/", "-H", "authorization: Bearer hunter2x")
    assert request["headers"] == [["authorization", "Bearer hunter2x"]], "also in lower case"


def test_a_token_in_the_query_is_sent_and_not_kept() -> None:
    text, shown, request, _ = made("http://h:1/a?api_key=hunter2&b=c")
    assert (request["url"], request["path"]) == ("http://h:1", "/a?api_key=hunter2&b=c")
    assert shown == ["http://h:1/a?***"]
    assert "http://h:1/a?*** under 50 connections" in text


def test_options_without_secrets_are_stored_unchanged() -> None:
    text, shown, request, experiment = made("http://h:1/a?b=c", "-H", "Accept: a", environ={"HOME": "/h"})
    assert shown == ["http://h:1/a?b=c", "-H", "Accept: a"]
    assert request["headers"] == [["Accept", "a"]]
    assert "${env" not in text
    assert not experiment.redactor


def test_variables_of_the_environment_are_expanded() -> None:
    _, shown, request, _ = made("http://h:1/", "-H", "X-Token: a-${env:T}", environ={"T": "hunter2"})
    assert request["headers"] == [["X-Token", "a-hunter2"]]
    assert shown[-1] == "X-Token: ***"
    with pytest.raises(BadInput, match="MISSING is not set"):
        made("http://h:1/", "-H", "X-Token: ${env:MISSING}")
