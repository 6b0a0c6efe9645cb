"""Which services' counts of requests can be compared with those of the tier before them."""

from __future__ import annotations

import pytest
from tests.unit.plan.helpers import load

from plimsoll.plan.tiers import Tier, tiers_of

TARGETS = "targets: {site: {endpoints: [web], proxies: [between]}}"


def tiers(
    services: str, rest: str = "", *, target: str = "web", driver: str = "http", query: str = "select 1"
) -> dict[str, Tier]:
    """The tiers of an experiment with these services, by service."""
    sections = {
        "http": "http: {path: /}",
        "frontier": "frontier: {queries: [select 1]}",
        "sql": f"sql: {{queries: ['{query}']}}",
        "exec": "exec: {command: [curl, http://x]}",
    }
    needs_target = f"target: {target}, " if driver != "exec" else ""
    text = f"""
plimsoll: 1
services:
  {services}
workload: {{driver: {driver}, {needs_target}{sections[driver]}}}
run: {{duration: 1s}}
load: {{testers: 1}}
{rest}
"""
    (cell,) = load(text).cells
    return {tier.service: tier for tier in tiers_of(cell.config)}


def clients(tier: Tier) -> list[str]:
    return [*(part.workload for part in tier.testers), *(part.service for part in tier.services)]


def test_a_service_that_testers_address() -> None:
    found = tiers("web: {kind: echo}")["web"]
    assert (found.counter, clients(found), found.through) == ("received", ["main"], ())
    assert found.testers[0].endpoints == ("web",)


def test_each_instance_is_compared_with_the_transactions_of_its_endpoint() -> None:
    found = tiers("web: {kind: echo, instances: 2}")
    assert {name: tier.testers[0].endpoints for name, tier in found.items()} == {
        "web.1": ("web.1",),
        "web.2": ("web.2",),
    }


def test_instances_behind_nginx_are_one_tier() -> None:
    found = tiers("own: {kind: echo, instances: 3}\n  web: {kind: nginx, origin: own}")
    assert set(found) == {"web", "own.1"}
    assert clients(found["own.1"]) == ["web"]
    assert found["own.1"].others == ("own.2", "own.3")
    assert found["own.1"].sent_bytes is None


def test_instances_with_another_client_are_no_tier() -> None:
    services = "own: {kind: echo, instances: 2}\n  web: {kind: nginx, origin: own}"
    program = services + "\n  other: {kind: command, command: [x, '{own.2.url}']}"
    assert "own.1" not in tiers(program)
    changed = services.replace("origin: own}", "origin: own, settings: [proxy_next_upstream off]}")
    assert "own.1" not in tiers(changed)


def test_the_origin_of_a_cache_is_compared_with_the_cache() -> None:
    found = tiers("own: {kind: echo}\n  web: {kind: squid, origin: own}")
    assert clients(found["web"]) == ["main"]
    assert clients(found["own"]) == ["web"]
    assert found["own"].services[0].counter == "server.all.requests"


def test_a_cache_below_a_parent_does_not_ask_the_origin() -> None:
    found = tiers("own: {kind: echo}\n  up: {kind: squid, origin: own}\n  web: {kind: squid, parents: [up]}")
    assert [clients(found[name]) for name in ("web", "up", "own")] == [["main"], ["web"], ["up"]]


def test_all_tiers_of_a_database() -> None:
    found = tiers(
        "db: {kind: mariadb}\n  own: {kind: frontier, database: db}\n  web: {kind: squid, origin: own}",
        driver="frontier",
    )
    assert [clients(found[name]) for name in ("web", "own", "db")] == [["main"], ["web"], ["own"]]
    assert (found["db"].counter, found["db"].services[0].errors) == ("Com_select", "database_errors")


def test_validation_queries_are_requests_too() -> None:
    text = "db: {kind: sqlite}\n  web: {kind: frontier, database: db}"
    rest = "factors: {workload.frontier.chatter: [3]}"
    assert tiers(text, rest, driver="frontier")["web"].testers[0].each == 4


PROXY = 'between: {kind: command, command: [proxy, "{port}", "{web.url}"]}'
FORWARD = 'between: {kind: command, command: [proxy, "{port}"]}'


@pytest.mark.parametrize(
    ("between", "target", "rest"),
    [(PROXY, "between", ""), (PROXY, "site", TARGETS), (FORWARD, "site", TARGETS)],
)
def test_a_program_in_between_sends_on_what_it_receives(between: str, target: str, rest: str) -> None:
    found = tiers(f"web: {{kind: echo}}\n  {between}", rest, target=target)
    assert list(found) == ["web"]
    assert (clients(found["web"]), found["web"].through) == (["main"], ("between",))


def test_a_forward_proxy_that_counts() -> None:
    found = tiers("web: {kind: echo}\n  between: {kind: squid}", TARGETS, target="site")
    assert (clients(found["between"]), clients(found["web"])) == (["main"], ["between"])


@pytest.mark.parametrize(
    ("services", "target", "rest", "without"),
    [
        ("web: {kind: echo}\n  app: {kind: command, command: [app, '{web.url}']}", "web", "", "web"),
        (
            "own: {kind: echo}\n  other: {kind: echo}\n"
            "  web: {kind: command, command: [app, '{own.url}', '{other.url}']}",
            "web",
            "",
            "own",
        ),
        (
            "own: {kind: echo}\n  a: {kind: squid, origin: own}\n  web: {kind: squid, origin: own, siblings: [a]}",
            "web",
            "",
            "own",
        ),
        (
            "own: {kind: echo}\n"
            "  web: {kind: nginx, origin: own, settings: ['proxy_cache_path /tmp/x keys_zone=a:1m;']}",
            "web",
            "",
            "own",
        ),
        ("web: {kind: echo, http: false}\n  x: {kind: echo}", "x", "", "web"),
        ("web: {kind: echo}", "web", "actions: [{at: 100ms, run: [curl, x]}]", "web"),
        (
            "db: {kind: postgres}\n"
            "  own: {kind: frontier, database: db, validate_last_modified: 1s, last_modified_table: t}\n"
            "  web: {kind: squid, origin: own}",
            "web",
            "",
            "db",
        ),
    ],
)
def test_no_comparison_with_clients_that_are_not_counted(
    services: str, target: str, rest: str, without: str
) -> None:
    assert without not in tiers(services, rest, target=target)


def test_a_program_may_send_requests_to_any_service() -> None:
    assert tiers("web: {kind: echo}", driver="exec") == {}


def test_only_single_selects_of_a_database_are_compared() -> None:
    assert "db" in tiers("db: {kind: postgres}", target="db", driver="sql")
    for query in ("insert into t values (1)", "select 1; select 2", "/* x */ show tables"):
        assert tiers("db: {kind: postgres}", target="db", driver="sql", query=query) == {}, query
    for queries, is_compared in (("select 1, select 2", True), ("select 1, delete from t", False)):
        values = f"values: {{again: {{list: [{queries}]}}}}"
        text = f"""
plimsoll: 1
services: {{db: {{kind: postgres}}}}
workload: {{driver: sql, target: db, {values}, sql: {{queries: ["{{again}}"]}}}}
run: {{duration: 1s}}
load: {{testers: 1}}
"""
        (cell,) = load(text).cells
        assert bool(tiers_of(cell.config)) == is_compared, queries


def test_a_watched_cache_may_have_other_clients() -> None:
    watch = "watch: [{prometheus: 'http://10.0.0.9:9301/metrics', kind: squid, name: seen}]"
    found = tiers("web: {kind: echo}", f"targets: {{site: {{endpoints: [web], {watch}}}}}", target="site")
    assert (found["web"].is_watched, found["seen"].is_watched) == (False, True)
    assert (found["seen"].counter, clients(found["seen"])) == ("client_http.requests", ["main"])
    several = f"targets: {{site: {{endpoints: [web, 'http://10.0.0.9:80'], {watch}}}}}"
    assert "seen" not in tiers("web: {kind: echo}", several, target="site"), "which of the two is it?"
