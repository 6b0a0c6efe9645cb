"""Measures network paths from hosts: agents connect to sinks of the engine, which discard bytes or send them."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from plimsoll.deploy.hosts import Agent, Door
from plimsoll.deploy.ports import netloc, numeric_address
from plimsoll.deploy.process import Program
from plimsoll.deploy.service_hosts import ServiceHost
from plimsoll.deploy.service_hosts.local import LocalServiceHost
from plimsoll.errors import BadInput, Problem, ServiceError
from plimsoll.plan.sections.baseline import HANDSHAKES, LAB, SYSTEM_HANDSHAKES, TRANSFER, PathEnd, PathFigures

START_S: Final = 20.0
"""The time for a sink to listen."""
AGENT_S: Final = 90.0
"""The maximum time for an agent to start."""
PATH_S: Final = 70.0
"""The maximum time for a path: the name, the handshakes and the transfers."""


@dataclass(frozen=True, slots=True)
class MeasuredAgent:
    """The paths from the host of an agent. `error`: why there are none; empty if the agent is available."""

    paths: tuple[PathFigures, ...] = ()
    error: str = ""


def measure_paths(
    door: Door, agents: Sequence[Agent], ends: Mapping[str, Sequence[PathEnd]], addresses: Mapping[str, str]
) -> dict[str, MeasuredAgent]:
    """Measures the paths of each agent, one agent after the other. `ends`: by the name of the agent; `addresses`: of
    the sinks, by the name of the end. Raises EngineError if the engine fails."""
    wanted = {
        agent.name: [_spec(end, addresses) for end in ends[agent.name] if _address(end, addresses)]
        for agent in agents
    }
    command = {"type": "measure-paths", "agents": [agent.to_json() for agent in agents], "paths": wanted}
    timeout_s = AGENT_S + PATH_S * sum(map(len, wanted.values()))
    measured: dict[str, MeasuredAgent] = {}
    for event in door.ask(command, "paths-measured", timeout_s):
        if event.get("type") == "paths":
            name = str(event["name"])
            targets = {end.name: end.is_target for end in ends[name]}
            paths = tuple(_figures(report, targets) for report in event["paths"])
            measured[name] = MeasuredAgent(paths, str(event.get("error") or ""))
    return measured


def _address(end: PathEnd, addresses: Mapping[str, str]) -> str:
    return end.address or addresses.get(end.name, "")


def _spec(end: PathEnd, addresses: Mapping[str, str]) -> dict[str, Any]:
    return {
        "to": end.name,
        "address": _address(end, addresses),
        "handshakes": HANDSHAKES if end.has_transfer else SYSTEM_HANDSHAKES,
        "transfer": dict(TRANSFER) if end.has_transfer else None,
    }


def _figures(report: Mapping[str, Any], targets: Mapping[str, bool]) -> PathFigures:
    rtt = report.get("rtt_ns") or {}
    return PathFigures(
        to=str(report["to"]),
        is_target=targets[str(report["to"])],
        rtt_min_ns=rtt.get("min"),
        rtt_median_ns=rtt.get("median"),
        send_bytes_s=report.get("send_bytes_s"),
        receive_bytes_s=report.get("receive_bytes_s"),
        error=str(report.get("error") or ""),
    )


@contextlib.contextmanager
def lab_sink(
    engine: Path,
    work: Path,
    address: str,
    ports: tuple[int, int] | None,
    check_interrupt: Callable[[], None] = lambda: None,
) -> Iterator[str]:
    """A sink on this host, as `sink`. `work`: a directory for its log. `ports`: the first and the last port that may be
    used. Raises BadInput if none of them is free."""
    numeric = numeric_address(address)
    host = LocalServiceHost(engine, work, numeric)
    try:
        port = None if ports is None else _port_of_range(numeric, ports)
        with sink(host, numeric, numeric, check_interrupt, port) as reached:
            yield reached
    finally:
        host.close()


@contextlib.contextmanager
def sink(
    host: ServiceHost,
    listen: str,
    reach: str,
    check_interrupt: Callable[[], None] = lambda: None,
    port: int | None = None,
) -> Iterator[str]:
    """A sink that runs inside the `with` block; yields "ADDRESS:PORT", in numbers. `listen`: on which address of the
    host; `reach`: the address at which the hosts of testers reach it. Raises ServiceError."""
    number = port or host.free_port(address=listen)
    directory = host.create_workplace("sink", None)[0]
    log = directory / "log"
    command: list[str | PurePath] = [host.engine, "serve", "sink", "--listen", netloc(listen, number)]
    process = host.start(Program("sink", command, log))
    try:
        deadline = time.monotonic() + START_S
        while not _listens(host, log):
            check_interrupt()
            if process.has_ended():
                raise ServiceError(process.end_message())
            if time.monotonic() > deadline:
                raise ServiceError(f"the sink on {host.name or LAB} did not listen within {START_S:.0f} s")
            time.sleep(0.02)
        yield netloc(reach, number)
    finally:
        process.stop()
        host.remove(directory)


def _listens(host: ServiceHost, log: PurePath) -> bool:
    """Whether the sink has printed its address."""
    with contextlib.suppress(OSError, ValueError):
        return any("listening" in json.loads(line) for line in host.read(log).splitlines())
    return False


def _port_of_range(address: str, ports: tuple[int, int]) -> int:
    why = ""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for port in range(ports[0], ports[1] + 1):
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                why = error.strerror or str(error)
                continue
            return port
    raise BadInput(
        [Problem(f"cannot listen on {address} for the baseline: {why}; add ports", "hosts.controller.ports")]
    )
