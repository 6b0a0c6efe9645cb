"""An experiment: every run of a plan, in order, into a results directory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from plimsoll.deploy.binary import engine_version, require_same_version
from plimsoll.deploy.environment import host_facts
from plimsoll.deploy.hosts import Agent
from plimsoll.deploy.hosts.dial_in import Lab
from plimsoll.deploy.limits import limited_resources, prove_here, require_limits
from plimsoll.deploy.perf.permission import perf_problem, profiled_hosts
from plimsoll.deploy.ports import LOOPBACK
from plimsoll.deploy.programs import HERE
from plimsoll.deploy.services import RunningServices
from plimsoll.deploy.testbed.inside import outer_process
from plimsoll.drive import registry
from plimsoll.drive.baseline import NetworkBaseline
from plimsoll.drive.carry_out import Listener, RunEnd
from plimsoll.drive.directory import ENVIRONMENT, EventLog, ResultsDirectory, write_json, write_text
from plimsoll.drive.lookouts import agents_of_run
from plimsoll.drive.probe.trying import try_targets
from plimsoll.drive.resources import WORK, Engine, Resources
from plimsoll.drive.run.execution import RunExecution, now
from plimsoll.drive.run.watching import check_watched
from plimsoll.drive.stop import StopRequest
from plimsoll.drive.tester_hosts import TesterHosts
from plimsoll.errors import (
    AgentsLost,
    BadInput,
    EngineError,
    PlimsollError,
    Problem,
    ServiceError,
    UserInterrupt,
)
from plimsoll.plan import Plan, PlannedRun
from plimsoll.plan.hosts.files import files_of
from plimsoll.plan.model.cell import Config, WatchedSystem
from plimsoll.plan.source.secret import shown_words

SPARE_BYTES = 64 * 1000 * 1000
"""Free disk space that is required beyond the estimate of the plan."""
MAX_FAILED_RUNS = 2
"""Consecutive runs that measured nothing, after which the experiment ends: the cause is the same for all."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an experiment ended. `not_done` runs are carried out by `--resume`."""

    directory: Path
    done: int
    not_done: int
    interrupted: bool
    agents_lost: bool
    stopped_early: tuple[str, ...]
    """Runs that ended otherwise than planned, a line each."""


class RunSource(Protocol):
    """The runs of an experiment, one after the other."""

    def next_run(self) -> PlannedRun | None:
        """The next run, after all runs before it were stored; None at the end."""

    def left(self) -> int:
        """Number of runs that are still to come, at most."""


class ListedRuns:
    """Runs that are known in advance."""

    def __init__(self, runs: Sequence[PlannedRun]) -> None:
        self._runs = deque(runs)

    def next_run(self) -> PlannedRun | None:
        """The next run of the list."""
        return self._runs.popleft() if self._runs else None

    def left(self) -> int:
        """Number of runs of the list that were not returned."""
        return len(self._runs)


class ExperimentRunner:
    """Carries out a plan into a results directory. `cluster`: an object of Dask, or None for the address in
    the file. `probe`: whether the targets are tried from the hosts of the testers before the first run."""

    def __init__(
        self,
        plan: Plan,
        directory: ResultsDirectory,
        engine: Path,
        listener: Listener,
        cluster: object | None = None,
        *,
        probe: bool = True,
    ) -> None:
        self._plan = plan
        self._probes = probe
        self._directory = directory
        self._listener = listener
        self._redactor = plan.experiment.redactor
        self._stop = StopRequest()
        self._engine = Engine(engine, self._stop)
        work = directory.path.resolve() / WORK
        lab = Lab(plan.experiment.name, work / "hosts", self._engine.session, listener.note, cluster)
        self._hosts = TesterHosts(engine, directory.path, self._stop.check, lab)
        self._services = RunningServices(
            engine, work, self._stop.check, service_address(plan), self._hosts.service_hosts.host
        )
        self._resources = Resources(
            plan=plan,
            directory=directory,
            listener=listener,
            redactor=self._redactor,
            stop=self._stop,
            engine=self._engine,
            services=self._services,
            hosts=self._hosts,
        )
        self._baseline = NetworkBaseline(
            self._resources, service_address(plan), directory.path.resolve() / WORK / "baseline"
        )
        self._stopped_early: list[str] = []
        self._failed_runs = 0
        self._watch_checked = False
        self._perf_checked = False
        self._agents_lost = False
        self._entry: Path | None = None

    def prepare(self, command_line: list[str]) -> None:
        """Writes the files that are known before the first run. Raises BadInput if the disk has too little
        space. Then nothing of the directory remains, and `latest` is not changed."""
        try:
            with self._stop.installed():
                self._register()
                self._prepare(command_line)
        except BaseException:
            self._close()
            self._directory.discard()
            raise
        self._directory.point_latest()

    def _prepare(self, command_line: list[str]) -> None:
        binary = self._engine.binary
        version = engine_version(binary)
        require_same_version(version, binary)
        need = self._plan.estimate.disk_peak_bytes + SPARE_BYTES
        free = self._directory.free_bytes()
        if free < need:
            raise BadInput(
                f"{self._directory.path}: the experiment needs {need / 1e6:,.0f} MB, but only "
                f"{free / 1e6:,.0f} MB are free; use --out on another file system, or "
                "`run: {keep: summaries}`"
            )
        self._check_watched()
        limits = self._prove_limits()
        experiment = self._plan.experiment
        write_text(self._directory.path / "experiment.yaml", experiment.text)
        write_text(self._directory.path / "effective.yaml", experiment.effective_yaml())
        write_json(self._directory.path / "plan.json", self._plan.to_json())
        facts = {
            "format": ENVIRONMENT,
            "started": now(),
            "command_line": shown_words(command_line, experiment.instead, experiment.redactor),
            **host_facts(version),
            **limits,
            **self._prepare_hosts(),
        }
        write_json(self._directory.path / "environment.json", facts)
        self._check_perf()
        self._try_targets(self._plan.runs)

    def _prove_limits(self) -> dict[str, Any]:
        """Tests whether the limits of services hold on this host; returns the entry for environment.json. Raises
        BadInput if one does not."""
        resources = limited_resources([run.config for run in self._plan.runs], None)
        if not resources:
            return {}
        work = self._directory.path / WORK
        work.mkdir(exist_ok=True)
        proof = prove_here(self._engine.binary, work, resources)
        require_limits(proof, self._plan.experiment)
        for remark in proof.remarks:
            self._listener.note("limits", remark)
        return {"limits": {"hold": list(resources), "remarks": list(proof.remarks)}}

    def _try_targets(self, planned: Sequence[PlannedRun]) -> None:
        """Tries the targets once, except those that were already probed from this host. Raises BadInput if a
        target cannot be measured."""
        if not self._probes:
            return
        self._probes = False

        def agents(config: Config) -> list[Agent]:
            return agents_of_run(self._hosts.agents(config), [], config)

        scratch = self._directory.path / WORK / "probe"
        try:
            result = try_targets(
                planned, agents, self._engine.session, scratch, self._resources.stop_conditions()
            )
        except EngineError as error:  # the runs start another engine, and fail if that one fails, too
            self._stop.check()
            self._engine.drop()
            self._listener.note("probe", self._redactor.text(str(error)))
            return
        self._stop.check()
        for line in result.warnings:
            self._listener.note("probe", self._redactor.text(line))
        if result.fatal:
            raise BadInput(Problem(self._redactor.text(line)) for line in result.fatal)

    def _prepare_hosts(self) -> dict[str, Any]:
        """Prepares the hosts of the experiment; returns the entry for environment.json."""
        configs = [run.config for run in self._plan.runs]
        checked = [*self._hosts.lookouts.prepare(configs), *self._hosts.prepare(configs, files_of(configs))]
        known = {host.host.name for host in checked}
        placed = self._hosts.service_hosts.prepare(configs)
        checked += [host for host in placed if host.host.name not in known]
        left_out = {host.host.name: host for host in self._baseline.before()}
        checked = [left_out.get(host.host.name, host) for host in checked]
        for host in checked:
            if host.reason:
                self._listener.note("host-left-out", f"{host.host.name}: {host.reason}")
        return {"hosts": [host.to_json() for host in checked]} if checked else {}

    def carry_out(
        self, done_already: frozenset[str] = frozenset(), source: RunSource | None = None
    ) -> Outcome:
        """Carries out every run that is not done yet, in order, or those of `source`, which returns no run that is
        done. The measurements are kept in any case."""
        if source is None and self._plan.experiment.search is not None:
            raise BadInput(
                "the loads of a search follow from its results: carry it out with `plimsoll run` or plimsoll.api.run"
            )
        done, started = 0, 0
        todo = [run for run in self._plan.runs if run.id not in done_already]
        runs = ListedRuns(todo) if source is None else source
        # A second signal ends the engine. The hosts are cleaned in this case as well.
        with self._stop.installed():
            try:
                self._register()
                if runs.left():
                    self._check_watched()
                    self._prepare_hosts()
                    self._check_perf()
                    self._try_targets(todo)
                while (run := runs.next_run()) is not None:
                    started += 1
                    self._stop.check()
                    is_last = runs.left() == 0
                    self._execute(run, partial(self._baseline.after, run.config) if is_last else _nothing)
                    done += 1
                    self._stop.check()
            except UserInterrupt:
                pass
            finally:
                self._close()
        return Outcome(
            directory=self._directory.path,
            done=done,
            not_done=runs.left() + started - done,
            interrupted=self._stop.reason is not None,
            agents_lost=self._agents_lost,
            stopped_early=tuple(self._stopped_early),
        )

    def _register(self) -> None:
        """Registers the experiment before anything else, as it may wait for its hosts longer than it
        measures."""
        if self._entry is None:
            self._entry = registry.register(self._directory.path, outer_process())

    def _check_watched(self) -> None:
        """Asks every watched system once, before the first run, and reports those that do not answer."""
        if self._watch_checked:
            return
        watched: list[WatchedSystem] = []
        for run in self._plan.runs:
            watched += [system for system in run.config.watched if system not in watched]
        for remark in check_watched(watched, self._redactor):
            self._listener.note("watch", remark)
        self._watch_checked = True

    def _check_perf(self) -> None:
        """Reports the hosts on which perf cannot take samples of services. The runs are carried out without flame
        graphs there."""
        if self._perf_checked:
            return
        self._perf_checked = True
        for name, config in profiled_hosts(run.config for run in self._plan.runs).items():
            programs = HERE if name is None else self._hosts.service_hosts.host(config, name).programs
            if problem := perf_problem(programs):
                self._listener.note("perf", f"no flame graphs: {problem}")

    def _close(self) -> None:
        self._engine.drop()
        self._services.stop()
        try:
            cleaned = self._hosts.clean()
        except KeyboardInterrupt:
            names = ", ".join(self._hosts.names)
            self._listener.note("host-not-clean", f"{names}: not cleaned up; run `plimsoll hosts clean`")
            registry.unregister(self._entry)
            raise
        for cleaned_host in cleaned:
            if not cleaned_host.is_clean:
                problem = cleaned_host.reason or f"{', '.join(cleaned_host.left)} could not be removed"
                self._listener.note(
                    "host-not-clean", f"{cleaned_host.host.name}: {problem}; run `plimsoll hosts clean`"
                )
            for kept in cleaned_host.kept_descriptions:
                self._listener.note("host-keeps", f"{cleaned_host.host.name}: {kept}")
        registry.unregister(self._entry)
        self._entry = None

    def _execute(self, run: PlannedRun, at_end: Callable[[], None]) -> None:
        directory = self._directory.clear_run(run.id)
        (directory / "segments").mkdir()
        events = EventLog(directory / "events.jsonl")

        def log(t_s: float, kind: str, text: str) -> None:
            events.add(t_s, kind, self._redactor.text(text))

        total = len(self._plan.runs) if self._plan.experiment.search is None else None
        self._listener.run_begins(run.id, run.order, total, run.cell, seconds_of(run))
        execution = RunExecution(self._resources, run, directory, log)
        try:
            end = execution.measure(at_end)
        except (UserInterrupt, BadInput):
            raise
        except PlimsollError as error:
            self._stop.check()
            end = RunEnd(_status_of(error), str(error), None, (), None)
            log(0.0, end.status, end.reason)
            if isinstance(error, EngineError):
                self._engine.drop()
        execution.keep_service_files()
        reason = self._redactor.text(end.reason)
        record = {**execution.record(end, reason), "events_lost": events.lost}
        if attempts := self._directory.earlier_attempts(run.id):
            record["earlier_attempts"] = attempts
        write_json(directory / "run.json", record)
        self._listener.run_ended(run.id, end.status, reason)
        self._count_end(run, end, reason)

    def _count_end(self, run: PlannedRun, end: RunEnd, reason: str) -> None:
        """Raises PlimsollError if further runs cannot succeed."""
        if end.status != "done":
            self._stopped_early.append(f"run {run.id}: {end.status}: {reason}")
        self._agents_lost |= end.status == "agent-lost" or bool(end.finished and end.finished.lost)
        if end.status == "refused":
            raise PlimsollError(f"the engine rejected run {run.id}: {reason}")
        self._failed_runs = self._failed_runs + 1 if end.finished is None else 0
        if self._failed_runs == MAX_FAILED_RUNS:
            kind = AgentsLost if end.status == "agent-lost" else ServiceError
            raise kind(f"run {run.id} measured nothing, like the run before it: {reason}")


def _nothing() -> None:
    """Does nothing at the end of a run."""


def _status_of(error: PlimsollError) -> str:
    """The status in run.json for the error that prevented the measurement of a run."""
    if isinstance(error, ServiceError):
        return "service-gone"
    if isinstance(error, AgentsLost):
        return "agent-lost"
    return "engine-lost" if isinstance(error, EngineError) else "hook-failed"


def service_address(plan: Plan) -> str:
    """The address of this host at which testers and services on other hosts reach the services of the lab."""
    elsewhere = [run.config.hosts for run in plan.runs if run.config.hosts.elsewhere]
    elsewhere += [run.config.service_hosts for run in plan.runs if run.config.service_hosts is not None]
    return next((hosts.controller for hosts in elsewhere if hosts.controller), LOOPBACK)


def seconds_of(run: PlannedRun) -> float:
    """The duration of a run; 0 if only counts end it, since it is not known before."""
    settings = run.config.run
    return ((settings.end_ns or 0) + settings.pause_ns) / 1e9
