"""Messages for names and keys of other tools, and warnings about valid settings that are probably a mistake."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from plimsoll.errors import BadInput
from plimsoll.plan import make_plan, parse_experiment
from plimsoll.plan.metrics.catalogue import METRICS
from plimsoll.plan.metrics.table import Use
from plimsoll.plan.resolve.warnings import header_as_value
from plimsoll.plan.schema.experiment import ExperimentRaw
from plimsoll.plan.source.hints import OF_KEYS, OF_METRICS, OF_SHAPES

PARTS: Mapping[str, str] = {
    "services": "services: {web: {kind: echo}}\n",
    "workload": "workload: {driver: http, target: web, http: {path: /}}\n",
    "load": "load: {testers: 1}\n",
    "run": "run: {duration: 1s}\n",
}


def message_of(more: str = "", **parts: str) -> str:
    text = "plimsoll: 1\nname: x\n" + "".join({**PARTS, **parts}.values()) + more
    with pytest.raises(BadInput) as caught:
        parse_experiment(text, "f.yaml", Path.cwd(), (), {})
    return str(caught.value)


def test_missing_load_and_run_are_both_reported() -> None:
    message = message_of(load="", run="")
    assert "run: required key missing, for example {warmup: 5s, duration: 30s}" in message
    assert "load: {testers: 4}" in message and "{{" not in message
    assert message_of(load="").count("load states when requests start") == 1


def test_metrics_of_other_tools_have_a_hint() -> None:
    assert 'there is no metric latency; did you mean "response"?' in message_of(
        'thresholds: [{metric: latency, test: "p(95)<1s"}]\n'
    )
    assert set(OF_METRICS.values()) <= set(METRICS.names(Use.RULE))
    assert not set(OF_METRICS) & set(METRICS.names(Use.RULE))


def test_keys_of_other_tools_have_a_hint() -> None:
    assert "steps: unknown key: use `load.stages`" in message_of("steps: 3\n")
    assert not set(OF_KEYS) & set(ExperimentRaw.model_fields), "a key that is known needs no advice"


@pytest.mark.parametrize(
    ("parts", "path", "more"),
    [
        ({"workload": "workload: {driver: http, target: [a, b], http: {path: /}}\n"}, "workload.target", ""),
        ({}, "thresholds", "thresholds: {http_req_duration: ['p(95)<200']}\n"),
        ({}, "thresholds.0", "thresholds: ['p(95)<200ms']\n"),
        ({}, "hosts", "hosts: 3\n"),
        ({}, "hosts.hosts.0", "hosts: {hosts: [3]}\n"),
        ({}, "hosts.sites.a.0", "hosts: {sites: {a: [3]}}\n"),
    ],
)
def test_values_of_another_type_have_a_hint(parts: Mapping[str, str], path: str, more: str) -> None:
    message = message_of(more, **parts)
    assert f"{path}: expected " in message
    expected = [text for text in OF_SHAPES.values() if text in message]
    assert expected, message


def test_yaml_errors_have_a_hint() -> None:
    assert "indented deeper than the line before it" in message_of(
        run="run:\n  duration: 1s\n   warmup: 1s\n"
    )
    assert "needs quotes" in message_of(run="run: {duration: 1s}\nquestion: a: b\n")


def test_an_unused_target_is_a_warning() -> None:
    targets = "targets: {a: {endpoints: ['http://127.0.0.1:1']}, b: {endpoints: ['http://127.0.0.1:2']}}\n"
    text = "plimsoll: 1\nname: x\n" + "".join({**PARTS, "services": targets}.values()).replace("web", "a")
    plan = make_plan(parse_experiment(text, "f.yaml", Path.cwd(), (), {}), 1)
    assert plan.warnings == ("targets.b: no workload uses this target",)


@pytest.mark.parametrize(("testers", "warned"), [(14_000, False), (20_000, True)])
def test_use_of_most_local_ports_is_a_warning(testers: int, warned: bool) -> None:
    parts = {**PARTS, "load": f"load: {{testers: {testers}}}\n"}
    plan = make_plan(
        parse_experiment("plimsoll: 1\nname: x\n" + "".join(parts.values()), "f", Path.cwd(), (), {}), 1
    )
    assert (
        any("20,000 connections from one host to one address" in warning for warning in plan.warnings)
        == warned
    )


@pytest.mark.parametrize(
    ("file", "items", "warned"),
    [
        ("v.csv", ["name,price", "a,1", "b,2"], True),
        ("v.csv", ["user", "ann7", "bob8"], True),
        ("v.csv", ["W", "ann", "bob"], True),
        ("v.csv", ["ann", "bob", "eve"], False),
        ("v.csv", ["1", "2", "3"], False),
        ("v.txt", ["name,price", "a,1", "b,2"], False),
    ],
)
def test_a_header_line_is_a_warning(file: str, items: list[str], warned: bool) -> None:
    assert bool(header_as_value("w", file, items)) == warned
