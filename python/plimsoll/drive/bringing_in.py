"""What agents have kept of runs that ended without them, brought into the results: the link was cut for too long, the
agent or the controller died. The engine fetches, converts, and closes the books of the run anew."""

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
from plimsoll.plan.model import Config

START: Final = Path("segments") / "start.json"
TIMEOUT_S: Final = 3600.0
"""For all segments of a run: they may be gigabytes over a slow link. The engine stops much earlier
if no data arrives."""


@dataclass(frozen=True, slots=True)
class BroughtIn:
    """One run. `transactions`: that its books hold now, None where nothing could be had; `missing`: why agents gave
    nothing, a line each."""

    run: str
    transactions: int | None
    missing: tuple[str, ...]


def outstanding(directory: Path) -> dict[str, tuple[str, ...]]:
    """Runs of a results directory of which something may still be elsewhere, or is not yet converted: names of the
    agents on other hosts, by run."""
    found = {}
    for path in sorted((directory / "runs").glob(f"*/{START}")):
        try:
            start = json.loads(path.read_text(encoding="utf-8"))
            agents = [str(one["name"]) for one in start["agents"] if not one.get("same_clock", True)]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # `plimsoll check` says what is wrong with it
        found[path.parent.parent.name] = tuple(agents)
    return found


def bring_in(
    plan: Plan, directory: Path, engine: Path, check_interrupt: Callable[[], None] = lambda: None
) -> list[BroughtIn]:
    """Asks the hosts of every run that is outstanding. Raises AgentsLost where too few of them answer, EngineError
    where this host's engine fails; what was brought in until then stays."""
    wanted = outstanding(directory)
    configs = {run.id: _over_ssh(run.config) for run in plan.runs}
    crew = TesterHosts(engine, directory, check_interrupt)
    done = []
    try:
        asked = [configs[run] for run, agents in wanted.items() if agents and run in configs]
        crew.muster(asked)
        crew.lookouts.muster(asked, insist=False)
        for run, names in wanted.items():
            config = configs[run]
            agents = [*crew.agents(config), *crew.lookouts.agents(config)] if names else []
            described = [one.to_json() for one in agents if one.name in names]
            there = {one["name"] for one in described}
            gone = [
                f"{name}: its host is left out, or its agent dialled in and has ended"
                for name in names
                if name not in there
            ]
            talk = crew.talk(configs.get(run) if names else None)
            done.append(_one(directory / "runs" / run, described, gone, talk))
            if run in outstanding(directory) and not done[-1].missing:
                nothing = f"{', '.join(names)}: the agent with this name has no data of this run"
                done[-1] = replace(done[-1], missing=(nothing,))
    finally:
        crew.clean()
    return done


def _over_ssh(config: Config) -> Config:
    """Agents that dialled in had the key of an engine that has ended; their data is fetched over
    ssh."""
    return replace(config, hosts=replace(config.hosts, link="ssh")) if config.hosts.dials_back else config


def _one(
    run: Path,
    agents: list[dict[str, Any]],
    gone: list[str],
    talking: AbstractContextManager[Door],
) -> BroughtIn:
    command = {"type": "collect", "directory": str(run.resolve()), "agents": agents}
    with talking as talk:
        for event in talk.ask(command, "", TIMEOUT_S):
            if event.get("type") == "collected":
                finished = event.get("finished")
                count = None if finished is None else int(finished["counters"]["started"])
                return BroughtIn(run.name, count, (*gone, *map(str, event.get("missing", ()))))
    raise AssertionError("ask ends by an event or an error")
