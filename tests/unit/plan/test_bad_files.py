"""Messages about invalid files: file, line, the invalid value, what was expected, the nearest known key."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.helpers import BASE, alternatives, edited, load, problems

from plimsoll.drive.run.hooks import service_variables
from plimsoll.errors import BadInput, ExitCode
from plimsoll.plan import load_experiment
from plimsoll.plan.drivers.table import DRIVERS
from plimsoll.plan.services.section import url_variable
from plimsoll.plan.services.table import SERVICE_KINDS

DURATION = "a duration is written like 500us, 20ms, 30s, 5m or 1h"

ONE_CHANGE = [
    ("testers: 1", "tester: 1", 'x.yaml:8: load.tester: unknown key; did you mean "testers"?'),
    ("1s", "1", f"x.yaml:9: run.duration: 1 has no unit: {DURATION}"),
    ("1s", "soon", f'x.yaml:9: run.duration: "soon" is not a duration: {DURATION}'),
    (
        "kind: echo",
        "kind: ecko",
        f"x.yaml:4: services.web.kind: expected {alternatives(SERVICE_KINDS)}, "
        'got "ecko"; did you mean "echo"?',
    ),
    (
        "kind: echo",
        "kind: postgresql",
        f"x.yaml:4: services.web.kind: expected {alternatives(SERVICE_KINDS)}, "
        'got "postgresql"; did you mean "postgres"?',
    ),
    (
        "kind: echo",
        "kind: varnish",
        "x.yaml:4: services.web.kind: the service kind varnish is not available in this version: expected one of "
        f"{', '.join(SERVICE_KINDS)}",
    ),
    (
        "kind: echo",
        "kind: squid, origin: x, cache: warm",
        "x.yaml:4: services.web.origin: there is no service x",
    ),
    (
        "kind: echo",
        "kind: squid, cache: hot",
        'x.yaml:4: services.web.cache: expected warm, cold or a mapping with start, memory, ..., got "hot"',
    ),
    (
        "kind: echo",
        "kind: squid, refresh: . 0 20% 4320",
        'x.yaml:4: services.web.refresh: expected lines like `refresh_pattern . 0 20% 4320`, got ". 0 20% 4320"',
    ),
    (
        "kind: echo",
        "kind: nginx",
        "x.yaml:4: services.web: give one of `origin: NAME` (a service listed above it) and `root: "
        "DIRECTORY` (files)",
    ),
    (
        "kind: echo",
        "kind: postgres, version: new",
        'x.yaml:4: services.web.version: expected auto or a major version such as 15, got "new"',
    ),
    (
        "kind: echo",
        "kind: postgres",
        "x.yaml:7: workload.target: web is a service of kind postgres, which speaks postgresql; "
        "the driver needs http or https",
    ),
    (
        "kind: echo",
        "kind: squid",
        "x.yaml:7: workload.target: web is a forward proxy: give it an origin, or name it in `proxies` of one of "
        "`targets`",
    ),
    (
        "{kind: echo}",
        "{body: 1kB}",
        "x.yaml:4: services.web.kind: required key missing: the kind of the service",
    ),
    (
        "target: web",
        "target: wep",
        'x.yaml:7: workload.target: "wep" is not a service, not one of `targets` and not a URL; did you '
        'mean "web"?',
    ),
    (
        "driver: http",
        "driver: htpp",
        f'x.yaml:6: workload.driver: expected {alternatives(DRIVERS)}, got "htpp"; did you mean "http"?',
    ),
    ("testers: 1", "testers: '1'", 'x.yaml:8: load.testers: expected a whole number, got "1"'),
    ("testers: 1", "testers: 0", "x.yaml:8: load.testers: must be at least 1, got 0"),
    ("testers: 1", "testers: true", "x.yaml:8: load.testers: expected a whole number, got true"),
    (
        "testers: 1",
        "testers: 1, rate: 5/s",
        "x.yaml:8: load: give one of testers or per_host (with think or every), rate, ramp, stages, replay; "
        "got testers and rate",
    ),
    (
        "testers: 1",
        "rate: 5/s, think: 1s",
        "x.yaml:8: load: think has no effect in a load of rate: the allowed keys are arrivals, in_flight, "
        "when_full",
    ),
    ("testers: 1", "testers: 1, every: 0s", "x.yaml:8: load: `every` must be longer than 0s"),
    (
        "{testers: 1}",
        "{stages: [{for: 1s, testers: 1, rate: 1/s}]}",
        "x.yaml:8: load.stages.0: a stage needs either testers, per_host or a rate",
    ),
    (
        "{testers: 1}",
        "{stages: [{for: 1s, testers: 1}]}",
        "x.yaml:9: run.duration: the stages define the length of the run: leave this key out; warmup "
        "excludes the beginning of the stages",
    ),
    (
        "duration: 1s",
        "warmup: 1s",
        "x.yaml:9: run: the run has no end: give duration (for example 30s) or until",
    ),
    ("duration: 1s", "duration: 0s", "x.yaml:9: run.duration: the duration must be longer than 0s"),
    ("plimsoll: 1", "plimsoll: one", 'x.yaml:1: plimsoll: expected 1, got "one"'),
    (
        "plimsoll: 1",
        "plimsoll: 2",
        "x.yaml:1: plimsoll: the file has format 2, this version of Plimsoll reads format 1: install a "
        "newer Plimsoll",
    ),
    (
        "target: web",
        "target: 'http://user:pw@host/'",
        "x.yaml:7: workload.target: the URL contains a user or a password, and URLs are stored: "
        "use a header with a secret",
    ),
    (
        "driver: http",
        "driver: tcp",
        "x.yaml:7: workload.target: web is a service of kind echo, which speaks http; the driver needs tcp",
    ),
    (
        "target: web",
        "on_error: stop",
        'x.yaml:7: workload.on_error: expected continue, backoff or stop-tester, got "stop"',
    ),
    (
        "target: web",
        "target: web\n  http: {method: get}",
        'x.yaml:8: workload.http.method: expected a method such as GET or POST, got "get"',
    ),
    (
        "target: web",
        "target: web\n  http: {body_file: nothing.bin}",
        "x.yaml:8: workload.http.body_file: there is no file /nowhere/nothing.bin",
    ),
    (
        "target: web",
        "target: web\n  mix: [{path: /a}, {weigth: 2}]",
        'x.yaml:8: workload.mix.1.weigth: unknown key; did you mean "weight"?',
    ),
    (
        "target: web",
        "target: web\n  mix: [{connection: kept}]",
        "x.yaml:8: workload.mix.0.connection: connection applies to all requests of a workload: move it to `http`",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), ONE_CHANGE)
def test_one_invalid_value_is_reported_with_line_and_expectation(old: str, new: str, message: str) -> None:
    assert message in problems(edited(old, new))


ONE_MORE = [
    (
        "factors: {load.tester: [1, 2]}",
        'x.yaml:10: factors.load.tester: there is no load.tester; did you mean "load.testers"?',
    ),
    (
        "factors: {services.wib.body: [1B, 2B]}",
        'x.yaml:10: factors.services.wib.body: there is no services.wib; did you mean "services.web"?',
    ),
    (
        "factors: {vars.rows: [1, 2]}",
        "x.yaml:10: factors.vars.rows: there is no vars.rows: vars has no keys",
    ),
    (
        "factors: {design.repetitions: [1, 2]}",
        "x.yaml:10: factors.design.repetitions: a factor cannot set design.repetitions: it applies to the "
        "experiment, not to a run (a factor can set actions, after_run, before_run, ceiling, cpus, data, hosts, "
        "load, run, services, "
        "targets, vars, workload, workloads)",
    ),
    (
        "factors:\n  load.testers:\n    - 1\n    - x",
        'x.yaml:13: load.testers: expected a whole number, got "x"',
    ),
    (
        "factors: {load.testers: []}",
        "x.yaml:10: factors.load.testers: expected at least one level, got an empty list",
    ),
    ("factors: {load.testers: [1, 1]}", "x.yaml:10: factors.load.testers: the level 1 is listed twice"),
    (
        "factors: {a: {path: load.testers, levels: [1]}, b: {path: load.testers, levels: [2]}}",
        "x.yaml:10: factors.b.levels.0: the factors a and b both set load.testers",
    ),
    (
        "factors: {a: {paht: load.testers, levels: [1]}}",
        'x.yaml:10: factors.a.paht: unknown key; did you mean "path"?',
    ),
    (
        "factors: {load.testers: [1, 2], z: {path: run.pause, levels: [0s, 1s], when: {load.tester: 1}}}",
        'x.yaml:10: factors.z.when.load.tester: there is no factor load.tester; did you mean "load.testers"?',
    ),
    (
        "factors: {load.testers: [1, 2]}\ndesign: {exclude: [{load.testers: 3}]}",
        "x.yaml:11: design.exclude.0.load.testers: the factor load.testers has no level 3; it has 1, 2",
    ),
    (
        "factors: {load.testers: [1, 2], z: {path: run.pause, levels: [0s, 1s], when: {load.testers: 1}}}\n"
        "design: {exclude: [{load.testers: 2, z: 0s}]}",
        "x.yaml:11: design.exclude.0: this entry matches no cell of the design, so it excludes nothing",
    ),
    (
        "factors: {load.testers: [1, 2]}\ndesign: {exclude: [{load.testers: [1, 2]}]}",
        "x.yaml:11: design.exclude: every cell is excluded: no run is left",
    ),
    (
        "factors: {load.testers: [1, 2, 3]}\ndesign: {kind: 2^k}",
        "x.yaml:10: factors.load.testers: 2^k needs two levels of each factor, load.testers has 3: give "
        "low and high",
    ),
    (
        "design: {order: randm}",
        'x.yaml:10: design.order: expected random or listed, got "randm"; did you mean "random"?',
    ),
    ("design: {repetitions: 0}", "x.yaml:10: design.repetitions: must be at least 1, got 0"),
    (
        "hosts: {kind: ssh}",
        "x.yaml:10: hosts: hosts of kind ssh must be listed: sites: {NAME: [HOST, ...]} or hosts: [HOST, ...]",
    ),
    (
        "targets: {t: {endpoints: ['http://h'], watch: [h]}}",
        'x.yaml:10: targets.t.watch.0: expected a mapping (key: value), got "h"',
    ),
    (
        "thresholds: [{metric: respons, test: 'p(95)<5'}]",
        'x.yaml:10: thresholds.0.metric: there is no metric respons; did you mean "response"?',
    ),
    (
        "ceiling: [{metric: errors, test: 'rate<5%'}]",
        'x.yaml:10: ceiling.0.test: "rate<5%": a ceiling stops the run when it is exceeded: use > instead of <',
    ),
    (
        "vars: {a: '${vars.b}', b: '${vars.a}'}",
        "x.yaml:10: vars.a: ${vars.b} refers to itself: b -> a -> b",
    ),
    (
        "vars: {a: '${env:NOPE}'}",
        "x.yaml:10: vars.a: the environment variable NOPE is not set: export NOPE=...",
    ),
    (
        "vars: {aa: 1, b: '${vars.a}'}",
        'x.yaml:10: vars.b: ${vars.a} is not defined; did you mean "${vars.aa}"?',
    ),
    ("load: {testers: 2}", "x.yaml:10: load: duplicate key, first in line 8"),
    ("quesiton: why", 'x.yaml:10: quesiton: unknown key; did you mean "question"?'),
]


@pytest.mark.parametrize(("more", "message"), ONE_MORE)
def test_one_invalid_section_is_reported_with_line_and_expectation(more: str, message: str) -> None:
    assert message in problems(BASE + more + "\n")


def test_problems_of_the_whole_file_come_together() -> None:
    text = edited("testers: 1", "tester: 1", edited("1s", "1", edited("kind: echo", "kind: ecko")))
    assert len(problems(text + "factors: {load.tester: [1]}\n")) == 4


def test_at_most_twenty_problems_are_shown() -> None:
    text = BASE + "".join(f"wrong{number}: 1\n" for number in range(30))
    lines = problems(text)
    assert len(lines) == 21
    assert lines[-1] == "and 10 more"


def test_a_million_runs_are_refused_with_the_arithmetic() -> None:
    factors = "".join(
        f"  f{i}: {{path: workload.http.headers.h{i}, levels: [0,1,2,3,4,5,6,7,8,9]}}\n" for i in range(6)
    )
    (message,) = problems(BASE + "factors:\n" + factors)
    assert message == (
        "x.yaml:10: factors: the design has 1,000,000 runs "
        "(10 f0 x 10 f1 x 10 f2 x 10 f3 x 10 f4 x 10 f5 = 1,000,000), the limit is 100,000: "
        "use fewer levels or factors, one-at-a-time, 2^k, or a table"
    )


def test_a_design_beyond_all_bounds_is_refused_without_enumerating_it() -> None:
    levels = ", ".join(map(str, range(100)))
    factors = "".join(
        f"  f{i}: {{path: workload.http.headers.h{i}, levels: [{levels}]}}\n" for i in range(40)
    )
    (message,) = problems(BASE + "factors:\n" + factors)
    assert f"{100**40:,} runs" in message


@pytest.mark.parametrize("text", ["- a\n", "5\n", "just words\n"])
def test_a_file_that_is_not_a_mapping_is_rejected(text: str) -> None:
    assert "expected a mapping of sections" in problems(text)[0]


@pytest.mark.parametrize(
    "text",
    [
        "plimsoll: 1\nservices: []\nworkload: 5\nload: x\nrun: {duration: 1s}\nvars: 3\n",
        "plimsoll: 1\nfactors: 5\ndesign: []\nrun: {}\n",
        "plimsoll: 1\nfactors: {a: 5, b: {}, c: {levels: 5}, d: {path: 5, levels: [1]}, e: {x: 1}}\nrun:\n",
        "plimsoll: 1\nfactors: {a: {path: load.testers, levels: [[1], {}, null]}}\nrun: {duration: 1s}\n",
        "plimsoll: 1\nworkloads: {}\nrun: {duration: 1s}\n",
        "plimsoll: 1\nworkload: {driver: null}\nload: {testers: 1}\nrun:\n",
        "plimsoll: 1\nservices: {web: 5, '1x': {kind: echo}}\nworkload: {driver: http, target: web}\n",
        "plimsoll: 1\nvars: {a: {secret: 5}}\n",
        "plimsoll: 1\nworkload: {driver: exec}\nload: {testers: 1}\nrun: {duration: 1s}\n",
        "plimsoll: 1\nworkload: {driver: sql, mix: [5, {queries: 5}]}\nload: {testers: 1}\nrun: {duration: 1s}\n",
        "plimsoll: 1\nworkload: {driver: http, target: 'http://[::1', http: {}}\nload: {rate: 1/s}\nrun: {}\n",
        "plimsoll: 1\nworkload: {driver: http, target: 'http://h:99999/'}\nload: {testers: 1}\nrun: "
        "{duration: 1s}\n",
    ],
)
def test_several_errors_are_never_a_traceback(text: str) -> None:
    assert all(line.startswith("x.yaml") for line in problems(text))


def test_files_that_cannot_be_read_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        load_experiment(tmp_path / "none.yaml")
    with pytest.raises(BadInput, match="cannot be read"):
        load_experiment(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9\n")
    with pytest.raises(BadInput, match="not UTF-8"):
        load_experiment(tmp_path / "latin.yaml")
    assert BadInput.exit_code is ExitCode.BAD_INPUT


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("load.tester=3", '--set load.tester=3: there is no load.tester; did you mean "load.testers"?'),
        ("load.testers", "--set load.testers: expected path=value, such as load.testers=4"),
        ("load.testers=x", '--set load.testers=x: load.testers: expected a whole number, got "x"'),
        ("run.duration=5", f"--set run.duration=5: run.duration: 5 has no unit: {DURATION}"),
        (
            "load..testers=5",
            '--set load..testers=5: "load..testers" is not a path: expected a path such as load.testers',
        ),
    ],
)
def test_problems_of_an_option_contain_the_option(option: str, message: str) -> None:
    assert problems(BASE, [option]) == [message]


def test_an_option_cannot_set_the_path_of_a_factor() -> None:
    lines = problems(BASE + "factors: {load.testers: [1, 2]}\n", ["load.testers=3"])
    assert lines == [
        "--set load.testers=3: load.testers is set by the factor load.testers: set its levels instead, "
        "--set 'factors.load.testers=...'"
    ]
    assert len(load(BASE + "factors: {load.testers: [1, 2]}\n", ["factors.load.testers=[3]"]).cells) == 1


@pytest.mark.parametrize(("name", "other"), [("a-b", "a_b"), ("web", "WEB")])
def test_services_with_the_same_environment_variable_are_rejected(name: str, other: str) -> None:
    variable = url_variable(name)
    services = f"{name}: {{kind: echo}}\n  {other}: {{kind: echo}}\n  c: {{kind: echo}}"
    text = edited("target: web", "target: c", edited("web: {kind: echo}", services))
    assert problems(text) == [
        f"x.yaml:5: services.{other}: {other} and {name} have the same environment variable {variable}: "
        "rename one of them"
    ]
    load(text.replace(f"{other}:", "other:"))
    assert service_variables({name: ["http://a", "http://b"], "none": []}) == {variable: "http://a"}


def test_the_environment_variable_of_a_service_has_its_name() -> None:
    assert url_variable("a-b") == "PLIMSOLL_URL_A_B"
