"""Connections from several local addresses, as a real server sees them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Lab
from tests.real.dial_in import until

FILE = """
plimsoll: 1
name: sources
workload:
  driver: {driver}
  target: "{driver}://127.0.0.1:{port}"
  {driver}: {{connection: {connection}{sources}}}
load: {{testers: {testers}, think: 1ms}}
run: {{until: {{each_tester: 3}}, warmup: 0s}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}}
"""


@contextmanager
def peer_server(directory: Path, inside: Sequence[str] = ()) -> Iterator[tuple[Path, int]]:
    """A server in a process of its own; its file, and the id of the process."""
    file = directory / "peers.json"
    program = [*inside, sys.executable, "-m", "tests.real.peer_server", str(file)]
    with subprocess.Popen(program) as process:
        try:
            until("the server listens", file.exists)
            yield file, process.pid
        finally:
            process.terminate()


def figures(file: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return read


def experiment(driver: str, port: int, testers: int, sources: str = "", connection: str = "kept") -> str:
    listed = f", source_addresses: {sources}" if sources else ""
    return FILE.format(driver=driver, port=port, testers=testers, sources=listed, connection=connection)


@pytest.mark.parametrize("driver", ["http", "tcp"])
def test_the_server_gets_connections_from_every_address(
    lab: Lab, driver: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with peer_server(tmp_path_factory.mktemp("server")) as (file, _):
        port = figures(file)["port"]
        sources = "[127.0.0.2..127.0.0.4, 127.0.0.9]"
        done = lab.run("run", lab.file(experiment(driver, port, 4, sources, "per-request")))
        assert done.code == 0, done.err
        peers = figures(file)["peers"]
    # `run` itself visits the target once before the first run.
    assert peers.pop("127.0.0.1", 0) <= 1
    assert peers == {"127.0.0.2": 3, "127.0.0.3": 3, "127.0.0.4": 3, "127.0.0.9": 3}


def test_an_address_that_the_host_does_not_have_is_refused_before_the_load(
    lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with peer_server(tmp_path_factory.mktemp("server")) as (file, _):
        port = figures(file)["port"]
        done = lab.run("run", lab.file(experiment("tcp", port, 4, "[127.0.0.2, 203.0.113.7]")))
        assert done.code != 0
        assert "source_addresses: this host does not have the address 203.0.113.7" in done.err
        assert "127.0.0.2" not in figures(file)["peers"]


@pytest.mark.long
def test_more_connections_are_open_than_one_address_has_ports(
    lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In a network namespace, in which an address has 64 local ports."""
    rootless = [] if os.geteuid() == 0 else ["-r"]
    if subprocess.run(["unshare", "-n", *rootless, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this kernel refuses network namespaces (unshare -n)")
    ports = "/proc/sys/net/ipv4/ip_local_port_range"
    script = f'ip link set lo up && echo 40000 40063 > {ports} && exec "$@"'
    inside = ["unshare", "-n", *rootless, "sh", "-c", script, "sh"]
    with peer_server(tmp_path_factory.mktemp("server"), inside) as (file, pid):
        port = figures(file)["port"]
        user = [] if not rootless else ["-U", "--preserve-credentials"]
        within = Lab(lab.directory, ["nsenter", "-t", str(pid), "-n", *user])
        done = within.run("run", within.file(experiment("tcp", port, 200)))
        assert "no free local port" in done.out + done.err
        assert figures(file)["most_open"] <= 64

        done = within.run("run", within.file(experiment("tcp", port, 200, "127.0.0.2..127.0.0.9")))
        assert done.code == 0, done.err
        (run,) = within.run("show", within.results(), "--json").json["runs"]
        assert run["connections"]["opened"] == 200
        seen = figures(file)
        assert seen["most_open"] == 200
        assert [seen["peers"][f"127.0.0.{last}"] for last in range(2, 10)] == [25] * 8
