"""A conversation with the engine outside of a run: JSON lines, a question and the events that answer it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from plimsoll.deploy.binary import require_same_version
from plimsoll.errors import EngineError
from plimsoll.plan.secret import Secret

FORMAT: Final = "plimsoll.engine/1"
HELLO_S: Final = 10.0
QUIT_S: Final = 10.0
LISTEN_S: Final = 20.0
"""For keys to be made, and a port to be found."""
LONGEST_LINE: Final = 4_000_000


class EngineTalk:
    """An engine that is started for this, and ends with it."""

    def __init__(self, binary: Path, check_interrupt: Callable[[], None] = lambda: None) -> None:
        self._binary = binary
        self._check_interrupt = check_interrupt
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed in __exit__
        self._buffer = bytearray()
        self._joined: dict[str, Mapping[str, Any]] = {}
        try:
            self._process = subprocess.Popen(
                [binary, "control"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said
            )
        except OSError as error:
            self._said.close()
            raise EngineError(f"the engine {binary} cannot be started: {error}") from error

    def __enter__(self) -> EngineTalk:
        try:
            hello = self._event(time.monotonic() + HELLO_S)
            if hello.get("type") != "hello" or hello.get("format") != FORMAT:
                raise EngineError(f"{self._binary} does not speak {FORMAT}")
            require_same_version(str(hello.get("version")), self._binary)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError, EngineError):
            self._send({"type": "quit"})
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(QUIT_S if error is None else 1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._said.close()

    def ask(self, command: Mapping[str, Any], last: str, timeout_s: float) -> Iterator[dict[str, Any]]:
        """Sends a command and gives its events up to the one of type `last`. Raises EngineError when it is refused,
        when the engine ends, or after `timeout_s`."""
        for event in self._answers(command, last, timeout_s):
            if event["type"] != last:
                yield event

    def listen(self, address: str, ports: tuple[int, int], experiment: str, *, quic: bool) -> Secret:
        """Opens a door for agents that dial in; gives their token, a JSON text. Raises EngineError."""
        command = listening(address, ports, experiment, quic=quic)
        [*_, event] = self._answers(command, "listening", LISTEN_S)
        return Secret(json.dumps(event["token"]))

    def joined(self, wait_s: float) -> Mapping[str, Mapping[str, Any]]:
        """Agents that have dialled in since the beginning, with what they say of their hosts; waits for another one, at
        most `wait_s`. Raises EngineError when the engine has ended."""
        known, deadline = len(self._joined), time.monotonic() + wait_s
        while len(self._joined) == known and self._next(deadline) is not None:
            pass
        return dict(self._joined)

    def _answers(self, command: Mapping[str, Any], last: str, timeout_s: float) -> Iterator[dict[str, Any]]:
        self._send(command)
        deadline = time.monotonic() + timeout_s
        while True:
            event = self._event(deadline)
            if event.get("type") == "refused":
                raise EngineError(f"the engine refuses: {event.get('error')}")
            if event.get("type") != "joined":
                yield event
            if event.get("type") == last:
                return

    def _send(self, command: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command, separators=(",", ":")).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise EngineError(f"{self._obituary()} ({error})") from error

    def _event(self, deadline: float) -> dict[str, Any]:
        event = self._next(deadline)
        if event is None:
            raise EngineError(f"the engine {self._binary} did not answer in time{self._last_words()}")
        return event

    def _next(self, deadline: float) -> dict[str, Any] | None:
        line = self._line(deadline)
        if line is None:
            return None
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise EngineError(f"{self._binary} says what is no event: {line[:200]!r}")
        if found.get("type") == "joined":
            self._joined[str(found["name"])] = found["facts"]
        return found

    def _line(self, deadline: float) -> bytes | None:
        """None where none came in time."""
        stdout = self._process.stdout
        assert stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stdout.fileno(), selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                self._check_interrupt()
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                if selector.select(min(left, 0.2)):
                    chunk = os.read(stdout.fileno(), 65536)
                    self._buffer += chunk
                    if not chunk or len(self._buffer) > LONGEST_LINE:
                        raise EngineError(self._obituary())
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return line

    def _obituary(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.returncode
        how = "closed its output" if code is None else f"ended ({code})"
        return f"the engine {self._binary} {how}{self._last_words()}"

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read(65536).decode("utf-8", "replace").splitlines()[-5:]
        return "; its last lines:\n" + "\n".join(f"  {line[:500]}" for line in lines) if lines else ""


def listening(address: str, ports: tuple[int, int], experiment: str, *, quic: bool) -> dict[str, Any]:
    """The command that opens a door."""
    return {
        "type": "listen",
        "experiment": experiment,
        "address": address,
        "ports": list(ports),
        "quic": quic,
    }
