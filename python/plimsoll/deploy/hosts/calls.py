"""Commands that are run side by side, each with a time-out, and ended together when the work is interrupted."""

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
"""Bytes of stdout, and of stderr, that are read of a command: a login may print for ever."""
MAX_SAID = 60_000
"""Bytes that a command can be told: a pipe holds them, so that nobody waits for one that does not read."""
AT_ONCE = 64
"""Commands at the same time."""

One = TypeVar("One")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command that has ended. `code`: None where it was ended by us, since it took too long or said too much, which
    `trouble` tells."""

    code: int | None
    out: str
    err: str
    trouble: str = ""

    @property
    def complaint(self) -> str:
        """Why it did not do what it should, in a line."""
        return self.trouble or self.last_line or f"it ended with exit status {self.code}"

    @property
    def last_line(self) -> str:
        """The last thing that it said on stderr."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""


class Calls:
    """Owner of the commands that run."""

    def __init__(self, check_interrupt: Callable[[], None]) -> None:
        self._check_interrupt = check_interrupt
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._over = False

    def each(self, items: Sequence[One], work: Callable[[One], Result]) -> list[Result]:
        """`work` of all items, side by side; results in their order. What it raises is raised, and ends the rest."""
        if not items:
            return []
        with ThreadPoolExecutor(min(len(items), AT_ONCE)) as pool:
            futures = [pool.submit(work, item) for item in items]
            try:
                left = set(futures)
                while left:
                    ended, left = wait(left, timeout=0.1, return_when=FIRST_EXCEPTION)
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
        """Runs one to its end. `stdin`: a file, or what is said to it; then it stays open until the end, so that who
        reads it sees whether we are still there. Raises OSError where it cannot be started."""
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
                    start_new_session=True,  # what it starts in its turn (ProxyCommand) ends with it
                )
                self._running.add(process)
            stack.callback(self._forget, process)
            return _read_to_end(process, time.monotonic() + timeout_s, timeout_s)

    def alone(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        """Runs one to its end, and hears an interrupt meanwhile. Raises OSError where it cannot be started."""
        return self.each([command], lambda one: self.run(one, timeout_s))[0]

    def end(self) -> None:
        """Ends every command that runs, and starts no more."""
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
    """What a command reads. What is said stands in no file, since it may be secret."""
    if stdin is None:
        return subprocess.DEVNULL
    if isinstance(stdin, Path):
        return stack.enter_context(stdin.open("rb"))
    source, mouth = os.pipe()
    stack.callback(os.close, source)
    stack.callback(os.close, mouth)
    os.set_blocking(mouth, False)
    if len(stdin) > MAX_SAID or os.write(mouth, stdin) < len(stdin):
        raise OSError(errno.E2BIG, f"its input is longer than {MAX_SAID:,} bytes")
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
    """The process and its group, which has its number as long as nobody has waited for it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
