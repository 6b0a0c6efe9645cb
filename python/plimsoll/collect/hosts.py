"""The agents of a run, their hosts and their clocks, from `run.json`, `summary.json`, `clock.json` and
`probes.parquet`. Results of a single agent on this host, and old results, lack most of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from plimsoll.collect.baseline import Measurement
from plimsoll.collect.columns.parquet import numbered, numbers, row_groups
from plimsoll.collect.columns.transactions import Int
from plimsoll.collect.files import read_json
from plimsoll.collect.results import RunFiles
from plimsoll.errors import DamagedResults

TCP_RTT: Final = "tcp_rtt"
"""Name of the metric with the least round-trip time (s) of a tester's own connection."""
TCP_RETRANSMITS: Final = "tcp_retransmits"
START: Final = "start.json"
"""File in `segments/` that exists until all segments of the run have been fetched from other hosts and converted."""
TESTERS: Final = "testers"
"""Role of an agent that runs testers; other agents only monitor."""
WIRE: Final = 1514 / 1448
"""Bytes that an interface counts per byte of TCP payload, in full frames of Ethernet."""
MAX_CLOCK_BYTES: Final = 64 << 20
"""Limit of the size of a clock.json: 100,000 agents with one piece each need less."""
MAX_TRIPS: Final = 5_000_000
"""Maximum number of probes that are read; of more, evenly spaced ones. The median does not need all."""


class ClockPiece(BaseModel):
    """An interval of constant drift. `from_ns`, `to_ns` on the agent's clock; `offset_ns`: controller - agent at
    `from_ns`."""

    model_config = ConfigDict(frozen=True)
    from_ns: int
    to_ns: int
    offset_ns: int
    drift_ppm: float
    drift_low_ppm: float
    drift_high_ppm: float
    begins: str = "start"


class AgentClock(BaseModel):
    """An agent's clock relative to the controller's, from `clock.json`. `bound_ns`, `started_ns`: None if not known."""

    model_config = ConfigDict(frozen=True)
    same: bool = False
    pieces: tuple[ClockPiece, ...] = ()
    probes: NonNegativeInt = 0
    rejected: NonNegativeInt = 0
    rtt_min_ns: int | None = None
    rtt_median_ns: int | None = None
    bound_ns: NonNegativeInt | None = None
    started_ns: int | None = None
    steps: tuple[tuple[int, int], ...] = ()
    remark: str = ""


class _ClockMap(BaseModel):
    t0_ns: int
    agents: dict[str, AgentClock]


SAME: Final = AgentClock(same=True, bound_ns=0, started_ns=0)
"""The clock of an agent of a result without clock.json: the controller's own."""


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent of a run. `role`: `testers` or another purpose; `lost_ns`: when it was lost, ns from the run's zero;
    `rows`: number of its transactions on disk (None: the run keeps none); `clock` in ns; `trips`: round trips of its
    probes, ns; `via`: number of probes by path (`udp`, `link`); `reported_ns`: end of the last second that it
    reported (None: not recorded)."""

    name: str
    host: str
    site: str
    role: str
    lost: bool
    lost_ns: int | None
    rows: int | None
    clock: AgentClock
    trips: Int
    via: Mapping[str, int]
    reported_ns: int | None = None


@dataclass(frozen=True, slots=True)
class RunAgents:
    """All agents of a run, in the order of summary.json. `t0_ns`: the run's zero on the controller's clock;
    `live_started`: transactions that live.jsonl counts as started (None: no live.jsonl, or no agent was lost);
    `started`: those that summary.json counts; `outstanding`: whether segments of lost agents may still be on other
    hosts."""

    agents: tuple[Agent, ...]
    t0_ns: int
    live_started: int | None
    started: int
    outstanding: bool = False

    @property
    def several(self) -> bool:
        """Whether there is more than one agent, so that times of different clocks may be combined."""
        return len(self.agents) > 1


def read_agents(run: RunFiles) -> RunAgents:
    """The agents of a run that has a summary.json. Raises DamagedResults."""
    summary = run.summary or {}
    t0_ns, clocks = _clocks(run.path / "clock.json")
    entries = [agent for agent in summary.get("agents", ()) if isinstance(agent, dict)]
    locations = {str(location.get("agent")): location for location in run.record.get("places", ())}
    trips = _round_trips(run.path / "probes.parquet") if len(entries) > 1 else {}
    rows = _rows_of(summary)
    agents = []
    for agent in entries:
        name = str(agent.get("name", ""))
        location = locations.get(name, {})
        own_trips = trips.get(name, {})
        agents.append(
            Agent(
                name=name,
                host=_first_known(name, location.get("host"), agent.get("host")) or name,
                site=str(location.get("site") or agent.get("site") or "local"),
                role=str(location.get("role", TESTERS)),
                lost=bool(agent.get("lost")),
                lost_ns=_int_or_none(agent.get("lost_ns")),
                rows=None if rows is None else rows.get(name, 0),
                clock=clocks.get(name, AgentClock() if clocks else SAME),
                trips=np.concatenate([*own_trips.values(), np.empty(0, dtype=np.int64)]),
                via={
                    via: int(round_trips.size) for via, round_trips in own_trips.items() if round_trips.size
                },
                reported_ns=_int_or_none(agent.get("reported_ns")),
            )
        )
    started = int(summary.get("counters", {}).get("started", 0))
    live = _live_started(run) if any(agent.lost for agent in agents) else None
    return RunAgents(tuple(agents), t0_ns, live, started, (run.path / "segments" / START).exists())


def _first_known(name: str, *candidates: object) -> str:
    """The first candidate that is not empty and not the name of the agent: that name is a placeholder until the agent
    connects. Empty if there is none."""
    return next((str(candidate) for candidate in candidates if candidate and candidate != name), "")


def cores_of_hosts(environment: Mapping[str, Any]) -> dict[str, int]:
    """Number of cores by host; without the hosts whose number environment.json does not contain."""
    cores = {}
    for host in environment.get("hosts", ()):
        facts = host.get("facts") if isinstance(host, dict) else None
        if isinstance(facts, dict) and isinstance(facts.get("cores"), int) and facts["cores"] > 0:
            cores[str(host.get("name"))] = int(facts["cores"])
    return cores


@dataclass(frozen=True, slots=True)
class LinkCapacity:
    """Capacity of a host's network by direction, bytes/s on the wire. `is_measured`: it is the throughput of a path,
    which the capacity may exceed; otherwise the file declares it."""

    receive: float
    send: float
    is_measured: bool = False


def links_of_hosts(
    environment: Mapping[str, Any], measurements: Sequence[Measurement] = ()
) -> dict[str, LinkCapacity]:
    """Capacity of a host's network by host: as the file declares it, else as measured before the first run on the paths
    to the target; without hosts for which neither is known."""
    links = measured_links(measurements)
    for host in environment.get("hosts", ()):
        link = host.get("link_bytes_s")
        if isinstance(link, (int, float)) and link > 0:
            links[str(host.get("name"))] = LinkCapacity(float(link), float(link))
    return links


def measured_links(measurements: Sequence[Measurement]) -> dict[str, LinkCapacity]:
    """The greatest throughput of each host in each direction at the first measurement, with headers."""
    links: dict[str, LinkCapacity] = {}
    for host in measurements[0].hosts if measurements else ():
        paths = [path for path in host.paths if path.is_target]
        receive = max((path.receive_bytes_s or 0.0 for path in paths), default=0.0) * WIRE
        send = max((path.send_bytes_s or 0.0 for path in paths), default=0.0) * WIRE
        if receive > 0 and send > 0:
            known = links.get(host.host, LinkCapacity(0.0, 0.0))
            links[host.host] = LinkCapacity(
                max(known.receive, receive), max(known.send, send), is_measured=True
            )
    return links


def read_round_trips(path: Path, start_ns: int, end_ns: int) -> tuple[Int, NDArray[np.float64]]:
    """Testers, and the round-trip times (s) of their own connections, measured in [start_ns, end_ns): two arrays of
    equal length, empty if the driver reports no round-trip times. Raises DamagedResults."""
    testers, values = [np.empty(0, dtype=np.int64)], [np.empty(0)]
    if not path.exists():
        return testers[0], values[0]
    for table in row_groups(path, "plimsoll.metrics", ("tester", "start", "metric", "value")):
        names, number = numbered(table, "metric")
        if TCP_RTT not in names:
            continue
        start, value = numbers(table, "start"), numbers(table, "value")
        selected = (number == names.index(TCP_RTT)) & (start >= start_ns) & (start < end_ns)
        selected &= np.isfinite(value) & (value >= 0)
        testers.append(numbers(table, "tester")[selected].astype(np.int64))
        values.append(value[selected])
    return np.concatenate(testers), np.concatenate(values)


def owners(path: Path, testers: int) -> list[str]:
    """The name of the agent of each tester; empty for testers without transactions. Raises DamagedResults."""
    names_by_tester = [""] * testers
    for table in row_groups(path, "plimsoll.transactions", ("agent", "tester")):
        agents, number = numbered(table, "agent")
        pairs = np.unique(number * testers + numbers(table, "tester").astype(np.int64))
        for pair in pairs.tolist():
            names_by_tester[pair % testers] = agents[pair // testers]
    return names_by_tester


def _clocks(path: Path) -> tuple[int, Mapping[str, AgentClock]]:
    try:
        size = path.stat().st_size
    except OSError:
        return 0, {}
    if size > MAX_CLOCK_BYTES:
        raise DamagedResults(f"{path} has {size} bytes: too large for a clock map")
    try:
        read = _ClockMap.model_validate(read_json(path, "plimsoll.clock-map"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DamagedResults(f"{path}: {where}: {first['msg']}") from error
    return read.t0_ns, read.agents


def _round_trips(path: Path) -> dict[str, dict[str, Int]]:
    """Round trips (ns) by agent and path (`udp`, `link`). Probes with a negative round trip are left out."""
    if not path.exists():
        return {}
    every = max(1, -(-_row_count(path) // MAX_TRIPS))
    parts: dict[str, dict[str, list[Int]]] = {}
    columns = ("agent", "via", "sent", "heard", "answered", "received")
    for table in row_groups(path, "plimsoll.probes", columns):
        agents, agent = numbered(table, "agent")
        ways, way = numbered(table, "via")
        sent, heard, answered, received = (numbers(table, name) for name in columns[2:])
        trip = (received - sent) - (answered - heard)
        plausible = trip >= 0
        plausible[np.arange(trip.size) % every != 0] = False
        pair = agent * len(ways) + way
        for number in np.unique(pair[plausible]).tolist():
            name, via = agents[number // len(ways)], ways[number % len(ways)]
            parts.setdefault(name, {}).setdefault(via, []).append(trip[plausible & (pair == number)])
    return {
        name: {via: np.concatenate(parts_of_way) for via, parts_of_way in ways_of.items()}
        for name, ways_of in parts.items()
    }


def _row_count(path: Path) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException) as error:
        raise DamagedResults(f"{path} cannot be read: {error}") from error


def _rows_of(summary: Mapping[str, Any]) -> dict[str, int] | None:
    """Rows of transactions by agent, from the segments in the Parquet file; None if the run keeps none."""
    if summary.get("keep") == "summaries":
        return None
    rows: dict[str, int] = {}
    for agent in summary.get("agents", ()):
        # The counts of a lost agent are those of its rows. The counts of the others have been compared with their rows.
        rows[str(agent.get("name"))] = int(agent.get("books", {}).get("counters", {}).get("started", 0))
    return rows


def _live_started(run: RunFiles) -> int | None:
    lines = run.live
    return sum(int(line.get("counters", {}).get("started", 0)) for line in lines) if lines else None


def _int_or_none(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
