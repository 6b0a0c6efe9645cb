"""Databases, caches and proxies in the experiment file: their needs, restarts and fillings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.plan.helpers import load, problems

from plimsoll.errors import ServiceError
from plimsoll.plan import changes, engine_document, make_plan
from plimsoll.plan.design.filling import MAX_VALUES, fillings
from plimsoll.plan.model.cell import ClosedLoad, Config
from plimsoll.plan.services.section import Addresses
from plimsoll.plan.services.table import SERVICE_KINDS

FILE = """\
plimsoll: 1
services:
  db:    {kind: postgres, settings: {shared_buffers: 256MB, fsync: false, max_connections: 200}}
  front: {kind: frontier, database: db}
  cache: {kind: squid, origin: front}
data: {t: {into: db, rows: 10, row: 100B}}
workload: {driver: frontier, target: cache, frontier: {queries: [SELECT 1, SELECT 2]}}
load: {testers: 3, think: 1s}
run: {duration: 1s}
"""
CACHES = """\
plimsoll: 1
services:
  web:   {kind: echo}
  upper: {kind: squid, origin: web}
  lower: {kind: squid, parents: [upper]}
  left:  {kind: squid, origin: web, siblings: [right]}
  right: {kind: squid, origin: web}
  plain: {kind: squid}
targets: {through: {endpoints: [web], proxies: [plain]}}
workload: {driver: http, target: lower}
load: {testers: 1}
run: {duration: 1s}
"""


def config(text: str, sets: tuple[str, ...] = (), directory: Path = Path("/nowhere")) -> Config:
    return load(text, sets, directory=directory).cells[0].config


def gateway_config(resolved: Config) -> Any:
    """What the engine reads to serve the service `gate`."""
    service = resolved.service("gate")
    names = (service.settings["invalidation"] or {"caches": ()})["caches"]
    caches = {name: f"http://127.0.0.1:{port}" for port, name in enumerate(names, 2)}
    addresses = Addresses({"db": ["mysql://u@127.0.0.1:1/d"]}, caches)
    return SERVICE_KINDS["frontier"].engine_config(service, addresses)


def settings(text: str, name: str) -> Any:
    return config(text).service(name).settings


def test_databases_gateways_and_caches_are_resolved() -> None:
    resolved = config(FILE)
    assert settings(FILE, "db") == {
        "version": "auto",
        "settings": {"shared_buffers": "256MB", "fsync": "false", "max_connections": "200"},
        "database": "plimsoll",
        "user": "plimsoll",
        "replica_of": None,
        "replication": None,
        "synchronous": False,
        "decoded": False,
        "replicas": [],
    }
    assert [service.needs for service in resolved.services] == [(), ("db",), ("front",)]
    assert settings(FILE, "cache")["cache"] == {
        "start": "warm",
        "memory": 64_000_000,
        "object_in_memory": 64_000_000,
        "disk": 0,
        "largest": 100_000_000,
    }
    disk = config(FILE, ("services.cache.cache={disk: 1GB}",)).service("cache").settings["cache"]
    assert disk["object_in_memory"] == 1_000_000
    own = config(FILE, ("services.cache.cache={object_in_memory: 5kB}",)).service("cache").settings["cache"]
    assert own["object_in_memory"] == 5_000
    assert all(service.starts_process for service in resolved.services)
    assert changes(resolved, config(FILE, ("data.t.rows=20",)), True).start == ("db", "front", "cache")
    assert changes(resolved, config(FILE, ("services.db.settings.work_mem=1MB",)), True).start[0] == "db"


def test_the_effective_file_has_the_same_configuration() -> None:
    for text in (FILE, CACHES):
        first = load(text)
        assert load(first.effective_yaml()).cells[0].config == first.cells[0].config


def test_a_cold_cache_is_new_for_each_run() -> None:
    cold = config(FILE, ("services.cache.cache=cold",))
    assert cold.service("cache").fresh == "run"
    assert changes(cold, cold, True).start == ("cache",)
    assert fillings(cold) == ()


def test_a_tree_of_caches_and_siblings_is_resolved() -> None:
    resolved = config(CACHES)
    assert settings(CACHES, "lower")["origin"] == "web", "that of its parent"
    assert resolved.service("lower").needs == ("web", "upper")
    assert (settings(CACHES, "left")["siblings"], settings(CACHES, "right")["siblings"]) == (
        ["right"],
        ["left"],
    )
    # if one of two siblings restarts, both restart, in any order of the file
    first = config(CACHES.replace("right: {kind", "right: {fresh: run, kind"))
    assert changes(first, first, True).start == ("left", "right")
    assert changes(first, first, True).stop == ("right", "left")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "parents: [upper]",
            "parents: [uper]",
            'lower.parents.0: there is no service uper; did you mean "upper"?',
        ),
        ("parents: [upper]", "parents: [web]", "web is a service of kind echo: expected one of kind squid"),
        (
            "parents: [upper]",
            "parents: [left], siblings: [left]",
            "left is both a parent and a sibling of lower",
        ),
        ("parents: [upper]", "parents: [lower]", "lower cannot be one of its own parents"),
        ("parents: [upper]", "parents: [right]", "move right above lower"),
        ("parents: [upper]", "origin: plain", "plain is a forward proxy: name it in `parents`"),
        ("plain: {kind: squid}", "plain: {kind: squid, parents: [lower]}", "lower has parents itself"),
        (
            "web:   {kind: echo}",
            "web: {kind: echo, http: false}",
            "kind echo that does not speak http",
        ),
        ("proxies: [plain]", "proxies: [upper]", "upper has an origin, so it is a reverse proxy"),
        ("proxies: [plain]", "proxies: [web]", "web is a service of kind echo: expected one of kind squid"),
        (
            "proxies: [plain]",
            "proxies: [plan]",
            '"plan" is not a service and not a URL; did you mean "plain"?',
        ),
        ("target: lower", "target: plain", "plain is a forward proxy: give it an origin"),
    ],
)
def test_invalid_caches_are_rejected(old: str, new: str, message: str) -> None:
    assert old in CACHES
    text = CACHES.replace(old, new)
    text = text.replace("target: lower", "target: through") if "proxies" in new else text
    assert message in "\n".join(problems(text))


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ("services.db.settings.port=5432", "services.db.settings.port: Plimsoll sets this"),
        ("services.db.settings.Listen_Addresses='*'", "Plimsoll sets this"),
        ("services.db.user=postgres", "postgres is the administrator of the server"),
        ('services.db.settings.work_mem="1MB\\nfsync = off"', "expected a single line"),
        ("data.t.into=cache", "kind postgres, mariadb or sqlite without `file`; cache is not one"),
        ("services.front.database=cache", "expected one of kind sqlite or postgres or mariadb"),
        ("workload.target=db", "speaks postgresql; the driver needs http or https"),
    ],
)
def test_invalid_databases_are_rejected(sets: str, message: str) -> None:
    assert message in "\n".join(problems(FILE, [sets]))


def test_sql_goes_to_databases_by_name_or_by_url() -> None:
    text = FILE.replace("driver: frontier, target: cache, frontier:", "driver: sql, target: db, sql:")
    url = "postgresql://plimsoll@127.0.0.1:5432/plimsoll"
    document = engine_document(make_plan(load(text), 1).runs[0], {"db": [url]}, Path("/d"), "x")
    assert document["workloads"][0]["endpoints"] == [{"name": "db", "url": url}]
    far = load(text, ["workload.target=mysql://reader@db.example/events"])
    assert far.cells[0].config.workloads[0].target.endpoints[0].name == "db.example"
    lines = problems(text, ["workload.target=mysql://reader:pw@db.example/events"])
    assert "the URL contains a password" in lines[0]


@pytest.mark.parametrize(
    ("target", "password", "message"),
    [
        ("mysql://reader@db/x", "given", "the file contains the password"),
        ("mysql://reader:${env:PW}@db/x", "${env:PW}", "also contains a password: give only one"),
        ("mysql://reader:${env:ODD}@db/x", None, "percent-encoded; sql.password accepts"),
        ("mysql://reader:${env:AT}@db/x", None, "percent-encoded; sql.password accepts"),
        ("mysql://db/x", None, "names no user: expected mysql://USER@HOST:PORT/DATABASE"),
        ("mysql://reader@:1/x", None, "names no host"),
        ("sqlite:/dev/null", "${env:PW}", "is an SQLite file, which has no users"),
        ("mysql://reader@db/x?sslmode=require", None, "give sql: {tls: {ca_file: ca.pem}} for TLS"),
        ("mysql://reader@db/x?sslmode=prefer", None, "give sql: {tls: {ca_file: ca.pem}} for TLS"),
        ("mysql://reader:${env:PW}@db/x?ssl=1", None, "unknown URL parameter ssl"),
    ],
)
def test_invalid_logins_are_rejected_without_the_password(
    target: str, password: str | None, message: str
) -> None:
    environ = {"PW": "pass-1", "ODD": "1/pass-2?", "AT": "pass@3"}
    keys = "" if password is None else f"password: '{password}', "
    text = FILE.replace(
        "driver: frontier, target: cache, frontier: {", f"driver: sql, target: '{target}', sql: {{{keys}"
    )
    text_of_problems = "\n".join(problems(text, environ=environ))
    assert message in text_of_problems, text_of_problems
    assert "pass-" not in text_of_problems
    assert "pass@" not in text_of_problems


def test_tls_to_databases_has_the_keys_of_http() -> None:
    text = FILE.replace(
        "driver: frontier, target: cache, frontier: {", "driver: sql, target: TARGET, sql: {tls: TLS, "
    )
    far = text.replace("TARGET", "'mysql://reader@db/x?sslmode=disable'")
    here = text.replace("TARGET", "db")
    assert "contains sslmode=disable: give only one" in "\n".join(problems(far.replace("TLS", "{}")))
    assert "Plimsoll starts db without TLS" in "\n".join(problems(here.replace("TLS", "{}")))
    message = "\n".join(
        problems(text.replace("TARGET", "mysql://r@db/x").replace("TLS", "{ca_file: none.pem}"))
    )
    assert "workload.sql.tls.ca_file: there is no file" in message
    good = load(text.replace("TARGET", "mysql://r@db/x").replace("TLS", "{verify: false}"))
    document = engine_document(make_plan(good, 1).runs[0], {}, Path("/d"), "x")
    assert document["workloads"][0]["settings"]["tls"] == {
        "ca_file": None, "ca_dir": None, "cert": None, "key": None, "verify": False, "proxy": None,
    }  # fmt: skip


def test_a_password_of_the_command_line_is_a_secret() -> None:
    text = FILE.replace(
        "driver: frontier, target: cache, frontier:", "driver: sql, target: mysql://reader@db/x, sql:"
    )
    experiment = load(text, ["workload.sql.password=pass-1"])
    assert "pass-1" not in experiment.effective_yaml() + str(experiment.sets)
    document = engine_document(make_plan(experiment, 1).runs[0], {}, Path("/d"), "x")
    assert document["workloads"][0]["settings"]["password"] == "pass-1"


def test_a_proxy_that_is_a_service_becomes_its_address() -> None:
    run = make_plan(load(CACHES, ["workload.target=through"]), 1).runs[0]
    document = engine_document(run, {"web": ["http://h:1"], "plain": ["http://h:2"]}, Path("/d"), "x")
    assert document["workloads"][0]["settings"]["proxies"] == ["http://h:2"]
    with pytest.raises(ServiceError, match="plain has no address"):
        engine_document(run, {"web": ["http://h:1"]}, Path("/d"), "x")


def test_a_warm_cache_is_filled_with_each_request_once() -> None:
    (filling,) = fillings(config(FILE))
    assert [workload.operations[0].name for workload in filling.workloads] == ["query-1", "query-2"]
    assert all(
        workload.load == ClosedLoad(1, workload.load.think)
        for workload in filling.workloads
        if isinstance(workload.load, ClosedLoad)
    )
    assert filling.run.each_tester == 1
    assert fillings(config(FILE, ("workload.target=front",))) == (), "nothing passes the cache"


def test_a_filling_requests_a_limited_number_of_values_in_turn() -> None:
    text = CACHES.replace(
        "target: lower",
        "target: through, http: {path: '/{k}'}, values: {k: {zipf: {n: 5, s: 1}}, other: {uniform: [1, 9]}}",
    )
    (filling,) = fillings(config(text))
    assert filling.workloads[0].values["k"].items == ("1", "2", "3", "4", "5")
    assert set(filling.workloads[0].values) == {"k"}, "only what the request uses"
    assert filling.run.each_tester == 5
    (long,) = fillings(config(text.replace("n: 5", "n: 100000")))
    assert long.run.each_tester == MAX_VALUES


def test_a_filling_goes_through_every_cache_and_never_floods_the_origin() -> None:
    text = CACHES.replace("target: lower", "target: all, http: {paths: [/1, /2, /3]}").replace(
        "targets: {", "targets: {all: {endpoints: [lower, left, right, web]}, "
    )
    batches = fillings(config(text))
    assert [len(batch.workloads) for batch in batches] == [8, 1]
    services = {workload.target.endpoints[0].service for batch in batches for workload in batch.workloads}
    assert services == {"lower", "left", "right"}
    assert fillings(config(text.replace("{paths", "{method: POST, paths"))) == ()
    # upper is warm and lower is cold: a request that fills upper would also fill lower
    cold = config(text.replace("parents: [upper]", "parents: [upper], cache: cold"))
    assert "lower" not in {
        workload.target.endpoints[0].service for batch in fillings(cold) for workload in batch.workloads
    }


def test_the_estimate_lists_the_start_times_of_servers() -> None:
    plan = make_plan(load(FILE + "design: {repetitions: 2}\n"), 1)
    assumptions = " ".join(plan.estimate.assumptions)
    assert "4 s for postgres, 3 s for squid" in assumptions
    assert "to warm the caches" in assumptions
    assert plan.estimate.restarts == 3


TOLD = """\
plimsoll: 1
services:
  db:    {kind: mariadb}
  other: {kind: mariadb}
  small: {kind: sqlite}
  gate:  {kind: frontier, database: db, invalidation: {caches: [lower, upper, plain]}}
  aside: {kind: frontier, database: small}
  upper: {kind: squid, origin: gate}
  lower: {kind: squid, parents: [upper]}
  away:  {kind: squid, origin: aside}
  plain: {kind: squid}
workload: {driver: frontier, target: lower, frontier: {queries: [SELECT 1]}}
load: {testers: 1}
run: {duration: 1s}
"""


def test_a_gateway_notifies_caches_from_the_top_down_and_needs_none_of_them() -> None:
    resolved = config(TOLD)
    assert settings(TOLD, "gate")["invalidation"] == {
        "caches": ["upper", "plain", "lower"],
        "on": {"every": None},
        "settle": None,
        "again": 1_000_000_000,
        "most_keys": 200_000,
        "triggers": "install",
        "scope": "table",
        "detection": "triggers",
    }
    assert resolved.service("gate").needs == ("db",)
    assert settings(TOLD, "db")["binary_log"]
    assert not settings(TOLD, "other")["binary_log"], "no gateway follows it"
    engine_config = gateway_config(resolved)
    assert engine_config["invalidation"] == {
        "caches": [{"proxy": f"http://127.0.0.1:{port}"} for port in (2, 3, 4)],
        "triggers": "install",
        "scope": "table",
        "detection": "triggers",
        "again_ms": 1000,
        "most_keys": 200_000,
    }
    changed = "invalidation: {on: {every: 250ms}, settle: 40ms,"
    every = config(TOLD.replace("invalidation: {", changed))
    engine_config = gateway_config(every)
    assert (engine_config["invalidation"]["on"], engine_config["invalidation"]["every_s"]) == ("every", 0.25)
    assert engine_config["invalidation"]["settle_ms"] == 40
    assert not every.service("db").settings["binary_log"]


def test_a_database_whose_log_a_gateway_decodes_is_prepared_for_it() -> None:
    text = TOLD.replace("kind: mariadb", "kind: postgres")
    assert not settings(text, "db")["decoded"]
    keys = "invalidation: {scope: row, detection: logical-decoding,"
    decoded = text.replace("invalidation: {", keys)
    assert settings(decoded, "db")["decoded"]
    assert not settings(decoded, "other")["decoded"]
    engine_config = gateway_config(config(decoded))["invalidation"]
    assert (engine_config["scope"], engine_config["detection"]) == ("row", "logical-decoding")
    minimal = decoded.replace(
        "db:    {kind: postgres}", "db:    {kind: postgres, settings: {wal_level: replica}}"
    )
    for wrong, expected in [
        (TOLD.replace("invalidation: {", "invalidation: {scope: row,"), "row needs PostgreSQL"),
        (TOLD.replace("invalidation: {", keys), "logical-decoding needs PostgreSQL"),
        (
            text.replace("invalidation: {", "invalidation: {on: {every: 1s}, scope: everything,"),
            "only with `on: change`",
        ),
        (minimal, "a gateway with `detection: logical-decoding` needs logical"),
    ]:
        assert any(expected in line for line in problems(wrong)), problems(wrong)
    assert settings(TOLD.replace("invalidation: {", "invalidation: {scope: everything,"), "gate")


def test_a_gateway_without_keepalives() -> None:
    text = TOLD.replace("database: db,", "database: db, keepalive: none,")
    assert settings(text, "gate")["keepalive"] is None
    assert gateway_config(config(text))["keepalive_s"] == 0


def test_the_configuration_of_a_gateway_has_its_settings() -> None:
    keys = (
        "query_timeout: 1m, max_acquire: 30s, max_execute: 0s, validate_last_modified: 2s, "
        "last_modified_table: o.t, "
        "stale_if_error: false, ages: {long_hour: 5, short: 1m},"
    )
    resolved = config(TOLD.replace("database: db,", f"database: db, {keys}"))
    engine_config = gateway_config(resolved)
    assert engine_config["ages"] == {
        "short": 60,
        "long": 604_800,
        "forever": 31_536_000,
        "error": 300,
        "long_hour": 5,
    }
    assert (
        engine_config["query_timeout_s"],
        engine_config["max_acquire_s"],
        engine_config["max_execute_s"],
    ) == (60.0, 30.0, 0.0)
    assert (engine_config["validate_last_modified_s"], engine_config["last_modified_table"]) == (2, "o.t")
    assert engine_config["stale_if_error"] is False


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("caches: [lower,", "caches: [lowr,", "there is no service lowr"),
        ("caches: [lower,", "caches: [db,", "db is a service of kind mariadb: expected one of kind squid"),
        ("caches: [lower,", "caches: [away,", "away is not a proxy of gate: its origin is aside"),
        ("caches: [lower, upper, plain]", "caches: []", "expected at least one item"),
        ("database: db, inv", "database: small, inv", "needs PostgreSQL or MariaDB"),
        ("invalidation: {", "invalidation: {on: {every: 1ms}, ", "expected at least 10ms"),
        ("invalidation: {", "invalidation: {on: sometimes, ", "expected change or {every: 10s}, got"),
        ("database: db,", "database: db, validate_last_modified: 1500ms,", "expected whole seconds"),
        ("database: small", "database: small, validate_last_modified: 1s", "give `last_modified_table` too"),
        ("database: small", "database: small, query_timeout: 0s", "expected at least 1ms"),
    ],
)
def test_invalid_gateways_and_their_caches_are_rejected(before: str, after: str, message: str) -> None:
    assert before in TOLD
    assert message in "\n".join(problems(TOLD.replace(before, after)))
