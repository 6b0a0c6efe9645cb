"""`kind: slurm`: agents as the tasks of one array job.

Engine, token and spool are in `directory`, which the nodes must share with this host: a task cannot get a
program in another way before it runs (`sbcast` works only within an allocation). The token is a file of mode
0600, which is removed with the experiment. Rejected: the token in the job script. Slurm shows a script only
to its owner and to administrators, but keeps it after the job, and sites that store scripts in their
accounting database keep them for years.
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
from plimsoll.deploy.hosts import CleanedHost, remote
from plimsoll.deploy.hosts.calls import Calls, CommandResult
from plimsoll.deploy.hosts.dial_in import Outlook, host_error, natural_key
from plimsoll.deploy.hosts.private import private_directory, write_private
from plimsoll.errors import BadInput
from plimsoll.plan.model.hosts import Host, Hosts, Slurm
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.source.units import NS

KIND: Final = "slurm"
JOB: Final = "plimsoll-"
"""The prefix of the names of Plimsoll's jobs."""
SLURM_S: Final = 60.0
"""The time for sbatch, squeue and scancel. A busy controller of Slurm answers slowly."""
GONE_S: Final = 40.0
"""The time for a cancelled job to leave the queue. Slurm's own KillWait is 30 s."""
EXPORTED: Final = ("PATH", "HOME", "USER", "LANG")
"""Variables of this process's environment that the job gets. By default, sbatch passes all of them. They may
contain secrets of the experiment, which Slurm would store in its state and which would appear in the
environment of every agent. Options of the file come later, and so take precedence."""
QUEUE: Final = "--format=%F|%K|%T|%N|%P"
DIGEST: Final = 16


@dataclass(frozen=True, slots=True)
class Task:
    """A task of an array job in the queue. `node`: empty until it is assigned."""

    name: str
    state: str
    node: str
    partition: str


class SlurmTasks:
    """An array job. Implements `AgentStarter`."""

    def __init__(
        self, hosts: Hosts, engine: Path, token: str, check_interrupt: Callable[[], None] = lambda: None
    ) -> None:
        assert hosts.slurm is not None, "the plan rejects such a file"
        self._hosts = hosts
        self._slurm: Slurm = hosts.slurm
        self._engine = engine
        self._token = token
        self._check_interrupt = check_interrupt
        self._directory = Path(hosts.directory).expanduser()
        self._spool = self._directory / f"spool-{token}"
        self._files: Mapping[str, str] = {}
        self._job: str | None = None
        self._locations: dict[str, tuple[str, str]] = {}
        self._gone_since: float | None = None

    @property
    def site(self) -> str:
        """The partition, if the file names one."""
        return self._slurm.partition or KIND

    def start_agents(self, token: Secret, files: Sequence[Path] = ()) -> int:
        """Copies engine, token and files to the shared directory, and submits the job."""
        if shutil.which("sbatch") is None:
            raise host_error(
                "sbatch is not installed here: run Plimsoll on a login node of the cluster", "hosts.kind"
            )
        engine = shared_engine(self._engine, private_directory(self._directory))
        private_directory(self._spool)
        self._files = {str(file): shared_file(file, self._spool) for file in files}
        file = write_private(self._spool / "token", token.reveal())
        script = write_private(self._spool / "job.sh", job_script(engine, file, self._spool), 0o700)
        result = self._run(submission(self._slurm, self._spool, script, f"{JOB}{self._token}"))
        job = result.out.strip().partition(";")[0]
        if result.code != 0 or not job.isdigit():
            raise host_error(
                f"sbatch rejects the job: {result.complaint.removeprefix('sbatch: error: ')}", "hosts.slurm"
            )
        self._job, self._gone_since = job, None
        return self._slurm.tasks

    def files(self, agent: str) -> Mapping[str, str]:
        """All nodes share the same directory."""
        return self._files

    def outlook(self, connected: Collection[str]) -> Outlook:
        """The state of the tasks, from squeue. A task that has left the queue will not connect."""
        if self._job is None:
            return Outlook()
        result = self._run(["squeue", "--noheader", "--array", f"--jobs={self._job}", QUEUE])
        if result.code != 0 and "Invalid job id" not in result.err:
            return Outlook(
                self._locations, tuple(set(self._names()) - set(connected))
            )  # it does not answer now
        tasks = parse_queue(result.out)
        for task in tasks:
            if task.node:
                site = task.partition if self._slurm.partition else KIND
                self._locations[task.name] = (task.node, site)
        coming = tuple(task.name for task in tasks if task.name not in connected)
        return Outlook(self._locations, coming, over="" if coming else self._missing_reason(connected))

    def end(self, *, everything: bool, discard: bool) -> list[CleanedHost]:
        """Cancels the job of this experiment (`everything`: all jobs of Plimsoll), waits until it has left
        the queue, and removes its files."""
        job_name = JOB if everything else f"{JOB}{self._token}"
        left, reason = self._cancel(job_name)
        with contextlib.suppress(OSError):
            (self._spool / "token").unlink()
        self._job = None
        files = remote.cleanup_script(
            self._hosts.directory,
            None if everything else self._token,
            self._hosts.keep == "engine" and not everything,
            discard,
        )
        result = self._run(["sh", "-c", files], 30.0 + 2 * remote.GRACE_S)
        answers = remote.parse_answers(result.out)
        if "done" not in answers:
            reason = reason or f"{self._directory} cannot be read: {result.complaint}"
        host = Host(KIND, "", self.site)
        return [CleanedHost(host, tuple(answers.get("kept", ())), (*left, *answers.get("left", ())), reason)]

    def _cancel(self, job_name: str) -> tuple[list[str], str]:
        """Cancels jobs; returns those that still exist, and the reason if they cannot be listed."""
        if shutil.which("squeue") is None:
            return [], "" if self._job is None else "squeue is not installed here"
        deadline = time.monotonic() + GONE_S
        while True:
            result = self._run(["squeue", "--noheader", f"--user={os.getuid()}", "--format=%F|%j"])
            if result.code != 0:
                return [], f"squeue does not answer: {result.complaint}"
            pairs = (line.split("|", 1) for line in result.out.splitlines() if "|" in line)
            jobs = sorted(
                {job for job, name in pairs if name == job_name or job_name == JOB == name[: len(JOB)]}
            )
            if not jobs or time.monotonic() >= deadline:
                return [f"job {job}" for job in jobs], ""
            self._run(["scancel", *jobs])
            time.sleep(0.3)

    def _names(self) -> list[str]:
        return [f"{KIND}.{number}" for number in range(1, self._slurm.tasks + 1)]

    def _missing_reason(self, connected: Collection[str]) -> str:
        """Why missing agents do not connect, from the last output of one of them. The files of a task may
        become visible shortly after it has ended, and an agent may be connecting. So for 3 s, the result is
        empty."""
        missing = [name for name in self._names() if name not in connected]
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

    def _run(self, command: Sequence[str], timeout_s: float = SLURM_S) -> CommandResult:
        try:
            return Calls(self._check_interrupt).run_alone(command, timeout_s)
        except OSError as error:
            return CommandResult(None, "", "", f"{command[0]} cannot be started: {error.strerror}")


def shared_engine(engine: Path, directory: Path) -> Path:
    """Copies the engine to a directory once, under a name with the hash of its content. Raises BadInput."""
    if not elf_facts(engine).static:
        raise BadInput(
            f"the engine {engine} needs shared libraries that the nodes may not have: build a static one "
            f"with `make engine`"
        )
    try:
        with engine.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:DIGEST]
        target = directory / remote.engine_name(digest)
        if target.is_file() and target.stat().st_size == engine.stat().st_size:
            return target
        part = directory / f"part-{os.uname().nodename}-{os.getpid()}"
        try:
            shutil.copyfile(engine, part)
            part.chmod(0o700)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise host_error(f"the engine cannot be copied to {directory}: {error}", "hosts.directory") from error
    return target


def shared_file(file: Path, spool: Path) -> str:
    """Copies a file to the experiment's own directory, with the file's permission to execute. The copy is
    removed with the directory. Raises BadInput."""
    try:
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()[:DIGEST]
        target = spool / remote.file_name(digest, file.name)
        target.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.copyfile(file, target)
        target.chmod(0o700 if file.stat().st_mode & 0o100 else 0o600)
    except OSError as error:
        raise host_error(f"{file} cannot be copied to {spool}: {error}", "hosts.directory") from error
    return str(target)


def job_script(engine: Path, token: Path, spool: Path) -> str:
    """The script of each task. It contains no secret."""
    name = f"{KIND}.$SLURM_ARRAY_TASK_ID"
    return (
        "#!/bin/sh\n"
        f'test -x "{engine}" || '
        f'{{ echo "{engine} does not exist on this node: the nodes must share its directory" >&2; exit 1; }}\n'
        f'exec "{engine}" agent --join "{token}" --name "{name}" --directory "{spool}/{name}"\n'
    )


def submission(slurm: Slurm, spool: Path, script: Path, name: str) -> list[str]:
    """The command line of sbatch. The options of the file come last, since the last option takes precedence
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
    """A time for sbatch: hours:minutes:seconds. Slurm counts minutes, and rounds up."""
    seconds = max(1, -(-ns // NS["s"]))
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def parse_queue(out: str) -> list[Task]:
    """The tasks in the output of squeue, except those that are ending."""
    tasks = []
    for line in out.splitlines():
        parts = line.strip().split("|")
        if len(parts) == 5 and parts[1].isdigit() and parts[2] != "COMPLETING":
            _, number, state, node, partition = parts
            tasks.append(Task(f"{KIND}.{number}", state, node, partition))
    return sorted(tasks, key=lambda task: natural_key(task.name))
