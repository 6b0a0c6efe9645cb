"""The agents of a run, where they were and what is known of their clocks, from `run.json`, `summary.json`, `clock.json`
and `probes.parquet`. Results of one agent on this host, and old ones, lack most of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from plimsoll.collect.parquet import numbered, numbers, row_groups
from plimsoll.collect.results import RunFiles, read_json
from plimsoll.collect.transactions import Int
from plimsoll.errors import DamagedResults

TCP_RTT: Final = "tcp_rtt"
TCP_RETRANSMITS: Final = "tcp_retransmits"
"""Name of the metric with the least round-trip time (s) of a tester's own connection."""
START: Final = "start.json"
"""In `segments/` as long as something of the run may still be on other hosts, or is not yet converted."""
TESTERS: Final = "testers"
"""Role of an agent that runs testers; other agents only watch."""
MAX_CLOCK_BYTES: Final = 64 << 20
"""Bytes of a clock.json: 100,000 agents of one piece each have less."""
MAX_TRIPS: Final = 5_000_000
"""Probes that are looked at; of more, evenly spaced ones. Their median does not need all."""


class ClockPiece(BaseModel):
    """A stretch of one drift. `from_ns`, `to_ns` on the agent's clock; `offset_ns`: controller - agent at `from_ns`."""

    model_config = ConfigDict(frozen=True)
    from_ns: int
    to_ns: int
    offset_ns: int
    drift_ppm: float
    drift_low_ppm: float
    drift_high_ppm: float
    begins: str = "start"


class AgentClock(BaseModel):
    """An agent's clock against the controller's: `clock.json`. `bound_ns`, `started_ns` None: nothing is known."""

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
    """An agent of a run. `role`: `testers`, or what else it was there for; `lost_ns`: when it was lost, ns from the
    run's zero; `rows`: transactions of it that are on disk (None: none are kept of any); `clock` in ns, `trips`: round
    trips of its probes, ns; `via`: probes by the way they took (`udp`, `link`); `reported_ns`: end of the last second
    that it reported (None: not recorded)."""

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
    """All agents of a run, in the order of its books. `t0_ns`: the run's zero on the controller's clock;
    `live_started`: transactions that the live view counted as started (None: no live.jsonl, or nothing was lost);
    `started`: those in the books; `outstanding`: whether segments of lost agents may still be elsewhere."""

    agents: tuple[Agent, ...]
    t0_ns: int
    live_started: int | None
    started: int
    outstanding: bool = False

    @property
    def several(self) -> bool:
        """Whether there is more than one, so that times of different clocks may meet."""
        return len(self.agents) > 1


def read_agents(run: RunFiles) -> RunAgents:
    """The agents of a run that has closed its books. Raises DamagedResults."""
    summary = run.summary or {}
    t0_ns, clocks = _clocks(run.path / "clock.json")
    told = [agent for agent in summary.get("agents", ()) if isinstance(agent, dict)]
    places = {str(place.get("agent")): place for place in run.record.get("places", ())}
    trips = _trips(run.path / "probes.parquet") if len(told) > 1 else {}
    rows = _rows_of(summary)
    agents = []
    for agent in told:
        name = str(agent.get("name", ""))
        place = places.get(name, {})
        mine = trips.get(name, {})
        agents.append(
            Agent(
                name=name,
                host=_place(name, place.get("host"), agent.get("host")) or name,
                site=str(place.get("site") or agent.get("site") or "local"),
                role=str(place.get("role", TESTERS)),
                lost=bool(agent.get("lost")),
                lost_ns=_whole(agent.get("lost_ns")),
                rows=None if rows is None else rows.get(name, 0),
                clock=clocks.get(name, AgentClock() if clocks else SAME),
                trips=np.concatenate([*mine.values(), np.empty(0, dtype=np.int64)]),
                via={via: int(each.size) for via, each in mine.items() if each.size},
                reported_ns=_whole(agent.get("reported_ns")),
            )
        )
    started = int(summary.get("counters", {}).get("started", 0))
    live = _live_started(run) if any(agent.lost for agent in agents) else None
    return RunAgents(tuple(agents), t0_ns, live, started, (run.path / "segments" / START).exists())


def _place(name: str, *told: object) -> str:
    """The first entry that contains more than the name of the agent, which is a placeholder until
    the agent connects."""
    return next((str(one) for one in told if one and one != name), "")


def cores_of_hosts(environment: Mapping[str, Any]) -> dict[str, int]:
    """Number of cores by host, as far as environment.json tells it."""
    found = {}
    for host in environment.get("hosts", ()):
        facts = host.get("facts") if isinstance(host, dict) else None
        if isinstance(facts, dict) and isinstance(facts.get("cores"), int) and facts["cores"] > 0:
            found[str(host.get("name"))] = int(facts["cores"])
    return found


def links_of_hosts(environment: Mapping[str, Any]) -> dict[str, float]:
    """What the network of a host can carry, bytes/s each way, by host, where the file has said it."""
    told = ((one.get("name"), one.get("link_bytes_s")) for one in environment.get("hosts", ()))
    return {str(name): float(link) for name, link in told if isinstance(link, (int, float)) and link > 0}


def read_round_trips(path: Path, start_ns: int, end_ns: int) -> tuple[Int, NDArray[np.float64]]:
    """Testers, and round-trip times (s) of their own connections, measured in [start_ns, end_ns); nothing where the
    driver gave none. Raises DamagedResults."""
    testers, values = [np.empty(0, dtype=np.int64)], [np.empty(0)]
    if not path.exists():
        return testers[0], values[0]
    for table in row_groups(path, "plimsoll.metrics", ("tester", "start", "metric", "value")):
        names, number = numbered(table, "metric")
        if TCP_RTT not in names:
            continue
        start, value = numbers(table, "start"), numbers(table, "value")
        mine = (number == names.index(TCP_RTT)) & (start >= start_ns) & (start < end_ns)
        mine &= np.isfinite(value) & (value >= 0)
        testers.append(numbers(table, "tester")[mine].astype(np.int64))
        values.append(value[mine])
    return np.concatenate(testers), np.concatenate(values)


def owners(path: Path, testers: int) -> list[str]:
    """The name of the agent of each tester; empty for numbers that made no transaction. Raises
    DamagedResults."""
    found = [""] * testers
    for table in row_groups(path, "plimsoll.transactions", ("agent", "tester")):
        names, number = numbered(table, "agent")
        pairs = np.unique(number * testers + numbers(table, "tester").astype(np.int64))
        for pair in pairs.tolist():
            found[pair % testers] = names[pair // testers]
    return found


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


def _trips(path: Path) -> dict[str, dict[str, Int]]:
    """Round trips (ns) by agent and way; a pair of stamps that cannot be true is left out."""
    if not path.exists():
        return {}
    every = max(1, -(-_count(path) // MAX_TRIPS))
    parts: dict[str, dict[str, list[Int]]] = {}
    columns = ("agent", "via", "sent", "heard", "answered", "received")
    for table in row_groups(path, "plimsoll.probes", columns):
        agents, agent = numbered(table, "agent")
        ways, way = numbered(table, "via")
        sent, heard, answered, received = (numbers(table, name) for name in columns[2:])
        trip = (received - sent) - (answered - heard)
        true = trip >= 0
        true[np.arange(trip.size) % every != 0] = False
        pair = agent * len(ways) + way
        for number in np.unique(pair[true]).tolist():
            name, via = agents[number // len(ways)], ways[number % len(ways)]
            parts.setdefault(name, {}).setdefault(via, []).append(trip[true & (pair == number)])
    return {
        name: {via: np.concatenate(found) for via, found in ways_of.items()}
        for name, ways_of in parts.items()
    }


def _count(path: Path) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException) as error:
        raise DamagedResults(f"{path} cannot be read: {error}") from error


def _rows_of(summary: Mapping[str, Any]) -> dict[str, int] | None:
    """Rows of transactions by agent, from the segments that the Parquet file holds; None where none are kept."""
    if summary.get("keep") == "summaries":
        return None
    found: dict[str, int] = {}
    for agent in summary.get("agents", ()):
        # The books of a lost agent are what its rows say; those of the others have been held against theirs.
        found[str(agent.get("name"))] = int(agent.get("books", {}).get("counters", {}).get("started", 0))
    return found


def _live_started(run: RunFiles) -> int | None:
    lines = run.live
    return sum(int(line.get("counters", {}).get("started", 0)) for line in lines) if lines else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
