"""Real databases, caches and proxies: started, measured, counted, and gone without a trace."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.programs import find, postgres_directory
from plimsoll.errors import ServiceError
from tests.conftest import ROOT, Lab, descendants_in, missing
from tests.real.test_trouble import children, command_of, measured, wait_for

SHARED = Path("/dev/shm")
REFRESH = 'refresh: "refresh_pattern . 5 20% 60"'
"""Our echo service says nothing of how long its answers may be kept."""
REST = """
design: {seed: 1, order: listed}
run: {duration: 1500ms, drain: 2s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""


def needs(*kinds: str) -> None:
    """Skips where a server is not installed."""
    for kind in kinds:
        if kind == "postgres":
            try:
                postgres_directory("x", "auto")
            except ServiceError:
                missing("a PostgreSQL server", "apt-get install postgresql")
        else:
            program, package = {
                "mariadb": ("mariadbd", "mariadb-server"),
                "squid": ("squid", "squid"),
                "nginx": ("nginx", "nginx-light"),
                "slapd": ("slapd", "slapd"),
            }[kind]
            if find([program]) is None:
                missing(program, f"apt-get install {package}")


def needs_engine_for_databases() -> None:
    """Skips where the engine takes the URL of a database for the name of a file."""
    table = {"name": "t", "rows": 1, "row": 10}
    done = subprocess.run(
        [find_engine(), "data", "--config", "-"],
        input=json.dumps({"database": "postgresql://nobody@127.0.0.1:1/none", "tables": [table]}),
        capture_output=True,
        text=True,
        check=False,
    )
    if "unable to open database file" in done.stderr:
        missing("an engine that speaks to databases", "build the engine of this release")


@pytest.fixture
def place() -> Iterator[Path]:
    """Where servers work that may not enter the results, as pytest's directories are closed to others. Nothing may be
    left in it, nor run from it."""
    path = Path(tempfile.mkdtemp(prefix="plimsoll-test-", dir="/var/tmp"))
    path.chmod(0o755)
    try:
        yield path
        left = descendants_in(path)
        assert not left, f"processes are left: {left}"
        assert not list(path.iterdir()), "directories are left"
    finally:
        shutil.rmtree(path, ignore_errors=True)


def run(lab: Lab, place: Path, text: str) -> dict[str, Any]:
    """Carries an experiment out to its analysis."""
    done = lab.run("run", lab.file(text), "--json", TMPDIR=str(place))
    assert done.code == 0, done.err
    assert lab.run("check", lab.results()).code == 0
    configs = "".join(one.read_text() for one in lab.results().glob("runs/*/services/*/config"))
    assert not shared_by(re.findall(r"started with -n (\w+)", configs)), "shared memory is left"
    return done.json


def shared_by(squids: list[str]) -> list[str]:
    """Files of these instances in shared memory."""
    return [one.name for one in SHARED.iterdir() if one.name.split("-")[0] in squids]


def service(found: dict[str, Any], name: str, at: int = 0) -> dict[str, Any]:
    """What a service counted in a run."""
    (one,) = [each for each in found["runs"][at]["services"] if each["name"] == name]
    return dict(one)


def record(lab: Lab, run_id: str = "0001") -> dict[str, Any]:
    return dict(json.loads((lab.results() / "runs" / run_id / "run.json").read_text()))


def stored(lab: Lab, name: str, file: str) -> str:
    return (lab.results() / "runs" / "0001" / "services" / name / file).read_text()


def events(lab: Lab) -> str:
    return (lab.results() / "runs" / "0001" / "events.jsonl").read_text()


def test_a_warm_cache_answers_everything_and_both_count_the_same(lab: Lab, place: Path) -> None:
    needs("squid", "nginx")
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  web:   {{kind: echo, body: 1kB}}
  cache: {{kind: squid, origin: web, {REFRESH}}}
  front: {{kind: nginx, origin: cache, workers: 2, settings: ["gzip off;"]}}
workload: {{driver: http, target: front, timeout: 20s, http: {{paths: [/a, "/b?c=d"]}}}}
load: {{testers: 2, think: 5ms}}
{REST}""",
    )
    started = found["runs"][0]["counts"]["started"]
    cache, front = service(found, "cache"), service(found, "front")
    assert found["runs"][0]["counts"]["succeeded"] == started > 10
    assert cache["counters"]["client_http.requests"] == cache["counters"]["client_http.hits"] == started
    assert front["counters"]["requests"] == started
    assert cache["derived"]["hit_ratio"] == 1.0
    assert cache["derived"]["origin_requests"] == 0
    assert "filled with 2 requests" in events(lab)
    assert cache["version"].split(".")[0].isdigit()
    lines = [json.loads(line) for line in stored(lab, "cache", "counters.jsonl").splitlines()]
    assert lines[0]["format"] == "plimsoll.counters/1"
    assert len(lines) >= 3
    assert abs(lines[1]["t"] - record(lab)["t0_unix_ns"] / 1e9) < 30
    assert "accel defaultsite" in stored(lab, "cache", "config")
    assert "TCP_MEM_HIT" in stored(lab, "cache", "access.log")
    assert "gzip off;" in stored(lab, "front", "config")
    assert found["runs"][0]["utilization"]["cache"]["role"] == "service"
    page = (lab.results() / "report.html").read_text()
    assert "Counters of the services in run 0001" in page
    shown = lab.run("show", lab.results(), "--json").json
    assert shown["runs"][0]["services"] == found["runs"][0]["services"]


@pytest.mark.long
def test_a_cold_cache_asks_its_origin_for_each_object_once(lab: Lab, place: Path) -> None:
    needs("squid")
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  web:   {{kind: echo, body: 1kB}}
  cache: {{kind: squid, origin: web, cache: {{start: cold, disk: 10MB}}, {REFRESH}}}
workload:
  {{driver: http, target: cache, timeout: 20s, http: {{path: "/{{k}}"}}, values: {{k: {{list: [a, b, c]}}}}}}
load: {{testers: 1, think: 5ms}}
{REST.replace("{seed: 1", "{repetitions: 2, seed: 1")}""",
    )
    for at in range(2):
        cache = service(found, "cache", at)
        started = found["runs"][at]["counts"]["started"]
        assert cache["derived"]["origin_requests"] == 3, "new at each run"
        assert cache["counters"]["client_http.hits"] == started - 3
        assert cache["derived"]["hit_ratio"] == pytest.approx((started - 3) / started)
    assert "cache-filled" not in events(lab)


def test_a_gateway_behind_a_cache(lab: Lab, place: Path) -> None:
    needs("squid")
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  db:    {{kind: sqlite}}
  front: {{kind: frontier, database: db}}
  cache: {{kind: squid, origin: front, cache: warm, fresh: run}}
data: {{t: {{into: db, rows: 100, row: 100B}}}}
workload: {{driver: frontier, target: cache, timeout: 20s, frontier: {{queries: ["SELECT string FROM t"]}}}}
load: {{testers: 2, think: 5ms}}
{REST}""",
    )
    cache = service(found, "cache")
    assert cache["derived"] == {
        "hit_ratio": 1.0,
        "byte_hit_ratio": pytest.approx(1.0, abs=0.01),
        "origin_requests": 0,
    }
    assert cache["counters"]["client_http.requests"] == found["runs"][0]["counts"]["started"]


@pytest.mark.long
def test_a_forward_proxy_a_tree_and_siblings(lab: Lab, place: Path) -> None:
    needs("squid")
    squids = f"cache: cold, {REFRESH}"
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  web:   {{kind: echo, body: 1kB}}
  plain: {{kind: squid, {squids}}}
  upper: {{kind: squid, origin: web, {squids}}}
  lower: {{kind: squid, parents: [upper], {squids}}}
  left:  {{kind: squid, origin: web, {squids}}}
  right: {{kind: squid, origin: web, siblings: [left], {squids}}}
targets:
  through: {{endpoints: [web], proxies: [plain]}}
  both:    {{endpoints: [left, right]}}
workloads:
  through: &work
    driver: http
    target: through
    timeout: 20s
    http: {{path: "/{{k}}"}}
    values: {{k: {{uniform: [1, 20]}}}}
    load: {{testers: 1, think: 5ms}}
  tree: {{driver: http, target: lower, timeout: 20s, http: {{path: "/{{k}}"}}, values: {{k: {{uniform: [1, 20]}}}},
         load: {{testers: 1, think: 5ms}}}}
  pair: {{driver: http, target: both, timeout: 20s, http: {{path: "/{{k}}"}}, values: {{k: {{uniform: [1, 1000]}}}},
         load: {{testers: 2, think: 2ms}}}}
{REST.replace("1500ms", "4s")}""",
    )
    assert not found["runs"][0]["errors_by_kind"]
    by_workload = {one["workload"]: one for one in found["runs"][0]["workloads"]}
    assert all(one["transactions"] > 0 for one in by_workload.values())
    assert 0 < service(found, "plain")["derived"]["origin_requests"] <= 20
    lower, upper = service(found, "lower"), service(found, "upper")
    assert lower["derived"]["origin_requests"] == upper["counters"]["client_http.requests"]
    assert 0 < upper["derived"]["origin_requests"] <= 20
    assert service(found, "right")["counters"]["icp.queries_sent"] > 0
    assert service(found, "left")["counters"]["icp.replies_sent"] > 0
    assert "SIBLING_HIT" in stored(lab, "right", "access.log") + stored(lab, "left", "access.log")


def test_files_are_served_and_other_lines_are_taken(lab: Lab, place: Path) -> None:
    needs("nginx")
    site = place / "site"
    site.mkdir(mode=0o755)
    (site / "page").write_text("hello")
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services: {{files: {{kind: nginx, root: "{site}", settings: ["access_log /dev/stderr;"]}}}}
workload: {{driver: http, target: files, timeout: 20s, http: {{path: /page, expect: {{body_contains: hello}}}}}}
load: {{testers: 1, think: 5ms}}
{REST}""",
    )
    assert service(found, "files")["counters"]["requests"] == found["runs"][0]["counts"]["started"]
    assert "GET /page" in stored(lab, "files", "log")
    shutil.rmtree(site)


DATABASES = f"""
plimsoll: 1
name: databases
services:
  web: {{kind: echo}}
  pg:  {{kind: postgres, settings: {{shared_buffers: 32MB, log_min_duration_statement: 0}}}}
  my:  {{kind: mariadb, settings: {{innodb_buffer_pool_size: 32M, performance_schema: true}}}}
workload: {{driver: http, target: web, timeout: 20s}}
load: {{testers: 1, think: 5ms}}
{REST}"""


def test_databases_are_started_counted_and_stopped(lab: Lab, place: Path) -> None:
    needs("postgres", "mariadb")
    found = run(lab, place, DATABASES)
    told = {one["name"]: one for one in record(lab)["services"]}
    assert re.fullmatch(r"postgresql://plimsoll@127\.0\.0\.1:\d+/plimsoll", told["pg"]["urls"][0])
    assert re.fullmatch(r"mysql://plimsoll@127\.0\.0\.1:\d+/plimsoll", told["my"]["urls"][0])
    assert "shared_buffers = '32MB'" in stored(lab, "pg", "config")
    assert "innodb_buffer_pool_size = 32M" in stored(lab, "my", "config")
    pg, my = service(found, "pg"), service(found, "my")
    assert pg["counters"]["xact_commit"] == 0, "what reads them sits elsewhere"
    assert {"blks_hit", "tup_returned", "bgwriter.buffers_alloc"} <= set(pg["counters"])
    assert {"numbackends", "backends.active"} <= set(pg["gauges"])
    assert my["counters"]["Questions"] == 0
    assert my["counters"]["Bytes_sent"] == 0
    assert {"Threads_connected", "Innodb_buffer_pool_pages_data"} <= set(my["gauges"])
    log = stored(lab, "pg", "log")
    assert "LOG:  duration" in log, "its log is kept"
    assert "pg_stat_bgwriter" not in log, "the reader keeps its own statements out of it"
    if os.geteuid() == 0:
        assert "cannot enter" in events(lab)


def postmaster(place: Path, results: Path) -> int:
    """Process id of the database server that works in one of the two."""
    for pid in (int(one.name) for one in Path("/proc").glob("[0-9]*")):
        words = command_of(pid)
        mine = str(place) in words or str(results) in words
        if mine and "/postgres -D" in words and "guard" not in words and "setpriv" not in words:
            return pid
    raise AssertionError("there is no database server")


def shared_memory(pid: int) -> tuple[set[str], str]:
    """Files in /dev/shm that a database server and its children map, and the number of its System V segment."""
    maps = "".join(Path(f"/proc/{one}/maps").read_text() for one in [pid, *children(pid)])
    lines = (Path(f"/proc/{pid}/cwd") / "postmaster.pid").read_text().splitlines()
    return set(re.findall(r"/dev/shm/\S+", maps)), lines[6].split()[1]


@pytest.mark.long
def test_a_killed_database_ends_its_run_and_leaves_nothing(lab: Lab, place: Path) -> None:
    needs("postgres")
    text = DATABASES.replace("  my:", "  # my:").replace("{seed: 1", "{repetitions: 2, seed: 1")
    process = lab.start("run", lab.file(text.replace("1500ms", "4s")), TMPDIR=str(place))
    wait_for(lambda: measured(lab), 60)
    pid = postmaster(place, lab.results())
    files, segment = shared_memory(pid)
    assert len(files) > 1, "that of the server, and that of its statistics"
    os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=100)
    assert "Traceback" not in err, err
    assert record(lab)["status"] == "service-gone"
    assert "service pg was killed by signal 9; the end of its log" in record(lab)["reason"]
    assert "LOG:" in record(lab)["reason"]
    assert "counters-lost" in events(lab)
    assert "counters" not in {one["name"]: one for one in record(lab)["services"]}["pg"]
    assert record(lab, "0002")["status"] == "done", "it is started anew"
    assert not [one for one in files if Path(one).exists()]
    left = subprocess.run(["ipcs", "-m"], capture_output=True, text=True, check=True).stdout
    assert segment not in [line.split()[1] for line in left.splitlines() if line.startswith("0x")]


def test_a_killed_lab_leaves_no_server(lab: Lab, place: Path) -> None:
    needs("postgres", "squid")
    text = DATABASES.replace("  my:", "  # my:").replace(
        "workload:",
        f"  cache: {{kind: squid, origin: web, workers: {2 if os.geteuid() == 0 else 1}, {REFRESH}}}\nworkload:",
    )
    process = lab.start("run", lab.file(text.replace("1500ms", "30s")), TMPDIR=str(place))
    wait_for(lambda: measured(lab), 60)
    all_of_them = children(process.pid)
    squids = re.findall(r"-n (plimsoll\w+)", " ".join(command_of(pid) for pid in all_of_them))
    assert len(all_of_them) > 10
    assert shared_by(squids)
    process.kill()
    process.communicate(timeout=30)
    wait_for(lambda: not any(command_of(pid) for pid in all_of_them), 60)
    assert not shared_by(squids)
    for left in place.iterdir():  # a lab that was killed cannot clear up; nothing may still write there
        shutil.rmtree(left)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("postgres", "service db: PostgreSQL server was not found"),
        ("postgres, version: 12", "apt-get install postgresql-12"),
        ("mariadb", "apt-get install mariadb-server"),
        ("squid, origin: web", "apt-get install squid"),
        ("nginx, origin: web", "apt-get install nginx-light"),
        ("tomcat, war: experiment.yaml", "apt-get install default-jre-headless"),
        ("tomcat, java: 17, war: experiment.yaml", "apt-get install openjdk-17-jre-headless"),
    ],
)
def test_a_missing_server_is_told_with_its_package(lab: Lab, place: Path, kind: str, said: str) -> None:
    text = f"""
plimsoll: 1
services: {{web: {{kind: echo}}, db: {{kind: {kind}}}}}
workload: {{driver: http, target: web}}
load: {{testers: 1}}
{REST}"""
    done = lab.run("run", lab.file(text), TMPDIR=str(place), PLIMSOLL_PROGRAMS="/nowhere")
    assert done.code == 97
    assert said in done.err
    assert "service-gone" in events(lab)


def test_a_setting_that_the_server_refuses_is_told_in_its_own_words(lab: Lab, place: Path) -> None:
    needs("postgres")
    text = DATABASES.replace("  my:", "  # my:").replace("32MB", "32 elephants")
    done = lab.run("run", lab.file(text), TMPDIR=str(place))
    assert done.code == 97
    assert "service pg ended with exit status 1" in done.err
    assert 'invalid value for parameter "shared_buffers": "32 elephants"' in done.err


@pytest.mark.parametrize(
    ("kind", "driver"),
    [pytest.param("postgres", "sql", marks=pytest.mark.long), ("mariadb", "sql"), ("postgres", "frontier")],
)
def test_tables_are_written_into_a_database_and_read(lab: Lab, place: Path, kind: str, driver: str) -> None:
    needs(kind)
    needs_engine_for_databases()
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  db:    {{kind: {kind}}}
  front: {{kind: frontier, database: db}}
data: {{t: {{into: db, rows: 100, row: 100B, compressibility: 50%}}}}
workload:
  driver: {driver}
  target: {"db" if driver == "sql" else "front"}
  timeout: 20s
  {driver}: {{queries: ["SELECT string FROM t"]}}
load: {{testers: 2, think: 5ms}}
{REST}""",
    )
    run_ = found["runs"][0]
    assert run_["counts"]["succeeded"] > 10
    assert run_["items_per_s"] == pytest.approx(100 * run_["throughput_per_s"], rel=0.01)
    db = service(found, "db")
    if kind == "postgres":
        assert db["counters"]["tup_returned"] > 0
        assert db["derived"]["buffer_hit_ratio"] > 0.5
        assert any("SELECT string FROM t" in one["statement"] for one in db["statements"])
    else:
        assert db["counters"]["Com_select"] >= run_["counts"]["started"]


@pytest.mark.long
@pytest.mark.parametrize("percent", [0, 10, 50])
def test_what_comes_from_a_database_is_as_compressible_as_asked(lab: Lab, place: Path, percent: int) -> None:
    needs("postgres")
    needs_engine_for_databases()
    work = "timeout: 20s, table: {table: t, rows: 500}, load: {testers: 1, think: 20ms}"
    run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  db:    {{kind: postgres}}
  front: {{kind: frontier, database: db}}
data: {{t: {{into: db, rows: 500, row: 1kB, compressibility: {percent}%}}}}
workloads:
  direct: {{driver: sql, target: db, {work}}}
  packed: {{driver: frontier, target: front, {work}}}
{REST}""",
    )
    seen = pq.read_table(lab.results() / "runs" / "0001" / "transactions.parquet").to_pylist()
    good = [one for one in seen if one["outcome"] == "ok"]
    direct = {one["payload"] for one in good if one["workload"] == "direct"}
    assert direct == {500_000}, "as many bytes as the strings have"
    (packed,) = {one["payload"] for one in good if one["workload"] == "packed"}
    assert 500_000 < packed < 505_000
    # In base64, 76 characters and a line end for 57 bytes; a head of some hundred.
    received = max(one["received"] for one in good if one["workload"] == "packed")
    saved = 1 - received * 57 / 77 / packed
    assert abs(100 * saved - percent) < 3


@pytest.mark.long
def test_the_study_of_access_methods_runs(lab: Lab, place: Path) -> None:
    needs("postgres", "squid")
    needs_engine_for_databases()
    short = [
        "factors.testers.levels=[2]",
        "factors.size={10 kB: {vars.rows: 100}}",
        "design.repetitions=1",
        "run={warmup: 200ms, duration: 1s}",
        "thresholds=[]",
        "validity={lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}",
    ]
    words = [word for one in short for word in ("--set", one)]
    done = lab.run("run", ROOT / "examples" / "access-methods.yaml", "--json", *words, TMPDIR=str(place))
    assert done.code == 0, done.err
    runs = {one["cell"]["method"]: one for one in done.json["runs"]}
    assert set(runs) == {"frontier", "squid", "direct"}
    (cache,) = [one for one in runs["squid"]["services"] if one["name"] == "squid"]
    assert cache["derived"]["hit_ratio"] == 1.0


@pytest.mark.long
def test_a_database_without_a_cache_reads_pages_again(lab: Lab, place: Path) -> None:
    needs("mariadb", "postgres")
    needs_engine_for_databases()
    small = "{innodb_buffer_pool_size: 6M, innodb_flush_method: FLUSH}"
    for kind, levels in (
        ("mariadb", f"{{large: {{services.db.settings.innodb_buffer_pool_size: 128M}}, "
                    f"os: {{services.db.settings: {small.replace('FLUSH', 'fsync')}}}, "
                    f"disk: {{services.db.settings: {small.replace('FLUSH', 'O_DIRECT')}}}}}"),
        ("postgres", "{large: {services.db.settings.shared_buffers: 128MB}, "
                     "os: {services.db.settings.shared_buffers: 128kB}}"),
    ):  # fmt: skip
        found = run(
            lab,
            place,
            f"""
plimsoll: 1
name: {kind}
services: {{db: {{kind: {kind}}}}}
data: {{t: {{into: db, rows: 100000, row: 200B}}}}
workload: {{driver: sql, target: db, timeout: 20s, sql: {{queries: ["SELECT count(*) FROM t"]}}}}
load: {{testers: 1}}
factors: {{cache: {levels}}}
{REST}""",
        )
        ratios = [service(found, "db", at)["derived"]["buffer_hit_ratio"] for at in range(len(found["runs"]))]
        assert ratios[0] > 0.95 and max(ratios[1:]) < 0.5, (kind, ratios)
        shutil.rmtree(lab.results())
