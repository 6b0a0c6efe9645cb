"""Requests that real services count, against those that the testers sent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Done, Lab
from tests.real.test_services import needs

PROXY = Path(__file__).with_name("proxy.py")
REST = """
load: {testers: 4, think: 1ms}
design: {seed: 1, order: listed}
run: {warmup: 200ms, duration: 1200ms, drain: 2s}
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
{REST}"""
    if is_target:
        text = text.replace("targets: {site: {endpoints: [web], proxies: [between]}}\n", "")
    return lab.run("run", lab.file(text), "--json")


@pytest.mark.parametrize("is_target", [True, False])
def test_a_proxy_that_sends_every_20th_request_twice(lab: Lab, is_target: bool) -> None:
    done = behind_proxy(lab, '"--twice", "0.05"', is_target=is_target)
    assert done.code == 0, done.err
    [tier] = tiers(done)
    assert (tier["service"], tier["before"], tier["through"]) == ("web", ["testers"], ["between"])
    assert tier["sent"] > 500
    assert tier["share"] == pytest.approx(0.05, abs=0.01)
    [doubt] = done.json["runs"][0]["doubtful_reasons"]
    assert "more requests than the testers sent" in doubt
    assert "a proxy or retries in between" in doubt
    assert any("web counted" in sentence for sentence in done.json["answer"])


def test_a_proxy_that_swallows_three_percent_before_nginx(lab: Lab) -> None:
    needs("nginx")
    done = behind_proxy(lab, '"--swallow", "0.03", "--seed", "7"', kind="nginx")
    assert done.code == 0, done.err
    origin, tier = tiers(done)
    assert (origin["before"], origin["difference"]) == (["web"], 0)
    assert tier["share"] == pytest.approx(-0.03, abs=0.015)
    [doubt] = done.json["runs"][0]["doubtful_reasons"]
    assert "fewer requests than the testers sent" in doubt


def test_a_proxy_that_sends_each_request_once_raises_no_doubt(lab: Lab) -> None:
    done = behind_proxy(lab, '"--seed", "1"')
    [tier] = tiers(done)
    assert (tier["difference"], done.json["runs"][0]["doubtful_reasons"]) == (0, [])
