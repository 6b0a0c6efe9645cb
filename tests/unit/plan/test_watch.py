"""Exporters in `watch:` of a target: valid and invalid keys, and stored values."""

from __future__ import annotations

import json

import pytest
from tests.unit.plan.helpers import edited, load, problems

from plimsoll.plan import make_plan
from plimsoll.plan.model.cell import WatchedExporter
from plimsoll.plan.source.secret import Secret

URL = "http://squid.example.org:9301/metrics"
TARGET = edited("target: web", "target: site")


def file(*watch: str) -> str:
    lines = "".join(f"      - {entry}\n" for entry in watch)
    return f"{TARGET}targets:\n  site:\n    endpoints: [web]\n    watch:\n{lines}"


def watched(text: str, **environ: str) -> tuple[WatchedExporter, ...]:
    systems = load(text, environ=environ).cells[0].config.watched
    return tuple(system for system in systems if isinstance(system, WatchedExporter))


def test_exporters_are_resolved_with_their_defaults() -> None:
    squid, other = watched(
        file(
            f"{{prometheus: '{URL}', name: squid, kind: squid}}",
            "{prometheus: 'http://[::1]:9113/', name: x, metrics: ['nginx_*'], every: 2s, optional: true}",
        )
    )
    assert squid == WatchedExporter("squid", "squid", URL, URL, "squid.example.org", (), 5_000_000_000)
    assert (other.kind, other.host, other.metrics) == ("other", "::1", ("nginx_*",))
    assert (other.every_ns, other.optional) == (2_000_000_000, True)


def test_values_of_the_environment_are_used_and_not_stored() -> None:
    text = file(
        "{prometheus: '${env:AT}/metrics', name: x, kind: node, "
        'headers: {Authorization: {secret: "Bearer ${env:PW}"}}}'
    )
    environ = {"AT": "http://inside.example.org:9100", "PW": "hunter2-s3cr3t"}
    (exporter,) = watched(text, **environ)
    assert (exporter.url, exporter.shown) == ("http://inside.example.org:9100/metrics", "${env:AT}/metrics")
    assert exporter.headers == {"Authorization": Secret("Bearer hunter2-s3cr3t")}
    plan = make_plan(load(text, environ=environ), 1)
    kept = plan.experiment.effective_yaml() + json.dumps(plan.to_json()) + repr(exporter.headers)
    assert "hunter2" not in kept and "inside.example" not in kept


def test_an_unused_target_is_not_watched() -> None:
    text = file(f"{{prometheus: '{URL}', name: squid, kind: squid}}").replace("target: site", "target: web")
    assert watched(text) == ()


WRONG = [
    (
        "{prometheus: 'http://h:9100', name: a}",
        "x.yaml:14: targets.site.watch.0: give `kind: node` or `kind: squid` for a known exporter, or "
        "`metrics` with the names of the metrics to keep, such as [nginx_connections_active, 'myapp_*']",
    ),
    (
        "{prometheus: 'http://h:9100', name: a, kind: nodes}",
        'x.yaml:14: targets.site.watch.0.kind: expected node or squid, got "nodes"; did you mean "node"?',
    ),
    (
        "{prometheus: 'http://h:9100', name: a, kind: node, every: 500ms}",
        "x.yaml:14: targets.site.watch.0.every: the interval must be from 1s to 1h: each reading is load on the "
        "watched system",
    ),
    (
        "{prometheus: h:9100, name: a, kind: node}",
        'x.yaml:14: targets.site.watch.0.prometheus: "h:9100" is not the URL of an exporter: '
        "http://HOST:PORT/metrics",
    ),
    (
        "{prometheus: 'http://[h', name: a, kind: node}",
        "x.yaml:14: targets.site.watch.0.prometheus: this is not a URL",
    ),
    *(
        (
            f"{{prometheus: '{url}', name: a, kind: node}}",
            "x.yaml:14: targets.site.watch.0.prometheus: the URL contains a user, a password or a key, and "
            "URLs are stored: use a header with a secret",
        )
        for url in ("http://me:pw@h:9100/metrics", "https://h/metrics?api_key=abc")
    ),
    (
        "{prometheus: 'http://h:9100', name: host, kind: node}",
        "x.yaml:14: targets.site.watch.0.name: the name host is reserved for a component that is always "
        "watched: choose another name",
    ),
    (
        "{prometheus: 'http://h:9100', name: web, kind: node}",
        "x.yaml:14: targets.site.watch.0.name: web is a service of this file: choose another name for what "
        "is watched",
    ),
]


@pytest.mark.parametrize(("entry", "message"), WRONG)
def test_invalid_exporters_are_rejected(entry: str, message: str) -> None:
    assert problems(file(entry)) == [message]


def test_invalid_patterns_of_metrics_are_rejected() -> None:
    (message,) = problems(file("{prometheus: 'http://h:9100', name: a, metrics: ['up{job=x}']}"))
    assert message.startswith("x.yaml:14: targets.site.watch.0.metrics.0: ")


def test_two_exporters_with_the_same_name_are_rejected() -> None:
    node = "{prometheus: 'http://h:9100', name: a, kind: node}"
    assert problems(file(node, node)) == [
        "x.yaml:15: targets.site.watch.1.name: two entries of this list have the name a"
    ]


def test_names_of_exporters_are_unique_in_a_run() -> None:
    watch = "watch: [{prometheus: 'http://AT:9100', name: a, kind: node}]"
    sites = "".join(
        f"  {name}: {{endpoints: ['http://{name}'], {watch.replace('AT', name)}}}\n"
        for name in ("one", "two")
    )
    both = "".join(
        f"  {name}: {{driver: http, target: {name}, load: {{testers: 1}}}}\n" for name in ("one", "two")
    )
    head = f"plimsoll: 1\nrun: {{duration: 1s}}\ntargets:\n{sites}"
    assert problems(f"{head}workloads:\n{both}") == [
        "x.yaml:5: targets.two.watch.0.name: a is also watched for another target, with different settings"
    ]
    turns = load(
        f"{head}workload: {{driver: http, target: one}}\nload: {{testers: 1}}\n"
        "factors: {workload.target: [one, two]}\n"
    )
    assert [cell.config.watched[0].host for cell in turns.cells] == ["one", "two"]
