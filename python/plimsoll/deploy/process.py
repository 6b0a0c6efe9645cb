"""A child process with an owner. It has its own process group, is bound to cores, writes a log, and always
ends.

Every service runs below `plimsoll-engine guard`, which ends the whole group when its standard input closes.
So a lab that is killed leaves no process behind. `atexit` or a signal handler of the lab could not guarantee
this.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from plimsoll.errors import ServiceError

GRACE_S = 4.0
"""The default time between SIGTERM and SIGKILL."""
TIMEOUT_S = 1.0
"""The time beyond its grace period that the guard may take to end."""
ACTION_S = 5.0
"""The maximum time that the guard may take to carry out an action on the processes of a service."""
QUOTED_LINES = 12
"""The maximum number of log lines that a message quotes."""


@contextlib.contextmanager
def bound_to(cpus: Sequence[int]) -> Iterator[None]:
    """Within the `with` block, processes that this thread starts run on `cpus` only. If `cpus` is empty,
    nothing changes.

    A child inherits the affinity over fork. Setting it in the parent avoids code between fork and exec, which
    is unsafe when other threads run. Raises ServiceError if this process may not use one of the cores.
    """
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, set(cpus))
    except OSError as error:
        raise ServiceError(
            f"cpus {sorted(cpus)} cannot be used: this process may run on {sorted(before)} ({error.strerror})"
        ) from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class GuardedProcess:
    """A running child process under the guard. The child's output goes to `log`; with `pipe_stdout`, its
    stdout goes to a pipe instead. `first_line`: a line for its standard input. `grace_s`: time between
    SIGTERM and SIGKILL."""

    def __init__(
        self,
        name: str,
        engine: Path,
        command: Sequence[str | Path],
        *,
        log: Path,
        cpus: Sequence[int] = (),
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        first_line: str | None = None,
        pipe_stdout: bool = False,
        grace_s: float = GRACE_S,
    ) -> None:
        self.name = name
        self.is_down = False
        """Whether `kill_tree` has ended the program, and `start_again` has not started it since."""
        self._starts = 1
        self._grace_s = grace_s
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink, bound_to(cpus):
            try:
                self._process = subprocess.Popen(
                    [
                        engine,
                        "guard",
                        "--grace-ms",
                        str(round(grace_s * 1000)),
                        *(["--input"] if first_line is not None else []),
                        "--",
                        *command,
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE if pipe_stdout else sink,
                    stderr=sink,
                    cwd=cwd,
                    env=None if env is None else {**os.environ, **env},
                    start_new_session=True,
                )
            except OSError as error:
                raise ServiceError(f"service {name}: {command[0]} cannot be started: {error}") from error
        if first_line is not None:
            self._write(first_line + "\n")

    @property
    def pid(self) -> int:
        """The process id of the guard, the root of the process tree."""
        return self._process.pid

    @property
    def stdout(self) -> IO[bytes]:
        """The child's output, if `pipe_stdout` was set."""
        assert self._process.stdout is not None
        return self._process.stdout

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
        code = self._process.poll()
        if code is None:
            how = "is running"
        elif code < 0:
            how = f"was killed by signal {-code} ({signal.Signals(-code).name})"
        elif code > 128:
            how = f"was killed by signal {code - 128}"
        else:
            how = f"ended with exit status {code}"
        return f"service {self.name} {how}{self.last_lines()}"

    def last_lines(self) -> str:
        """The last lines of its log, in a form that can be appended to a message."""
        with contextlib.suppress(OSError):
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - 8192))
                lines = file.read().decode("utf-8", "replace").splitlines()[-QUOTED_LINES:]
            if lines:
                return f"; the end of its log ({self.log}):\n" + "\n".join(f"  {line}" for line in lines)
        return f"; its log ({self.log}) is empty"

    def send_signal(self, number: int, timeout_s: float) -> None:
        """Sends the signal `number` to the program below the guard and waits for its end, at most
        `timeout_s`. It is for servers that end in an orderly way on another signal than the guard's SIGTERM.
        `stop` must be called afterwards."""
        for task in Path(f"/proc/{self._process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                os.kill(int(task.read_text().split()[0]), number)
                self.wait(timeout_s)
                return

    @property
    def starts(self) -> int:
        """How often the program was started."""
        return self._starts

    def kill_tree(self) -> None:
        """Kills the program and all its descendants with SIGKILL, and waits until none is left. The guard remains, so
        the root of the process tree does not change. Raises ServiceError."""
        self.is_down = True
        self._write("kill\n")
        self._wait_for(lambda: not tree_below(self.pid), "its processes could not be killed")

    def start_again(self) -> None:
        """Starts the program again with the same command, after `kill_tree`. Raises ServiceError."""
        self._starts += 1
        self._write("start\n")
        self._wait_for(lambda: bool(tree_below(self.pid)), "it could not be started again")
        self.is_down = False

    def pause_tree(self) -> None:
        """Stops the program and its descendants with SIGSTOP. Raises ServiceError."""
        self._write("pause\n")
        self._wait_for(
            lambda: all(state in "TtZX" for state in tree_below(self.pid).values()),
            "its processes could not be stopped",
        )

    def continue_tree(self) -> None:
        """Continues the program and its descendants with SIGCONT. Raises ServiceError."""
        self._write("continue\n")
        self._wait_for(
            lambda: not any(state == "T" for state in tree_below(self.pid).values()),
            "its processes could not be continued",
        )

    def _wait_for(self, check: Callable[[], bool], failure: str) -> None:
        deadline = time.monotonic() + ACTION_S
        while not check():
            if self.has_ended():
                raise ServiceError(self.end_message())
            if time.monotonic() > deadline:
                raise ServiceError(f"service {self.name}: {failure} within {ACTION_S:g} s")
            time.sleep(0.001)

    def stop(self) -> None:
        """Ends the whole process group: first through the guard, then with SIGKILL."""
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(self._grace_s + TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()
        except OSError as error:
            raise ServiceError(f"{self.end_message()} ({error})") from error


def tree_below(pid: int) -> dict[int, str]:
    """The descendants of a process of this host, with their states as in /proc/PID/stat (R, S, T, Z, ...)."""
    found: dict[int, str] = {}
    queue = [pid]
    while queue:
        for task in Path(f"/proc/{queue.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError, IndexError):
                for child in map(int, task.read_text().split()):
                    queue.append(child)
                    with contextlib.suppress(OSError, IndexError):
                        stat = Path(f"/proc/{child}/stat").read_text(encoding="utf-8", errors="replace")
                        found[child] = stat.rpartition(")")[2].split()[0]
    return found


def run_to_end(
    name: str,
    engine: Path,
    command: Sequence[str | Path],
    *,
    log: Path,
    failure: str,
    check_interrupt: Callable[[], None],
    first_line: str | None = None,
    timeout_s: float | None = None,
    cwd: Path | None = None,
) -> None:
    """Runs a program that prepares something, below a guard, until it has ended. `failure`: a clause such as
    "the tables could not be written". Raises ServiceError with this clause and the last log lines if the
    program fails or takes longer than `timeout_s`."""
    program = GuardedProcess(name, engine, command, log=log, first_line=first_line, cwd=cwd)
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


def wait_until(process: GuardedProcess, check: Callable[[], bool], timeout_s: float) -> None:
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
