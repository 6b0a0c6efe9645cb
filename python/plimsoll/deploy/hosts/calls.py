"""Runs commands in parallel, each with a timeout. An interrupt ends all of them."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

MAX_OUTPUT = 1_000_000
"""The maximum number of bytes of stdout, and of stderr, of a command. A login shell may print without end."""
MAX_INPUT = 60_000
"""The maximum number of bytes for the input of a command. A pipe holds them, so writing does not wait for a
command that does not read."""
MAX_PARALLEL = 64
"""The maximum number of commands that run at the same time."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command that has ended. `code`: its exit status; None if it was ended because of its duration or the
    size of its output. `trouble` then contains the reason."""

    code: int | None
    out: str
    err: str
    trouble: str = ""

    @property
    def complaint(self) -> str:
        """Why the command failed, in one line."""
        return self.trouble or self.last_line or f"it ended with exit status {self.code}"

    @property
    def last_line(self) -> str:
        """The last line on stderr that is not empty."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""


class Calls:
    """Runs commands, and ends those that still run."""

    def __init__(self, check_interrupt: Callable[[], None]) -> None:
        self._check_interrupt = check_interrupt
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._over = False

    def run_all(self, items: Sequence[Item], work: Callable[[Item], Result]) -> list[Result]:
        """Calls `work` for all items in parallel and returns the results in the order of the items. An
        exception of `work` ends the other commands and is raised."""
        if not items:
            return []
        with ThreadPoolExecutor(min(len(items), MAX_PARALLEL)) as pool:
            futures = [pool.submit(work, item) for item in items]
            try:
                unfinished = set(futures)
                while unfinished:
                    ended, unfinished = wait(unfinished, timeout=0.1, return_when=FIRST_EXCEPTION)
                    for future in ended:
                        future.result()
                    self._check_interrupt()
            except BaseException:
                for future in futures:
                    future.cancel()
                self.end()
                raise
        return [future.result() for future in futures]

    def run(
        self, command: Sequence[str], timeout_s: float, stdin: Path | bytes | None = None
    ) -> CommandResult:
        """Runs a command to its end. `stdin`: a file, or bytes that are written to its input. With bytes, the
        input stays open until the end, so that its reader notices if this process ends. Raises OSError if the
        command cannot be started."""
        with contextlib.ExitStack() as stack:
            source = _source(stdin, stack)
            with self._lock:
                if self._over:
                    return CommandResult(None, "", "", "interrupted")
                process = subprocess.Popen(
                    command,
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**os.environ, "LC_ALL": "C"},
                    start_new_session=True,  # its child processes (ProxyCommand) end with it
                )
                self._running.add(process)
            stack.callback(self._forget, process)
            return _read_to_end(process, time.monotonic() + timeout_s, timeout_s)

    def run_alone(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        """Runs a command to its end, and checks for interrupts during this time. Raises OSError if it cannot
        be started."""
        return self.run_all([command], lambda command_line: self.run(command_line, timeout_s))[0]

    def end(self) -> None:
        """Ends all running commands. No further command is started."""
        with self._lock:
            self._over = True
            for process in self._running:
                _kill(process)

    def _forget(self, process: subprocess.Popen[bytes]) -> None:
        _kill(process)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        with self._lock:
            self._running.discard(process)


def _source(stdin: Path | bytes | None, stack: contextlib.ExitStack) -> int | BinaryIO:
    """The standard input of a command. Bytes are not written to a file, since they may be secret."""
    if stdin is None:
        return subprocess.DEVNULL
    if isinstance(stdin, Path):
        return stack.enter_context(stdin.open("rb"))
    source, write_end = os.pipe()
    stack.callback(os.close, source)
    stack.callback(os.close, write_end)
    os.set_blocking(write_end, False)
    if len(stdin) > MAX_INPUT or os.write(write_end, stdin) < len(stdin):
        raise OSError(errno.E2BIG, f"its input is longer than {MAX_INPUT:,} bytes")
    return source


def _read_to_end(process: subprocess.Popen[bytes], deadline: float, timeout_s: float) -> CommandResult:
    read: dict[int, bytearray] = {}
    trouble = ""
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                read[stream.fileno()] = bytearray()
                selector.register(stream.fileno(), selectors.EVENT_READ)
        out, err = read.values()
        while selector.get_map() and not trouble:
            for key, _ in selector.select(max(0.0, deadline - time.monotonic())):
                chunk = os.read(key.fd, 65536)
                read[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fd)
            if max(len(out), len(err)) > MAX_OUTPUT:
                trouble = f"its output is longer than {MAX_OUTPUT:,} bytes"
            elif time.monotonic() >= deadline:
                trouble = f"no answer within {timeout_s:g} s"
    code = None
    if not trouble:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(max(0.1, deadline - time.monotonic()))
    if code is None and not trouble:
        trouble = f"no end within {timeout_s:g} s"
    return CommandResult(code, _text(out), _text(err), trouble)


def _text(read: bytearray) -> str:
    return read[:MAX_OUTPUT].decode("utf-8", "replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and its group. The group has the number of the process until the process is waited
    for."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
