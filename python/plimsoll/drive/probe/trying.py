"""Tries the targets from the hosts of the testers, before the first run (`probe.trial` says what)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from plimsoll.deploy.hosts import Agent
from plimsoll.drive.carry_out import SilentListener, Watchman, carry_out
from plimsoll.drive.engine import EngineSession
from plimsoll.drive.probe.trial import Trial, failures, read, runs, trials
from plimsoll.drive.probe.wanted import excuse_here
from plimsoll.drive.tester_hosts import places_of, rules_of
from plimsoll.plan import PlannedRun, engine_document
from plimsoll.plan.hosts.spread import Place
from plimsoll.plan.model import Config

HERE = Place("local", "", "")


@dataclass(frozen=True, slots=True)
class TryResult:
    """Lines for the user. `fatal`: the experiment does not start; `warnings`: something else may start the target."""

    fatal: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def try_targets(
    planned: Iterable[PlannedRun],
    agents_of: Callable[[Config], list[Agent]],
    session: Callable[[], EngineSession],
    scratch: Path,
    watchman: Watchman,
) -> TryResult:
    """Every target of these runs, once from each host. Trials whose run did not end well say nothing: the
    runs will show what is wrong. Raises EngineError when the engine is gone."""
    found, tried = TryResult(), set[tuple[object, object]]()
    for run in {one.cell_index: one for one in planned}.values():
        wanted = [one for one in trials(run.config) if (run.config.hosts, one.visit) not in tried]
        tried.update((run.config.hosts, one.visit) for one in wanted)
        if not wanted:
            continue
        agents = agents_of(run.config)
        lines = _tried(run, wanted, agents, session, scratch, watchman)
        excuse = excuse_here(run.config)
        if excuse:
            found.warnings.extend(f"{line} (the experiment continues: {excuse})" for line in lines)
        else:
            found.fatal.extend(f"{line} (--no-probe starts anyway)" for line in lines)
    return found


def _tried(
    run: PlannedRun,
    wanted: Sequence[Trial],
    agents: Sequence[Agent],
    session: Callable[[], EngineSession],
    scratch: Path,
    watchman: Watchman,
) -> list[str]:
    places = places_of(agents)
    hosts = {one.name: one.host for one in places or ()}
    lines: list[str] = []
    for config, named in runs(run.config, wanted, places or (HERE,)):
        shutil.rmtree(scratch, ignore_errors=True)
        (scratch / "segments").mkdir(parents=True)
        document = engine_document(replace(run, config=config), {}, scratch.resolve(), "probe", agents=places)
        notes: list[str] = []

        def heard(t_s: float, kind: str, text: str, notes: list[str] = notes) -> None:
            if kind == "driver":
                notes.append(text)

        to_json = [one.to_json() for one in agents]
        end = carry_out(session(), document, watchman, SilentListener(), heard, to_json, rules_of(run.config))
        if end.status == "refused":
            lines.append(end.reason)
        elif (table := scratch / "transactions.parquet").exists():
            lines += failures(read(table, named), hosts, notes)
        shutil.rmtree(scratch, ignore_errors=True)
    return lines
