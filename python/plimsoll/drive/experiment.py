"""The state machine of an experiment: for each run, ready the services, carry it out, keep its files."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from plimsoll.deploy.binary import engine_version, require_same_version
from plimsoll.deploy.counters.recorder import Counted
from plimsoll.deploy.counters.watch import CounterReadings
from plimsoll.deploy.environment import host_facts
from plimsoll.deploy.hosts import Agent
from plimsoll.deploy.hosts.dial_in import Lab
from plimsoll.deploy.ports import LOOPBACK
from plimsoll.deploy.running import describe
from plimsoll.deploy.services import RunningServices
from plimsoll.deploy.testbed.inside import outer_process
from plimsoll.drive import registry
from plimsoll.drive.counting import Counting, as_record
from plimsoll.drive.directory import (
    ENVIRONMENT,
    RUN_RECORD,
    EventLog,
    ResultsDirectory,
    write_json,
    write_text,
)
from plimsoll.drive.engine import EngineSession
from plimsoll.drive.facts import (
    load_changes,
    load_profile,
    operations_of,
    planned_starts,
    stages_of,
    versions_of,
)
from plimsoll.drive.filling import fill
from plimsoll.drive.hooks import OnHosts, run_hooks, service_variables
from plimsoll.drive.lookouts import manned, watched_hosts_record
from plimsoll.drive.run import Listener, RunEnd, carry_out
from plimsoll.drive.tester_hosts import TesterHosts, places_of, rules_of
from plimsoll.drive.trying import try_targets
from plimsoll.drive.watching import Watching, look_at, watched_records
from plimsoll.errors import (
    AgentsLost,
    BadInput,
    EngineError,
    Interrupted,
    PlimsollError,
    Problem,
    ServiceError,
)
from plimsoll.plan import Pinning, Plan, PlannedRun, engine_document, pinning
from plimsoll.plan.design.filling import warm_caches
from plimsoll.plan.hosts.files import files_of
from plimsoll.plan.model import Config, Watched
from plimsoll.plan.source.secret import shown_words

WORK = ".work"
"""Working directories of services, inside the results while they run: databases may need the room that is there."""
Log = Callable[[float, str, str], None]
SPARE_BYTES = 64 * 1000 * 1000
MAX_WATCH_EVENTS = 100
"""At most this many are shown with a run; events.jsonl contains all."""


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


class StopRequest:
    """Ctrl-C, `plimsoll stop` or a signal: the first asks for a clean end, the second ends the engine, the third
    everything."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._asked = 0
        self._terminals = [one for one in (1, 2) if os.isatty(one)]
        self._engine: EngineSession | None = None

    def watch(self, engine: EngineSession | None) -> None:
        """The engine that the second request kills."""
        self._engine = engine

    def check(self) -> None:
        """Raises Interrupted once a stop was asked for."""
        if self.reason is not None:
            raise Interrupted(self.reason)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Catches SIGINT, SIGTERM and SIGHUP while this lasts."""
        # A closed terminal sends SIGHUP. Below nohup it is ignored, and stays so.
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._hear) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._asked += 1
        if number == signal.SIGHUP:  # the terminal is gone: what is written to it would be an error
            null = os.open(os.devnull, os.O_WRONLY)
            for one in self._terminals:
                os.dup2(null, one)
            os.close(null)
        if self.reason is None:
            self.reason = f"stopped by {signal.Signals(number).name}"
        elif self._asked > 2:
            raise KeyboardInterrupt
        elif self._engine is not None:
            self._engine.kill()


class ExperimentRunner:
    """Carries a plan out into a results directory. `cluster`: an object of Dask, or None for the file's address;
    `probe`: the targets are tried from the hosts of the testers before the first run."""

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
        self._binary = engine
        self._listener = listener
        self._stop = StopRequest()
        self._redactor = plan.experiment.redactor
        self._services = RunningServices(
            engine, directory.path.resolve() / WORK, self._stop.check, service_address(plan)
        )
        work = directory.path.resolve() / WORK / "hosts"
        lab = Lab(plan.experiment.name, work, self._session, listener.note, cluster)
        self._hosts = TesterHosts(engine, directory.path, self._stop.check, lab)
        self._agents: list[Agent] = []
        self._engine: EngineSession | None = None
        self._early: list[str] = []
        self._nothing_measured = 0
        self._cell_before: int | None = None
        self._counted: dict[str, Counted] = {}
        self._seen: list[tuple[Watched, CounterReadings]] = []
        self._watch_events: list[tuple[float, str]] = []
        self._counting_since = 0.0
        self._looked = False
        self._agents_lost = False
        self._entry: Path | None = None

    def prepare(self, command_line: list[str]) -> None:
        """Writes what is known before the first run. Raises BadInput when the disk has too little room; then nothing of
        the directory stays, and `latest` leads to where it did."""
        try:
            with self._stop.installed():
                self._enter()
                self._prepare(command_line)
        except BaseException:
            self._close()
            self._directory.discard()
            raise
        self._directory.point_latest()

    def _prepare(self, command_line: list[str]) -> None:
        version = engine_version(self._binary)
        require_same_version(version, self._binary)
        need = self._plan.estimate.disk_peak_bytes + SPARE_BYTES
        free = self._directory.free_bytes()
        if free < need:
            raise BadInput(
                f"{self._directory.path}: the experiment needs {need / 1e6:,.0f} MB, but only "
                f"{free / 1e6:,.0f} MB are free; use --out on another file system, or "
                "`run: {keep: summaries}`"
            )
        self._look()
        experiment = self._plan.experiment
        write_text(self._directory.path / "experiment.yaml", experiment.text)
        write_text(self._directory.path / "effective.yaml", experiment.effective_yaml())
        write_json(self._directory.path / "plan.json", self._plan.to_json())
        facts = {
            "format": ENVIRONMENT,
            "started": _now(),
            "command_line": shown_words(command_line, experiment.instead, experiment.redactor),
            **host_facts(version),
            **self._muster(),
        }
        write_json(self._directory.path / "environment.json", facts)
        self._try_targets(self._plan.runs)

    def _try_targets(self, planned: Sequence[PlannedRun]) -> None:
        """Once, and not what is looked at from this host already. Raises BadInput where a target cannot be measured."""
        if not self._probes:
            return
        self._probes = False

        def agents(config: Config) -> list[Agent]:
            return manned(self._hosts.agents(config), [], config)

        scratch = self._directory.path / WORK / "probe"
        try:
            found = try_targets(planned, agents, self._session, scratch, self._watchman())
        except (
            EngineError
        ) as error:  # the runs start another one, and fail by themselves if that is no better
            self._stop.check()
            self._drop_engine()
            self._listener.note("probe", self._redactor.text(str(error)))
            return
        self._stop.check()
        for line in found.warnings:
            self._listener.note("probe", self._redactor.text(line))
        if found.fatal:
            raise BadInput(Problem(self._redactor.text(line)) for line in found.fatal)

    def _muster(self) -> dict[str, Any]:
        """The hosts of the experiment, for environment.json."""
        configs = [run.config for run in self._plan.runs]
        checked = [*self._hosts.lookouts.muster(configs), *self._hosts.muster(configs, files_of(configs))]
        for one in checked:
            if one.reason:
                self._listener.note("host-left-out", f"{one.host.name}: {one.reason}")
        return {"hosts": [one.to_json() for one in checked]} if checked else {}

    def carry_out(self, done_already: frozenset[str] = frozenset()) -> Outcome:
        """Every run that is not done yet, in order. What was measured is kept whatever happens."""
        done = 0
        todo = [run for run in self._plan.runs if run.id not in done_already]
        # A second signal ends the engine, and the hosts are left clean nevertheless.
        with self._stop.installed():
            try:
                self._enter()
                if todo:
                    self._look()
                    self._muster()
                    self._try_targets(todo)
                for run in todo:
                    self._stop.check()
                    self._one(run, len(self._plan.runs))
                    done += 1
                    self._stop.check()
            except Interrupted:
                pass
            finally:
                self._close()
        return Outcome(
            directory=self._directory.path,
            done=done,
            not_done=len(todo) - done,
            interrupted=self._stop.reason is not None,
            agents_lost=self._agents_lost,
            stopped_early=tuple(self._early),
        )

    def _enter(self) -> None:
        """From the first moment: an experiment may wait for its hosts longer than it measures."""
        if self._entry is None:
            self._entry = registry.enter(self._directory.path, outer_process())

    def _look(self) -> None:
        """Everything that will be watched answers, once before the first run: later ones go on without it."""
        if self._looked:
            return
        watched: list[Watched] = []
        for run in self._plan.runs:
            watched += [one for one in run.config.watched if one not in watched]
        for remark in look_at(watched, self._redactor):
            self._listener.note("watch", remark)
        self._looked = True

    def _close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        self._stop.watch(None)
        self._services.stop()
        try:
            cleaned = self._hosts.clean()
        except KeyboardInterrupt:
            names = ", ".join(self._hosts.names)
            self._listener.note("host-not-clean", f"{names}: not cleaned up; run `plimsoll hosts clean`")
            registry.leave(self._entry)
            raise
        for one in cleaned:
            if not one.proven:
                what = one.reason or f"{', '.join(one.left)} could not be removed"
                self._listener.note("host-not-clean", f"{one.host.name}: {what}; run `plimsoll hosts clean`")
            for kept in one.kept_because:
                self._listener.note("host-keeps", f"{one.host.name}: {kept}")
        registry.leave(self._entry)
        self._entry = None

    def _one(self, run: PlannedRun, total: int) -> None:
        directory = self._directory.clear_run(run.id)
        (directory / "segments").mkdir()
        events = EventLog(directory / "events.jsonl")

        def log(t_s: float, kind: str, text: str) -> None:
            events.add(t_s, kind, self._redactor.text(text))

        self._listener.run_begins(run.id, run.order, total, run.cell, seconds_of(run))
        began = _now()
        config = run.config
        pins = pinning(config, sorted(os.sched_getaffinity(0)))
        if pins.remark:
            log(0.0, "cpus", pins.remark)
        self._counted, self._seen, self._watch_events = {}, [], []
        try:
            end = self._measure(run, directory, pins, log)
        except (Interrupted, BadInput):
            raise
        except PlimsollError as error:
            self._stop.check()
            end = RunEnd(_status_of(error), str(error), None, (), None)
            log(0.0, end.status, end.reason)
            if isinstance(error, EngineError):
                self._drop_engine()
        self._keep_services(directory)
        reason = self._redactor.text(end.reason)
        record = self._record(run, end, reason, began, pins)
        write_json(directory / "run.json", {**record, "events_lost": events.lost})
        self._listener.run_ended(run.id, end.status, reason)
        if end.status != "done":
            self._early.append(f"run {run.id}: {end.status}: {reason}")
        self._agents_lost |= end.status == "agent-lost" or bool(end.finished and end.finished.lost)
        if end.status == "refused":
            raise PlimsollError(f"the engine rejected run {run.id}: {reason}")
        # A service that cannot even be started fails every run alike: give up at the second, with the reason.
        self._nothing_measured = self._nothing_measured + 1 if end.finished is None else 0
        if self._nothing_measured == 2:
            kind = AgentsLost if end.status == "agent-lost" else ServiceError
            raise kind(f"run {run.id} measured nothing, like the run before it: {reason}")

    def _measure(self, run: PlannedRun, directory: Path, pins: Pinning, log: Log) -> RunEnd:
        config = run.config
        cell = ", ".join(f"{name}={label}" for name, label in run.cell.items())
        self._ready_services(run, pins, log)
        environment = {
            **service_variables(self._services.addresses()),
            "PLIMSOLL_RUN": run.id,
            "PLIMSOLL_DIRECTORY": str(directory),
            "PLIMSOLL_CELL": cell,
        }
        on_hosts = self._on_hosts(config)
        for line in run_hooks(config.before_run, "before_run", environment, self._redactor, on_hosts):
            log(0.0, "hook", line)
        self._agents = manned(self._hosts.agents(config), self._hosts.lookouts.agents(config), config)
        for name, reason in self._hosts.lookouts.missing(config).items():
            log(0.0, "watch-lost", f"{name} is not watched: {reason}")
        document = engine_document(
            run,
            self._services.addresses(),
            directory.resolve(),
            self._plan.experiment.name,
            watch=[
                {"name": one.wanted.name, "pid": one.process.pid, "cpus": list(one.cpus)}
                for one in self._services.running
                if one.process is not None
            ],
            tester_cpus=pins.testers,
            agents=places_of(self._agents),
        )
        end = self._count_while(config, directory, log, lambda: self._carry_out(document, config, log))
        self._agents = self._hosts.located(config, self._agents)
        if (
            end.status == "agent-lost" and not config.hosts.dials_in
        ):  # what dials in can only come to this one
            self._drop_engine()
        try:
            for line in run_hooks(config.after_run, "after_run", environment, self._redactor, on_hosts):
                log(0.0, "hook", line)
        except PlimsollError as error:
            # What was measured before it is measured.
            log(0.0, "hook-failed", str(error))
            self._listener.note("hook-failed", self._redactor.text(str(error)))
        if config.run.pause_ns:
            self._pause(config.run.pause_ns / 1e9)
        return end

    def _on_hosts(self, config: Config) -> OnHosts | None:
        """How commands run on the hosts of a run, where these are others than this one."""
        if not config.hosts.elsewhere:
            return None
        return lambda line, timeout_s: self._hosts.command(config, line, timeout_s)

    def _ready_services(self, run: PlannedRun, pins: Pinning, log: Log) -> None:
        same_cell = run.cell_index == self._cell_before
        restarted = self._services.ensure(run.config, pins.services, same_cell)
        self._cell_before = run.cell_index
        remarks = {one.wanted.name: one.remark for one in self._services.running}
        for name in restarted:
            log(0.0, "service-started", f"{name}: {remarks[name]}" if remarks[name] else name)
        if not same_cell or warm_caches(run.config).intersection(restarted):
            scratch = self._directory.path / WORK / "filling"
            addresses = self._services.addresses()
            said = fill(run, self._session, addresses, scratch, pins.testers, self._watchman())
            self._stop.check()
            if said:
                log(0.0, "cache-filled", said)
        for service in self._services.running:
            service.mark()

    def _carry_out(self, document: dict[str, Any], config: Config, log: Log) -> RunEnd:
        def heard(t_s: float, kind: str, text: str) -> None:
            log(t_s, kind, text)
            if kind in ("watch-lost", "watch-found") and len(self._watch_events) < MAX_WATCH_EVENTS:
                self._watch_events.append((t_s, self._redactor.text(text)))

        agents = [one.to_json() for one in self._agents]
        return carry_out(
            self._session(), document, self._watchman(), self._listener, heard, agents, rules_of(config)
        )

    def _count_while(
        self, config: Config, directory: Path, log: Log, measure: Callable[[], RunEnd]
    ) -> RunEnd:
        """What the services count, and what is watched, is read before, while and after the run is measured; failing
        that never ends it."""
        counting = Counting(self._services.running, directory)
        watching = Watching(config.watched, directory, self._redactor)
        counting.start()
        watching.start()
        self._counting_since = began = time.time()
        try:
            return measure()
        finally:
            watching.finish()
            self._counted = counting.stop()
            self._seen = watching.result()
            for name, one in self._counted.items():
                if one.failed:
                    log(max(0.0, one.failed_at - began), "counters-lost", f"{name}: {one.failed}")
            for watched, seen in self._seen:
                for gap in seen.gaps:
                    log(max(0.0, gap.start - began), "watch-lost", f"{watched.name}: {gap.why}")

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._stop.check()
            time.sleep(min(0.1, left))

    def _watchman(self) -> _Watchman:
        return _Watchman(self._stop, self._services)

    def _session(self) -> EngineSession:
        if self._engine is None:
            self._engine = EngineSession(self._binary, self._stop.check)
            self._stop.watch(self._engine)
        return self._engine

    def _drop_engine(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None
            self._stop.watch(None)

    def _keep_services(self, directory: Path) -> None:
        for service in self._services.running:
            place = directory / "services" / service.wanted.name
            place.mkdir(parents=True, exist_ok=True)
            write_text(place / "config", self._redactor.text(service.configuration) + "\n")
            for name, data in service.logs_of_run().items():
                write_text(place / name, self._redactor.data(data).decode("utf-8", "replace"))

    def _record(self, run: PlannedRun, end: RunEnd, reason: str, began: str, pins: Pinning) -> dict[str, Any]:
        settings = run.config.run
        return {
            "format": RUN_RECORD,
            "id": run.id,
            "cell": dict(run.cell),
            "values": dict(run.values),
            "repetition": run.repetition,
            "block": run.block,
            "order": run.order,
            "status": end.status,
            "reason": reason,
            "began": began,
            "ended": _now(),
            "t0_unix_ns": end.t0_unix_ns,
            "agents": list(end.agents),
            "places": [
                {"agent": one.name, "host": one.host, "site": one.site, "role": one.role}
                for one in self._agents
            ],
            "lost": list(end.finished.lost) if end.finished else [],
            "warmup_s": settings.warmup_ns / 1e9,
            "planned_end_s": None if settings.end_ns is None else settings.end_ns / 1e9,
            "tester_cpus": list(pins.testers),
            "cpus_remark": pins.remark,
            "services": [
                {**describe(one), **as_record(self._counted.get(one.wanted.name), self._redactor)}
                for one in self._services.running
            ],
            "watched": watched_records(
                self._seen,
                self._counting_since if end.t0_unix_ns is None else end.t0_unix_ns / 1e9,
                self._redactor,
            ),
            **watched_hosts_record(run.config, self._hosts.lookouts.missing(run.config), self._watch_events),
            "workloads": [workload.name for workload in run.config.workloads],
            **operations_of(run.config),
            **versions_of(run.config),
            "stages": stages_of(run.config),
            "load_changes": load_changes(run.config),
            **load_profile(run.config),
            **planned_starts(run.config),
            "effective": self._plan.cell_of(run).stored,
        }


class _Watchman:
    def __init__(self, stop: StopRequest, fleet: RunningServices) -> None:
        self._stop = stop
        self._services = fleet

    def stop_reason(self) -> str | None:
        return self._stop.reason

    def service_gone(self) -> str | None:
        return self._services.first_gone()


def _status_of(error: PlimsollError) -> str:
    """The word in run.json for what kept a run from being measured."""
    if isinstance(error, ServiceError):
        return "service-gone"
    if isinstance(error, AgentsLost):
        return "agent-lost"
    return "engine-lost" if isinstance(error, EngineError) else "hook-failed"


def service_address(plan: Plan) -> str:
    """The address of this host at which testers of other hosts reach what the lab starts."""
    elsewhere = [run.config.hosts for run in plan.runs if run.config.hosts.elsewhere]
    return next((hosts.controller for hosts in elsewhere if hosts.controller), LOOPBACK)


def seconds_of(run: PlannedRun) -> float:
    """The duration of a run; 0 if only counts end it, since it is not known before."""
    settings = run.config.run
    return ((settings.end_ns or 0) + settings.pause_ns) / 1e9


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
