"""Which files of a suite are run against an existing service, and how they are changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import ROOT

from plimsoll.errors import BadInput
from plimsoll.plan.model.cell import ClosedLoad, StagedLoad
from plimsoll.suite.existing import ceiling_rules
from plimsoll.suite.selection import Request, Selection, check_target, listed_files, select

TARGET = "http://site.example:8080"
FILE = """\
plimsoll: 1
services: {web: {kind: echo, http: true}}
workload: {driver: http, target: web}
load: {testers: 2}
design: {repetitions: 3}
run: {warmup: 10s, duration: 60s}
"""


def selected(tmp_path: Path, text: str, *, quick: bool = False, is_named: bool = False) -> Selection:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    return select(path, is_named, Request(TARGET, quick))


def test_the_target_replaces_that_of_the_file_and_its_service_is_not_started(tmp_path: Path) -> None:
    selection = selected(tmp_path, FILE)
    assert selection.plan is not None
    assert selection.remarks == ("services of the file that are not started: web",)
    for run in selection.plan.runs:
        assert run.config.services == ()
        (work,) = run.config.workloads
        assert [endpoint.url for endpoint in work.target.endpoints] == [TARGET]
    assert selection.plan.experiment.sets == (f"workload.target={TARGET}", "services={}")


def test_workloads_with_one_target_are_all_sent_to_the_service(tmp_path: Path) -> None:
    work = "{driver: http, target: web, load: {testers: 1}}"
    text = FILE.replace(
        "workload: {driver: http, target: web}\nload: {testers: 2}", f"workloads: {{a: {work}, b: {work}}}"
    )
    plan = selected(tmp_path, text).plan
    assert plan is not None
    assert {work.target.endpoints[0].url for work in plan.runs[0].config.workloads} == {TARGET}


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "\nload:",
            "\ndata: {t: {into: db, rows: 1, row: 1B}}\nfactors: {rows: {path: data.t.rows, levels: [1, 2]}}\nload:",
            "the factor rows sets data.t.rows, which only data of its own has",
        ),
        (
            "\nload:",
            "\ndata: {t: {into: db, rows: '${vars.n}', row: 1B}}\nvars: {n: 1}\nfactors: {vars.n: [1, 2]}\nload:",
            "the factor vars.n changes the data of the file, and an existing service has one state",
        ),
        (
            "\nload:",
            "\nfactors: {size: {path: services.web.body, levels: [1kB, 2kB]}}\nload:",
            "the factor size sets services.web.body, which only a service of its own has",
        ),
        (
            "\nload:",
            "\nfactors: {where: {path: workload.target, levels: [web, 'http://other.example']}}\nload:",
            "the factor where compares targets of the file (workload.target), which --target replaces",
        ),
        (
            "driver: http, target: web",
            "driver: 'null'",
            "no workload has a target that --target could replace",
        ),
        (
            "\nload:",
            "\nactions: [{at: 30s, kill: {service: web}}]\nload:",
            "the file needs its own services (web): FILE:4: actions.0.kill.service: there is no service web",
        ),
        (
            "\nload:",
            "\nthresholds: [{metric: cpu.web, test: mean<1}]\nload:",
            "the file needs its own services (web): FILE:4: thresholds.0.metric: there is no component web; "
            "the results will have host, testers",
        ),
        (
            "workload: {driver: http, target: web}\nload: {testers: 2}",
            "workloads: {a: {driver: http, target: web, load: {testers: 1}}, "
            "b: {driver: http, target: 'http://b.example', load: {testers: 1}}}",
            "the workloads have different targets (web, http://b.example)",
        ),
        (
            "\nload:",
            '\nbefore_run: [{run: "curl $PLIMSOLL_URL_WEB"}]\nload:',
            "the file needs its own service web: before_run uses PLIMSOLL_URL_WEB",
        ),
        ("plimsoll: 1", "other: 1", "not an experiment file: it has no key `plimsoll`"),
    ],
)
def test_files_that_need_a_system_of_their_own_are_refused(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    text = FILE.replace(old, new, 1).replace("into: db", "into: web")
    if "data:" in text:
        text = text.replace("{kind: echo, http: true}", "{kind: sqlite}").replace(
            "driver: http, target: web", "driver: sql, target: web, sql: {queries: ['SELECT 1']}"
        )
    selection = selected(tmp_path, text)
    assert (selection.state, selection.plan) == ("refused", None)
    assert selection.reason == reason.replace("FILE", str(tmp_path / "x.yaml"))


def test_an_invalid_file_is_reported_as_invalid_even_if_it_would_be_refused(tmp_path: Path) -> None:
    for text in (
        FILE.replace("testers: 2", "tester: 2"),
        FILE + "data: {t: {into: nowhere}}\n",
        "a: [",
        "- 1\n- 2",
    ):
        selection = selected(tmp_path, text, is_named=True)
        assert selection.state == "invalid", text
        assert selection.reason.startswith(str(tmp_path / "x.yaml"))
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe")
    assert select(tmp_path / "x.yaml", True, Request(TARGET)).state == "invalid"


def test_the_short_form_has_one_repetition_and_shorter_times(tmp_path: Path) -> None:
    plan = selected(tmp_path, FILE, quick=True).plan
    assert plan is not None and len(plan.runs) == 1
    settings = plan.runs[0].config.run
    assert (settings.warmup_ns, settings.end_ns) == (10**9, 6 * 10**9)


def test_the_short_form_lengthens_nothing_and_ends_runs_without_a_duration(tmp_path: Path) -> None:
    short = FILE.replace("warmup: 10s, duration: 60s", "warmup: 100ms, duration: 2s")
    plan = selected(tmp_path, short, quick=True).plan
    assert plan is not None and plan.runs[0].config.run.end_ns == 2_100_000_000
    counted = FILE.replace("warmup: 10s, duration: 60s", "until: {transactions: 1000000}")
    plan = selected(tmp_path, counted, quick=True).plan
    assert plan is not None
    assert (plan.runs[0].config.run.end_ns, plan.runs[0].config.run.transactions) == (5 * 10**9, 1_000_000)


def test_the_short_form_of_stages(tmp_path: Path) -> None:
    text = FILE.replace("testers: 2", "stages: [{for: 60s, testers: 1}, {for: 1s, testers: 2}]").replace(
        "warmup: 10s, duration: 60s", "warmup: 1s"
    )
    plan = selected(tmp_path, text, quick=True).plan
    assert plan is not None
    load = plan.runs[0].config.workloads[0].load
    assert isinstance(load, StagedLoad) and [stage.for_ns for stage in load.stages] == [2 * 10**9, 10**9]


def test_a_value_of_a_factor_is_not_shortened(tmp_path: Path) -> None:
    text = FILE.replace("\nload:", "\nfactors: {run.duration: [20s, 40s]}\nload:", 1)
    plan = selected(tmp_path, text, quick=True).plan
    assert plan is not None
    assert sorted(run.config.run.end_ns or 0 for run in plan.runs) == [21 * 10**9, 41 * 10**9]


def test_the_line_of_a_file_is_its_short_form(tmp_path: Path) -> None:
    line = "# quick: --set load.testers=1 --set 'services.web.body=1kB' --set run.duration=9s\n"
    plan = selected(tmp_path, line + FILE, quick=True).plan
    assert plan is not None and len(plan.runs) == 3
    load = plan.runs[0].config.workloads[0].load
    assert isinstance(load, ClosedLoad) and load.testers == 1
    assert plan.runs[0].config.run.end_ns == 19 * 10**9
    wrong = selected(tmp_path, "# quick: run.duration=1s\n" + FILE, quick=True)
    assert wrong.state == "invalid" and "x.yaml:1: expected `# quick: --set PATH=VALUE" in wrong.reason


def test_a_file_that_cannot_be_shortened_is_refused(tmp_path: Path) -> None:
    text = FILE.replace("\nload:", "\nactions: [{at: 30s, run: 'true', on: controller}]\nload:", 1)
    assert selected(tmp_path, text).state == "selected"
    selection = selected(tmp_path, text, quick=True)
    assert selection.state == "refused" and selection.reason.startswith("--quick: "), selection.reason


def test_files_are_listed_once_and_sorted(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "d.yaml").mkdir()
    found = listed_files([tmp_path / "b.yaml", tmp_path])
    assert [(path.name, is_named) for path, is_named in found] == [("b.yaml", True), ("a.yml", False)]
    for path, text in (
        (tmp_path / "d.yaml", "contains no file"),
        (tmp_path / "none", "no such file or directory"),
    ):
        with pytest.raises(BadInput, match=text):
            listed_files([path])


def test_the_target_is_a_url_without_a_password() -> None:
    for target in (TARGET, "postgresql://me:${env:PW}@db.example/x", "${env:SITE}", "tcp://h:1"):
        check_target(target)
    for target in ("site.example", "http://me:secret@h/", "postgresql://me:p@w@h/x", ""):
        with pytest.raises(BadInput) as caught:
            check_target(target)
        assert "secret" not in str(caught.value) and "p@w" not in str(caught.value)


def test_the_examples_run_against_any_server() -> None:
    files = listed_files([ROOT / "examples" / "suite"])
    assert len(files) == 3
    for file, is_named in files:
        for quick in (False, True):
            selection = select(file, is_named, Request(TARGET, quick))
            assert selection.plan is not None and selection.plan.experiment.question, selection.reason
            assert not selection.remarks


STUDY = """\
plimsoll: 1
vars: {rows: 10}
services:
  db:    {kind: postgres}
  gate:  {kind: frontier, database: db}
  cache: {kind: squid, origin: gate}
data: {t: {into: db, kind: table, rows: 1000, row: 100B}}
workload: {driver: frontier, target: gate, frontier: {queries: ["SELECT string FROM t LIMIT ${vars.rows}"]}}
load: {testers: 1}
factors:
  method:  {gateway: {workload.target: gate}, squid: {workload.target: cache}}
  size:    {small: {vars.rows: 10}, large: {vars.rows: 100}}
ceiling: [{metric: errors, test: "rate>90%"}]
run: {duration: 1s}
"""


def test_a_study_of_a_database_behind_a_gateway_runs_against_one_that_exists(tmp_path: Path) -> None:
    line = "# quick: --set run.duration=500ms --set 'factors.size={small: {vars.rows: 10}}'\n"
    selection = selected(tmp_path, line + STUDY)
    assert selection.plan is not None, selection.reason
    assert selection.remarks == (
        "services of the file that are not started: db, gate, cache",
        "data of the file that are not written, so the target must have them: t (kind table, rows 1000, row 100B)",
        "the factor method is left out: it chooses between services of the file",
    )
    assert [factor.name for factor in selection.plan.experiment.factors] == ["size"]
    for run in selection.plan.runs:
        assert (run.config.services, run.config.data) == ((), ())
    quick = selected(tmp_path, line + STUDY, quick=True)
    assert quick.plan is not None and len(quick.plan.runs) == 1
    assert quick.plan.runs[0].config.run.end_ns == 500_000_000


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "squid: {workload.target: cache}",
            "squid: {workload.target: cache, workload.driver: http}",
            "the factor method compares targets of the file (workload.target), which --target replaces",
        ),
        (
            "rows: 1000",
            "rows: '${vars.rows}'",
            "the factor size changes the data of the file, and an existing service has one state",
        ),
        (
            'driver: frontier, target: gate, frontier: {queries: ["SELECT string FROM t LIMIT ${vars.rows}"]}',
            "driver: sql, target: db, sql: {queries: [SELECT 1]}",
            f'the file cannot use the target: "{TARGET}" is not a service and not a URL with',
        ),
        (
            "run: {duration: 1s}",
            "run: {duration: 1s}\nbefore_run: [{run: 'true $PLIMSOLL_URL_DB'}]",
            "the file needs its own service db",
        ),
    ],
)
def test_studies_that_need_their_services_are_refused(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    assert old in STUDY
    text = STUDY.replace(old, new)
    if "target: db" in new:
        text = text.replace(
            "method:  {gateway: {workload.target: gate}, squid: {workload.target: cache}}", ""
        )
    selection = selected(tmp_path, text)
    assert selection.state == "refused" and reason in selection.reason, selection.reason


def test_responses_and_charts_of_services_of_the_file_are_left_out(tmp_path: Path) -> None:
    text = STUDY + (
        "responses:\n"
        "  - {metric: throughput}\n"
        "  - {metric: cpu.db}\n"
        "  - {name: per_byte, ratio: {of: counter.db.rows, to: payload_bytes_per_s}}\n"
        "charts: [{x: size, y: [throughput]}, {x: size, y: [per_byte]}]\n"
    )
    selection = selected(tmp_path, text)
    assert selection.plan is not None, selection.reason
    experiment = selection.plan.experiment
    assert [each.metric for each in experiment.responses] == ["throughput"]
    assert [chart.y for chart in experiment.charts] == [("throughput",)]
    assert "responses that need services of the file, and are left out: cpu.db, per_byte" in selection.remarks
    thresholds = text + "thresholds: [{metric: cpu.db, test: mean<=0.5}]\n"
    assert selected(tmp_path, thresholds).state == "refused"


def test_emulated_hosts_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "bed.yaml").write_text((ROOT / "examples" / "testbeds" / "farm.yaml").read_text())
    selection = selected(tmp_path, STUDY + "hosts: {kind: testbed, testbed: bed.yaml, hosts: [farm-1]}\n")
    assert selection.plan is not None, selection.reason
    assert {run.config.hosts.testbed for run in selection.plan.runs} == {None}
    assert any("emulated hosts and links" in each for each in selection.remarks)


def test_a_short_form_may_name_a_factor_that_is_left_out(tmp_path: Path) -> None:
    line = "# quick: --set 'factors.method={squid: {workload.target: squid}}' --set run.duration=500ms\n"
    selection = selected(tmp_path, line + STUDY, quick=True)
    assert selection.plan is not None, selection.reason
    assert selection.plan.runs[0].config.run.end_ns == 500_000_000


def test_a_file_with_data_that_would_write_into_the_target_is_refused(tmp_path: Path) -> None:
    text = FILE.replace(
        "{web: {kind: echo, http: true}}",
        "{web: {kind: postgres}}\ndata: {t: {into: web, rows: 9, row: 50B}}",
    )
    for query, state in (("SELECT 1", "selected"), ("DELETE FROM t", "refused")):
        work = text.replace(
            "driver: http, target: web", f"driver: sql, target: web, sql: {{queries: [{query}]}}"
        )
        path = tmp_path / "x.yaml"
        path.write_text(work)
        selection = select(path, True, Request("postgresql://me@db.example/x"))
        assert selection.state == state, selection.reason
    assert "writes into tables" in selection.reason


def test_a_ceiling_holds_for_every_run_in_addition_to_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(STUDY)
    rules = ceiling_rules(["errors rate>20%", "response p(95)>2s for 20s"])
    assert rules[1] == {"metric": "response", "test": "p(95)>2s", "for": "20s"}
    plan = select(path, True, Request(TARGET, ceiling=rules)).plan
    assert plan is not None
    for run in plan.runs:
        assert [(rule.metric, rule.for_ns // 10**9) for rule in run.config.ceiling] == [
            ("errors", 10), ("errors", 10), ("response", 20),
        ]  # fmt: skip
    memory = 'ceiling: [{metric: memory.db, test: "avg>2GB"}, '
    path.write_text(STUDY.replace("ceiling: [", memory))
    for wanted in (Request(TARGET), Request(TARGET, ceiling=rules)):
        plan = select(path, True, wanted).plan
        assert plan is not None
        assert "memory.db" not in [rule.metric for rule in plan.runs[0].config.ceiling]
    path.write_text(
        STUDY.replace("factors:\n", "factors:\n  stop: {path: ceiling.0.test, levels: [rate>9%, rate>8%]}\n")
    )
    assert "the factor stop sets the ceiling" in select(path, True, Request(TARGET, ceiling=rules)).reason
    for text, message in (
        ("errors", "expected a rule such as"),
        ("mistakes rate>1%", "mistakes"),
        ("errors rate<1%", "--ceiling: "),
        ("errors rate>1% for 1ms", "--ceiling: "),
    ):
        with pytest.raises(BadInput, match=message):
            ceiling_rules([text])
