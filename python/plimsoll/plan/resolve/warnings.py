"""Warnings about valid settings of an experiment file that are probably a mistake. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from plimsoll.plan.drivers.source_addresses import KEY, peer_address, source_addresses_of
from plimsoll.plan.drivers.table import DRIVERS
from plimsoll.plan.hosts.spread import slots_of
from plimsoll.plan.model.cell import Cell, Config, RampLoad, Workload
from plimsoll.plan.source.units import show_duration
from plimsoll.plan.tester_time import joined_by, last_join_ns

TABLES: Final = (".csv", ".tsv")
LOCAL_PORTS: Final = 28_232
"""The number of ports of Linux's default net.ipv4.ip_local_port_range."""
MANY_PORTS: Final = LOCAL_PORTS // 2
"""Connections above which a free port is found slowly: the kernel tries the ports of one parity first."""


def unused_targets(tree: Mapping[str, Any], cells: Iterable[Cell]) -> tuple[str, ...]:
    """A warning for each target that no workload of any cell uses."""
    written = tree.get("targets")
    if not isinstance(written, Mapping):
        return ()
    used = {work.target.name for cell in cells for work in cell.config.workloads}
    return tuple(f"targets.{name}: no workload uses this target" for name in written if name not in used)


def header_as_value(name: str, file: str, items: Sequence[str]) -> tuple[str, ...]:
    """A warning if the first line of a file of values seems to be a header, which would be sent as a value."""
    if not file.lower().endswith(TABLES) or len(items) < 2:
        return ()
    first, rest = items[0], items[1:]
    columns = any(mark in first for mark in ",;\t")
    words = not _has_digit(first) and sum(map(_has_digit, rest)) * 2 > len(rest)
    if not (columns or words or first.strip(' "').lower() == name.lower()):
        return ()
    columns_note = ", and each line is one value that includes all its columns" if columns else ""
    return (
        f'values.{name}: the first line of {file}, "{first[:60]}", is used as a value{columns_note}: '
        "a file of values has no header line",
    )


def many_ports(configs: Iterable[Config]) -> tuple[str, ...]:
    """A warning for each workload whose connections use most local ports of a host."""
    warnings = {}
    for config in configs:
        hosts = max(1, len(config.hosts.hosts), config.hosts.expected or 0)
        for work in config.workloads:
            pairs = _address_pairs(work)
            if not pairs:
                continue
            connections = slots_of(work.load) / hosts / pairs
            if connections > MANY_PORTS:
                warnings[work.name] = (
                    f"{work.name}: up to {connections:,.0f} connections {_between(work)}. A host has about "
                    f"{LOCAL_PORTS:,} local ports for them, and connects become slow or fail above "
                    f"{MANY_PORTS:,}: {_more_ports(work)}use more hosts or more addresses of the target, or widen "
                    "net.ipv4.ip_local_port_range"
                )
    return tuple(warnings.values())


def _address_pairs(work: Workload) -> int:
    """The number of pairs of a local address and an address of the target: each pair has all local ports. For an
    endpoint whose address is not known, the more frequent family of the local addresses counts."""
    sources = Counter(source.version for source in source_addresses_of(work.settings))
    if not sources:
        return len(work.target.endpoints)
    peers = [peer_address(endpoint.url) for endpoint in work.target.endpoints]
    return sum(max(sources.values()) if peer is None else sources[peer.version] for peer in peers)


def _between(work: Workload) -> str:
    if KEY in work.settings:
        return "from one of the source_addresses of a host to one address"
    return "from one host to one address"


def _more_ports(work: Workload) -> str:
    if KEY in work.settings:
        return f"add addresses to {work.driver}.{KEY}, "
    if KEY in DRIVERS[work.driver].shared_keys:
        return f"list several local addresses in {work.driver}.{KEY}, "
    return ""


def ramps(configs: Iterable[Config]) -> tuple[str, ...]:
    """Warnings about ramps: testers that never join, and testers with a single slot."""
    found: dict[str, None] = {}
    for config in configs:
        for work in config.workloads:
            load, end = work.load, config.run.end_ns
            if not isinstance(load, RampLoad):
                continue
            if end is not None and (joined := joined_by(load, end)) < load.testers:
                found[
                    f"{work.name}: {load.testers - joined:,} of {load.testers:,} testers never join: the run ends "
                    f"after {show_duration(end)}, and the last tester joins at {show_duration(last_join_ns(load))}: "
                    "give a longer run.duration, fewer testers or a shorter interval"
                ] = None
            if load.slots is not None and load.life_ns is not None and load.life_ns <= load.slots.every_ns:
                found[
                    f"{work.name}: each tester starts one request: its life of {show_duration(load.life_ns)} is not "
                    f"longer than its interval of {show_duration(load.slots.every_ns)}"
                ] = None
    return tuple(found)


def lost_replicas(configs: Iterable[Config]) -> tuple[str, ...]:
    """A warning for each action that ends a synchronous replica for the rest of the run."""
    found: dict[str, None] = {}
    for config in configs:
        last = {action.service: action for action in config.actions if action.kind in ("kill", "restart")}
        for service in config.services:
            action = last.get(service.name)
            if action is None or action.kind == "restart" or not service.settings.get("synchronous"):
                continue
            found[
                f"actions: {service.name} is not restarted after {show_duration(action.at_ns)}: every commit of "
                f"{service.settings['replica_of']} then waits for this synchronous replica, until the `timeout` of its "
                "request"
            ] = None
    return tuple(found)


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in text)
