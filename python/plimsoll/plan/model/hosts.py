"""The resolved model of `hosts:`: where testers run. Frozen dataclasses, in the units of `model.py`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from plimsoll.plan.metrics.rules import Operator
from plimsoll.plan.model.limits import NO_LIMITS, Limits
from plimsoll.plan.model.links import Link
from plimsoll.plan.source.secret import Secret

HostKind = Literal["local", "ssh", "slurm", "dask", "gram", "join", "testbed"]
"""The kinds of hosts, in the order of messages."""
DIAL_IN_KINDS: Final[tuple[HostKind, ...]] = ("slurm", "dask", "gram", "join")
"""Kinds whose agents dial in: no file names their hosts."""
COMMAND_KINDS: Final[tuple[HostKind, ...]] = ("local", "ssh", "testbed")
"""Kinds on whose hosts Plimsoll can run the commands of hooks. Hosts of kind local are this host."""
LOCAL = "local"
"""Name and site of this host if a file names no hosts."""
WATCHER = "lab"
"""Name of the agent that monitors this host if the testers are on other hosts."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host that the file names. `name`: in the results; `address`: for ssh; `link_bytes_s`: declared capacity of its
    network, bytes per second; `limits`: of each of its agents."""

    name: str
    address: str
    site: str
    agents: int = 1
    user: str | None = None
    port: int | None = None
    link_bytes_s: float | None = None
    limits: Limits = NO_LIMITS

    @property
    def agent_names(self) -> tuple[str, ...]:
        """HOST for a single agent; HOST.1, HOST.2, ... for several."""
        if self.agents == 1:
            return (self.name,)
        return tuple(f"{self.name}.{number}" for number in range(1, self.agents + 1))


@dataclass(frozen=True, slots=True)
class WatchedProcess:
    """The root of a process tree: the oldest process with a program's name, the process with a PID, or the oldest
    process of a systemd unit."""

    by: Literal["process", "pid", "unit"]
    value: str
    called: str = ""
    """Its name in the file, if it has one."""

    @property
    def name(self) -> str:
        """Its name in the results."""
        return self.called or (f"pid {self.value}" if self.by == "pid" else self.value)


@dataclass(frozen=True, slots=True)
class WatchedHost:
    """A host of a target that an agent monitors. `ssh`, `directory`: None: those of `hosts:`; `optional`: the run
    starts even if the host does not respond."""

    host: Host
    processes: tuple[WatchedProcess, ...] = ()
    ssh: Ssh | None = None
    directory: str | None = None
    optional: bool = False

    @property
    def is_here(self) -> bool:
        """Whether it is the lab's own host, which is always monitored."""
        return self.host.address == LOCAL


@dataclass(frozen=True, slots=True)
class Requirement:
    """A bound that a host must satisfy to be used. `what`: the quantity (see `BOUNDS`); `value`: a count, bytes,
    bytes per second or nanoseconds."""

    what: str
    operator: Operator
    value: float
    text: str

    def holds(self, measured: float) -> bool:
        """Whether a measured value in the same unit satisfies the bound."""
        match self.operator:
            case "<":
                return measured < self.value
            case "<=":
                return measured <= self.value
            case ">":
                return measured > self.value
            case ">=":
                return measured >= self.value


@dataclass(frozen=True, slots=True)
class Ssh:
    """How ssh is called: its configuration file, further arguments, and whether an unknown host key is accepted."""

    config: str | None = None
    options: tuple[str, ...] = ()
    accept_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Slurm:
    """A Slurm array job with `tasks` agents."""

    tasks: int
    partition: str | None = None
    time_ns: int | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gram:
    """A GRAM job for each of `agents`. `contact`: of the job manager; `request`: further relations of each job, as RSL.
    `scratch`: below which the gatekeeper makes a directory for each job."""

    contact: str
    agents: int
    request: str = ""
    scratch: str = "/tmp"

    @property
    def address(self) -> str:
        """The host of the gatekeeper."""
        return re.split("[:/]", self.contact, maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class Join:
    """Agents that dial in. `submit`: the command that submits the completed `template`, if there is one."""

    agents: int
    submit: tuple[str | Secret, ...] = ()
    template: str | None = None


@dataclass(frozen=True, slots=True)
class HostClock:
    """Assumptions: the minimum round-trip time of a path, and the maximum rate error of a clock between two probes."""

    physical_min_rtt_ns: int = 0
    max_rate_error_ppm: float = 500.0


@dataclass(frozen=True, slots=True)
class Hosts:
    """Where testers run.

    `hosts`: the hosts that the file names, empty if the agents dial in (`slurm`, `dask`, `gram`, `join`). `use`: the
    number of responding hosts that are used (None: all). `at_least`: the experiment does not start with fewer hosts
    (None: all that are to be used). `baseline`: whether the network of the hosts is measured. `architecture`: of every
    host (None: any). `controller`, `ports`: the address and the ports at which agents and testers reach this host.
    `wait_ns`: the timeout for agents that dial in. `links`: the links of the testbed, with the properties that the file
    changes; `lab_site`: the site of its host `lab`.
    """

    kind: HostKind = "local"
    hosts: tuple[Host, ...] = (Host(LOCAL, "", LOCAL),)
    agents: int = 1
    use: int | None = None
    at_least: int | None = None
    require: tuple[Requirement, ...] = ()
    baseline: bool = False
    architecture: str | None = None
    ssh: Ssh = field(default_factory=Ssh)
    slurm: Slurm | None = None
    dask: str | None = None
    gram: Gram | None = None
    join: Join | None = None
    testbed: str | None = None
    links: tuple[Link, ...] = ()
    lab_site: str = ""
    directory: str = "~/.cache/plimsoll"
    keep: Literal["engine", "nothing"] = "engine"
    link: Literal["ssh", "tcp", "quic"] = "ssh"
    controller: str | None = None
    ports: tuple[int, int] | None = None
    wait_ns: int = 600_000_000_000
    link_grace_ns: int = 60_000_000_000
    on_agent_loss: Literal["continue", "abort"] = "continue"
    clock: HostClock = field(default_factory=HostClock)

    @property
    def elsewhere(self) -> bool:
        """Whether testers run on other hosts than this one."""
        return self.kind != LOCAL

    @property
    def dials_in(self) -> bool:
        """Whether agents dial in, so that no file names their hosts."""
        return self.kind in DIAL_IN_KINDS

    @property
    def runs_commands(self) -> bool:
        """Whether the commands of hooks can run on these hosts."""
        return self.kind in COMMAND_KINDS

    @property
    def dials_back(self) -> bool:
        """Whether ssh only starts the agents on the hosts of the file, and the agents connect to this host."""
        return self.kind in ("ssh", "testbed") and self.link != "ssh"

    @property
    def named(self) -> bool:
        """Whether there are agents other than the local agent of a file without `hosts:`, or with limits."""
        return (
            self.elsewhere
            or [host.agent_names for host in self.hosts] != [(LOCAL,)]
            or bool(self.limits_by_host)
        )

    @property
    def limits_by_host(self) -> dict[str, Limits]:
        """The limits of each agent of a host, by the name of the host, for hosts that have some."""
        return {host.name: host.limits for host in self.hosts if host.limits != NO_LIMITS}

    def without_limits(self) -> Hosts:
        """The same hosts without limits."""
        return replace(self, hosts=tuple(replace(host, limits=NO_LIMITS) for host in self.hosts))

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites, in the order of the file."""
        return tuple(dict.fromkeys(host.site for host in self.hosts))

    @property
    def expected(self) -> int | None:
        """Number of agents that will dial in, if it is known."""
        if self.slurm is not None and self.kind == "slurm":
            return self.slurm.tasks
        if self.gram is not None and self.kind == "gram":
            return self.gram.agents
        return self.join.agents if self.join is not None and self.kind == "join" else None
