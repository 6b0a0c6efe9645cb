"""Fetches the data that agents have kept of runs that ended without them, because the link was down for too
long, or the agent or the controller died. The engine fetches and converts the data, and counts the totals of
the run again."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from plimsoll.deploy.hosts import Door
from plimsoll.drive.tester_hosts import TesterHosts
from plimsoll.plan import Plan
from plimsoll.plan.model.cell import Config

START: Final = Path("segments") / "start.json"
TIMEOUT_S: Final = 3600.0
"""The time for all segments of a run. They may be gigabytes over a slow link. The engine stops much earlier
if no data arrives."""


@dataclass(frozen=True, slots=True)
class FetchedRun:
    """One run. `transactions`: the number of its transactions after fetching; None if nothing could be
    fetched. `missing`: why agents returned no data, a line each."""

    run: str
    transactions: int | None
    missing: tuple[str, ...]


def outstanding_runs(directory: Path) -> dict[str, tuple[str, ...]]:
    """The runs of a results directory with data that may still be on other hosts, or is not converted yet.
    Maps each run to the names of its agents on other hosts."""
    agents_by_run = {}
    for path in sorted((directory / "runs").glob(f"*/{START}")):
        try:
            start = json.loads(path.read_text(encoding="utf-8"))
            agents = [str(agent["name"]) for agent in start["agents"] if not agent.get("same_clock", True)]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # `plimsoll check` reports the fault
        agents_by_run[path.parent.parent.name] = tuple(agents)
    return agents_by_run


def fetch_outstanding(
    plan: Plan, directory: Path, engine: Path, check_interrupt: Callable[[], None] = lambda: None
) -> list[FetchedRun]:
    """Fetches the data of all outstanding runs from their hosts. Raises AgentsLost if too few hosts answer,
    and EngineError if the engine on this host fails. Data that was fetched before the error is kept."""
    agents_by_run = outstanding_runs(directory)
    configs = {run.id: _over_ssh(run.config) for run in plan.listed}
    hosts = TesterHosts(engine, directory, check_interrupt)
    fetched = []
    try:
        needed = [configs[run] for run, agents in agents_by_run.items() if agents and run in configs]
        hosts.prepare(needed)
        hosts.lookouts.prepare(needed, is_required=False)
        hosts.service_hosts.prepare(needed, is_required=False)
        for run, names in agents_by_run.items():
            config = configs[run]
            watching = [*hosts.lookouts.agents(config), *hosts.service_hosts.agents(config)] if names else []
            agents = [*hosts.agents(config), *watching] if names else []
            described = [agent.to_json() for agent in agents if agent.name in names]
            described_names = {agent["name"] for agent in described}
            unreachable = [
                f"{name}: its host is left out, or its agent dialled in and has ended"
                for name in names
                if name not in described_names
            ]
            talk = hosts.session(configs.get(run) if names else None)
            fetched.append(_fetch_run(directory / "runs" / run, described, unreachable, talk))
            if run in outstanding_runs(directory) and not fetched[-1].missing:
                nothing = f"{', '.join(names)}: the agent with this name has no data of this run"
                fetched[-1] = replace(fetched[-1], missing=(nothing,))
    finally:
        hosts.clean()
    return fetched


def _over_ssh(config: Config) -> Config:
    """The run with `link: ssh`. Agents that dialled in had the key of an engine that has ended, so their data
    is fetched over ssh."""
    return replace(config, hosts=replace(config.hosts, link="ssh")) if config.hosts.dials_back else config


def _fetch_run(
    run: Path,
    agents: list[dict[str, Any]],
    unreachable: list[str],
    talking: AbstractContextManager[Door],
) -> FetchedRun:
    command = {"type": "collect", "directory": str(run.resolve()), "agents": agents}
    with talking as talk:
        for event in talk.ask(command, "", TIMEOUT_S):
            if event.get("type") == "collected":
                finished = event.get("finished")
                count = None if finished is None else int(finished["counters"]["started"])
                return FetchedRun(run.name, count, (*unreachable, *map(str, event.get("missing", ()))))
    raise AssertionError("ask ends by an event or an error")
