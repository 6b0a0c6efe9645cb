"""A child process with an owner. It has its own process group, is bound to cores, writes a log, and always
ends.

Every service runs below `plimsoll-engine guard`, which ends the whole group when its standard input closes.
So a lab that is killed leaves no process behind. `atexit` or a signal handler of the lab could not guarantee
this.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Protocol

from plimsoll.deploy.tree_actions import TreeActions
from plimsoll.errors import ServiceError
from plimsoll.plan.model.limits import Limits
from plimsoll.plan.source.units import about_size

GRACE_S = 4.0
"""The default time between SIGTERM and SIGKILL."""
TIMEOUT_S = 1.0
"""The time beyond its grace period that the guard may take to end."""
QUOTED_LINES = 12
"""The maximum number of log lines that a message quotes."""
QUOTED_BYTES = 8192
"""The number of bytes of a log that are searched for these lines."""


_OUT_OF_MEMORY = re.compile(
    rb"^plimsoll: out of memory: the kernel killed \d+ process(?:es)? at the memory limit of (\d+) bytes$",
    re.MULTILINE,
)
"""The line of the guard (crates/engine/src/guard.rs)."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to start below a guard, with paths of its host. `name`: of the service, for messages. `log`: gets its
    output, and `stdout` its standard output instead if it is given. `cpus`: its cores; empty: not bound. `directory`:
    in which it works (None: it depends on no directory). `environment`: is added to that of the guard. `first_line`: a
    line for its standard input, which may be secret. `grace_s`: time between SIGTERM and SIGKILL. `limits`: of the
    program with all its descendants. `remove`: a directory of this host that the guard removes if the lab is killed."""

    name: str
    command: Sequence[str | PurePath]
    log: PurePath
    stdout: PurePath | None = None
    cpus: Sequence[int] = ()
    directory: PurePath | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    first_line: str | None = None
    grace_s: float = GRACE_S
    limits: Limits = field(default_factory=Limits)
    remove: PurePath | None = None


class ServiceProcess(Protocol):
    """A process tree below a guard, on this host or on another one."""

    name: str

    @property
    def pid(self) -> int:
        """The process id of the guard on its host, the root of the process tree."""

    @property
    def log(self) -> PurePath:
        """The path of its log on its host."""

    @property
    def returncode(self) -> int | None:
        """The exit status; None while the process runs, or if it is not known."""

    def wait(self, timeout_s: float) -> None:
        """Waits for its end, at most `timeout_s`."""

    def has_ended(self) -> bool:
        """Whether the process has ended, or can no longer be reached."""

    def end_message(self) -> str:
        """The message for a service that has ended: how it ended, and its last log lines."""

    def last_lines(self) -> str:
        """The last lines of its log, in a form that can be appended to a message."""

    def send_signal(self, number: int, timeout_s: float) -> None:
        """Sends the signal `number` to the program below the guard and waits for its end, at most
        `timeout_s`. `stop` must be called afterwards."""

    @property
    def is_down(self) -> bool:
        """Whether `kill_tree` has ended the program, and `start_again` has not started it since."""

    @property
    def starts(self) -> int:
        """How often the program was started."""

    def kill_tree(self) -> None:
        """Kills the program and all its descendants with SIGKILL, and waits until none is left. The guard remains, so
        the root of the process tree does not change. Raises ServiceError."""

    def start_again(self) -> None:
        """Starts the program again with the same command, after `kill_tree`. Raises ServiceError."""

    def pause_tree(self) -> None:
        """Stops the program and its descendants with SIGSTOP. Raises ServiceError."""

    def continue_tree(self) -> None:
        """Continues the program and its descendants with SIGCONT. Raises ServiceError."""

    def stop(self) -> None:
        """Ends the whole process tree."""


class GuardedProcess(TreeActions):
    """A program of this host that runs under the guard. Raises ServiceError if it cannot be started, or if this
    process may not use one of its cores."""

    def __init__(self, engine: Path, program: Program) -> None:
        super().__init__()
        self.name = program.name
        self._grace_s = program.grace_s
        self.log = Path(program.log)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        usable = os.sched_getaffinity(0)
        if not usable.issuperset(program.cpus):
            raise ServiceError(
                f"cpus {sorted(program.cpus)} cannot be used: this process may run on {sorted(usable)}"
            )
        with self.log.open("ab") as sink, Path(program.stdout or self.log).open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    [engine, *_guard_words(program), "--", *program.command],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=sink,
                    cwd=program.directory,
                    env={**os.environ, **program.environment},
                    start_new_session=True,
                )
            except OSError as error:
                raise ServiceError(
                    f"service {self.name}: {program.command[0]} cannot be started: {error}"
                ) from error
        if program.first_line is not None:
            self._write(program.first_line + "\n")

    @property
    def pid(self) -> int:
        """The process id of the guard, the root of the process tree."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status; None while the process runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> None:
        """Waits for its end, at most `timeout_s`. `returncode` then contains the result."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)

    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def end_message(self) -> str:
        """The message for a service that has ended: how it ended, and its last log lines."""
        data = self._end_of_log()
        ended = end_text(self._process.poll(), data)
        return f"service {self.name} {ended}{quoted_lines(data, str(self.log))}"

    def last_lines(self) -> str:
        """The last lines of its log, in a form that can be appended to a message."""
        return quoted_lines(self._end_of_log(), str(self.log))

    def _end_of_log(self) -> bytes:
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - QUOTED_BYTES))
            return file.read()
        return b""

    def send_signal(self, number: int, timeout_s: float) -> None:
        """Sends the signal `number` to the program below the guard and waits for its end, at most
        `timeout_s`. It is for servers that end in an orderly way on another signal than the guard's SIGTERM.
        `stop` must be called afterwards."""
        for task in _tasks(self._process.pid):
            with contextlib.suppress(OSError, ValueError, IndexError):
                os.kill(int((task / "children").read_text().split()[0]), number)
                self.wait(timeout_s)
                return

    def stop(self) -> None:
        """Ends the whole process group: first through the guard, then with SIGKILL."""
        if self._process.stdin:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(b"leave\n")
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(self._grace_s + TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _act(self, action: str) -> None:
        self._write(f"{action}\n")

    def _states(self) -> Sequence[str]:
        """The states of the descendants. A process that ends in the meantime is left out."""
        states: list[str] = []
        queue = [self.pid]
        while queue:
            for task in _tasks(queue.pop()):
                with contextlib.suppress(OSError):
                    children = (task / "children").read_text().split()
                    queue += map(int, children)
                    states += filter(None, map(_state, children))
        return states

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()
        except OSError as error:
            raise ServiceError(f"{self.end_message()} ({error})") from error


def _tasks(pid: int) -> Sequence[Path]:
    """The directories of the threads of a process. Empty if it has ended."""
    # Not glob(), which fails if the process ends between its look at the directory and its reading.
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return ()


def _guard_words(program: Program) -> list[str]:
    """The verb and the options of the engine that runs a program below a guard."""
    words = ["guard", "--grace-ms", str(round(program.grace_s * 1000))]
    if program.cpus:
        words += ["--cpus", ",".join(map(str, program.cpus))]
    if limits := program.limits.to_json():
        words += ["--limits", json.dumps(limits)]
    if program.remove is not None:
        words += ["--remove", str(program.remove)]
    if program.first_line is not None:
        words.append("--input")
    return words


def _state(pid: str) -> str:
    """The state of a process; empty if it has ended."""
    with contextlib.suppress(OSError, IndexError):
        return (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()[0]
        )
    return ""


def end_text(code: int | None, log: bytes = b"") -> str:
    """How a process with this exit status ended. `log`: the end of its log, in which the guard reports that the kernel
    killed a process at the memory limit."""
    if code is None:
        return "is running"
    kills = _OUT_OF_MEMORY.findall(log)
    if kills:
        limit = about_size(float(kills[-1]))
        if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
            return f"ran out of memory: the kernel killed it at its memory limit of {limit} (`limits`)"
        return (
            f"ended with exit status {code} after the kernel killed one of its processes at its memory limit of "
            f"{limit} (`limits`)"
        )
    if code < 0:
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    if code > 128:
        return f"was killed by signal {code - 128}"
    return f"ended with exit status {code}"


def quoted_lines(data: bytes, place: str) -> str:
    """The end of a log, in a form that can be appended to a message. `place`: its path, and its host."""
    lines = data.decode("utf-8", "replace").splitlines()[-QUOTED_LINES:]
    if not lines:
        return f"; its log ({place}) is empty"
    return f"; the end of its log ({place}):\n" + "\n".join(f"  {line}" for line in lines)


def finish(
    program: ServiceProcess,
    *,
    failure: str,
    check_interrupt: Callable[[], None],
    timeout_s: float | None = None,
) -> None:
    """Waits for the end of a program that prepares something, and ends it in any case. `failure`: a clause
    such as "the tables could not be written". Raises ServiceError with this clause and the last log lines if
    the program fails or takes longer than `timeout_s`."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    try:
        while not program.has_ended():
            check_interrupt()
            program.wait(0.05)
            if deadline is not None and time.monotonic() > deadline:
                raise ServiceError(f"{failure}: timeout after {timeout_s:g} s{program.last_lines()}")
        if program.returncode != 0:
            raise ServiceError(f"{failure}{program.last_lines()}")
    finally:
        program.stop()


def wait_until(process: ServiceProcess, check: Callable[[], bool], timeout_s: float) -> None:
    """Calls `check()` repeatedly until it returns true. Raises ServiceError after `timeout_s`, or if the
    process ends first."""
    deadline = time.monotonic() + timeout_s
    pause = 0.005
    starts = process.starts
    while True:
        if process.has_ended():
            raise ServiceError(process.end_message())
        if process.is_down or process.starts != starts:
            raise ServiceError(f"service {process.name} was killed before it was ready")
        if check():
            return
        if time.monotonic() > deadline:
            raise ServiceError(
                f"service {process.name} was not ready after {timeout_s:g} s{process.last_lines()}\n"
                "Increase the limit, for example `ready_timeout: 60s`, or check its command."
            )
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)
