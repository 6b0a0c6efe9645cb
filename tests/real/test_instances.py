"""Several equal services behind one name: the client balances, or nginx does."""

from __future__ import annotations

import json
import shutil

from tests.conftest import Lab, missing

FILE = """
plimsoll: 1
name: instances
services:
  web:   {kind: echo, instances: 3}
  front: {kind: nginx, origin: web}
workload: {driver: http, target: web, timeout: 20s}
load: {testers: 2, think: 5ms}
factors: {workload.target: [web, front]}
design: {seed: 1, order: listed}
run: {duration: 1s, drain: 10s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}
actions: [{at: 500ms, restart: {service: web.2}}]
"""


def test_the_client_or_nginx_balances_over_the_instances(lab: Lab) -> None:
    if shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
        missing("nginx", "apt-get install nginx-light")
    path = lab.file(FILE.partition("actions")[0])
    done = lab.run("run", path, "--json")
    assert done.code == 0, done.err
    for run, through_front in zip(done.json["runs"], (False, True), strict=True):
        counted = {each["name"]: each["counters"] for each in run["services"]}
        through_web = [counted[f"web.{number}"]["received"] for number in (1, 2, 3)]
        started = run["counts"]["started"]
        assert counted["front"]["requests"] == through_front * started
        assert sum(through_web) == started, "no request is counted twice or lost"
        assert max(through_web) - min(through_web) <= 4, "round robin, one counter for each tester or worker"
    behind_nginx = [
        tier for run in done.json["runs"] for tier in run.get("tiers", ()) if tier["before"] == ["front"]
    ]
    assert [tier["service"] for tier in behind_nginx] == ["web.1, web.2 and web.3"]
    assert behind_nginx[0]["sent"] > 20 and behind_nginx[0]["difference"] == 0
    record = json.loads((lab.results() / "runs" / "0002" / "run.json").read_text())
    assert [each["name"] for each in record["services"]] == ["web.1", "web.2", "web.3", "front"]
    assert len({each["urls"][0] for each in record["services"]}) == 4
    assert (lab.results() / "runs" / "0001" / "services" / "web.3" / "log").exists()


def test_an_instance_is_restarted_while_the_others_serve(lab: Lab) -> None:
    done = lab.run("run", lab.file(FILE.replace("[web, front]", "[web]")), "--json")
    assert done.code in (0, 99), done.err
    (run,) = done.json["runs"]
    assert run["counts"]["succeeded"] > 20
    (action,) = run["actions"]["actions"]
    assert (action["service"], action["outcome"]) == ("web.2", "done"), action
