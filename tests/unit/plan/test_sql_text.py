"""SQL files split into statements with their lines."""

from __future__ import annotations

import random

import pytest

from plimsoll.plan.queries.sql_text import Dialect, SqlTextError, statements


def cut(text: str, dialect: Dialect = "postgres") -> list[tuple[int, str]]:
    return [(statement.line, statement.text) for statement in statements(text.encode(), dialect)]


def test_statements_begin_after_comments_and_know_their_lines() -> None:
    text = (
        "-- first; comment\n\nCREATE TABLE a (x int); /* two;\nlines */ INSERT INTO a\nVALUES (1);\nSELECT 1"
    )
    assert cut(text) == [
        (3, "CREATE TABLE a (x int)"),
        (4, "INSERT INTO a\nVALUES (1)"),
        (6, "SELECT 1"),
    ]


@pytest.mark.parametrize("text", ["", " ;; \n;", "-- only\n", "/* only; */", "\ufeff-- only"])
def test_a_file_without_statements_has_none(text: str) -> None:
    assert cut(text) == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 'a;b', 'it''s;'",
        'SELECT "a;b"',
        r"SELECT E'a\';b'",
        r"SELECT 'a\' AS back, 1",
        "DO $$ BEGIN; END $$",
        "DO $body$ SELECT $$;$$; $body$",
        "SELECT /* a /* b; */ c; */ 1",
        "SELECT 1 -- no; end\n + 1",
        "SELECT a$1, b$2",
        "INSERT INTO t VALUES ($1)",
    ],
)
def test_statements_of_postgres_are_not_split_inside(statement: str) -> None:
    assert cut(f"{statement};\n{statement}") == [(1, statement), (2 + statement.count("\n"), statement)]


@pytest.mark.parametrize(
    "statement",
    [
        r"SELECT 'a\';b', " "'it''s;'",
        r'SELECT "a\";b"',
        "SELECT `a;b`",
        "SELECT 1 # no; end\n + 1",
        "SELECT 1--1",
        "/*!40101 SET NAMES utf8; */",
    ],
)
def test_statements_of_mariadb_are_not_split_inside(statement: str) -> None:
    assert cut(f"{statement};\n{statement}", "mariadb") == [
        (1, statement),
        (2 + statement.count("\n"), statement),
    ]


def test_mariadb_statements_can_change_the_delimiter() -> None:
    routine = "CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW BEGIN SET @a=1; END"
    text = f"SELECT 1;\nDELIMITER //\n{routine}//\ndelimiter ;\nSELECT 2;"
    split = cut(text, "mariadb")
    assert [line for line, _ in split] == [1, 3, 5]
    assert split[1][1] == routine


@pytest.mark.parametrize(
    ("text", "dialect", "line", "message"),
    [
        ("SELECT 1;\nSELECT 'a", "postgres", 2, "a quote ' is not closed"),
        ("SELECT E'a\\'", "postgres", 1, "a quote ' is not closed"),
        ("\n\nDO $x$ a $y$", "postgres", 3, r"a dollar quote \$x\$ is not closed"),
        ("SELECT 1; /* a", "mariadb", 1, r"a comment /\* is not closed"),
        ("SELECT 1;\n\\connect other\n", "postgres", 2, r"\\connect is a psql command"),
        ("\nCOPY a (x) FROM stdin;\n1\n\\.\n", "postgres", 2, "use INSERT"),
        ("SELECT\n'\0'", "postgres", 2, "the file contains a NUL byte"),
    ],
)
def test_invalid_files_are_rejected_with_the_line(
    text: str, dialect: Dialect, line: int, message: str
) -> None:
    with pytest.raises(SqlTextError, match=message) as error:
        cut(text, dialect)
    assert error.value.line == line


def test_bytes_are_not_changed() -> None:
    data = "INSERT INTO a VALUES ('é')".encode() + b";SELECT '\xe9'"
    assert b";".join(statement.text.encode("latin-1") for statement in statements(data, "mariadb")) == data


@pytest.mark.parametrize("dialect", ["postgres", "mariadb"])
def test_any_text_is_split_or_rejected(dialect: Dialect) -> None:
    draw = random.Random(17)
    parts = [
        "'",
        '"',
        "`",
        ";",
        "--",
        "#",
        "/*",
        "*/",
        "$$",
        "$a$",
        "\n",
        " ",
        "x",
        "\\",
        "E'",
        "DELIMITER ;\n",
    ]
    for _ in range(3000):
        text = "".join(draw.choices(parts, k=draw.randint(0, 12)))
        try:
            split = cut(text, dialect)
        except SqlTextError as error:
            assert 1 <= error.line <= text.count("\n") + 1
            continue
        assert all(
            text.splitlines() and statement and 1 <= line <= text.count("\n") + 1 for line, statement in split
        )
