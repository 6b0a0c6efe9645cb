"""The machine and the hosts of an experiment, as tables of the set-up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from plimsoll.analyse.results.components.pool import PoolPath, PoolResult
from plimsoll.analyse.results.wording import count, quantity
from plimsoll.deploy.hosts.check import FIGURES
from plimsoll.plan.sections.baseline import shown_bits
from plimsoll.plan.source.units import about_size
from plimsoll.report.tables.table import Column, Table

HOSTS: Final = "hosts"
"""Key of environment.json for the results of the check before the first run."""
OPEN: Final = ("host", "cpu")
"""Groups of the environment that are always shown; the others are folded, each a table of its own."""


def tables_of(environment: Mapping[str, object]) -> tuple[list[tuple[str, str]], list[Table]]:
    """Rows about the machine that are always shown, and folded tables of the other groups. Hosts are not included."""
    shown: list[tuple[str, str]] = []
    folded: list[Table] = []
    for key, value in environment.items():
        if key == HOSTS:
            continue
        if not isinstance(value, Mapping):
            shown += flat({key: value})
        elif key in OPEN:
            shown += flat({name: item for name, item in value.items() if not isinstance(item, Mapping)}, key)
            inner = {name: item for name, item in value.items() if isinstance(item, Mapping)}
            folded += [pairs(f"{key} {name}", flat(item)) for name, item in inner.items()]
        else:
            folded.append(pairs(key, flat(value)))
    return shown, folded


def pairs(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    """A table of names and values."""
    spoken = title.replace("_", " ")
    return Table(spoken[:1].upper() + spoken[1:], (Column("What"), Column("Value")), tuple(rows))


def flat(tree: Mapping[str, object], head: str = "") -> list[tuple[str, str]]:
    """A nested mapping as pairs of a path in words and a text: ("cpu model", "Xeon")."""
    rows: list[tuple[str, str]] = []
    for key, value in tree.items():
        name = f"{head} {key}".strip()
        if isinstance(value, Mapping):
            rows += flat(value, name)
        elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
            rows += flat({str(index): item for index, item in enumerate(value, start=1)}, name)
        elif isinstance(value, list | tuple):
            rows.append((name, _joined(value)))
        elif isinstance(value, int) and not isinstance(value, bool) and name.endswith("bytes"):
            rows.append((name.removesuffix("bytes").rstrip("_ "), about_size(value)))
        elif value is not None:
            rows.append((name, ("yes" if value else "no") if isinstance(value, bool) else str(value)))
    return [(name.replace("_", " ") if "." not in name else name, value) for name, value in rows]


def _joined(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def hosts(environment: Mapping[str, object], pool: PoolResult | None = None) -> tuple[Table, ...]:
    """A table with a row for each host, without empty columns, and one with a row for each path of `pool`. Empty if the
    environment has no other hosts."""
    stored = environment.get(HOSTS)
    entries = (
        [entry for entry in stored if isinstance(entry, Mapping)] if isinstance(stored, list | tuple) else []
    )
    if not entries:
        return ()
    words = ("Host", "Site", "Role", "Kernel", "Architecture", "Engine", "Left out", "Remarks")
    figures = ("Cores", "Memory", "Open files", "Round trip", "Clock within")
    measured = tuple(title[:1].upper() + title[1:] for title, _ in FIGURES.values())
    columns = [Column(name) for name in words]
    columns += [Column(name, numeric=True) for name in (*figures, *measured, *NETWORK)]
    slowest = {} if pool is None else _slowest(pool)
    rows = [(*_host(entry), *_network(slowest.get(str(entry.get("name"))))) for entry in entries]
    filled = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    kept = tuple(tuple(row[index] for index in filled) for row in rows)
    note = "Measured before the first run. Round trip: the minimum of the probes."
    if slowest:
        note += f" {NETWORK_NOTE}"
    table = Table("Hosts", tuple(columns[index] for index in filled), kept, note)
    return (table,) if pool is None else (table, paths(pool))


NETWORK: Final = ("Path before", "Path after", "Throughput before", "Throughput after")
NETWORK_NOTE: Final = (
    "Path, throughput: round trip and TCP throughput in the slower direction on the slowest path of the host, before "
    "the first run and after the last one."
)


def _slowest(pool: PoolResult) -> dict[str, PoolPath]:
    """The path of each host with the smallest throughput before the first run, by the names of host and agent."""
    found: dict[str, PoolPath] = {}
    for path in sorted(pool.paths, key=lambda path: _slower(path, "before") or math.inf):
        found.setdefault(path.host, path)
        found.setdefault(path.agent, path)
    return found


def _slower(path: PoolPath, when: str) -> float | None:
    """The throughput in the slower direction."""
    both = [getattr(path, f"{way}_{when}_bytes_per_s") for way in ("send", "receive")]
    return None if None in both else min(both)


def _network(path: PoolPath | None) -> tuple[str, ...]:
    if path is None:
        return ("",) * len(NETWORK)
    trips = (path.rtt_before_ms, path.rtt_after_ms)
    rates = (_slower(path, "before"), _slower(path, "after"))
    return (
        *("" if trip is None else quantity(trip, "ms") for trip in trips),
        *("" if rate is None else shown_bits(rate) for rate in rates),
    )


def paths(pool: PoolResult) -> Table:
    """A row for each path of the testers' hosts, with its figures before the first run and after the last one."""
    rows = [
        (
            path.agent,
            path.site,
            path.to,
            f"worse: {', '.join(path.worse)}" if path.worse else path.error,
            *(
                "" if trip is None else quantity(trip, "ms")
                for trip in (path.rtt_before_ms, path.rtt_after_ms)
            ),
            *(
                "" if rate is None else shown_bits(rate)
                for rate in (
                    path.send_before_bytes_per_s,
                    path.send_after_bytes_per_s,
                    path.receive_before_bytes_per_s,
                    path.receive_after_bytes_per_s,
                )
            ),
        )
        for path in pool.paths
    ]
    heads = [f"{what} {when}" for what in ("Round trip", "Sends", "Receives") for when in ("before", "after")]
    columns = (
        *map(Column, ("Host", "Site", "To", "Remark")),
        *(Column(name, numeric=True) for name in heads),
    )
    note = (
        "Round trip: the minimum of TCP handshakes. Sends, receives: payload of a TCP connection from and to the host. "
        "An existing system receives no data, only handshakes."
    )
    return Table("Network of the hosts", columns, tuple(rows), note)


def _host(entry: Mapping[str, Any]) -> tuple[str, ...]:
    facts = entry.get("facts") or {}
    limits, rtt, clock = (facts.get(key) or {} for key in ("limits", "rtt_ns", "clock"))
    words = (
        *(str(entry.get(key) or "") for key in ("name", "site", "role")),
        *(str(facts.get(key) or "") for key in ("kernel", "architecture", "engine")),
        str(entry.get("reason") or ""),
        "; ".join(map(str, entry.get("remarks") or ())),
    )
    memory, files, trip, bound = (
        facts.get("memory_bytes"),
        limits.get("open_files"),
        rtt.get("min"),
        clock.get("bound_ns"),
    )
    figures = (
        str(facts.get("cores") or ""),
        about_size(memory) if memory else "",
        count(files) if files else "",
        quantity(trip / 1e6, "ms") if trip else "",
        "the same" if clock.get("same") else quantity(bound / 1e6, "ms") if bound else "",
    )
    measured = facts.get("baseline") or {}
    base = [show(float(measured[name])) if measured.get(name) else "" for name, (_, show) in FIGURES.items()]
    return (*words, *figures, *base)
