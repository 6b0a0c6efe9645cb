"""Tries the targets from the hosts of the testers, before the first run (`probe.trial` defines the
trials)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from plimsoll.deploy.hosts import Agent
from plimsoll.drive.carry_out import SilentListener, Watchman, carry_out
from plimsoll.drive.engine import EngineSession
from plimsoll.drive.probe.trial import Trial, failures, read_results, runs, trials
from plimsoll.drive.probe.wanted import excuse_here
from plimsoll.drive.tester_hosts import places_of, rules_of
from plimsoll.plan import PlannedRun, engine_document
from plimsoll.plan.hosts.spread import Place
from plimsoll.plan.model.cell import Config

HERE = Place("local", "", "")


@dataclass(frozen=True, slots=True)
class TryResult:
    """Lines for the user. `fatal`: the experiment does not start. `warnings`: the targets may still be
    started later."""

    fatal: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def try_targets(
    planned: Iterable[PlannedRun],
    agents_of: Callable[[Config], list[Agent]],
    session: Callable[[], EngineSession],
    scratch: Path,
    watchman: Watchman,
) -> TryResult:
    """Tries every target of these runs, once from each host. Trials whose run did not end well give no
    result: the experiment's runs will show the cause. Raises EngineError when the engine has ended."""
    result, tried = TryResult(), set[tuple[object, object]]()
    for run in {run.cell_index: run for run in planned}.values():
        pending = [trial for trial in trials(run.config) if (run.config.hosts, trial.visit) not in tried]
        tried.update((run.config.hosts, trial.visit) for trial in pending)
        if not pending:
            continue
        agents = agents_of(run.config)
        lines = _run_trials(run, pending, agents, session, scratch, watchman)
        excuse = excuse_here(run.config)
        if excuse:
            result.warnings.extend(f"{line} (the experiment continues: {excuse})" for line in lines)
        else:
            result.fatal.extend(f"{line} (--no-probe starts anyway)" for line in lines)
    return result


def _run_trials(
    run: PlannedRun,
    pending: Sequence[Trial],
    agents: Sequence[Agent],
    session: Callable[[], EngineSession],
    scratch: Path,
    watchman: Watchman,
) -> list[str]:
    places = places_of(agents)
    hosts = {place.name: place.host for place in places or ()}
    lines: list[str] = []
    for config, named in runs(run.config, pending, places or (HERE,)):
        shutil.rmtree(scratch, ignore_errors=True)
        (scratch / "segments").mkdir(parents=True)
        document = engine_document(replace(run, config=config), {}, scratch.resolve(), "probe", agents=places)
        notes: list[str] = []

        def log(t_s: float, kind: str, text: str, notes: list[str] = notes) -> None:
            if kind == "driver":
                notes.append(text)

        to_json = [agent.to_json() for agent in agents]
        end = carry_out(session(), document, watchman, SilentListener(), log, to_json, rules_of(run.config))
        if end.status == "refused":
            lines.append(end.reason)
        elif (table := scratch / "transactions.parquet").exists():
            lines += failures(read_results(table, named), hosts, notes)
        shutil.rmtree(scratch, ignore_errors=True)
    return lines
