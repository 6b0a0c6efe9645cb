"""The hosts of an experiment. They are prepared and checked once before its first run, and cleaned after its
last one.

Runs may use different numbers of the same hosts (`hosts.use` as a factor). These hosts are prepared once.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from plimsoll.deploy.hosts import Agent, CleanedHost, Door, HostBackend, ReadyHost
from plimsoll.deploy.hosts.calls import CommandResult
from plimsoll.deploy.hosts.check import CheckedHost, check, first_agents
from plimsoll.deploy.hosts.dial_in import Lab
from plimsoll.deploy.hosts.kinds import hosts_of_kind
from plimsoll.deploy.hosts.limited import with_proofs
from plimsoll.deploy.limits import LimitProof, remove_groups
from plimsoll.deploy.service_hosts.pool import ServiceHostPool
from plimsoll.deploy.talk import EngineTalk
from plimsoll.drive.lookouts import Lookouts
from plimsoll.errors import AgentsLost
from plimsoll.plan.hosts.spread import Place, chosen, fewest, usable_words
from plimsoll.plan.links import describe
from plimsoll.plan.load_hosts import limits_of_testers
from plimsoll.plan.model.cell import Config
from plimsoll.plan.model.hosts import Hosts
from plimsoll.plan.model.limits import NO_LIMITS
from plimsoll.plan.model.links import Link
from plimsoll.plan.sections.baseline import shortcoming

TOKEN_DIGITS: Final = 12
MAX_REASONS: Final = 20
"""The maximum number of unusable hosts that a message names."""


@dataclass(slots=True)
class _HostSet:
    """Hosts that were prepared. `ready`: as the kind of hosts reports them. `checked`: as the engine reports
    them."""

    kind: HostBackend
    ready: list[ReadyHost]
    checked: list[CheckedHost]


def token_of(directory: Path) -> str:
    """The part of the names of Plimsoll's files on the hosts. It is the same for a results directory at any
    time."""
    return hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:TOKEN_DIGITS]


class TesterHosts:
    """The hosts on which the testers of an experiment run."""

    def __init__(
        self, binary: Path, directory: Path, check_interrupt: Callable[[], None], lab: Lab | None = None
    ) -> None:
        self._binary = binary
        self._token = token_of(directory)
        self._check_interrupt = check_interrupt
        self._lab = lab
        self._is_interruptible = True
        self._files: Sequence[Path] = ()
        self._kinds: dict[Hosts, HostBackend] = {}
        self._host_sets: dict[Hosts, _HostSet] = {}
        self._left_out: dict[Hosts, dict[str, str]] = {}
        self._limited: dict[str, tuple[str, ...]] = {}
        """What is limited on each host, by its name."""
        self._proofs: dict[Hosts, dict[str, LimitProof]] = {}
        self.lookouts = Lookouts(binary, self._token, self._check)
        """The hosts of targets, which have no testers."""
        self.service_hosts = ServiceHostPool(binary, self._token, self._check)
        """The other hosts on which services run."""

    def prepare(self, configs: Sequence[Config], files: Sequence[Path] = ()) -> list[CheckedHost]:
        """Prepares every host, copies `files` of workloads to it, and requests its facts. Returns the hosts
        that were checked, with the reason of each that is left out. Raises AgentsLost if fewer than
        `at_least` can be used."""
        self._files = files
        self._limited = limits_of_testers(config.hosts for config in configs)
        checked: list[CheckedHost] = []
        for hosts in dict.fromkeys(config.hosts for config in configs if config.hosts.named):
            key = _set_key(hosts)
            if key not in self._host_sets:
                checked += self._check_hosts(hosts).checked
            self._require_enough(hosts)
        return checked

    def _check_hosts(self, hosts: Hosts) -> _HostSet:
        key = _set_key(hosts)
        if key not in self._kinds:  # stored first, so that the hosts are cleaned after a failure
            self._kinds[key] = self._kind(hosts)
        kind = self._kinds[key]
        ready = kind.prepare(self._files)
        checked = check(kind, hosts, self._binary, ready=ready, check_interrupt=self._check)
        reachable = {checked_host.host.name for checked_host in checked if checked_host.facts is not None}
        lost = [
            ready_host.host.name
            for ready_host in ready
            if ready_host.is_ready and ready_host.host.name not in reachable
        ]
        restarted = kind.restart(lost) if lost else None
        if restarted is not None:
            ready = restarted
            checked = check(kind, hosts, self._binary, ready=ready, check_interrupt=self._check)
        if key in self._left_out:
            checked = [_with_reason(host, self._left_out[key], hosts) for host in checked]
        proofs = self._proofs.setdefault(
            key, {}
        )  # kept, because agents that dial back are checked before each run
        checked = with_proofs(kind, ready, checked, self._limited, proofs)
        self._host_sets[key] = _HostSet(kind, ready, checked)
        return self._host_sets[key]

    def agents_to_measure(self, config: Config) -> dict[str, Agent]:
        """An agent of each host that can be used, by the name of the host as it was checked."""
        host_set = self._host_sets[_set_key(config.hosts)]
        taken = {checked_host.host.name for checked_host in host_set.checked if checked_host.taken}
        ready = [ready_host for ready_host in host_set.ready if ready_host.host.name in taken]
        return first_agents(host_set.kind.agents_by_host(ready))

    def leave_out(self, config: Config, reasons: Mapping[str, str]) -> list[CheckedHost]:
        """Leaves out hosts for the whole experiment. `reasons`: of every measured host by its name, empty for those
        that stay. Returns the hosts that are left out. Raises AgentsLost if fewer than `at_least` remain."""
        key = _set_key(config.hosts)
        self._left_out[key] = dict(reasons)
        host_set = self._host_sets[key]
        host_set.checked = [_with_reason(host, reasons, config.hosts) for host in host_set.checked]
        self._require_enough(config.hosts)
        return [host for host in host_set.checked if reasons.get(host.host.name)]

    def _require_enough(self, hosts: Hosts) -> None:
        checked = self._host_sets[_set_key(hosts)].checked
        taken = sum(checked_host.taken for checked_host in checked)
        if taken >= fewest(hosts):
            return
        left_out = [
            f"{checked_host.host.name}: {checked_host.reason}"
            for checked_host in checked
            if not checked_host.taken
        ]
        more = len(left_out) - MAX_REASONS
        why = "; ".join(left_out[:MAX_REASONS] + ([f"and {more} more"] if more > 0 else []))
        raise AgentsLost(f"{usable_words(hosts, taken, len(checked), fewest(hosts))}: {why}")

    def agents(self, config: Config) -> list[Agent]:
        """The agents of a run, in the order in which testers are distributed, with their limits. Empty if there is
        only the agent of this host, which needs no description."""
        if not config.hosts.named:
            return []
        limits = config.hosts.limits_by_host
        return [replace(agent, limits=limits.get(agent.host, NO_LIMITS)) for agent in self._agents(config)]

    def _agents(self, config: Config) -> list[Agent]:
        if config.hosts.dials_in:
            return self._dialled_in_agents(config.hosts)
        if config.hosts.dials_back:  # the engine cannot start them again
            self._check_hosts(config.hosts)
            self._require_enough(config.hosts)
        return self._host_sets[_set_key(config.hosts)].kind.agents(self._hosts_in_use(config.hosts))

    def _hosts_in_use(self, hosts: Hosts) -> list[ReadyHost]:
        host_set = self._host_sets[_set_key(hosts)]
        answering = {checked_host.host.name for checked_host in host_set.checked if checked_host.taken}
        used = {host.name for host in chosen(hosts, answering)}
        return [ready_host for ready_host in host_set.ready if ready_host.host.name in used]

    def run_command(
        self, config: Config, line: str, timeout_s: float, names: Collection[str] | None = None
    ) -> list[tuple[str, CommandResult]]:
        """Runs a line of shell (`remote.command_line`) on the hosts of testers, then on the other hosts of services of
        a run, in parallel; returns the result by the name of the host. `names`: only on these hosts. An interrupt does
        not end it, as it does not end commands on this host."""
        hosts = config.hosts
        testers = self._hosts_in_use(hosts) if hosts.elsewhere else []
        wanted = [ready for ready in testers if names is None or ready.host.name in names]
        with self._ignoring_interrupts():
            results = (
                self._host_sets[_set_key(hosts)].kind.run_command(wanted, line, timeout_s) if wanted else []
            )
            others = self.service_hosts.run_command(
                config, line, timeout_s, names, without={ready.host.name for ready in testers}
            )
        return [
            *((ready.host.name, result) for ready, result in zip(wanted, results, strict=True)),
            *others,
        ]

    def change_links(self, config: Config) -> str:
        """Gives the links of the testbed the properties of a run. Returns those that differ from its file, as a text.
        Raises ServiceError if the testbed does not answer."""
        kind = self._kinds.get(_set_key(config.hosts))
        if kind is None:
            return ""
        changed = [link for link in config.hosts.links if link not in kind.links]
        kind.change_links(changed)
        return "; ".join(map(describe, changed))

    def change_link(self, config: Config, link: Link) -> None:
        """Changes one link during a run. Raises ServiceError if the testbed does not answer."""
        self._kinds[_set_key(config.hosts)].change_links([link])

    def reset_links(self, config: Config) -> None:
        """Gives the links the properties of the testbed's file again. Raises ServiceError if the testbed does not
        answer."""
        kind = self._kinds.get(_set_key(config.hosts))
        if kind is not None:
            kind.change_links(kind.links)

    def _dialled_in_agents(self, hosts: Hosts) -> list[Agent]:
        """The agents that are connected, followed by those that may still connect: before each run, some may
        have connected late, and others may have ended. Raises AgentsLost if too few remain."""
        host_set = self._check_hosts(hosts)
        self._require_enough(hosts)
        kind = host_set.kind
        taken = {checked_host.host.name for checked_host in host_set.checked if checked_host.taken}
        agents = kind.agents([ready_host for ready_host in host_set.ready if ready_host.host.name in taken])
        return (agents + kind.expected_agents())[: hosts.use]

    def session(self, config: Config | None) -> contextlib.AbstractContextManager[Door]:
        """The engine for commands about the agents of a run, outside of the run: the engine that they have
        dialled, or one that is started for it. `config` None: the commands concern no agent."""
        host_set = self._host_sets.get(_set_key(config.hosts)) if config is not None else None
        if host_set is not None and host_set.kind.door is not None:
            return contextlib.nullcontext(host_set.kind.door)
        return EngineTalk(self._binary, self._check)

    def with_known_hosts(self, config: Config, agents: list[Agent]) -> list[Agent]:
        """The agents of a run that has ended. Agents that connected during the run get the names of their
        hosts."""
        kind = self._kinds.get(_set_key(config.hosts))
        return agents if kind is None else kind.with_known_hosts(agents)

    @property
    def names(self) -> list[str]:
        """Names of the hosts that may contain files of Plimsoll."""
        return [host.name for hosts in self._kinds for host in hosts.hosts]

    def clean(self) -> list[CleanedHost]:
        """Cleans every host; interrupts are ignored. Returns the hosts, with what could not be removed."""
        with self._ignoring_interrupts():
            cleaned = [cleaned_host for kind in self._kinds.values() for cleaned_host in kind.clean()]
            cleaned += [*self.lookouts.clean(), *self.service_hosts.clean()]
            if self._limited:
                remove_groups(self._binary)
        self._kinds, self._host_sets = {}, {}
        return cleaned

    def _kind(self, hosts: Hosts) -> HostBackend:
        return hosts_of_kind(hosts, self._binary, self._token, self._check, self._lab)

    @contextlib.contextmanager
    def _ignoring_interrupts(self) -> Iterator[None]:
        """Interrupts are ignored within the `with` block. Every part of its work must have a timeout."""
        self._is_interruptible = False
        try:
            yield
        finally:
            self._is_interruptible = True

    def _check(self) -> None:
        if self._is_interruptible:
            self._check_interrupt()


def one_of_each_set(configs: Iterable[Config]) -> list[Config]:
    """One of the configurations for each set of hosts, without those that name no hosts."""
    return list({_set_key(config.hosts): config for config in configs if config.hosts.named}.values())


def _with_reason(checked: CheckedHost, reasons: Mapping[str, str], hosts: Hosts) -> CheckedHost:
    """The host with the reason of the network measurement against it. A host that was not measured does not satisfy a
    requirement of its network."""
    name = checked.host.name
    reason = reasons[name] if name in reasons else shortcoming(hosts.require, ())
    return replace(checked, reason=reason) if reason and checked.taken else checked


def _set_key(hosts: Hosts) -> Hosts:
    """The hosts without the keys that may differ between runs."""
    return replace(hosts.without_limits(), use=None, at_least=None, links=(), baseline=False)


def places_of(agents: Sequence[Agent]) -> tuple[Place, ...] | None:
    """The agents as places of the plan; None if there is only the agent of this host."""
    if not agents:
        return None
    return tuple(Place(agent.name, agent.host, agent.site) for agent in agents if agent.role == "testers")


def rules_of(config: Config) -> dict[str, Any]:
    """The rules of a run that the engine applies to all agents."""
    hosts = config.hosts
    if not hosts.named and not config.watched_hosts and config.service_hosts is None:
        return {}
    # Agents that dial in may be late. All others must be present, or the run is not the planned one.
    minimum = {"at_least": fewest(hosts)} if hosts.dials_in else {}
    return {
        **minimum,
        "abort_on_loss": hosts.on_agent_loss == "abort",
        "grace_ns": hosts.link_grace_ns,
        "max_rate_error_ppm": hosts.clock.max_rate_error_ppm,
        "physical_min_rtt_ns": hosts.clock.physical_min_rtt_ns,
    }
