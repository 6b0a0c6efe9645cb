"""One run of an experiment: prepare the services, measure, keep the files of the run."""

from __future__ import annotations

import contextlib
import datetime
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from plimsoll.deploy.counters.recorder import ServiceCounts
from plimsoll.deploy.counters.watch import CounterReadings
from plimsoll.deploy.hosts import Agent
from plimsoll.deploy.running import describe
from plimsoll.drive.carry_out import Companions, RunEnd, carry_out
from plimsoll.drive.directory import RUN_RECORD, write_text
from plimsoll.drive.hook_hosts import HookRunner
from plimsoll.drive.lookouts import agents_of_run, watched_hosts_record, watching_services
from plimsoll.drive.resources import WORK, Resources
from plimsoll.drive.run.actions.context import ActionMeans
from plimsoll.drive.run.actions.timed import ActionRecord, TimedActions
from plimsoll.drive.run.counting import CounterLogs, as_record
from plimsoll.drive.run.facts import (
    compared_tiers,
    is_load_changing,
    load_profile,
    operations_of,
    planned_starts,
    stages_of,
    versions_of,
)
from plimsoll.drive.run.filling import fill
from plimsoll.drive.run.hooks import OnHosts, run_hooks, service_variables
from plimsoll.drive.run.profiling import ServiceProfiles
from plimsoll.drive.run.watching import WatchLogs, watched_records
from plimsoll.drive.tester_hosts import places_of, rules_of
from plimsoll.errors import PlimsollError, ServiceError
from plimsoll.plan import PlannedRun, engine_document, pinning
from plimsoll.plan.design.filling import warm_caches
from plimsoll.plan.model.cell import Hook, WatchedSystem

Log = Callable[[float, str, str], None]
"""Writes an event of the run: time in s from its zero, kind, text."""
ACTIONS_SECTION = "actions"
MAX_OUTPUT = 200
"""The maximum number of characters of the output of an action that its event contains."""
MAX_WATCH_EVENTS = 100
"""Events of watched hosts in run.json; events.jsonl contains all."""


class RunExecution:
    """Carries out one run with the resources of the experiment. `directory`: of the run."""

    def __init__(self, resources: Resources, run: PlannedRun, directory: Path, log: Log) -> None:
        self._resources = resources
        self._run = run
        self._config = run.config
        self._directory = directory
        self._log = log
        self._began = now()
        self._pins = pinning(run.config, sorted(os.sched_getaffinity(0)))
        self._agents: list[Agent] = []
        self._counted: Mapping[str, ServiceCounts] = {}
        self._watched: list[tuple[WatchedSystem, CounterReadings]] = []
        self._watch_events: list[tuple[float, str]] = []
        self._counting_since = 0.0
        self._actions: TimedActions | None = None
        self._profiles: ServiceProfiles | None = None

    def measure(self, at_end: Callable[[], None] = lambda: None) -> RunEnd:
        """The whole run, with its hooks. `at_end` is called after them, while links have the properties of the end of
        the run. Raises PlimsollError if it could not be measured."""
        if self._pins.remark:
            self._log(0.0, "cpus", self._pins.remark)
        self._prepare_services()
        changed = self._resources.hosts.change_links(self._config)
        if changed:
            self._log(0.0, "links", changed)
        try:
            end = self._measure()
            at_end()
            return end
        finally:
            # A slow link would delay the start of the services of the next run, which reports a lost testbed.
            with contextlib.suppress(ServiceError):
                self._resources.hosts.reset_links(self._config)

    def _measure(self) -> RunEnd:
        config, hosts = self._config, self._resources.hosts
        environment = self._environment()
        self._run_hooks(config.before_run, "before_run", environment)
        if config.before_run:
            self._resources.services.wait_for_replicas()
        watching = [*hosts.lookouts.agents(config), *hosts.service_hosts.agents(config)]
        agents = agents_of_run(hosts.agents(config), watching, config)
        self._agents = watching_services(agents, self._resources.services.running)
        for name, reason in hosts.lookouts.missing(config).items():
            self._log(0.0, "watch-lost", f"{name} is not watched: {reason}")
        document = self._document()
        self._actions = self._timed_actions(environment)
        self._profiles = self._service_profiles()
        end = self._count_while(lambda: self._carry_out(document))
        for text in self._resources.services.lost_replica_messages():
            self._log(0.0, "replica-lost", text)
            self._resources.listener.note("replica-lost", text)
        self._agents = hosts.with_known_hosts(config, self._agents)
        # Agents that dial in can only reach the engine that they have dialled.
        if end.status == "agent-lost" and not config.hosts.dials_in:
            self._resources.engine.drop()
        try:
            self._run_hooks(config.after_run, "after_run", environment)
        except PlimsollError as error:  # the measurement before it is kept
            self._log(0.0, "hook-failed", str(error))
            self._resources.listener.note("hook-failed", self._resources.redactor.text(str(error)))
        if config.run.pause_ns:
            self._pause(config.run.pause_ns / 1e9)
        return end

    def keep_service_files(self) -> None:
        """Stores configuration and logs of the services in the directory of the run."""
        redactor = self._resources.redactor
        for service in self._resources.services.running:
            target = self._directory / "services" / service.spec.name
            target.mkdir(parents=True, exist_ok=True)
            write_text(target / "config", redactor.text(service.configuration) + "\n")
            for name, data in service.logs_of_run().items():
                write_text(target / name, redactor.data(data).decode("utf-8", "replace"))
        if self._profiles is not None:
            self._profiles.keep(self._directory, self._resources.stop.check)

    def record(self, end: RunEnd, reason: str) -> dict[str, Any]:
        """The content of run.json. `reason`: of the end, without secrets."""
        run, config = self._run, self._config
        settings = config.run
        began_s = self._counting_since if end.t0_unix_ns is None else end.t0_unix_ns / 1e9
        missing = self._resources.hosts.lookouts.missing(config)
        return {
            "format": RUN_RECORD,
            "id": run.id,
            "cell": dict(run.cell),
            "values": dict(run.values),
            "repetition": run.repetition,
            "block": run.block,
            "order": run.order,
            **({"control": True} if run.control else {}),
            "status": end.status,
            "reason": reason,
            "began": self._began,
            "ended": now(),
            "t0_unix_ns": end.t0_unix_ns,
            "agents": list(end.agents),
            "places": [
                {"agent": agent.name, "host": agent.host, "site": agent.site, "role": agent.role}
                for agent in self._agents
            ],
            "lost": list(end.finished.lost) if end.finished else [],
            "warmup_s": settings.warmup_ns / 1e9,
            "planned_end_s": None if settings.end_ns is None else settings.end_ns / 1e9,
            "tester_cpus": list(self._pins.testers),
            "cpus_remark": self._pins.remark,
            "services": self._service_records(began_s),
            "watched": watched_records(self._watched, began_s, self._resources.redactor),
            **watched_hosts_record(config, missing, self._watch_events),
            "workloads": [workload.name for workload in config.workloads],
            **operations_of(config),
            **versions_of(config),
            "stages": stages_of(config),
            "load_changes": is_load_changing(config),
            **load_profile(config),
            **planned_starts(config),
            **compared_tiers(config),
            **({"actions": self._action_records()} if config.actions else {}),
            "effective": self._resources.plan.cell_of(run).stored,
        }

    def _service_records(self, zero_s: float) -> list[dict[str, Any]]:
        redactor = self._resources.redactor
        return [
            {
                **describe(service),
                **as_record(self._counted.get(service.spec.name), redactor, zero_s),
                **(self._profiles.record(service.spec.name) if self._profiles is not None else {}),
            }
            for service in self._resources.services.running
        ]

    def _action_records(self) -> list[dict[str, Any]]:
        records = (
            self._actions.records
            if self._actions is not None
            else [ActionRecord(action) for action in self._config.actions]
        )
        return [record.to_json() for record in records]

    def _environment(self) -> dict[str, str]:
        """Variables of the hooks."""
        return {
            **service_variables(self._resources.services.addresses()),
            "PLIMSOLL_RUN": self._run.id,
            "PLIMSOLL_DIRECTORY": str(self._directory),
            "PLIMSOLL_CELL": ", ".join(f"{name}={label}" for name, label in self._run.cell.items()),
        }

    def _document(self) -> dict[str, Any]:
        """The run as the engine reads it."""
        resources = self._resources
        return engine_document(
            self._run,
            resources.services.addresses(),
            self._directory.resolve(),
            resources.plan.experiment.name,
            watch=[
                {"name": service.spec.name, "pid": service.process.pid, "cpus": list(service.cpus)}
                for service in resources.services.running
                if service.process is not None and service.host.is_here
            ],
            tester_cpus=self._pins.testers,
            agents=places_of(self._agents),
        )

    def _run_hooks(self, hooks: Sequence[Hook], section: str, environment: Mapping[str, str]) -> None:
        for line in run_hooks(hooks, section, environment, self._resources.redactor, self._on_hosts()):
            self._log(0.0, "hook", line)

    def _on_hosts(self) -> OnHosts | None:
        """The other hosts of the run; None if this is the only one."""
        if not self._config.hosts.elsewhere and self._config.service_hosts is None:
            return None
        return HookRunner(self._resources.hosts, self._config)

    def _prepare_services(self) -> None:
        resources, run = self._resources, self._run
        same_cell = run.cell_index == resources.served_cell
        restarted = resources.services.ensure(run.config, self._pins.services, same_cell)
        resources.served_cell = run.cell_index
        remarks = {service.spec.name: service.remark for service in resources.services.running}
        for name in restarted:
            self._log(0.0, "service-started", f"{name}: {remarks[name]}" if remarks[name] else name)
        resources.services.wait_for_replicas()
        if not same_cell or warm_caches(run.config).intersection(restarted):
            self._fill_caches()
        for service in resources.services.running:
            service.mark()

    def _fill_caches(self) -> None:
        resources = self._resources
        scratch = resources.directory.path / WORK / "filling"
        addresses = resources.services.addresses()
        remark = fill(
            self._run,
            resources.engine.session,
            addresses,
            scratch,
            self._pins.testers,
            resources.stop_conditions(),
        )
        resources.stop.check()
        if remark:
            self._log(0.0, "cache-filled", remark)

    def _carry_out(self, document: dict[str, Any]) -> RunEnd:
        resources = self._resources

        def on_event(t_s: float, kind: str, text: str) -> None:
            self._log(t_s, kind, text)
            if kind in ("watch-lost", "watch-found") and len(self._watch_events) < MAX_WATCH_EVENTS:
                self._watch_events.append((t_s, resources.redactor.text(text)))

        agents = [agent.to_json() for agent in self._agents]
        try:
            return carry_out(
                resources.engine.session(),
                document,
                resources.stop_conditions(),
                resources.listener,
                on_event,
                agents,
                rules_of(self._config),
                Companions(*(each for each in (self._actions, self._profiles) if each is not None)),
            )
        finally:
            if self._profiles is not None:
                self._profiles.finish()
            if self._actions is not None:
                self._actions.finish()

    def _timed_actions(self, environment: Mapping[str, str]) -> TimedActions | None:
        """The actions of the run; None if there are none."""
        resources, redactor = self._resources, self._resources.redactor
        if not self._config.actions:
            return None

        def run_hook(hook: Hook) -> str:
            lines = run_hooks([hook], ACTIONS_SECTION, environment, redactor, self._on_hosts())
            output = " ".join(part for line in lines if (part := line.partition("`: ")[2]))
            return f"ended ({output[:MAX_OUTPUT]})" if output else "ended"

        return TimedActions(
            self._config.actions,
            ActionMeans(
                {service.spec.name: service for service in resources.services.running},
                run_hook,
                partial(resources.hosts.change_link, self._config),
                resources.stop.check,
            ),
            self._report,
            redactor.text,
        )

    def _service_profiles(self) -> ServiceProfiles:
        settings = self._config.run
        window_s = None if settings.end_ns is None else (settings.end_ns - settings.warmup_ns) / 1e9
        return ServiceProfiles(
            self._resources.services.running,
            settings.warmup_ns / 1e9,
            window_s,
            self._report,
            self._resources.redactor.text,
        )

    def _report(self, t_s: float, kind: str, text: str) -> None:
        self._log(t_s, kind, text)
        self._resources.listener.note(kind, f"{t_s:.1f} s: {text}")

    def _count_while(self, measure: Callable[[], RunEnd]) -> RunEnd:
        """Reads the counters of services and of watched systems before, during and after `measure`. A counter that
        cannot be read does not end the run."""
        counting = CounterLogs(
            self._resources.services.running, self._directory, is_interrupted=bool(self._config.actions)
        )
        watching = WatchLogs(
            (*self._config.watched, *self._config.watched_links), self._directory, self._resources.redactor
        )
        counting.start()
        watching.start()
        self._counting_since = began = time.time()
        try:
            return measure()
        finally:
            watching.finish()
            self._counted = counting.stop()
            self._watched = watching.result()
            for name, counted in self._counted.items():
                if counted.failed:
                    self._log(
                        max(0.0, counted.failed_at - began), "counters-lost", f"{name}: {counted.failed}"
                    )
            for watched, readings in self._watched:
                for gap in readings.gaps:
                    self._log(max(0.0, gap.start - began), "watch-lost", f"{watched.name}: {gap.why}")

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0:
            self._resources.stop.check()
            time.sleep(min(0.1, remaining))


def now() -> str:
    """UTC, ISO 8601, in milliseconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
