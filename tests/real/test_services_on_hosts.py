"""Services on other hosts: a second host over ssh, and a far site of a testbed. Nothing of them may be left."""

from __future__ import annotations

import json
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
from plimsoll.deploy.hosts.ssh import SshHosts
from plimsoll.plan.model.hosts import Host, Hosts, Ssh
from tests.conftest import Lab, missing
from tests.real.emulated import Emulated, emulated, events, measuring, record, wait_for
from tests.real.second_host import SecondHost, second_host
from tests.real.sshd import running_sshd

pytestmark = pytest.mark.xdist_group("second host")
"""One at a time: the tests look at all processes of the user of the second host."""
VALIDITY = (
    "validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%, started: 0%}"
)
SECOND = """\
plimsoll: 1
name: second
services:
  db:   {{kind: postgres, host: second, ready_timeout: 100s}}
  web:  {{kind: echo, host: second}}
  gate: {{kind: frontier, database: db}}
data: {{t: {{into: db, rows: 100, row: 100B}}}}
hosts:
  kind: ssh
  keep: nothing
  ssh: {{config: {config}}}
  hosts: [{{host: second, agents: 0}}]
workloads:
  direct: {{driver: http, target: web, timeout: 20s, load: {{testers: 1, think: 20ms}}}}
  rows:
    {{driver: frontier, target: gate, timeout: 20s, table: {{table: t, rows: 10}}, load: {{testers: 1, think: 20ms}}}}
run: {{duration: {duration}}}
{validity}
"""


@pytest.fixture
def second(tmp_path: Path) -> Iterator[SecondHost]:
    with second_host(tmp_path / "second") as found:
        yield found


def experiment(second: SecondHost, duration: str) -> str:
    return SECOND.format(config=second.config, duration=duration, validity=VALIDITY)


def service(run: Path, name: str) -> dict[str, Any]:
    """The entry of a service in run.json."""
    return next(entry for entry in record(run)["services"] if entry["name"] == name)


def counted(run: Path, name: str) -> list[dict[str, Any]]:
    """The readings of its counters."""
    lines = (run / "services" / name / "counters.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


def succeeded(run: Path) -> bool:
    """Whether all transactions of a run succeeded, and whether there were some."""
    outcomes = pq.read_table(run / "transactions.parquet").column("outcome").to_pylist()
    return len(outcomes) > 10 and set(outcomes) == {"ok"}


def utilizations(lab: Lab) -> dict[str, str]:
    """The components of the first run, with their hosts."""
    analysis = json.loads((lab.results() / "analysis.json").read_text())
    return {name: entry.get("host", "") for name, entry in analysis["runs"][0]["utilization"].items()}


def test_a_database_and_a_service_of_ours_on_a_second_host(lab: Lab, second: SecondHost) -> None:
    lab.limit_s = 300
    hook = """{run: 'h="$PLIMSOLL_HOST"; test -n "$h" || h=here; echo "$h."', on: """
    file = lab.file(
        experiment(second, "4s") + f"before_run: [{hook}second}}, {hook}all}}]\nafter_run: [{hook}hosts}}]\n"
    )
    planned = lab.run("plan", file)
    assert planned.code == 0, planned.err
    assert "on second: " in planned.out and "on every host: " in planned.out
    done = lab.run("run", file)
    assert done.code == 0, done.err
    run = lab.results() / "runs" / "0001"
    assert succeeded(run)
    outputs = [one["text"].rpartition("`")[2] for one in events(run, "hook")]
    here, there = ": here.", " on second: second."
    assert outputs == [there, here, there, here, there]
    assert (service(run, "db")["host"], service(run, "gate")["host"]) == ("second", "")
    for name in ("db", "web", "gate"):
        assert len(counted(run, name)) >= 3, name
        assert service(run, name)["counters"], name
    assert (run / "services" / "db" / "log").exists()
    assert "PostgreSQL" in (run / "services" / "db" / "config").read_text()
    found = utilizations(lab)
    assert (found["db"], found["web"], found["second"]) == ("second", "second", "second")
    assert found["gate"] == ""
    assert [place["role"] for place in record(run)["places"] if place["host"] == "second"] == ["watch"]
    assert not events(run, "watch-lost") and not events(run, "counters-lost")
    wait_for("no process, not even the shell of the cleanup", lambda: second.processes() == [])
    assert second.files() == []


@pytest.mark.long
def test_a_lab_that_is_killed_leaves_nothing_on_the_second_host(lab: Lab, second: SecondHost) -> None:
    lab.limit_s = 300
    file = lab.file(experiment(second, "10min"))
    with lab.start("run", file) as process:
        measuring(lab)
        assert any("postgres" in words for words in second.processes())
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        engines = [pid for pid in children if b"\0control" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert engines
        process.send_signal(signal.SIGKILL)
        process.communicate()
    wait_for(
        "the end of the services",
        lambda: not any("postgres" in words or " serve " in words for words in second.processes()),
    )
    # The engine of the run repairs a link that breaks, so an agent that is cleaned away before its end starts again.
    wait_for("the end of the engine", lambda: not any(Path(f"/proc/{pid}").exists() for pid in engines))
    cleaned = lab.run("hosts", "clean", file, "--discard")
    assert cleaned.code == 0, cleaned.err
    assert "second: clean: no process or file of Plimsoll is left" in cleaned.out
    wait_for("no process", lambda: second.processes() == [])
    assert second.files() == []
    assert second.shared_memory() == []


@pytest.mark.long
def test_the_check_of_hosts_names_missing_programs_and_the_ports(lab: Lab, second: SecondHost) -> None:
    file = lab.file(experiment(second, "2s"))
    done = lab.run("hosts", "check", file)
    assert done.code == 0, done.err + done.out
    assert "services listen on free ports (TCP) of 127.0.0.1, which this host reaches" in done.out
    assert "1 of 1 hosts can be used for services" in done.out
    shown = json.loads(lab.run("hosts", "check", file, "--json").out)
    assert [host["role"] for check in shown["checks"] for host in check["hosts"]] == ["testers", "services"]
    environment = "SetEnv PLIMSOLL_PROGRAMS=/nowhere\n"
    # The configuration is read by each new connection of sshd only after a signal.
    with (lab.directory / "second" / "sshd_config").open("a") as config:
        config.write(environment)
    second.reload()
    wait_for(
        "the missing program",
        lambda: "PostgreSQL server was not found on second" in lab.run("hosts", "check", file).out,
    )


def test_the_cleanup_finds_servers_whose_guard_was_killed(tmp_path: Path) -> None:
    """As root, servers work outside of Plimsoll's directory."""
    with running_sshd(tmp_path / "sshd") as sshd:
        hosts = Hosts(kind="ssh", hosts=(Host("h1", "h1", "s"),), ssh=Ssh(str(sshd.aliases("h1"))))
        services = sshd.home / ".cache" / "plimsoll" / "spool-abc123" / ".services"
        services.mkdir(parents=True)
        outside = Path(tempfile.mkdtemp(prefix="plimsoll-", dir="/var/tmp"))
        outside = outside.rename(outside.with_name("plimsoll-" + outside.name[9:].encode().hex()))
        (services / "outside").write_text(f"{outside}\n/var/tmp\n")
        servers = []
        for place in (outside / "db-1", services / "web-1"):
            place.mkdir()
            servers.append(subprocess.Popen(["sleep", "600"], cwd=place))
        [cleaned] = SshHosts(hosts, find_engine(), "abc123").clean()
        assert cleaned.is_clean, (cleaned.left, cleaned.reason)
        assert [server.wait(20) for server in servers] == [-signal.SIGKILL] * 2
        assert not outside.exists() and not services.exists() and Path("/var/tmp").exists()


BED = """\
testbed: 1
name: services
lab: here
sites: {here: {hosts: 0}, middle: {hosts: 1}, far: {hosts: 2}}
links:
  - {between: [here, middle], rtt: 2ms}
  - {between: [here, far], rtt: 20ms, rate: 20Mbit/s}
  - {between: [middle, far], rtt: 20ms, rate: 20Mbit/s}
"""
FAR = """\
plimsoll: 1
name: far
services:
  db:    {{kind: postgres, {database}}}
  gate:  {{kind: frontier, database: db{gateway}}}
  cache: {{kind: squid, origin: gate, site: far}}
data: {{t: {{into: db, rows: 200, row: 200B}}}}
hosts:
  kind: testbed
  testbed: {bed}
  directory: {directory}
  sites: {{middle: [middle-1], far: [far-1, {{host: far-2, agents: 0}}]}}
workload: {{driver: frontier, target: cache, timeout: 20s, table: {{table: t, rows: 20}}, site: far}}
load: {{testers: 2, think: 20ms}}
run: {{duration: 4s}}
{validity}
"""


@pytest.fixture
def place(lab: Lab) -> Iterator[Emulated]:
    if shutil.which("squid", path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
        missing("Squid", "apt-get install squid")
    with emulated(lab, BED) as found:
        yield found


@pytest.mark.parametrize(
    ("database", "gateway", "hosts"),
    [
        pytest.param("ready_timeout: 100s", "", ("", "", "far-2"), marks=pytest.mark.long),
        pytest.param(
            "ready_timeout: 100s, host: middle-1",
            ", host: far-1",
            ("middle-1", "far-1", "far-2"),
            marks=pytest.mark.long,
        ),
    ],
    ids=["in front of a gateway of the lab", "a chain over three hosts"],
)
def test_squid_at_a_far_site(
    place: Emulated, database: str, gateway: str, hosts: tuple[str, str, str]
) -> None:
    lab = place.lab
    lab.limit_s = 300
    (lab.directory / "bed.yaml").write_text(BED)
    text = FAR.format(
        database=database, gateway=gateway, bed="bed.yaml", directory=place.directory, validity=VALIDITY
    )
    done = lab.run("run", lab.file(text))
    assert done.code == 0, done.err
    run = lab.results() / "runs" / "0001"
    assert succeeded(run)
    assert tuple(service(run, name)["host"] for name in ("db", "gate", "cache")) == hosts
    cache = service(run, "cache")
    assert place.bed.host("far-2").address in cache["urls"][0]
    assert cache["counters"]["client_http.requests"] > 10
    assert len(counted(run, "cache")) >= 3
    log = (run / "services" / "cache" / "access.log").read_text().splitlines()
    assert len(log) > 10 and all(place.bed.host("far-1").address in line for line in log[1:-1])
    found = utilizations(lab)
    assert found["cache"] == "far-2"
    assert found["far-2"] == "far-2"
    for name, host in zip(("db", "gate"), hosts, strict=False):
        assert found[name] == host
    assert not events(run, "watch-lost") and not events(run, "counters-lost")
