"""Requests that real services count, against those that the testers sent."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Done, Lab
from tests.real.test_services import needs

PROXY = Path(__file__).with_name("proxy.py")
REST = """
load: {testers: 4, think: 1ms}
design: {seed: 1, order: listed}
run: {warmup: 200ms, END, drain: 2s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, steal: 100%, trend: false}     # the machine may be busy
"""


def services(kind: str) -> str:
    """The service behind the proxy; an nginx has an origin of its own."""
    return "web: {kind: echo}" if kind == "echo" else "own: {kind: echo}\n  web: {kind: nginx, origin: own}"


def tiers(done: Done) -> list[dict[str, Any]]:
    """The comparisons of the only run, by service."""
    [run] = done.json["runs"]
    found: list[dict[str, Any]] = run["tiers"]
    return found


def behind_proxy(lab: Lab, options: str, *, kind: str = "echo", is_target: bool = True) -> Done:
    """An experiment whose requests pass the proxy, which is the target, or the proxy of the target."""
    command = f'["{sys.executable}", "{PROXY}", "{{port}}", "{{web.url}}", {options}]'
    target = "between" if is_target else "site"
    text = f"""
plimsoll: 1
name: between
services:
  {services(kind)}
  between: {{kind: command, command: {command}}}
targets: {{site: {{endpoints: [web], proxies: [between]}}}}
workload: {{driver: http, target: {target}, timeout: 5s, http: {{path: /}}}}
{REST.replace("END", "duration: 60s, until: {transactions: 800}")}"""
    if is_target:
        text = text.replace("targets: {site: {endpoints: [web], proxies: [between]}}\n", "")
    return lab.run("run", lab.file(text), "--json")


@pytest.mark.parametrize("is_target", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_proxy_that_sends_every_20th_request_twice(lab: Lab, is_target: bool) -> None:
    done = behind_proxy(lab, '"--twice", "0.05"', is_target=is_target)
    assert done.code == 0, done.err
    [tier] = tiers(done)
    assert (tier["service"], tier["before"], tier["through"]) == ("web", ["testers"], ["between"])
    assert tier["sent"] >= 800
    assert tier["share"] == pytest.approx(0.05, abs=0.01)
    [doubt] = done.json["runs"][0]["doubtful_reasons"]
    assert "more requests than the testers sent" in doubt
    assert "a proxy or retries in between" in doubt
    assert any("web counted" in sentence for sentence in done.json["answer"])


def test_a_proxy_that_swallows_three_percent_before_nginx(lab: Lab) -> None:
    needs("nginx")
    done = behind_proxy(lab, '"--swallow", "0.03", "--seed", "7"', kind="nginx")
    assert done.code == 0, done.err
    tier, origin = tiers(done)
    assert (origin["before"], origin["difference"]) == (["web"], 0)
    assert tier["share"] == pytest.approx(-0.03, abs=0.01)
    [doubt] = done.json["runs"][0]["doubtful_reasons"]
    assert "fewer requests than the testers sent" in doubt


@pytest.mark.long
def test_a_proxy_that_sends_each_request_once_raises_no_doubt(lab: Lab) -> None:
    done = behind_proxy(lab, '"--seed", "1"')
    [tier] = tiers(done)
    assert (tier["difference"], done.json["runs"][0]["doubtful_reasons"]) == (0, [])


CHAINS = {
    "echo": ("web: {kind: echo}", "http: {path: /}"),
    "delay": ("web: {kind: delay, time: {exponential: 2ms}, servers: 8, fail: 20%}", "http: {path: /}"),
    "nginx": ("own: {kind: echo}\n  web: {kind: nginx, origin: own}", "http: {path: /}"),
    "squid": (
        "own: {kind: echo}\n  web: {kind: squid, origin: own, cache: cold, refresh: 'refresh_pattern . 5 20% 60'}",
        "http: {path: '/{key}'}",
    ),
    "parents": (
        "own: {kind: echo}\n  up: {kind: squid, origin: own}\n  web: {kind: squid, parents: [up]}",
        "http: {path: '/{key}'}",
    ),
    "nginx-squid": (
        "own: {kind: echo}\n  cache: {kind: squid, origin: own}\n  web: {kind: nginx, origin: cache}",
        "http: {path: '/{key}'}",
    ),
    "forward": ("own: {kind: echo}\n  cache: {kind: squid}", "http: {path: '/{key}'}"),
    "sqlite": (
        "db: {kind: sqlite}\n  web: {kind: frontier, database: db}",
        "frontier: {queries: [select 1]}",
    ),
    "postgres": (
        "db: {kind: postgres}\n  web: {kind: frontier, database: db}",
        "frontier: {queries: [select 1]}",
    ),
    "mariadb": (
        "db: {kind: mariadb}\n  web: {kind: frontier, database: db}",
        "frontier: {queries: [select 1], chatter: 2, chatter_queries: [select 2]}",
    ),
    "postgres-sql": ("web: {kind: postgres}", "sql: {queries: [select 1]}"),
    "mariadb-sql": ("web: {kind: mariadb}", "sql: {queries: [select 1]}"),
}
"""Services and requests of each experiment without a proxy."""
HOW = """
factors:
  how:
    closed: {load.testers: 4}
    open: {load: {rate: 400/s}}
    full: {load: {rate: 4000/s, in_flight: 50}}
    timeouts: {workload.timeout: 3ms, load: {testers: 30}}
    cut: {run.drain: 0s, load: {testers: 60}}
    short: {run.duration: 200ms, load: {testers: 16}}
    closing: {workload.DRIVER.connection: per-request}
    summaries: {run.keep: summaries}
"""


def without_proxy(lab: Lab, chain: str, repetitions: int = 1, only: str = "") -> list[dict[str, Any]]:
    """The runs of an experiment without a proxy, in which nothing is sent that is not known."""
    for kind in ("nginx", "squid", "postgres", "mariadb"):
        if f"kind: {kind}" in CHAINS[chain][0]:
            needs(kind)
    services, section = CHAINS[chain]
    driver = section.partition(":")[0]
    values = "values: {key: {uniform: [1, 300]}}, " if "{key}" in section else ""
    target = "site" if chain == "forward" else "web"
    targets = "targets: {site: {endpoints: [own], proxies: [cache]}}\n" if chain == "forward" else ""
    lines = HOW.replace("DRIVER", driver).splitlines()
    factors = [
        line
        for line in lines
        if not line.startswith("    ") or not only or line.split(":")[0].strip() in only
    ]
    factors = [line.replace("per-request", "per-query") if driver == "sql" else line for line in factors]
    rest = REST.replace("order: listed", f"order: random, repetitions: {repetitions}").replace(
        "END", "duration: 500ms"
    )
    data = "data: {t: {into: db, rows: 10, row: 50B}}\n" if chain == "sqlite" else ""
    text = f"""
plimsoll: 1
name: without
services:
  {services}
{data}{targets}workload: {{driver: {driver}, target: {target}, timeout: 5s, {values}{section}}}
{chr(10).join(factors)}
{rest}"""
    done = lab.run("run", lab.file(text), "--json")
    assert done.code == 0, done.err
    runs: list[dict[str, Any]] = done.json["runs"]
    return runs


def false_alarms(runs: list[dict[str, Any]]) -> list[str]:
    return [doubt for run in runs for doubt in run["doubtful_reasons"] if "counted" in doubt]


@contextlib.contextmanager
def nginx_stopped_repeatedly() -> Iterator[None]:
    """Stops the nginx of this test for 150 of each 180 ms, as a busy machine may do."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            workers = nginx_workers()
            for number, pause_s in ((signal.SIGSTOP, 0.15), (signal.SIGCONT, 0.03)):
                for worker in workers:
                    with contextlib.suppress(OSError):
                        os.kill(worker, number)
                time.sleep(pause_s)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def descendants(process: int) -> Iterator[int]:
    """The processes that a process started, and those that they started."""
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                yield child
                yield from descendants(child)


def nginx_workers() -> list[int]:
    """The nginx that this process started."""
    found = []
    for process in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process}/cmdline").read_text().startswith("nginx: worker"):
                found.append(process)
    return found


@pytest.mark.long
def test_requests_that_a_busy_nginx_has_not_accepted_are_not_counted_in_the_next_run(lab: Lab) -> None:
    """Its clients go after 3 ms; without the wait for rest, hundreds of their requests were counted too late."""
    with nginx_stopped_repeatedly():
        runs = without_proxy(lab, "nginx", only="closed timeouts cut closing")
    assert len(runs) == 4
    assert all(len(run["tiers"]) == 2 for run in runs)
    assert false_alarms(runs) == []


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("chain", CHAINS)
def test_no_false_alarm_behind_any_kind_of_service(lab: Lab, chain: str) -> None:
    lab.limit_s = 600
    runs = without_proxy(lab, chain, int(os.environ.get("PLIMSOLL_REPETITIONS", "2")))
    expected = 1 if chain in ("echo", "delay", "sqlite", "postgres-sql", "mariadb-sql") else 2
    assert all(len(run["tiers"]) >= expected for run in runs)
    differences = [tier for run in runs for tier in run["tiers"] if tier["difference"]]
    print(
        chain, len(runs), "runs,", sum(len(run["tiers"]) for run in runs), "tiers, differences:", differences
    )
    assert false_alarms(runs) == []
