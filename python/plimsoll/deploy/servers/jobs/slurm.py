"""`kind: slurm`: a Slurm with one or more nodes on one host: munged, slurmctld, and a slurmd for each node.

All daemons run under the account of Plimsoll, because slurmd starts the jobs of no other account unless it runs as
root. Clients authenticate by the socket of munged, so they run on this host, under the same account.
"""

from __future__ import annotations

import base64
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from plimsoll.deploy.counters.slurm import SlurmCounters
from plimsoll.deploy.ports import netloc
from plimsoll.deploy.programs import ProgramSearch, require, version_number, version_of
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.workplace import MAX_SOCKET_PATH
from plimsoll.errors import ServiceError

PACKAGE: Final = "slurm-wlm"
MUNGE_PACKAGE: Final = "munge"
DAEMONS: Final = ("munged", "slurmctld", "slurmd")
CLIENTS: Final = ("sinfo", "sdiag")
SOCKETS: Final = len("/n16/n16_99999999.4294967295")
"""Length of the longest path of a socket below the directory of a cluster: that of a job step."""
SLURM_S: Final = 20.0
KEY_BYTES: Final = 96

_SCRIPT: Final = """\
run() {{
  "$@" </dev/null
  echo "$1 has ended with exit status $?" >&2
  kill $$
}}
rm -f {socket} {socket}.lock
run {munged} &
while [ ! -S {socket} ]; do sleep 0.02; done
{others}
wait
"""
"""When one of the daemons ends, the script ends, and with it the service. A socket that a killed munged has left would
not be replaced."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The files and ports of a cluster. `address`: of this host; `user`: the account of the daemons; `port`: of
    slurmctld; `node_ports`: of the nodes; `slots`: of each node."""

    place: PurePath
    address: str
    user: str
    port: int
    node_ports: Sequence[int]
    slots: int

    @property
    def config(self) -> PurePath:
        """What SLURM_CONF names."""
        return self.place / "slurm.conf"

    @property
    def socket(self) -> PurePath:
        """The socket of munged."""
        return self.place / "munge.sock"

    @property
    def key(self) -> PurePath:
        """The key of munged. Text that cannot be guessed is enough."""
        return self.place / "munge.key"

    @property
    def directories(self) -> list[PurePath]:
        """Directories that must exist before the start."""
        return [self.place / "state", *(self.place / node for node in self.nodes)]

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes."""
        return [f"n{number}" for number in range(1, len(self.node_ports) + 1)]

    @property
    def logs(self) -> dict[str, PurePath]:
        """The logs of the daemons, by the name under which they are stored."""
        names = ["munged.log", "slurmctld.log", *(f"slurmd.{node}.log" for node in self.nodes)]
        return {name: self.place / name for name in names}

    @property
    def longest_path(self) -> int:
        """The length of the path of the socket of a job step."""
        return len(str(self.place)) + SOCKETS


def start_slurm(running: RunningService, site: Site) -> None:
    """Writes the configuration, starts the daemons, and waits until all nodes accept jobs. Raises ServiceError."""
    service, settings, host = running.spec, running.spec.settings, site.host
    daemons = [
        require(service.name, "munged", ("munged",), MUNGE_PACKAGE, host.programs),
        *(require(service.name, name, (name,), PACKAGE, host.programs) for name in DAEMONS[1:]),
    ]
    sinfo, sdiag = (require(service.name, name, (name,), PACKAGE, host.programs) for name in CLIENTS)
    # munged requires that others can enter the directory of its socket, as they can that of an unprivileged server. The
    # daemons themselves run under the account of the jobs.
    owner = host.own_account()
    ports = [host.free_port(address=site.listen) for _ in range(1 + settings["nodes"])]
    layout = Layout(
        running.directory, site.address, owner.name, ports[0], tuple(ports[1:]), settings["slots"]
    )
    if layout.longest_path > MAX_SOCKET_PATH:
        raise ServiceError(
            f"service {service.name}: the path of the socket of a job below {layout.place} has up to "
            f"{layout.longest_path} characters, and {MAX_SOCKET_PATH} are possible: use --out with a shorter path"
        )
    for directory in layout.directories:
        host.make_directory(directory, 0o755, owner)
    text = configuration(layout, settings["settings"])
    host.write(layout.config, text, mode=0o644, owner=owner)
    host.write(layout.key, new_key(), mode=0o400, owner=owner)
    for log in layout.logs.values():
        host.write(log, "", mode=0o644, owner=owner)

    def ready() -> bool:
        return idle_nodes(host.programs, sinfo, layout) == len(layout.nodes)

    site.start(running, command(layout, daemons), ready, {"SLURM_CONF": str(layout.config)}, account=owner)
    running.counters = lambda: SlurmCounters(lambda: _output(host.programs, layout, [sdiag]))
    running.logs = layout.logs
    running.version = version_number(version_of([daemons[1], "-V"], host.programs))
    running.configuration = f"# Slurm {running.version}\n{text.rstrip()}"
    running.urls = [f"{service.scheme}://{netloc(site.address, layout.port)}{layout.config}"]


def configuration(layout: Layout, lines: Sequence[str] = ()) -> str:
    """The whole slurm.conf. `lines`: further ones; of two with the same key, Slurm uses the last."""
    place = layout.place
    values = {
        "ClusterName": "plimsoll",
        "SlurmctldHost": f"localhost({layout.address})",
        "SlurmUser": layout.user,
        "SlurmdUser": layout.user,
        "SlurmctldPort": layout.port,
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.socket}",
        "StateSaveLocation": place / "state",
        "SlurmdSpoolDir": place / "%n",
        "SlurmctldPidFile": place / "slurmctld.pid",
        "SlurmdPidFile": place / "slurmd.%n.pid",
        "SlurmctldLogFile": place / "slurmctld.log",
        "SlurmdLogFile": place / "slurmd.%n.log",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SwitchType": "switch/none",
        "MpiDefault": "none",
        "ReturnToService": 2,
        "SlurmdParameters": "config_overrides",
        "KillWait": 5,
    }
    nodes = [
        f"NodeName={node} NodeHostname=localhost NodeAddr={layout.address} Port={port} CPUs={layout.slots}"
        for node, port in zip(layout.nodes, layout.node_ports, strict=True)
    ]
    partition = "PartitionName=batch Nodes=ALL Default=YES State=UP"
    return "\n".join([*(f"{key}={value}" for key, value in values.items()), *nodes, partition, *lines]) + "\n"


def new_key() -> str:
    """A key for munged."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode("ascii")


def command(layout: Layout, daemons: Sequence[PurePath]) -> list[str | PurePath]:
    """The command line that runs the daemons and ends when one of them ends. `daemons`: munged, slurmctld, slurmd."""
    munged, slurmctld, slurmd = daemons
    files = {
        "socket": layout.socket,
        "key-file": layout.key,
        "pid-file": layout.place / "munge.pid",
        "log-file": layout.place / "munged.log",
        "seed-file": layout.place / "munge.seed",
    }
    options = ["--foreground", "--force", *(f"--{option}={path}" for option, path in files.items())]
    nodes = [_quoted([slurmd, "-D", "-N", node]) for node in layout.nodes]
    others = [_quoted([slurmctld, "-D", "-c"]), *nodes]
    return [
        "sh",
        "-c",
        _SCRIPT.format(
            socket=shlex.quote(str(layout.socket)),
            munged=_quoted([munged, *options]),
            others="\n".join(f"run {words} &" for words in others),
        ),
    ]


def _quoted(words: Sequence[str | PurePath]) -> str:
    return shlex.join(map(str, words))


def idle_nodes(programs: ProgramSearch, sinfo: PurePath, layout: Layout) -> int:
    """The number of nodes that accept jobs; 0 if the controller does not answer."""
    text = _output(programs, layout, [sinfo, "--noheader", "--states=idle", "--format=%D"]).strip()
    return int(text) if text.isdigit() else 0


def _output(programs: ProgramSearch, layout: Layout, words: Sequence[str | PurePath]) -> str:
    """The output of a client of the cluster; empty if it fails."""
    code, text = programs.output(["env", f"SLURM_CONF={layout.config}", *words], SLURM_S)
    return text if code == 0 else ""
