"""The other hosts on which services of an experiment run. They are prepared once before the first run, and cleaned
after the last one."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Final

from plimsoll.deploy.hosts import Agent, CleanedHost, HostBackend, ReadyHost
from plimsoll.deploy.hosts.calls import CommandResult
from plimsoll.deploy.hosts.check import CheckedHost, check
from plimsoll.deploy.hosts.kinds import hosts_of_kind
from plimsoll.deploy.hosts.ssh import SshHosts
from plimsoll.deploy.limits import TEST_S, LimitProof, limited_resources, proof_of, self_test_words
from plimsoll.deploy.perf.permission import perf_problem
from plimsoll.deploy.ports import netloc
from plimsoll.deploy.process import Program
from plimsoll.deploy.servers.needs import missing_programs
from plimsoll.deploy.service_hosts import ServiceHost
from plimsoll.deploy.service_hosts.remote import RemoteServiceHost
from plimsoll.deploy.service_hosts.session import HostSession
from plimsoll.errors import ServiceError
from plimsoll.plan.model.cell import Config
from plimsoll.plan.model.hosts import Host, Hosts

ROLE: Final = "watch"
REACH_S: Final = 3.0
"""The time for a connection to a port of a host, for the check."""
MIN_SILENCE_S: Final = 30.0
"""The minimum silence of the lab after which services end on other hosts. It must exceed the heartbeat."""


class ServiceHostPool:
    """The hosts of services of an experiment. `token`: part of the names of Plimsoll's files on the hosts."""

    def __init__(self, binary: Path, token: str, check_interrupt: Callable[[], None]) -> None:
        self._binary = binary
        self._token = token
        self._check_interrupt = check_interrupt
        self._kinds: dict[Hosts, SshHosts] = {}
        self._hosts: dict[Hosts, tuple[Host, ...]] = {}
        self._ready: dict[tuple[Hosts, str], ReadyHost] = {}
        self._checked: dict[tuple[Hosts, str], CheckedHost] = {}
        self._open: dict[tuple[Hosts, str], RemoteServiceHost] = {}

    def prepare(self, configs: Sequence[Config], *, is_required: bool = True) -> list[CheckedHost]:
        """Copies the engine to each host and reads its facts. Raises ServiceError with the hosts that cannot be used.
        `is_required` False: the reasons are only returned."""
        found: list[CheckedHost] = []
        for hosts in dict.fromkeys(config.service_hosts for config in configs):
            if hosts is None:
                continue
            missing = tuple(host for host in hosts.hosts if (_key(hosts), host.name) not in self._ready)
            if missing:
                found += self._check_hosts(_key(hosts), missing)
        found = [self._with_limits(checked, configs) for checked in found]
        wrong = [f"{checked.host.name}: {checked.reason}" for checked in found if checked.reason]
        if wrong and is_required:
            raise ServiceError(f"services cannot run on these hosts: {'; '.join(wrong)}")
        return found

    def _with_limits(self, checked: CheckedHost, configs: Sequence[Config]) -> CheckedHost:
        """Adds whether the limits of its services hold on a host."""
        name = checked.host.name
        resources = limited_resources(configs, name)
        if not resources or not checked.taken:
            return checked
        placing = next(
            config for config in configs if any(service.host == name for service in config.services)
        )
        try:
            proof = prove_on(self.host(placing, name), resources)
        except ServiceError as error:
            return replace(checked, reason=str(error))
        return replace(checked, reason=proof.text(), remarks=(*checked.remarks, *proof.remarks))

    def _check_hosts(self, key: Hosts, missing: tuple[Host, ...]) -> list[CheckedHost]:
        # Stored before the preparation, so that the hosts are cleaned even if it fails.
        self._hosts[key] = (*self._hosts.get(key, ()), *missing)
        whole = replace(key, hosts=self._hosts[key])
        kind = hosts_of_kind(whole, self._binary, self._token, self._check_interrupt)
        assert isinstance(kind, SshHosts), "the plan places services only on hosts that ssh reaches"
        self._kinds[key] = kind
        ready = [one for one in kind.prepare() if one.host in missing]
        unmarked = check(
            kind,
            replace(whole, hosts=missing),
            self._binary,
            ready=ready,
            check_interrupt=self._check_interrupt,
        )
        checked = [replace(one, role=ROLE) for one in unmarked]
        for ready_host, checked_host in zip(ready, checked, strict=True):
            self._ready[key, ready_host.host.name] = ready_host
            self._checked[key, ready_host.host.name] = checked_host
        return checked

    def host(self, config: Config, name: str) -> RemoteServiceHost:
        """A host on which services of a run are placed. A connection that has ended is opened again. Raises
        ServiceError."""
        assert config.service_hosts is not None, "the run places services on other hosts"
        key = _key(config.service_hosts)
        known = self._open.get((key, name))
        if known is not None and not known.session.has_ended:
            return known
        if known is not None:
            known.session.close(0.0)
        ready = self._ready[key, name]
        silence_s = max(MIN_SILENCE_S, config.service_hosts.link_grace_ns / 1e9)
        argv, directory = self._kinds[key].services_argv(ready, silence_s)
        session = HostSession(name, argv)
        try:
            lab = [config.service_hosts.controller] if config.service_hosts.controller else []
            opened = RemoteServiceHost(session, PurePath(ready.engine), PurePath(directory), lab)
        except OSError as error:
            session.close(0.0)
            raise ServiceError(f"services cannot run on {name}: {error}") from error
        self._open[key, name] = opened
        return opened

    def agents(self, config: Config) -> list[Agent]:
        """The agents that watch the hosts of services on which no testers run."""
        if config.service_hosts is None:
            return []
        key = _key(config.service_hosts)
        testers = {host.name for host in config.hosts.hosts}
        watched = [
            self._ready[key, host.name]
            for host in config.service_hosts.hosts
            if host.name not in testers
            and (key, host.name) in self._checked
            and self._checked[key, host.name].taken
        ]
        return [replace(agent, role=ROLE) for agent in self._kinds[key].agents(watched)] if watched else []

    def run_command(
        self,
        config: Config,
        line: str,
        timeout_s: float,
        names: Collection[str] | None,
        without: Collection[str],
    ) -> list[tuple[str, CommandResult]]:
        """Runs a line of shell on the hosts of services of a run, in parallel; returns the result by the name of the
        host. `names`: only on these hosts; `without`: not on these."""
        if config.service_hosts is None:
            return []
        key = _key(config.service_hosts)
        wanted = [
            self._ready[key, host.name]
            for host in config.service_hosts.hosts
            if host.name not in without and (names is None or host.name in names)
        ]
        results = self._kinds[key].run_command(wanted, line, timeout_s) if wanted else []
        return [(ready.host.name, result) for ready, result in zip(wanted, results, strict=True)]

    def close(self) -> None:
        """Ends all services, and the connections to the hosts."""
        for host in self._open.values():
            host.close()
        self._open = {}

    def clean(self) -> list[CleanedHost]:
        """Ends the agents and services, and removes Plimsoll's files, on every host."""
        self.close()
        cleaned = [cleaned_host for kind in self._kinds.values() for cleaned_host in kind.clean()]
        self._kinds, self._hosts, self._ready, self._checked = {}, {}, {}, {}
        return cleaned


def with_service_remarks(
    kind: HostBackend,
    ready: Sequence[ReadyHost],
    checked: Sequence[CheckedHost],
    kinds: Mapping[str, Collection[str]],
    limits: Mapping[str, Sequence[str]],
    perf: Collection[str] = (),
) -> list[CheckedHost]:
    """Adds to each host what services there lack: programs, by the package that installs them, and a way from this host
    to their ports; and whether limits hold. `kinds`: kinds of the services on a host, and `limits`: what is limited
    there, by its name; `perf`: names of hosts on which perf takes samples. The caller's `clean` removes the files."""
    assert isinstance(kind, SshHosts), "the plan places services only on hosts that ssh reaches"
    by_name = {ready_host.host.name: ready_host for ready_host in ready}
    result = []
    for checked_host in checked:
        name = checked_host.host.name
        if not checked_host.taken:
            result.append(checked_host)
            continue
        argv, directory = kind.services_argv(by_name[name], MIN_SILENCE_S)
        remarks: list[str] = []
        reason = ""
        try:
            host = RemoteServiceHost(
                HostSession(name, argv), PurePath(by_name[name].engine), PurePath(directory), ()
            )
        except OSError as error:
            result.append(replace(checked_host, reason=str(error)))
            continue
        try:
            proof = prove_on(host, limits.get(name, ()))
            reason = "; ".join(
                [*missing_programs(kinds.get(name, ()), host.programs), *filter(None, [proof.text()])]
            )
            remarks += [_reach_remark(host), *proof.remarks]
            if name in perf and (problem := perf_problem(host.programs)):
                remarks.append(f"no flame graphs: {problem}")
        finally:
            host.close()
        result.append(replace(checked_host, reason=reason, remarks=(*checked_host.remarks, *remarks)))
    return result


def prove_on(host: ServiceHost, resources: Sequence[str]) -> LimitProof:
    """Tests limits on a host of services. Raises ServiceError."""
    if not resources:
        return LimitProof({})
    directory = host.create_workplace("limits", None)[0]
    try:
        code, output = host.programs.output(self_test_words(host.engine, directory, resources), TEST_S)
    finally:
        host.remove(directory)
    return proof_of(code, output, resources)


def _reach_remark(host: RemoteServiceHost) -> str:
    """Whether this host reaches a service at a port of the host, tried with a service of the engine."""
    port = host.free_port()
    log = host.create_workplace("reach", None)[0] / "log"
    where = f"services listen on free ports (TCP) of {host.address}"
    command: list[str | PurePath] = [host.engine, "serve", "null", "--listen", netloc(host.address, port)]
    process = host.start(Program("reach", command, log))
    try:
        deadline = time.monotonic() + REACH_S
        while True:
            try:
                socket.create_connection((host.address, port), timeout=REACH_S).close()
            except OSError as error:
                if time.monotonic() > deadline:
                    why = error.strerror or str(error)
                    return f"{where}, and this host cannot reach port {port}: {why}. Open the ports for the other hosts"
                time.sleep(0.05)
                continue
            return f"{where}, which this host reaches"
    finally:
        process.stop()


def _key(hosts: Hosts) -> Hosts:
    """How the hosts are reached. Runs may place services on different ones of the same hosts."""
    return replace(hosts, hosts=())
