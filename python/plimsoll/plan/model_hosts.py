"""The resolved model of `hosts:`: where testers run. Frozen, and in the units of `model.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from plimsoll.plan.metrics.rules import Operator
from plimsoll.plan.source.secret import Secret

HostKind = Literal["local", "ssh", "slurm", "dask", "join", "testbed"]
LOCAL = "local"
WATCHER = "lab"
"""The agent that watches this host where the testers are on others."""
"""Name and site of this host where a file names no hosts."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host that the file names. `name`: in the results; `address`: what ssh is given; `link_bytes_s`: declared."""

    name: str
    address: str
    site: str
    agents: int = 1
    user: str | None = None
    port: int | None = None
    link_bytes_s: float | None = None

    @property
    def agent_names(self) -> tuple[str, ...]:
        """HOST where it carries one agent, HOST.1, HOST.2, ... where it carries several."""
        if self.agents == 1:
            return (self.name,)
        return tuple(f"{self.name}.{number}" for number in range(1, self.agents + 1))


@dataclass(frozen=True, slots=True)
class WatchedProcess:
    """The root of a process tree: the eldest of a program's name, the process of a number, the eldest of a systemd
    unit."""

    by: Literal["process", "pid", "unit"]
    value: str
    called: str = ""
    """A name that the file gives it."""

    @property
    def name(self) -> str:
        """In the results."""
        return self.called or (f"pid {self.value}" if self.by == "pid" else self.value)


@dataclass(frozen=True, slots=True)
class WatchedHost:
    """A host of a target, at which an agent looks. `ssh`, `directory`: its own, None: as `hosts` has them; `optional`:
    it may be missing."""

    host: Host
    processes: tuple[WatchedProcess, ...] = ()
    ssh: Ssh | None = None
    directory: str | None = None
    optional: bool = False

    @property
    def is_here(self) -> bool:
        """Whether it is the lab's own host, which is watched anyway."""
        return self.host.address == LOCAL


@dataclass(frozen=True, slots=True)
class Requirement:
    """A bound that a host must hold to be taken. `value`: a count, bytes or nanoseconds."""

    what: str
    operator: Operator
    value: float
    text: str

    def holds(self, found: float) -> bool:
        """Whether a value in the same unit is within."""
        match self.operator:
            case "<":
                return found < self.value
            case "<=":
                return found <= self.value
            case ">":
                return found > self.value
            case ">=":
                return found >= self.value


@dataclass(frozen=True, slots=True)
class Ssh:
    """How ssh is called: its configuration file, further arguments, and whether a host that is not known here is
    accepted."""

    config: str | None = None
    options: tuple[str, ...] = ()
    accept_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Slurm:
    """An array job of `tasks` agents."""

    tasks: int
    partition: str | None = None
    time_ns: int | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Join:
    """Agents that come by themselves; `submit` hands the filled `template` in, where there is one."""

    agents: int
    submit: tuple[str | Secret, ...] = ()
    template: str | None = None


@dataclass(frozen=True, slots=True)
class HostClock:
    """What is assumed: no path is shorter than this, no clock runs more wrongly than this between two probes."""

    physical_min_rtt_ns: int = 0
    max_rate_error_ppm: float = 500.0


@dataclass(frozen=True, slots=True)
class Hosts:
    """Where testers run.

    `hosts`: those that the file names, none where they come by themselves (`slurm`, `dask`, `join`); `use`: how many of
    those that answer are used, None: all; with fewer than `at_least` (None: as many as are to be used) there is no
    experiment. `architecture`: that a host must have; `controller`, `ports`: where agents and testers reach this host;
    `wait_ns`: how long those that come by themselves are waited for.
    """

    kind: HostKind = "local"
    hosts: tuple[Host, ...] = (Host(LOCAL, "", LOCAL),)
    agents: int = 1
    use: int | None = None
    at_least: int | None = None
    require: tuple[Requirement, ...] = ()
    architecture: str | None = None
    ssh: Ssh = field(default_factory=Ssh)
    slurm: Slurm | None = None
    dask: str | None = None
    join: Join | None = None
    testbed: str | None = None
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
        """Whether agents come by themselves, and no file names their hosts."""
        return self.kind in ("slurm", "dask", "join")

    @property
    def dials_back(self) -> bool:
        """Whether ssh only starts agents, on hosts that the file names, and they dial this one."""
        return self.kind in ("ssh", "testbed") and self.link != "ssh"

    @property
    def named(self) -> bool:
        """Whether there are other agents than the one of this host that is there without `hosts:`."""
        return self.elsewhere or [host.agent_names for host in self.hosts] != [(LOCAL,)]

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites, in the order of the file."""
        return tuple(dict.fromkeys(host.site for host in self.hosts))

    @property
    def expected(self) -> int | None:
        """How many agents will come, where they come by themselves and it is known."""
        if self.slurm is not None and self.kind == "slurm":
            return self.slurm.tasks
        return self.join.agents if self.join is not None and self.kind == "join" else None
