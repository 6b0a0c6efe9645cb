"""A Slurm of one node on this host, for a service of kind `command`: python3 slurm_cluster.py DIRECTORY PORT SLOTS.

DIRECTORY/slurm.conf is its configuration; PORT is that of slurmctld. Jobs run as the user who starts this program.
Prints "cluster is ready" when the node accepts jobs. All daemons end with this program; Plimsoll ends the jobs.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PATH = f"/usr/sbin:/sbin:{os.environ.get('PATH', '/usr/bin:/bin')}"
READY_S = 60
STOP_S = 5
CONFIG = """\
ClusterName=plimsoll
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={place}/munge.sock
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
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
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={node_port} CPUs={slots}
PartitionName=batch Nodes=ALL Default=YES State=UP
"""


def program(name: str) -> str:
    """The path of a program. Ends this program if it is not installed."""
    found = shutil.which(name, path=PATH)
    if found is None:
        sys.exit(f"{name} was not found: apt-get install slurm-wlm munge")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_idle(environment: dict[str, str]) -> bool:
    """Whether the node accepts jobs."""
    words = [program("sinfo"), "--noheader", "--states=idle", "--format=%D"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == "1"


def main() -> None:
    directory, port, slots = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    daemons = {name: program(name) for name in ("munged", "slurmctld", "slurmd")}
    # Not in the directory of the service: the path of a socket has at most 107 characters, and munged requires that
    # others can enter its directory.
    place = Path(tempfile.mkdtemp(prefix="plimsoll-slurm-"))
    place.chmod(0o755)
    try:
        run(directory / "slurm.conf", place, port, slots, daemons)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def run(config: Path, place: Path, port: str, slots: str, daemons: dict[str, str]) -> None:
    """Starts the daemons and waits until one of them ends."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    text = CONFIG.format(user=user, port=port, place=place, node_port=free_port(), slots=slots)
    config.write_text(text, encoding="ascii")
    for name in ("state", "spool"):
        (place / name).mkdir()
    key = place / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    files = {
        "socket": "munge.sock",
        "pid-file": "munge.pid",
        "log-file": "munge.log",
        "seed-file": "munge.seed",
    }
    options = [f"--{option}={place / name}" for option, name in {**files, "key-file": key.name}.items()]
    environment = {**os.environ, "SLURM_CONF": str(config)}
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str, *words: str) -> None:
        running.append(subprocess.Popen([daemons[name], *words], env=environment, stdin=subprocess.DEVNULL))

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        start("munged", "--foreground", *options)
        deadline = time.monotonic() + READY_S
        while not (place / "munge.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        start("slurmctld", "-D", "-c")
        start("slurmd", "-D", "-N", "n1")
        while not is_idle(environment):
            if time.monotonic() > deadline or any(process.poll() is not None for process in running):
                sys.exit("the node does not accept jobs: see the messages of slurmctld and slurmd above")
            time.sleep(0.2)
        print("cluster is ready", flush=True)
        while all(process.poll() is None for process in running):
            time.sleep(0.2)
        sys.exit("a daemon has ended")
    finally:
        # They write to `place` at their end, which is removed then.
        for process in reversed(running):
            process.terminate()
        for process in running:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()


if __name__ == "__main__":
    main()
