"""The queries of `frontier` and `sql`: sections, tables, COOL sessions, batches, logs, dictionaries."""

from __future__ import annotations

import functools
import itertools
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.unit.plan.helpers import load, problems
from tests.unit.plan.test_request_log import native, url, written

from plimsoll.plan import engine_document, make_plan
from plimsoll.plan.design.filling import fillings
from plimsoll.plan.model.cell import Generator, Operation
from plimsoll.plan.queries.batches import apart
from plimsoll.plan.queries.cool import cool_queries
from plimsoll.plan.queries.query import Dialect, QuerySet
from plimsoll.plan.queries.sections import CoolWork

FILE = """\
plimsoll: 1
services: {db: {kind: sqlite}, gateway: {kind: frontier, database: db}}
data: {t_string: {into: db, rows: 1000, row: 10B}}
workload:
  driver: frontier
  target: gateway
  WORK
load: {testers: 1}
run: {duration: 1s}
"""
ADDRESSES = {"gateway": ["http://127.0.0.1:80"], "db": ["sqlite:/x"]}


def work(text: str, sets: tuple[str, ...] = (), directory: Path = Path("/nowhere")) -> dict[str, Any]:
    """The workload as the engine reads it."""
    plan = make_plan(load(FILE.replace("WORK", text), sets, directory=directory), 1)
    workload: dict[str, Any] = engine_document(plan.runs[0], ADDRESSES, Path("/d"), "x")["workloads"][0]
    return workload


def texts(workload: dict[str, Any]) -> list[Any]:
    return [
        operation["request"].get("queries", operation["request"].get("query"))
        for operation in workload["operations"]
    ]


def first_problem(text: str, directory: Path = Path("/nowhere")) -> str:
    return problems(FILE.replace("WORK", text), directory=directory)[0]


def test_a_section_has_the_defaults_of_the_public_client() -> None:
    workload = work("frontier: {queries: [SELECT 1]}")
    assert workload["settings"] == {
        "id": "plimsoll",
        "connection": "kept",
        "http": "1.1",
        "proxies": [],
        "choose": "per-request",
        "order": "round-robin",
        "failover": "none",
        "failover_to_server": True,
        "load_balance": "none",
        "connect_timeout_ns": 5 * 10**9,
        "read_timeout_ns": 10 * 10**9,
        "uncached": 0.0,
        "chatter": {"requests": 0, "queries": [], "refresh": None, "ttl": None},
    }
    (operation,) = workload["operations"]
    assert operation["request"] == {
        "queries": ["SELECT 1"],
        "zip": 5,
        "ttl": "long",
        "refresh": "none",
        "freshkey": None,
        "version": None,
    }


def test_every_key_of_a_section_is_resolved() -> None:
    text = (
        "frontier: {queries: [SELECT 1], http: 1.0, failover: client, failover_to_server: false,"
        " load_balance: proxies, connect_timeout: 1s, read_timeout: 200ms, uncached: 5%, chatter: 2,"
        " chatter_queries: [SELECT 2], chatter_refresh: no-cache, chatter_ttl: short,"
        " freshkey: 'k{tester}', refresh: max-age=60}"
    )
    settings, request = work(text)["settings"], work(text)["operations"][0]["request"]
    assert (settings["http"], settings["failover"], settings["load_balance"]) == ("1.0", "client", "proxies")
    assert (settings["connect_timeout_ns"], settings["read_timeout_ns"]) == (10**9, 200_000_000)
    assert (settings["uncached"], settings["failover_to_server"]) == (0.05, False)
    assert settings["chatter"] == {
        "requests": 2,
        "queries": ["SELECT 2"],
        "refresh": "no-cache",
        "ttl": "short",
    }
    assert (request["freshkey"], request["refresh"]) == ("k{tester}", "max-age=60")
    assert work("frontier: {queries: [SELECT 1], refresh: max-age}")["operations"][0]["request"][
        "refresh"
    ] == ("max-age=0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "frontier: {queries: [SELECT 1], refresh: max-age=-1}",
            "expected none, no-cache, max-age=0 or max-age=N",
        ),
        ("frontier: {queries: [SELECT 1], http: 2.0}", 'expected 1.0 or 1.1, got "2.0"'),
        (
            "frontier: {queries: [SELECT 1], load_balance: servers}",
            "load_balance needs `failover: client`",
        ),
        ("frontier: {queries: [SELECT 1], failover_to_server: false}", "needs `failover: client`"),
        ("frontier: {queries: [SELECT 1], chatter_queries: [x]}", "chatter_queries needs chatter"),
        ("frontier: {queries: [SELECT 1], chatter: 1, chatter_queries: [' ']}", "the query is empty"),
        ("frontier: {queries: [SELECT 1], batch: 33}", "must be at most 32, got 33"),
        ("frontier: {queries: [SELECT 1], uncached: 101%}", "uncached"),
        ("frontier: {queries: [SELECT 1], read_timeout: 0s}", "must be at least 1"),
        ("frontier: {queries: [SELECT 1], failver: client}", 'did you mean "failover"?'),
        ("frontier: {queries: [SELECT 1], from_log: {file: x}}", "give queries or from_log, not both"),
        ("frontier: {from_log: {file: x}}", "there is no file /nowhere/x"),
        ("frontier: {from_log: {file: x}}\n  mix: [{queries: [A]}]", "give mix or from_log, not both"),
        ("frontier: {from_log: {file: x, speed: 2.0}}", "speed needs `as: replay`"),
        ("table: {table: 'a b'}", "expected an SQL name"),
        ("table: {table: t, join: true}", "join needs 2 to 60 tables, got 1"),
        ("table: {table: t, join: true, tables: 2, versions: read}", "join and versions exclude each other"),
        ("table: {table: t}\n  frontier: {queries: [SELECT 1]}", "give table or queries, not both"),
        (
            "table: {table: t}\n  cool: {folders: 1, channels: 1, iovs: 1, payload: 1B}",
            "give table or cool, not both",
        ),
        ("table: {table: t}\n  mix: [{queries: [SELECT 1]}]", "give table or mix, not both"),
        (
            "table: {table: t_string, rows: 100, distinct: 11}",
            "11 x 100 rows are requested, but data.t_string has only 1000",
        ),
        (
            "cool: {folders: 1, channels: 1, iovs: 1, payload: 1B, access: head}",
            "access head needs `versioning: multi`",
        ),
        (
            "cool: {folders: 1, channels: 1, iovs: 1, payload: 1B, tag: 1}",
            "tag needs `versioning: multi`",
        ),
        (
            "cool: {folders: 1, channels: 1, iovs: 1, payload: 1B, versioning: multi, access: head, tag: 1}",
            "access head reads the newest version",
        ),
        (
            "cool: {folders: 1, channels: 2, iovs: 1, payload: 1B, access: whole-folder, mix: one-channel-many-iovs}",
            "access whole-folder reads all channels of a folder",
        ),
        (
            "cool: {folders: 1, channels: 2, iovs: 1, payload: 1B, access: whole-folder, repeat: 30%}",
            "all queries for a folder are equal: leave out repeat and times",
        ),
        ("cool: {folders: 1, channels: 1, iovs: 1}", "payload: required key missing"),
        ("mix: [{queries: [SELECT 1], weight: 0}]", "weight must be greater than 0, unless `first`"),
        ("mix: [{queries: [SELECT 1], weight: 0, first: 1}]", "at least one weight must be greater than 0"),
    ],
)
def test_invalid_sections_are_rejected(text: str, message: str) -> None:
    assert message in first_problem(text)


def test_generated_queries_need_a_driver_of_queries() -> None:
    text = FILE.replace("driver: frontier", "driver: http").replace("WORK", "table: {table: t}")
    assert "table makes queries for frontier and sql, not for http" in problems(text)[0]
    text = FILE.replace("WORK", "table: {table: t, tables: 2}\n  values: {_table: {uniform: [1, 2]}}")
    assert "the generated queries use the name _table: choose another name" in problems(text)[0]


def test_the_target_sets_the_selection_of_proxies() -> None:
    text = FILE.replace("target: gateway", "target: site").replace("WORK", "frontier: {queries: [SELECT 1]}")
    text += "targets: {site: {endpoints: [gateway], choose: per-tester, order: random, proxies: ['http://p:1']}}\n"
    plan = make_plan(load(text), 1)
    settings = engine_document(plan.runs[0], ADDRESSES, Path("/d"), "x")["workloads"][0]["settings"]
    assert (settings["choose"], settings["order"], settings["proxies"]) == (
        "per-tester",
        "random",
        ["http://p:1"],
    )


@pytest.mark.parametrize(("driver", "target"), [("frontier", "gateway"), ("sql", "db")])
def test_both_drivers_send_the_same_queries_of_tables(driver: str, target: str) -> None:
    def expected(query: str) -> list[Any]:
        return [[query]] if driver == "frontier" else [query]

    sets = (f"workload.driver={driver}", f"workload.target={target}")
    plain = work("table: {table: t_string}", sets)
    assert texts(plain) == expected("SELECT string FROM t_string LIMIT 1000")
    assert plain["values"] == {}
    varied = work("table: {table: t_string, rows: 10, columns: [id, string], tables: 3, distinct: 7}", sets)
    assert texts(varied) == expected(
        "SELECT id, string FROM t_string_{_table} WHERE id>{_part}*10 AND id<={_part}*10+10"
    )
    assert varied["values"] == {
        "_table": {"kind": "list", "items": ["1", "2", "3"], "order": "round-robin"},
        "_part": {"kind": "uniform", "from": 0, "to": 6},
    }


def test_one_query_can_join_several_tables() -> None:
    joined = work(
        "table: {table: t_string, tables: 3, join: true, rows: 10, columns: [id, string], distinct: 7}"
    )
    assert texts(joined) == [
        [
            "SELECT T1.id, T1.string, T2.id, T2.string, T3.id, T3.string "
            "FROM t_string_1 T1, t_string_2 T2, t_string_3 T3 WHERE T2.id=T1.id AND T3.id=T1.id "
            "AND T1.id>{_part}*10 AND T1.id<={_part}*10+10"
        ]
    ]
    assert joined["values"] == {"_part": {"kind": "uniform", "from": 0, "to": 6}}
    equal = work("table: {table: t_string, tables: 2, join: true, rows: 10}")
    assert texts(equal)[0][0].endswith(" WHERE T2.id=T1.id AND T1.id>0*10 AND T1.id<=0*10+10")


def test_chatter_has_the_dialect_of_the_database() -> None:
    def chatter(text: str) -> list[str]:
        queries: list[str] = load(text).cells[0].config.workloads[0].settings["chatter"]["queries"]
        return queries

    text = FILE.replace("WORK", "frontier: {queries: [SELECT 1], chatter: 4}")
    assert all("sqlite_master" in query for query in chatter(text))
    assert all(
        "INFORMATION_SCHEMA" in query for query in chatter(text.replace("kind: sqlite", "kind: postgres"))
    )
    assert all(
        "ALL_" in query for query in chatter(text.replace("target: gateway", "target: 'http://h:1/F'"))
    )
    assert not chatter(text.replace(", chatter: 4", ""))


def drawn(made: QuerySet, text: str, take: int) -> str:
    """A query with its values filled in: the least, the greatest, or others."""
    seen: dict[str, str] = {}
    for name in re.findall(r"\{(\w+)\}", text):
        values = made.values[name]
        if values.kind == "uniform":
            spread = (values.low, values.high, (values.low + values.high) // 2, values.low + 1)
            seen[name] = str(min(values.high, spread[take % 4]))
        else:
            seen[name] = values.items[take % len(values.items)]
    return re.sub(r"\{(\w+)\}", lambda match: seen[match[1]], text)


@functools.cache
def small_cool(folders: int, channels: int, iovs: int) -> sqlite3.Connection:
    """A multi-version COOL database as the engine writes it, in small."""
    base = sqlite3.connect(":memory:")
    iov = "OBJECT_ID PRIMARY KEY, CHANNEL_ID, IOV_SINCE, IOV_UNTIL, USER_TAG_ID, SYS_INSTIME, LASTMOD_DATE"
    node = (
        "NODE_ID, NODE_PARENTID, NODE_NAME, NODE_FULLPATH, NODE_DESCRIPTION, NODE_ISLEAF, NODE_SCHEMA_VERSION"
    )
    folder = "FOLDER_PAYLOADSPEC, FOLDER_PAYLOAD_INLINE, FOLDER_VERSIONING, FOLDER_IOVTABLENAME, FOLDER_TAGTABLENAME"
    base.executescript(
        "CREATE TABLE P_DB_ATTRIBUTES (DB_ATTRIBUTE_NAME, DB_ATTRIBUTE_VALUE);"
        "INSERT INTO P_DB_ATTRIBUTES VALUES ('SCHEMA_VERSION', '2.2.0');"
        f"CREATE TABLE P_NODES ({node}, NODE_INSTIME, LASTMOD_DATE, {folder},"
        " FOLDER_IOV2TAGTABLENAME, FOLDER_CHANNELTABLENAME);"
        "CREATE TABLE P_TAGS (NODE_ID, TAG_ID, TAG_NAME, TAG_LOCK_STATUS, TAG_DESCRIPTION, SYS_INSTIME);"
        "CREATE TABLE P_TAG2TAG (PARENT_NODEID, PARENT_TAGID, CHILD_NODEID, CHILD_TAGID, SYS_INSTIME);"
    )
    for number in range(1, folders + 1):
        name = f"P_F{number:04d}"
        base.executescript(
            f"INSERT INTO P_NODES (NODE_ID, NODE_FULLPATH) VALUES ({number}, '/F{number:04d}');"
            f"CREATE TABLE {name}_IOVS ({iov}, ORIGINAL_ID, NEW_HEAD_ID, P_1, P_2);"
            f"CREATE TABLE {name}_IOV2TAG (TAG_ID, OBJECT_ID, CHANNEL_ID, IOV_SINCE, IOV_UNTIL, SYS_INSTIME);"
            f"CREATE TABLE {name}_CHANNELS (CHANNEL_ID, LAST_OBJECT_ID, HAS_NEW_DATA, CHANNEL_NAME, DESCRIPTION);"
            f"CREATE TABLE {name}_TAGS (TAG_ID, TAG_NAME, TAG_DESCRIPTION, SYS_INSTIME);"
            f"INSERT INTO {name}_TAGS VALUES (1, 'T', '', '');"
        )
        for channel in range(channels):
            base.execute(f"INSERT INTO {name}_CHANNELS VALUES (?,0,0,'','')", (channel,))
        for number, (i, channel) in enumerate(itertools.product(range(iovs), range(channels)), 1):
            span = (i * 1000, (i + 1) * 1000 if i + 1 < iovs else 2**63 - 1)
            row = (number, channel, *span, 0, "", "", 0, 0, f"p{number}", "")
            base.execute(f"INSERT INTO {name}_IOVS VALUES (?,?,?,?,?,?,?,?,?,?,?)", row)
            base.execute(f"INSERT INTO {name}_IOV2TAG VALUES (1,?,?,?,?,'')", (number, channel, *span))
    return base


SIZE = {"folders": 3, "channels": 20, "iovs": 30}
COOL = {**SIZE, "payload": "300B", "prefix": "P"}
ACCESS = [
    *(("by-channel", "single"), ("by-range", "single"), ("by-channel", "multi"), ("by-range", "multi")),
    *(("by-tag", "multi"), ("head", "multi")),
]
OF_FOLDERS = [
    (access, versioning) for access in ("all-channels", "whole-folder") for versioning in ("single", "multi")
]
ONE_FOLDER, ONE_CHANNEL, MANY = "one-folder-many-channels", "one-channel-many-iovs", "many-folders"
ROWS = {"by-range": 10, "all-channels": 20, "whole-folder": 20 * 30}


SESSIONS = [
    *((*access, mix, None) for access in ACCESS for mix in (ONE_FOLDER, ONE_CHANNEL, MANY)),
    *((*access, mix, None) for access in OF_FOLDERS for mix in (ONE_FOLDER, MANY)),
    *((access, "multi", MANY, 1) for access in ("by-channel", "by-tag", "all-channels", "whole-folder")),
]


@pytest.mark.parametrize(("access", "versioning", "mix", "tag"), SESSIONS)
def test_a_cool_session_finds_its_intervals(access: str, versioning: str, mix: str, tag: int | None) -> None:
    given = {
        **COOL,
        "access": access,
        "versioning": versioning,
        "mix": mix,
        "tag": tag,
        "repeat": "0%" if access == "whole-folder" else "30%",
    }
    made = cool_queries(CoolWork.model_validate(given), "sqlite")
    base = small_cool(**SIZE)
    empty = {"dictionary-2", "dictionary-3", "global tags", "tag relations"}
    for query in made.queries:
        for take in range(4):
            text = drawn(made, query.text, take)
            rows = base.execute(text).fetchall()
            if query.weight > 0:
                assert len(rows) == ROWS.get(access, 1), text
                assert ("IOV2TAG" in text) == (access == "by-tag" or tag is not None)
                assert all(row[-2].startswith("p") for row in rows)
            else:
                assert rows or query.name in empty, query.text
    weights = {query.name: query.weight for query in made.queries if query.weight}
    assert weights == ({"iov": 1.0} if access == "whole-folder" else {"iov": 0.7, "iov again": 0.3})


def test_all_queries_for_a_whole_folder_are_equal() -> None:
    made = cool_queries(
        CoolWork.model_validate({**COOL, "access": "whole-folder", "mix": MANY, "session": False}), "sqlite"
    )
    assert set(made.values) == {"_folder"}
    (query,) = made.queries
    assert query.text.endswith(
        " FROM P_F{_folder}_CHANNELS COOL_C2, P_F{_folder}_IOVS COOL_I3 WHERE COOL_I3.CHANNEL_ID=COOL_C2.CHANNEL_ID "
        "AND COOL_I3.IOV_SINCE>=COALESCE((SELECT MAX(COOL_I1.IOV_SINCE) FROM P_F{_folder}_IOVS COOL_I1 "
        "WHERE COOL_I1.CHANNEL_ID=COOL_C2.CHANNEL_ID AND COOL_I1.IOV_SINCE<=0),0) "
        "AND COOL_I3.IOV_SINCE<=9223372036854775807 AND COOL_I3.IOV_UNTIL>0 "
        "ORDER BY COOL_I3.CHANNEL_ID, COOL_I3.IOV_SINCE"
    )


def test_the_number_of_time_points_is_limited() -> None:
    def times(**given: Any) -> Generator:
        work = CoolWork.model_validate({**COOL, "access": "all-channels", **given})
        return cool_queries(work, "sqlite").values["_time"]

    assert times(times=3) == Generator("list", items=("0", "10000", "20000"), order="random")
    assert times(times=10_000, iovs=1) == Generator("uniform", low=0, high=999), "more than there are moments"
    repeated = cool_queries(CoolWork.model_validate({**COOL, "times": 1, "repeat": "100%"}), "sqlite")
    assert all("IOV_SINCE<=0 " in item for item in repeated.values["_again"].items)


def test_a_cool_session_begins_like_that_of_a_client() -> None:
    given = {**COOL, "versioning": "multi", "mix": "many-folders", "prefix": "CONDR"}
    workload = work(f"cool: {given}".replace("'", ""))
    first = [
        (operation["name"], operation["first"]) for operation in workload["operations"] if operation["first"]
    ]
    assert first == [
        *((f"dictionary-{number}", 1) for number in (1, 2, 3)),
        *(
            ("attributes", 1),
            ("nodes", 3),
            ("global tags", 1),
            ("tag relations", 1),
            ("tags", 3),
            ("channels", 3),
        ),
    ]
    assert [operation["name"] for operation in workload["operations"] if operation["weight"]] == ["iov"]
    assert workload["values"]["_each"]["items"] == ["0001", "0002", "0003"]
    assert workload["values"]["_each"]["order"] == "round-robin"
    assert workload["values"]["_time"] == {"kind": "uniform", "from": 0, "to": 29_999}
    assert workload["values"]["_channel"] == {"kind": "uniform", "from": 0, "to": 19}
    assert all("CONDR_" in text[0] for text in texts(workload))
    bare = work(f"cool: {{**{given}}}".replace("**{", "").replace("}}", ", session: false}").replace("'", ""))
    assert [operation["name"] for operation in bare["operations"]] == ["iov"]
    assert set(bare["values"]) == {"_folder", "_channel", "_time"}


@pytest.mark.parametrize("dialect", ["oracle", "standard", "sqlite"])
def test_every_query_is_accepted_by_the_servlet(dialect: Dialect) -> None:
    """The servlet rejects words of changes anywhere, and reads ? with : as a statement with values."""
    for access, versioning in (*ACCESS, *OF_FOLDERS):
        given = {**COOL, "access": access, "versioning": versioning, "mix": "many-folders"}
        for query in cool_queries(CoolWork.model_validate(given), dialect).queries:
            assert not re.search(r"(drop|delete|insert|alter|create) ", query.text.lower())
            assert not ("?" in query.text and ":" in query.text)


def test_batches_use_the_list_in_turn() -> None:
    workload = work("frontier: {queries: [A, B, C], batch: 2}")
    assert [(operation["name"], operation["request"]["queries"]) for operation in workload["operations"]] == [
        ("batch-1", ["A", "B"]),
        ("batch-2", ["C", "A"]),
    ]
    assert texts(work("frontier: {queries: [A], batch: 3}")) == [["A", "A", "A"]]
    mixed = work("frontier: {batch: 2}\n  mix: [{queries: [A]}, {queries: [B], batch: 1}]")
    assert texts(mixed) == [["A", "A"], ["B"]]


def test_the_first_queries_of_a_session_are_not_batched() -> None:
    workload = work(f"cool: {COOL}\n  frontier: {{batch: 3}}".replace("'", ""))
    sizes = {operation["name"]: len(operation["request"]["queries"]) for operation in workload["operations"]}
    assert sizes["iov"] == 3
    assert {size for name, size in sizes.items() if name != "iov"} == {1}


def test_each_query_of_a_batch_has_its_own_values() -> None:
    text = (
        "frontier: {queries: ['S {u} {l} {n} {u}'], batch: 2}\n"
        "  values: {u: {uniform: [1, 9]}, l: {list: [a, b, c]}, z: {zipf: {n: 3}}}"
    )
    workload = work(text)
    assert texts(workload) == [["S {u__2_1} {l__2_1} {n} {u__2_1}", "S {u__2_2} {l__2_2} {n} {u__2_2}"]]
    values = workload["values"]
    assert values["u__2_1"] == values["u__2_2"] == {"kind": "uniform", "from": 1, "to": 9}
    first, second = values["l__2_1"]["items"], values["l__2_2"]["items"]
    assert [item for pair in zip(first, second, strict=True) for item in pair] == list("abcabc")


@pytest.mark.parametrize("length", [1, 2, 3, 4, 6, 7])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_copies_of_a_recording_together_follow_its_order(length: int, count: int) -> None:
    values = {"q": Generator("recorded", items=tuple("abcdefg"), sequence=tuple(range(length)))}
    operation = Operation("log", 1.0, {"queries": ["{q}"] * count})
    (done,), made = apart([operation], values)
    copies = [made[text.strip("{}")].sequence for text in done.request["queries"]]
    seen = [copy[k % len(copy)] for k in range(20) for copy in copies]
    assert seen == [k % length for k in range(20 * count)]


def test_queries_of_a_log_are_drawn_with_their_frequencies(tmp_path: Path) -> None:
    written(tmp_path, *[native(10**9 + k, 0, f"SELECT {k % 4 // 3}") for k in range(8)], "rubbish")
    workload = work("frontier: {from_log: {file: access.log}}", directory=tmp_path)
    assert texts(workload) == [["{_query}"]]
    assert workload["values"] == {
        "_query": {"kind": "weighted", "items": ["SELECT 0", "SELECT 1"], "weights": [6.0, 2.0]}
    }
    plan = make_plan(
        load(FILE.replace("WORK", "frontier: {from_log: {file: access.log}}"), directory=tmp_path), 1
    )
    assert plan.remarks == (
        "access.log: 8 requests of 2 queries in 9 lines; 1 line contains no Frontier request",
    )
    assert plan.to_json()["remarks"] == list(plan.remarks)


def test_a_log_is_replayed_at_its_times(tmp_path: Path) -> None:
    written(tmp_path, *[native(10**9 + k / 2, 0, f"SELECT {k % 2}") for k in range(4)])
    text = FILE.replace("load: {testers: 1}", "load: {replay: log, in_flight: 7}")
    text = text.replace("WORK", "frontier: {from_log: {file: access.log, as: replay, speed: 2.0}}")
    text = text.replace("run: {duration: 1s}", "run: {drain: 1s}")
    plan = make_plan(load(text, directory=tmp_path), 1)
    document = engine_document(plan.runs[0], ADDRESSES, Path("/d"), "x")
    workload = document["workloads"][0]
    at_ns = [0, 250_000_000, 500_000_000, 750_000_000]
    assert workload["load"] == {"kind": "recorded", "at_ns": at_ns, "in_flight": 7, "when_full": "wait"}
    assert workload["values"]["_query"] == {
        "kind": "recorded",
        "items": ["SELECT 0", "SELECT 1"],
        "order": [0, 1, 0, 1],
    }
    assert document["end"]["duration_ns"] == 751_000_000, "the last request is also started"
    assert plan.estimate.transactions == 4
    sql = text.replace("driver: frontier", "driver: sql").replace("target: gateway", "target: db")
    sql = sql.replace("  frontier: {from", "  sql: {from")
    assert load(sql, directory=tmp_path).cells[0].config.workloads[0].values["_query"].kind == "recorded"


def test_logs_that_cannot_be_replayed_are_rejected(tmp_path: Path) -> None:
    written(tmp_path, url("SELECT 1"))
    for section in (
        "{from_log: {file: access.log}}",
        "{from_log: {file: access.log, as: replay}}",
        "{queries: [A]}",
    ):
        text = FILE.replace("load: {testers: 1}", "load: {replay: log}").replace(
            "WORK", f"frontier: {section}"
        )
        assert "no times to replay" in problems(text, directory=tmp_path)[0]
    written(tmp_path, "nothing", name="empty.log")
    message = first_problem("frontier: {from_log: {file: empty.log}}", tmp_path)
    assert "the log contains no Frontier request: empty.log: 0 requests of 0 queries in 1 lines" in message
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8b\x08broken")
    assert "broken.gz cannot be read" in first_problem("frontier: {from_log: {file: broken.gz}}", tmp_path)


def test_an_entry_of_a_mix_can_be_first() -> None:
    workload = work("mix: [{name: login, queries: [A], weight: 0, first: 2}, {queries: [B]}]")
    assert [
        (operation["name"], operation["weight"], operation["first"]) for operation in workload["operations"]
    ] == [
        ("login", 0.0, 2),
        ("query", 1.0, 0),
    ]


def test_factors_can_set_generated_queries() -> None:
    text = FILE.replace("WORK", "table: {table: t_string, rows: 10}") + (
        "factors: {workload.table.rows: [10, 100], method: {gateway: {workload.driver: frontier},"
        " direct: {workload.driver: sql, workload.target: db}}}\n"
    )
    experiment = load(text)
    assert len(experiment.cells) == 4
    again = load(experiment.effective_yaml())
    assert again.cells[0].config == experiment.cells[0].config


def test_a_warm_cache_is_filled_with_all_queries_and_chatter() -> None:
    text = FILE.replace("database: db}}", "database: db}, cache: {kind: squid, origin: gateway}}")
    text = text.replace("target: gateway", "target: cache")
    text = text.replace(
        "WORK", "frontier: {queries: ['S {k}'], uncached: 50%, chatter: 1}\n  values: {k: {list: [a, b]}}"
    )
    (filling,) = fillings(load(text).cells[0].config)
    (workload,) = filling.workloads
    assert workload.settings["uncached"] == 0.0
    assert workload.settings["chatter"]["requests"] == len(workload.settings["chatter"]["queries"]) == 3
    assert (filling.run.each_tester, workload.values["k"].items) == (2, ("a", "b"))
