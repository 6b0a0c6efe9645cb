"""`kind: slurm`: agents as the tasks of one array job.

Engine, token and what agents measure lie in `directory`, which the nodes must share with this host: a task cannot be
handed a program otherwise before it runs (`sbcast` works within an allocation only). The token is a file of mode 0600
there, removed with the experiment. Rejected: the token in the job script. Slurm shows a script to its owner and to
administrators only, but keeps it after the job, and sites that store scripts in their accounting keep it for years.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plimsoll.deploy.binary import elf_facts
from plimsoll.deploy.hosts import Cleaned, remote
from plimsoll.deploy.hosts.calls import Calls, CommandResult
from plimsoll.deploy.hosts.dial_in import Outlook, in_order, refused
from plimsoll.deploy.hosts.private import private_directory, write_private
from plimsoll.errors import BadInput
from plimsoll.plan.model_hosts import Host, Hosts, Slurm
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.source.units import NS

KIND: Final = "slurm"
JOB: Final = "plimsoll-"
"""What the names of our jobs begin with."""
SLURM_S: Final = 60.0
"""For sbatch, squeue and scancel: a busy controller takes its time."""
GONE_S: Final = 40.0
"""For a cancelled job to leave the queue: Slurm's own KillWait is 30 s."""
EXPORTED: Final = ("PATH", "HOME", "USER", "LANG")
"""Of our environment. All of it, as sbatch passes by default, may hold secrets of the experiment: Slurm stores them in
its state, and they show in the environment of every agent. Options of the file come later, and so win."""
QUEUE: Final = "--format=%F|%K|%T|%N|%P"
DIGEST: Final = 16


@dataclass(frozen=True, slots=True)
class Task:
    """A task of an array job in the queue. `node`: empty until it has one."""

    name: str
    state: str
    node: str
    partition: str


class SlurmTasks:
    """An array job; see `Bringer`."""

    def __init__(
        self, hosts: Hosts, engine: Path, token: str, check_interrupt: Callable[[], None] = lambda: None
    ) -> None:
        assert hosts.slurm is not None, "the plan refuses such a file"
        self._hosts = hosts
        self._slurm: Slurm = hosts.slurm
        self._engine = engine
        self._token = token
        self._check_interrupt = check_interrupt
        self._directory = Path(hosts.directory).expanduser()
        self._spool = self._directory / f"spool-{token}"
        self._files: Mapping[str, str] = {}
        self._job: str | None = None
        self._seats: dict[str, tuple[str, str]] = {}
        self._gone_since: float | None = None

    @property
    def site(self) -> str:
        """The partition, where one is named."""
        return self._slurm.partition or KIND

    def bring(self, token: Secret, files: Sequence[Path] = ()) -> int:
        """Puts engine, token and files where the nodes see them, and hands the job in."""
        if shutil.which("sbatch") is None:
            raise refused(
                "sbatch is not installed here: run Plimsoll on a login node of the cluster", "hosts.kind"
            )
        engine = shared_engine(self._engine, private_directory(self._directory))
        private_directory(self._spool)
        self._files = {str(file): shared_file(file, self._spool) for file in files}
        file = write_private(self._spool / "token", token.reveal())
        script = write_private(self._spool / "job.sh", job_script(engine, file, self._spool), 0o700)
        done = self._call(submission(self._slurm, self._spool, script, f"{JOB}{self._token}"))
        job = done.out.strip().partition(";")[0]
        if done.code != 0 or not job.isdigit():
            raise refused(
                f"sbatch rejects the job: {done.complaint.removeprefix('sbatch: error: ')}", "hosts.slurm"
            )
        self._job, self._gone_since = job, None
        return self._slurm.tasks

    def files(self, agent: str) -> Mapping[str, str]:
        """All nodes see the same directory."""
        return self._files

    def look(self, here: Collection[str]) -> Outlook:
        """By squeue. A task that has left the queue comes no more."""
        if self._job is None:
            return Outlook()
        done = self._call(["squeue", "--noheader", "--array", f"--jobs={self._job}", QUEUE])
        if done.code != 0 and "Invalid job id" not in done.err:
            return Outlook(self._seats, tuple(set(self._names()) - set(here)))  # it does not answer now
        tasks = queue(done.out)
        for task in tasks:
            if task.node:
                site = task.partition if self._slurm.partition else KIND
                self._seats[task.name] = (task.node, site)
        coming = tuple(task.name for task in tasks if task.name not in here)
        return Outlook(self._seats, coming, over="" if coming else self._why_over(here))

    def end(self, *, everything: bool, discard: bool) -> list[Cleaned]:
        """Cancels the job of this experiment (`everything`: all jobs of Plimsoll), waits until it
        is gone, and removes its files."""
        wanted = JOB if everything else f"{JOB}{self._token}"
        left, reason = self._cancel(wanted)
        with contextlib.suppress(OSError):
            (self._spool / "token").unlink()
        self._job = None
        files = remote.clean(
            self._hosts.directory,
            None if everything else self._token,
            self._hosts.keep == "engine" and not everything,
            discard,
        )
        done = self._call(["sh", "-c", files], 30.0 + 2 * remote.GRACE_S)
        said = remote.answers(done.out)
        if "done" not in said:
            reason = reason or f"{self._directory} cannot be read: {done.complaint}"
        host = Host(KIND, "", self.site)
        return [Cleaned(host, tuple(said.get("kept", ())), (*left, *said.get("left", ())), reason)]

    def _cancel(self, wanted: str) -> tuple[list[str], str]:
        """Jobs that are left, and the reason if they cannot be listed."""
        if shutil.which("squeue") is None:
            return [], "" if self._job is None else "squeue is not installed here"
        deadline = time.monotonic() + GONE_S
        while True:
            done = self._call(["squeue", "--noheader", f"--user={os.getuid()}", "--format=%F|%j"])
            if done.code != 0:
                return [], f"squeue does not answer: {done.complaint}"
            pairs = (line.split("|", 1) for line in done.out.splitlines() if "|" in line)
            jobs = sorted({job for job, name in pairs if name == wanted or wanted == JOB == name[: len(JOB)]})
            if not jobs or time.monotonic() >= deadline:
                return [f"job {job}" for job in jobs], ""
            self._call(["scancel", *jobs])
            time.sleep(0.3)

    def _names(self) -> list[str]:
        return [f"{KIND}.{number}" for number in range(1, self._slurm.tasks + 1)]

    def _why_over(self, here: Collection[str]) -> str:
        """Why those that are not here do not come, by what one of them has said last. The files of a task may be seen a
        moment after it has ended, and an agent may be on its way through the door."""
        missing = [name for name in self._names() if name not in here]
        if not missing:
            return ""
        now = time.monotonic()
        self._gone_since = self._gone_since or now
        if now < self._gone_since + 3.0:
            return ""
        logs = {name: self._spool / f"{name}.log" for name in missing}
        for name, log in logs.items():
            with contextlib.suppress(OSError):
                lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
                return f"its task has ended; last output of {name}: {lines[-1][:300] if lines else 'none'}"
        return (
            f"its task has ended without a log in {self._spool}: set `directory` to a directory that the nodes "
            "share with this host"
        )

    def _call(self, command: Sequence[str], timeout_s: float = SLURM_S) -> CommandResult:
        try:
            return Calls(self._check_interrupt).alone(command, timeout_s)
        except OSError as error:
            return CommandResult(None, "", "", f"{command[0]} cannot be started: {error.strerror}")


def shared_engine(engine: Path, directory: Path) -> Path:
    """The engine in a directory, under a name of its content; copied once. Raises BadInput."""
    if not elf_facts(engine).static:
        raise BadInput(
            f"the engine {engine} needs shared libraries that the nodes may not have: build a static one "
            f"with `make engine`"
        )
    try:
        with engine.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:DIGEST]
        there = directory / remote.engine_name(digest)
        if there.is_file() and there.stat().st_size == engine.stat().st_size:
            return there
        part = directory / f"part-{os.uname().nodename}-{os.getpid()}"
        try:
            shutil.copyfile(engine, part)
            part.chmod(0o700)
            part.replace(there)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise refused(f"the engine cannot be copied to {directory}: {error}", "hosts.directory") from error
    return there


def shared_file(file: Path, spool: Path) -> str:
    """A copy in the experiment's own directory, which goes with it, as executable as the file. Raises BadInput."""
    try:
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()[:DIGEST]
        there = spool / remote.file_name(digest, file.name)
        there.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.copyfile(file, there)
        there.chmod(0o700 if file.stat().st_mode & 0o100 else 0o600)
    except OSError as error:
        raise refused(f"{file} cannot be copied to {spool}: {error}", "hosts.directory") from error
    return str(there)


def job_script(engine: Path, token: Path, spool: Path) -> str:
    """What each task does. It holds no secret."""
    name = f"{KIND}.$SLURM_ARRAY_TASK_ID"
    return (
        "#!/bin/sh\n"
        f'test -x "{engine}" || '
        f'{{ echo "{engine} does not exist on this node: the nodes must share its directory" >&2; exit 1; }}\n'
        f'exec "{engine}" agent --join "{token}" --name "{name}" --directory "{spool}/{name}"\n'
    )


def submission(slurm: Slurm, spool: Path, script: Path, name: str) -> list[str]:
    """The call of sbatch. The options of the file come last, since the last option takes precedence
    in sbatch."""
    output = str(spool).replace("%", "%%") + f"/{KIND}.%a.log"
    return [
        "sbatch",
        "--parsable",
        f"--job-name={name}",
        f"--array=1-{slurm.tasks}",
        "--ntasks=1",
        "--no-requeue",
        "--chdir=/",
        f"--export={','.join(EXPORTED)}",
        f"--output={output}",
        *([f"--partition={slurm.partition}"] if slurm.partition else []),
        *([f"--time={walltime(slurm.time_ns)}"] if slurm.time_ns is not None else []),
        *slurm.options,
        str(script),
    ]


def walltime(ns: int) -> str:
    """As sbatch takes it, hours:minutes:seconds. Slurm counts minutes, and rounds up."""
    seconds = max(1, -(-ns // NS["s"]))
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def queue(out: str) -> list[Task]:
    """Tasks of what squeue says, without those that are ending."""
    found = []
    for line in out.splitlines():
        parts = line.strip().split("|")
        if len(parts) == 5 and parts[1].isdigit() and parts[2] != "COMPLETING":
            _, number, state, node, partition = parts
            found.append(Task(f"{KIND}.{number}", state, node, partition))
    return sorted(found, key=lambda task: in_order(task.name))
