"""Data sets of kind `sql` in real databases, and what hooks know of services."""

from __future__ import annotations

import pytest

from tests.conftest import Lab
from tests.real.test_services import needs, needs_engine_for_databases

POSTGRES = """
-- Dollar quotes; comments; and quotes hold semicolons.
CREATE TABLE points (id int PRIMARY KEY, name text);
CREATE FUNCTION doubled(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN x; END; $$;
CREATE OR REPLACE FUNCTION doubled(x int) RETURNS int LANGUAGE plpgsql AS $body$
BEGIN RETURN 2 * x; -- twice;
END; $body$;
INSERT INTO points SELECT n, 'point; ' || doubled(n) FROM generate_series(1, 7) n;
BEGIN; DELETE FROM points; ROLLBACK;
"""
MARIADB = """
CREATE TABLE points (id int PRIMARY KEY, name varchar(20));  # one; two
DELIMITER //
CREATE TRIGGER renamed BEFORE INSERT ON points FOR EACH ROW
BEGIN SET NEW.name = CONCAT('point; ', 2 * NEW.id); END//
DELIMITER ;
/*!40101 SET NAMES utf8mb4 */;
INSERT INTO points VALUES (1, 'é'), (2, ''), (3, ''), (4, ''), (5, ''), (6, ''), (7, '');
"""
SCHEMAS = {"postgres": POSTGRES, "mariadb": MARIADB}
FILE = """
plimsoll: 1
name: own-tables
services: {{my-db: {{kind: {kind}, fresh: run}}}}
data:
  more: {{into: my-db, rows: 3, row: 10B}}
  schema: {{into: my-db, kind: sql, file: schema.sql}}
workload:
  driver: sql
  target: my-db
  timeout: 20s
  sql: {{queries: ["SELECT points.name FROM points, more WHERE points.name = 'point; 14'"]}}
load: {{testers: 1, think: 5ms}}
design: {{repetitions: {repetitions}}}
run: {{duration: 300ms, drain: 5s}}
before_run: [{{run: [sh, -c, "echo at $PLIMSOLL_URL_MY_DB"]}}]
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}}     # the machine of the tests may be busy
"""


@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=pytest.mark.long), "mariadb"])
def test_own_tables_are_loaded_at_each_start(lab: Lab, kind: str) -> None:
    needs(kind)
    needs_engine_for_databases()
    file = lab.file(FILE.format(kind=kind, repetitions=2))
    (file.parent / "schema.sql").write_text(SCHEMAS[kind], encoding="utf-8")
    done = lab.run("run", file, "--json")
    assert done.code == 0, done.err
    for run in done.json["runs"]:
        assert run["counts"]["failed"] == 0
        # One point, beside each of the three rows of the other data set.
        assert run["items_per_s"] == pytest.approx(3 * run["throughput_per_s"])
        events = (lab.results() / "runs" / run["id"] / "events.jsonl").read_text()
        scheme = "postgresql" if kind == "postgres" else "mysql"
        assert f"at {scheme}://" in events


@pytest.mark.parametrize(
    ("kind", "text", "line", "message"),
    [
        ("postgres", "CREATE TABLE a (x int);\n\nINSERT INTO a\n  VALUES (nothing);\n", 4, "does not exist"),
        pytest.param(
            "mariadb",
            "CREATE TABLE a (x int);\n\nINSERT INTO b VALUES (1);\n",
            3,
            "doesn't exist",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_statement_that_fails(lab: Lab, kind: str, text: str, line: int, message: str) -> None:
    needs(kind)
    needs_engine_for_databases()
    file = lab.file(FILE.format(kind=kind, repetitions=1))
    (file.parent / "schema.sql").write_text(text, encoding="utf-8")
    done = lab.run("run", file)
    assert done.code != 0
    assert f"data schema: schema.sql:{line}: " in done.err + done.out
    assert message in done.err + done.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1;\nSELECT 'a", "schema.sql:2: a quote ' is not closed"),
        ("-- nothing", "schema.sql contains no SQL statement"),
        (None, "there is no file"),
    ],
)
def test_what_is_found_before_anything_starts(lab: Lab, text: str | None, message: str) -> None:
    file = lab.file(FILE.format(kind="postgres", repetitions=1))
    if text is not None:
        (file.parent / "schema.sql").write_text(text, encoding="utf-8")
    done = lab.run("plan", file)
    assert done.code == 2, done.err
    assert "data.schema.file" in done.err
    assert message in done.err
    wrong = lab.file(FILE.format(kind="sqlite", repetitions=1))
    assert "loaded into postgres or mariadb" in lab.run("plan", wrong).err


def test_an_sqlite_database_without_data_is_empty(lab: Lab) -> None:
    text = (
        "plimsoll: 1\nname: empty\nservices: {db: {kind: sqlite}}\n"
        "workload: {driver: sql, target: db, sql: {queries: [SELECT 1, SELECT x FROM t]}}\n"
        "load: {testers: 1, think: 5ms}\nrun: {duration: 300ms, drain: 5s}\n"
    )
    [run] = lab.run("run", lab.file(text), "--json", "--no-probe").json["runs"]
    assert run["counts"]["succeeded"] > 0
    assert {error["code"] for error in run["errors_by_kind"]} == {"no such table"}
