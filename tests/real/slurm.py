"""A real Slurm of two nodes on this machine, with the user of the tests, as the service kind `slurm` starts it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.ports import free_port
from plimsoll.deploy.process import GuardedProcess, Program
from plimsoll.deploy.programs import find
from plimsoll.deploy.servers.jobs.slurm import DAEMONS, Layout, command, configuration, new_key
from plimsoll.deploy.servers.needs import missing_programs
from tests.conftest import missing
from tests.real.dial_in import until

NODES = 2
CORES = 2
"""Of each node; a task takes one."""


@dataclass(frozen=True)
class Cluster:
    """`config`: what SLURM_CONF must name."""

    config: Path

    def call(self, *command: str) -> str:
        """What a command of Slurm says."""
        env = {**os.environ, "SLURM_CONF": str(self.config)}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    def queue(self) -> list[str]:
        """Tasks in the queue, "JOB_TASK STATE" each."""
        return self.call("squeue", "--noheader", "--array", "--format=%i %T").splitlines()


def needs_slurm() -> None:
    """Skips where Slurm is not installed."""
    for text in missing_programs({"slurm"}):
        what, _, command = text.rpartition(": ")
        missing(what, command)


@contextmanager
def running_slurm() -> Iterator[Cluster]:
    """A cluster for as long as this lasts. Nothing of it is left, its jobs included."""
    needs_slurm()
    place = Path(tempfile.mkdtemp(prefix="plimsoll-slurm-", dir="/tmp"))  # munged wants it open, and short
    place.chmod(0o755)
    try:
        with ExitStack() as stack:
            yield _start(place, stack)
    finally:
        shutil.rmtree(place)


def _start(place: Path, stack: ExitStack) -> Cluster:
    port, *node_ports = [free_port() for _ in range(1 + NODES)]
    user = pwd.getpwuid(os.geteuid()).pw_name
    layout = Layout(place, "127.0.0.1", user, port, node_ports, CORES)
    for directory in layout.directories:
        Path(directory).mkdir()
    Path(layout.config).write_text(configuration(layout), encoding="ascii")
    Path(layout.key).write_text(new_key(), encoding="ascii")
    Path(layout.key).chmod(0o400)
    daemons = [found for name in DAEMONS if (found := find([name])) is not None]
    cluster = Cluster(Path(layout.config))
    environment = {"SLURM_CONF": str(layout.config)}
    program = Program("slurm", command(layout, daemons), place / "log", environment=environment)
    process = GuardedProcess(find_engine(), program)
    stack.callback(process.stop)
    stack.callback(_empty, cluster)
    until("slurmctld", lambda: _idle(cluster) == NODES, 60)
    return cluster


def _idle(cluster: Cluster) -> int:
    try:
        return cluster.call("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N").count("n")
    except subprocess.CalledProcessError:
        return 0


def _empty(cluster: Cluster) -> None:
    """No job outlives the daemons: nobody would end its processes."""
    deadline = time.monotonic() + 30
    while (
        jobs := {line.split("_")[0].split()[0] for line in cluster.queue()}
    ) and time.monotonic() < deadline:
        cluster.call("scancel", *jobs)
        time.sleep(0.3)
