"""A real Slurm of two nodes on this machine, run by whoever runs the tests: munged, slurmctld, and a slurmd a node."""

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

from plimsoll.deploy.ports import free_port
from tests.conftest import missing
from tests.real.dial_in import until

NODES = 2
CORES = 2
"""Of each node; a task takes one."""
CONFIG = """\
ClusterName=lab
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={place}/munge.sock
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool-%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=5
"""


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
    for program in ("slurmctld", "slurmd", "munged"):
        if shutil.which(program, path=f"/usr/sbin:/sbin:{os.environ['PATH']}") is None:
            missing(program, "apt-get install slurm-wlm munge")


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
    ports = [free_port() for _ in range(1 + NODES)]
    text = CONFIG.format(user=pwd.getpwuid(os.geteuid()).pw_name, port=ports[0], place=place)
    for number, port in enumerate(ports[1:], 1):
        text += f"NodeName=n{number} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={CORES}\n"
        (place / f"spool-n{number}").mkdir()
    (place / "slurm.conf").write_text(f"{text}PartitionName=batch Nodes=ALL Default=YES State=UP\n")
    (place / "state").mkdir()
    (place / "munge.key").write_bytes(os.urandom(1024))
    (place / "munge.key").chmod(0o400)
    cluster = Cluster(place / "slurm.conf")
    names = {
        "socket": "munge.sock",
        "pid-file": "munge.pid",
        "log-file": "munge.log",
        "seed-file": "munge.seed",
    }
    munge = [f"--{option}={place}/{name}" for option, name in {**names, "key-file": "munge.key"}.items()]
    _daemon(stack, place, "munged", "--foreground", *munge)
    until("munged", lambda: (place / "munge.sock").exists(), 20)
    _daemon(stack, place, "slurmctld", "-D", "-c")
    for number in range(1, NODES + 1):
        _daemon(stack, place, "slurmd", "-D", "-N", f"n{number}")
    stack.callback(_empty, cluster)
    until("slurmctld", lambda: _idle(cluster) == NODES, 60)
    return cluster


def _idle(cluster: Cluster) -> int:
    try:
        return cluster.call("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N").count("n")
    except subprocess.CalledProcessError:
        return 0


def _daemon(stack: ExitStack, place: Path, program: str, *words: str) -> None:
    found = shutil.which(program, path=f"/usr/sbin:/sbin:{os.environ['PATH']}")
    assert found
    with (place / f"{program}.out").open("ab") as log:
        process = subprocess.Popen(
            [found, *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "SLURM_CONF": str(place / "slurm.conf")},
            start_new_session=True,
        )

    def end() -> None:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(end)


def _empty(cluster: Cluster) -> None:
    """No job outlives the daemons: nobody would end its processes."""
    deadline = time.monotonic() + 30
    while (
        jobs := {line.split("_")[0].split()[0] for line in cluster.queue()}
    ) and time.monotonic() < deadline:
        cluster.call("scancel", *jobs)
        time.sleep(0.3)
