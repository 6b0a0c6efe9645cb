"""The hosts of an experiment: made ready and checked once, before its first run, and left clean after its last.

Runs may use different numbers of the same hosts (`hosts.use` as a factor): those are one muster.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from plimsoll.deploy.hosts import Agent, Cleaned, Door, HostBackend, Ready
from plimsoll.deploy.hosts.calls import CommandResult
from plimsoll.deploy.hosts.check import Checked, check
from plimsoll.deploy.hosts.dial_in import Lab
from plimsoll.deploy.hosts.kinds import hosts_of_kind
from plimsoll.deploy.talk import EngineTalk
from plimsoll.drive.lookouts import Lookouts
from plimsoll.errors import AgentsLost
from plimsoll.plan.hosts.spread import Place, chosen, fewest
from plimsoll.plan.model import Config
from plimsoll.plan.model_hosts import Hosts

TOKEN_DIGITS: Final = 12
MAX_REASONS: Final = 20
"""So many hosts that cannot be used are named."""


@dataclass(slots=True)
class _Mustered:
    """Hosts that were asked: `ready` as the kind of hosts sees them, `checked` as the engine does."""

    kind: HostBackend
    ready: list[Ready]
    checked: list[Checked]


def token_of(directory: Path) -> str:
    """What names our things on the hosts: the same for the results directory whenever and from wherever it is asked."""
    return hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:TOKEN_DIGITS]


class TesterHosts:
    """Where the testers of an experiment run."""

    def __init__(
        self, binary: Path, directory: Path, check_interrupt: Callable[[], None], lab: Lab | None = None
    ) -> None:
        self._binary = binary
        self._token = token_of(directory)
        self._check_interrupt = check_interrupt
        self._lab = lab
        self._heeds = True
        self._files: Sequence[Path] = ()
        self._kinds: dict[Hosts, HostBackend] = {}
        self._mustered: dict[Hosts, _Mustered] = {}
        self.lookouts = Lookouts(binary, self._token, self._check)
        """The hosts of targets, which have no testers."""

    def muster(self, configs: Iterable[Config], files: Sequence[Path] = ()) -> list[Checked]:
        """Makes every host ready, with `files` of workloads on it, and asks what it is. Raises AgentsLost where fewer
        can be used than `at_least`; a host that is left out is told with its reason."""
        self._files = files
        told: list[Checked] = []
        for hosts in dict.fromkeys(config.hosts for config in configs if config.hosts.named):
            key = _whole(hosts)
            if key not in self._mustered:
                told += self._ask(hosts).checked
            self._require(hosts)
        return told

    def _ask(self, hosts: Hosts) -> _Mustered:
        key = _whole(hosts)
        if key not in self._kinds:  # noted before anything is done there: it is left even if that fails
            self._kinds[key] = self._kind(hosts)
        kind = self._kinds[key]
        ready = kind.prepare(self._files)
        checked = check(kind, hosts, self._binary, ready=ready, check_interrupt=self._check)
        there = {one.host.name for one in checked if one.facts is not None}
        gone = [one.host.name for one in ready if one.answers and one.host.name not in there]
        restarted = kind.restart(gone) if gone else None
        if restarted is not None:
            ready = restarted
            checked = check(kind, hosts, self._binary, ready=ready, check_interrupt=self._check)
        self._mustered[key] = _Mustered(kind, ready, checked)
        return self._mustered[key]

    def _require(self, hosts: Hosts) -> None:
        checked = self._mustered[_whole(hosts)].checked
        taken = sum(one.taken for one in checked)
        if taken >= fewest(hosts):
            return
        left_out = [f"{one.host.name}: {one.reason}" for one in checked if not one.taken]
        more = len(left_out) - MAX_REASONS
        why = "; ".join(left_out[:MAX_REASONS] + ([f"and {more} more"] if more > 0 else []))
        what = "agents" if hosts.dials_in else "hosts"
        raise AgentsLost(
            f"{taken} of {len(checked)} {what} can be used, at least {fewest(hosts)} are required: {why}"
        )

    def agents(self, config: Config) -> list[Agent]:
        """Those of a run, in the order in which testers are dealt; empty where there is only the agent of this host
        that needs no description."""
        if not config.hosts.named:
            return []
        if config.hosts.dials_in:
            return self._dialled_in(config.hosts)
        if config.hosts.dials_back:  # the engine cannot start again those that are gone
            self._ask(config.hosts)
            self._require(config.hosts)
        return self._mustered[_whole(config.hosts)].kind.agents(self._used(config.hosts))

    def _used(self, hosts: Hosts) -> list[Ready]:
        mustered = self._mustered[_whole(hosts)]
        answering = {one.host.name for one in mustered.checked if one.taken}
        used = {host.name for host in chosen(hosts, answering)}
        return [one for one in mustered.ready if one.host.name in used]

    def command(self, config: Config, line: str, timeout_s: float) -> list[tuple[str, CommandResult]]:
        """Runs a line of shell (`remote.command_line`) on every host of a run, in parallel; returns the result by the
        name of the host. An interrupt does not end it, as it does not end commands on this host."""
        hosts = config.hosts
        used = self._used(hosts)
        with self._unheeding():
            done = self._mustered[_whole(hosts)].kind.run_command(used, line, timeout_s)
        return [(ready.host.name, result) for ready, result in zip(used, done, strict=True)]

    def _dialled_in(self, hosts: Hosts) -> list[Agent]:
        """Those that are there now, and behind them those that may still come: before each run some have come late, and
        others are gone. Raises AgentsLost where too few are left."""
        mustered = self._ask(hosts)
        self._require(hosts)
        kind = mustered.kind
        taken = {one.host.name for one in mustered.checked if one.taken}
        there = kind.agents([one for one in mustered.ready if one.host.name in taken])
        return (there + kind.coming())[: hosts.use]

    def talk(self, config: Config | None) -> contextlib.AbstractContextManager[Door]:
        """Whom to ask about the agents of a run outside of it: the engine that they have dialled, or one that is
        started for it. None: no agent is asked about."""
        mustered = self._mustered.get(_whole(config.hosts)) if config is not None else None
        if mustered is not None and mustered.kind.door is not None:
            return contextlib.nullcontext(mustered.kind.door)
        return EngineTalk(self._binary, self._check)

    def located(self, config: Config, agents: list[Agent]) -> list[Agent]:
        """The agents of a run that is over, with the hosts of those that came late to it."""
        kind = self._kinds.get(_whole(config.hosts))
        return agents if kind is None else kind.located(agents)

    @property
    def names(self) -> list[str]:
        """Hosts that may contain files of Plimsoll."""
        return [host.name for hosts in self._kinds for host in hosts.hosts]

    def clean(self) -> list[Cleaned]:
        """Leaves every host, and hears no interrupt over it. What could not be removed is told."""
        with self._unheeding():
            found = [one for kind in self._kinds.values() for one in kind.clean()] + self.lookouts.clean()
        self._kinds, self._mustered = {}, {}
        return found

    def _kind(self, hosts: Hosts) -> HostBackend:
        return hosts_of_kind(hosts, self._binary, self._token, self._check, self._lab)

    @contextlib.contextmanager
    def _unheeding(self) -> Iterator[None]:
        """What must be done even after an interrupt; each part of it has a time-out."""
        self._heeds = False
        try:
            yield
        finally:
            self._heeds = True

    def _check(self) -> None:
        if self._heeds:
            self._check_interrupt()


def _whole(hosts: Hosts) -> Hosts:
    """Without what may differ from run to run."""
    return replace(hosts, use=None, at_least=None)


def places_of(agents: Sequence[Agent]) -> tuple[Place, ...] | None:
    """Agents as the plan speaks of them; None where there is only the one of this host."""
    if not agents:
        return None
    return tuple(Place(one.name, one.host, one.site) for one in agents if one.role == "testers")


def rules_of(config: Config) -> dict[str, Any]:
    """What the engine must know of a run's agents in common."""
    hosts = config.hosts
    if not hosts.named and not config.watched_hosts:
        return {}
    # Those that dial in may be late; all others are there, or the run is not the one that was planned.
    few = {"at_least": fewest(hosts)} if hosts.dials_in else {}
    return {
        **few,
        "abort_on_loss": hosts.on_agent_loss == "abort",
        "grace_ns": hosts.link_grace_ns,
        "max_rate_error_ppm": hosts.clock.max_rate_error_ppm,
        "physical_min_rtt_ns": hosts.clock.physical_min_rtt_ns,
    }
