"""From the file to the resolved model and the engine's document: loads, targets, drivers, runs, cores, restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.plan.helpers import BASE, edited, load, problems

from plimsoll.analyse.results.metrics import canonical
from plimsoll.errors import BadInput, ServiceError
from plimsoll.plan import changes, engine_document, json_schema, make_plan, pinning
from plimsoll.plan.hosts.files import files_of
from plimsoll.plan.metrics.catalogue import METRICS
from plimsoll.plan.metrics.table import Use
from plimsoll.plan.model.cell import Config

SECOND = 1_000_000_000


def document(text: str, directory: Path = Path("/nowhere"), **addresses: list[str]) -> dict[str, Any]:
    """The engine's document of the first run."""
    plan = make_plan(load(text, directory=directory), 1)
    return engine_document(plan.runs[0], addresses or {"web": ["http://127.0.0.1:80"]}, Path("/d"), "small")


def config(text: str, sets: tuple[str, ...] = ()) -> Config:
    return load(text, sets).cells[0].config


ZERO = {"kind": "fixed", "ns": 0}
OPEN = {"arrivals": "poisson", "in_flight": 100, "when_full": "wait"}


@pytest.mark.parametrize(
    ("written", "resolved"),
    [
        ("{testers: 3}", {"kind": "closed", "testers": 3, "think": ZERO}),
        (
            "{testers: 3, think: 2ms}",
            {"kind": "closed", "testers": 3, "think": {"kind": "fixed", "ns": 2_000_000}},
        ),
        (
            "{testers: 3, think: {exponential: 1s}}",
            {"kind": "closed", "testers": 3, "think": {"kind": "exponential", "mean_ns": 1e9}},
        ),
        (
            "{testers: 3, think: {uniform: [0s, 2s]}}",
            {"kind": "closed", "testers": 3, "think": {"kind": "uniform", "from_ns": 0, "to_ns": 2 * SECOND}},
        ),
        ("{testers: 3, every: 2s}", {"kind": "every", "testers": 3, "every_ns": 2 * SECOND, "late": "skip"}),
        (
            "{testers: 3, every: 2s, late: catch-up}",
            {"kind": "every", "testers": 3, "every_ns": 2 * SECOND, "late": "catch-up"},
        ),
        ("{rate: 500/s}", {"kind": "open", "rate": 500.0, **OPEN}),
        (
            "{rate: 30/m, arrivals: even, in_flight: 7, when_full: drop}",
            {"kind": "open", "rate": 0.5, "arrivals": "even", "in_flight": 7, "when_full": "drop"},
        ),
        (
            "{ramp: {testers: 89, every: 25s, life: 1h}}",
            {"kind": "ramp", "testers": 89, "every_ns": 25 * SECOND, "life_ns": 3600 * SECOND, "think": ZERO},
        ),
    ],
)
def test_loads_are_resolved_with_their_defaults(written: str, resolved: dict[str, Any]) -> None:
    assert document(edited("{testers: 1}", written))["workloads"][0]["load"] == resolved


def test_stages_define_the_length_of_the_run() -> None:
    text = edited(
        "{testers: 1}", "{stages: [{for: 30s, testers: 100}, {for: 2m, rate: 50/s..500/s, name: up}]}"
    )
    run_document = document(text.replace("duration: 1s", "warmup: 5s"))
    assert run_document["workloads"][0]["load"]["stages"] == [
        {"name": "stage-1", "for_ns": 30 * SECOND, "testers": 100, "rate": None},
        {"name": "up", "for_ns": 120 * SECOND, "testers": None, "rate": [50.0, 500.0]},
    ]
    assert run_document["end"]["duration_ns"] == 150 * SECOND
    assert run_document["warmup_ns"] == 5 * SECOND


def test_a_ramp_with_a_life_ends_with_its_last_tester() -> None:
    text = edited("{testers: 1}", "{ramp: {testers: 3, every: 10s, life: 1m}}").replace(
        "duration: 1s", "drain: 1s"
    )
    assert document(text)["end"]["duration_ns"] == 80 * SECOND


def test_a_run_ends_by_time_or_by_counts() -> None:
    assert document(edited("duration: 1s", "warmup: 2s, duration: 1s"))["end"] == {
        "duration_ns": 3 * SECOND,
        "each_tester": None,
        "transactions": None,
    }
    assert document(edited("duration: 1s", "until: {each_tester: 5}"))["end"] == {
        "duration_ns": None,
        "each_tester": 5,
        "transactions": None,
    }
    both = document(edited("duration: 1s", "duration: 1s, until: {transactions: 1000}"))["end"]
    assert both == {"duration_ns": SECOND, "each_tester": None, "transactions": 1000}
    text = edited("{testers: 1}", "{rate: 1/s}").replace("duration: 1s", "until: {each_tester: 1}")
    assert "an open load has no testers" in problems(text)[0]


def test_http_operations_and_settings_are_resolved() -> None:
    text = edited(
        "target: web",
        "target: web\n"
        "  timeout: 2s\n"
        "  on_error: {stop-tester: {after: 3}}\n"
        "  values: {k: {zipf: {n: 10, s: 1.5}}, u: {uniform: [1, 5]}, w: {list: [a, 2], order: random}}\n"
        "  http: {headers: {A: 1}, expect: {status: [200, 204]}, connection: per-request}\n"
        "  mix: [{weight: 8, path: '/{k}'}, {weight: 2, name: write, method: POST, body: x, paths: [/a, /b]}]",
    )
    work = document(text)["workloads"][0]
    assert work["name"] == "main"
    assert work["timeout_ns"] == 2 * SECOND
    assert work["on_error"] == {"kind": "stop-tester", "after": 3}
    assert [(operation["name"], operation["weight"]) for operation in work["operations"]] == [
        ("GET /{k}", 8.0),
        ("write-1", 1.0),
        ("write-2", 1.0),
    ]
    assert work["operations"][2]["request"] == {
        "method": "POST",
        "path": "/b",
        "headers": [["A", "1"]],
        "body": "x",
        "body_file": None,
        "expect": {"status": [200, 204], "contains": None, "regex": None},
        "resend_non_idempotent": False,
    }
    assert work["settings"]["connection"] == "per-request"
    assert work["settings"]["proxies"] == []
    assert work["values"] == {
        "k": {"kind": "zipf", "n": 10, "s": 1.5},
        "u": {"kind": "uniform", "from": 1, "to": 5},
        "w": {"kind": "list", "items": ["a", "2"], "order": "random"},
    }


def test_operations_of_the_other_drivers_are_resolved() -> None:
    tcp = edited("{kind: echo}", "{kind: echo, http: false}").replace("driver: http", "driver: tcp")
    assert document(tcp)["workloads"][0]["operations"][0]["request"] == {
        "send": "ping\n",
        "expect": {"kind": "line"},
    }
    nothing = tcp.replace("driver: tcp\n", "driver: tcp\n  tcp: {expect_bytes: 0}\n")
    assert document(nothing)["workloads"][0]["operations"][0]["request"]["expect"] == {
        "kind": "bytes",
        "count": 0,
    }
    null = document(edited("driver: http\n  target: web", "driver: 'null'"))["workloads"][0]
    assert null["endpoints"] == [{"name": "null", "url": "null:"}]
    text = edited(
        "driver: http\n  target: web",
        "driver: exec\n  exec: {command: [/bin/echo, '{n}'], bytes: {fixed: 1kB}, env: {A: b}}",
    )
    run = document(text)["workloads"][0]
    assert run["endpoints"] == [{"name": "exec", "url": "exec:"}]
    assert run["operations"][0] == {
        "name": "echo",
        "weight": 1.0,
        "first": 0,
        "request": {
            "command": ["/bin/echo", "{n}"],
            "stdin": None,
            "bytes": {"kind": "fixed", "bytes": 1000},
        },
    }
    assert run["settings"] == {"mode": "per-transaction", "env": {"A": "b"}, "cwd": None, "files": []}


def test_files_of_workloads_have_absolute_paths(tmp_path: Path) -> None:
    for name in ("scan.sh", "list.csv", "ca.pem", "token"):
        (tmp_path / name).write_text("x")
    command = "[./scan.sh, list.csv, list.csv.bak, '{n}']"
    text = edited(
        "driver: http\n  target: web",
        f"driver: exec\n  exec: "
        f"{{command: {command}, files: [./scan.sh, list.csv], env: {{L: list.csv, M: list}}}}",
    )
    cell_config = load(text, directory=tmp_path).cells[0].config
    work = cell_config.workloads[0]
    scan, listed = str(tmp_path / "scan.sh"), str(tmp_path / "list.csv")
    assert work.operations[0].request["command"] == [scan, listed, "list.csv.bak", "{n}"]
    assert work.settings["env"] == {"L": listed, "M": "list"} and work.settings["files"] == [scan, listed]
    assert files_of([cell_config, cell_config]) == (Path(listed), Path(scan))
    text = edited(
        "target: web", "target: web\n  http: {token_file: token, tls: {ca_file: ca.pem}, path: /token}"
    )
    cell_config = load(text, directory=tmp_path).cells[0].config
    assert files_of([cell_config]) == (tmp_path / "ca.pem", tmp_path / "token")
    assert files_of([config(BASE)]) == ()


def test_directories_and_missing_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    text = edited(
        "driver: http\n  target: web", "driver: exec\n  exec: {command: [sh], files: [data, gone.sh]}"
    )
    with pytest.raises(BadInput) as refused:
        load(text, directory=tmp_path)
    message = str(refused.value)
    assert (
        "is a directory: list the files in it" in message
        and "there is no file" in message
        and "gone.sh" in message
    )


def test_null_may_be_written_without_quotes() -> None:
    assert document(edited("driver: http\n  target: web", "driver: null"))["workloads"][0]["driver"] == "null"


def test_targets_can_have_several_endpoints() -> None:
    text = edited("target: web", "target: both") + (
        "targets: {both: {endpoints: [web, {at: 'http://10.0.0.1:8080/base', name: far}],"
        " choose: per-tester, order: random, proxies: ['http://p:3128']}}\n"
    )
    work = document(text)["workloads"][0]
    assert work["endpoints"] == [
        {"name": "web", "url": "http://127.0.0.1:80"},
        {"name": "far", "url": "http://10.0.0.1:8080/base"},
    ]
    assert (work["choose"], work["order"]) == ("per-tester", "random")
    assert work["settings"]["proxies"] == ["http://p:3128"]
    with pytest.raises(ServiceError, match="web has no address"):
        document(text, other=["http://h:1"])


def test_a_url_is_a_target() -> None:
    work = document(edited("target: web", "target: 'https://example.org:8443/x'"))["workloads"][0]
    assert work["endpoints"] == [{"name": "example.org:8443", "url": "https://example.org:8443/x"}]


def test_workloads_are_several_populations() -> None:
    text = (
        "plimsoll: 1\nservices: {web: {kind: echo}}\nworkloads:\n"
        "  readers: {driver: http, target: web, load: {testers: 2}}\n"
        "  writer: {driver: http, target: web, http: {method: POST}, load: {rate: 5/s}}\n"
        "factors: {workloads.writer.load.rate: [5/s, 50/s]}\nrun: {duration: 1s}\n"
    )
    experiment = load(text)
    assert [cell.values for cell in experiment.cells] == [
        {"workloads.writer.load.rate": 5.0},
        {"workloads.writer.load.rate": 50.0},
    ]
    assert [work["name"] for work in document(text)["workloads"]] == ["readers", "writer"]
    assert "write workloads.NAME.load.testers" in problems(text, ["load.testers=1"])[0]
    assert experiment.name == "x"


def test_lists_of_values_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("one\ntwo\n")
    text = edited("target: web", "target: web\n  values: {w: {file: words.txt}}\n  http: {path: '/{w}'}")
    work = document(text, tmp_path)["workloads"][0]
    assert work["values"]["w"] == {"kind": "list", "items": ["one", "two"], "order": "round-robin"}


def test_ceilings_have_the_readings_of_the_engine() -> None:
    text = BASE + (
        "ceiling:\n  - {metric: response, test: 'p(95)>2s', for: 10s}\n  - {metric: errors, test: 'rate>10%'}\n"
    )
    assert document(text)["ceiling"] == [
        {"reading": "response-p95", "above": 2.0, "for_seconds": 10, "text": "response: p(95)>2s"},
        {"reading": "error-rate", "above": 0.1, "for_seconds": 10, "text": "errors: rate>10%"},
    ]


def test_a_ceiling_may_be_on_the_memory_of_a_service() -> None:
    text = BASE + "ceiling: [{metric: own_memory.web, test: 'avg>2GB', for: 1s}]\n"
    assert document(text)["ceiling"] == [
        {
            "reading": "own-memory",
            "component": "web",
            "above": 2e9,
            "for_seconds": 1,
            "text": "own_memory.web: avg>2GB",
        }
    ]
    for name in ("wbe", "host", "testers"):
        text = BASE + f"ceiling: [{{metric: memory.{name}, test: 'avg>2GB'}}]\n"
        assert f"there is no service {name}: only the memory of a service can stop a run" in problems(text)[0]


SERVICES = """\
plimsoll: 1
services:
  db:      {kind: sqlite}
  gateway: {kind: frontier, database: db}
  front:   {kind: command, command: [proxy, "{port}", "{gateway.url}"], fresh: run}
  other:   {kind: echo}
data: {t: {into: db, rows: 10, row: 100B}}
workload: {driver: frontier, target: front, frontier: {queries: [SELECT 1]}}
load: {testers: 1}
run: {duration: 1s}
"""


def test_services_are_restarted_with_what_they_need() -> None:
    first = config(SERVICES)
    assert first.service("front").needs == ("gateway",)
    assert first.service("gateway").needs == ("db",)
    begin = changes(None, first, False)
    assert (begin.stop, begin.start, begin.load) == ((), ("db", "gateway", "front", "other"), ("t",))
    again = changes(first, config(SERVICES), True)
    assert (again.stop, again.start, again.load) == (("front",), ("front",), ())
    more_rows = changes(first, config(SERVICES, ("data.t.rows=20",)), False)
    assert more_rows.start == ("db", "gateway", "front")
    assert more_rows.load == ("t",)
    threads = changes(first, config(SERVICES, ("services.gateway.threads=3",)), False)
    assert (threads.stop, threads.start, threads.load) == (("front", "gateway"), ("gateway", "front"), ())
    cell = config(SERVICES.replace("{kind: echo}", "{kind: echo, fresh: cell}"))
    assert "other" in changes(cell, cell, False).start
    assert "other" not in changes(cell, cell, True).start


def test_services_must_be_listed_in_the_order_of_their_needs() -> None:
    text = SERVICES.replace("  db:      {kind: sqlite}\n", "").replace(
        "{kind: echo}\n", "{kind: echo}\n  db: {kind: sqlite}\n"
    )
    assert "move db above gateway" in problems(text)[0]
    assert 'did you mean "gateway"?' in problems(SERVICES.replace("{gateway.url}", "{gatewy.url}"))[0]
    assert (
        "is a service of kind echo: expected one of kind sqlite"
        in problems(
            BASE.replace("web: {kind: echo}", "web: {kind: echo}\n  g: {kind: frontier, database: web}")
        )[0]
    )


def test_the_plan_counts_restarts() -> None:
    plan = make_plan(load(SERVICES + "design: {repetitions: 3}\n"), 1)
    assert plan.estimate.restarts == 3 + 2  # gateway, front, other; then front twice more
    assert plan.estimate.loads == 1
    assert plan.estimate.time_ns > 3 * SECOND


def test_pinning_keeps_testers_and_services_apart() -> None:
    two = pinning(config(BASE), [0, 1])
    assert (two.testers, dict(two.services)) == ((1,), {"web": (0,)})
    eight = pinning(config(BASE), list(range(8)))
    assert (eight.testers, eight.services["web"]) == ((4, 5, 6, 7), (0, 1, 2, 3))
    single = pinning(config(BASE), [0])
    assert single.testers == () and "share the only core" in single.remark
    none = pinning(config(BASE + "cpus: none\n"), [0, 1])
    assert none.testers == () and not none.services
    given = pinning(config(BASE + "cpus: {testers: [1], services: {web: [0, 1]}}\n"), [0, 1])
    assert given.testers == (1,) and "share cores with web" in given.remark
    own = pinning(config(edited("{kind: echo}", "{kind: echo, cpus: [1]}")), [0, 1])
    assert (own.testers, own.services["web"]) == ((0,), (1,))
    with pytest.raises(BadInput, match="core 7 does not exist"):
        pinning(config(BASE + "cpus: {testers: [7]}\n"), [0, 1])
    assert (
        pinning(
            config(
                edited("target: web", "target: 'http://h/'").replace(
                    "web: {kind: echo}", "db: {kind: sqlite}"
                )
            ),
            [0, 1],
        ).testers
        == ()
    )


def test_hooks_are_resolved() -> None:
    text = BASE + "before_run: [{run: sync}, {run: [sysctl, vm.drop_caches=3], needs: root, on: all}]\n"
    before = config(text).before_run
    assert before[0].argv == ("/bin/sh", "-c", "sync")
    assert before[1].needs_root
    assert make_plan(load(text), 1).needs_root == ("sysctl vm.drop_caches=3",)


def test_validity_and_capacity_have_their_defaults() -> None:
    experiment = load(BASE + "validity: {tester_cpu: 80%, trend: false}\ncapacity: {response: 'p(95)<2s'}\n")
    assert experiment.validity.tester_cpu == 0.8
    assert experiment.validity.started == 0.99
    assert experiment.validity.lateness_floor_ns == 1_000_000
    assert not experiment.validity.trend
    assert experiment.capacity.response is not None and experiment.capacity.response.value == 2.0
    assert experiment.capacity.errors is None


def test_every_response_that_a_file_may_name_is_known_to_the_analysis() -> None:
    names = [name.replace("OF / TO", "throughput / errors") for name in METRICS.names(Use.RESPONSE)]
    assert all(canonical(name) is not None for name in names)
    text = BASE + "responses: [{metric: response_p95, scale: log}, {metric: throughput}]\n"
    assert [response.metric for response in load(text).responses] == ["response_p95", "throughput"]


def test_the_effective_file_has_the_same_configuration() -> None:
    text = edited(
        "target: web", "target: web\n  on_error: backoff\n  mix: [{path: /a}, {weight: 2, path: /b}]"
    )
    text = (
        edited("{testers: 1}", "{testers: 2, think: {uniform: [1ms, 2ms]}}", text)
        + "cpus: auto\nvars: {a: 1}\n"
    )
    first = load(text)
    second = load(first.effective_yaml())
    assert second.cells[0].config == first.cells[0].config
    assert second.effective_yaml() == first.effective_yaml()


def test_the_schema_names_every_section() -> None:
    schema = json_schema()
    assert set(schema["properties"]) >= {
        "plimsoll",
        "services",
        "workload",
        "load",
        "factors",
        "design",
        "run",
    }
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["LoadRaw"]["properties"]["rate"]


REPLAY = edited(
    "driver: http\n  target: web", "driver: replay\n  replay: {trace: job.trace, root: 'jobs/{tester}'}"
)


def test_a_replay_has_absolute_paths_and_the_text_of_its_rules(tmp_path: Path) -> None:
    (tmp_path / "job.trace").write_bytes(b"plimsoll.trace/1\n")
    (tmp_path / "names").write_text("/data => data\n")
    more = "map: names, timing: afap, compressibility: 40%, copies: {private: ['*.root'], shared: ['*']}}"
    text = REPLAY.replace("jobs/{tester}'}", "jobs/{tester}', " + more)
    cell_config = load(text, directory=tmp_path).cells[0].config
    work = cell_config.workloads[0]
    assert [(operation.name, dict(operation.request)) for operation in work.operations] == [("job", {})]
    assert work.target.endpoints[0].url == "replay:"
    assert work.settings == {
        "trace": str(tmp_path / "job.trace"),
        "root": str(tmp_path / "jobs/{tester}"),
        "timing": "afap",
        "scale": 1.0,
        "order": "resource",
        "map": "/data => data\n",
        "ignore": None,
        "copies": {"private": ["*.root"], "shared": ["*"], "write_shared": False},
        "prepare": "data",
        "compressibility": 0.4,
        "clean": True,
        "read_maps": False,
        "allow_root": False,
        "per_call": False,
    }
    assert files_of([cell_config]) == (tmp_path / "job.trace",)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("trace: job.trace, ", "", "x.yaml:7: workload.replay.trace: required key missing"),
        ("job.trace", "gone.trace", "there is no file"),
        ("job.trace", "notes", "notes is not a trace: record one with `plimsoll trace record`"),
        (", root: 'jobs/{tester}'", "", "workload.replay.root: required key missing"),
        ("jobs/{tester}", "jobs/all", "only the last part of jobs/all must contain {tester}"),
        ("jobs/{tester}", "{tester}/jobs", "only the last part of {tester}/jobs must contain {tester}"),
        ("root:", "timing: fast, root:", 'workload.replay.timing: expected diff, exact or afap, got "fast"'),
        ("root:", "alow_root: true, root:", 'unknown key; did you mean "allow_root"?'),
        ("root:", "copies: {write_shared: true}, root:", "`shared` is empty"),
        ("root:", "map: gone, root:", "workload.replay.map: there is no file"),
    ],
)
def test_invalid_replays_are_rejected(tmp_path: Path, old: str, new: str, expected: str) -> None:
    (tmp_path / "job.trace").write_bytes(b"plimsoll.trace/1\n")
    (tmp_path / "notes").write_text("nothing")
    with pytest.raises(BadInput) as refused:
        load(REPLAY.replace(old, new), directory=tmp_path)
    assert expected in str(refused.value)


def test_an_undefined_name_in_braces_is_a_warning() -> None:
    path = "/{page}?n={n}&t={testr}&l={{other}}"
    text = BASE.replace("  target: web\n", f"  target: web\n  http: {{path: '{path}'}}\n")
    assert text != BASE
    (work,) = load(text).cells[0].config.workloads
    assert [warning.split(": ", 1)[1] for warning in work.warnings] == [
        "{page} is not a defined value and is sent as written; write {{page}} for literal braces",
        "{testr} is not a defined value and is sent as written; did you mean {tester}?",
    ]
    (plain,) = load(BASE).cells[0].config.workloads
    assert plain.warnings == ()


MIXES = """plimsoll: 1
services: {web: {kind: echo}}
workloads:
  one: {driver: http, target: web, http: {}, load: {testers: 1}, mix: [{name: a, path: /a}, {name: b, path: /b}]}
  two: {driver: http, target: web, http: {}, load: {testers: 1}, mix: [{name: a, path: /a}, {name: c, path: /c}]}
run: {duration: 1s}
"""


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        (
            "capacity: {errors: 'rate<1%', where: {operation: a}}",
            r"the operation a occurs in several workloads \(one, two\): give the workload",
        ),
        ("capacity: {errors: 'rate<1%', where: {operation: a, workload: two}}", ""),
        ("capacity: {errors: 'rate<1%', where: {operation: b}}", ""),
        (
            "thresholds: [{metric: errors, test: 'rate<1%', where: {operation: [a, x]}}]",
            "there is no operation x",
        ),
        (
            "thresholds: [{metric: errors, test: 'rate<1%', where: {workload: twoo}}]",
            "there is no workload twoo",
        ),
    ],
)
def test_rules_of_parts_name_parts_that_have_figures(rules: str, problem: str) -> None:
    if not problem:
        assert load(MIXES + rules).cells
        return
    with pytest.raises(BadInput, match=problem):
        load(MIXES + rules)


def test_a_rule_cannot_name_the_operation_of_a_single_request() -> None:
    with pytest.raises(BadInput, match=r"there are none \(no workload has a mix\)"):
        load(BASE + "thresholds: [{metric: errors, test: 'rate<1%', where: {operation: GET /}}]")
