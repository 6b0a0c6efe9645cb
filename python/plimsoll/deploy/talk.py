"""The dialogue with the engine: JSON lines over its stdin and stdout (crate `model`, session.rs).

The engine has its own process session (setsid), so Ctrl-C at the terminal reaches only the lab. The lab then
requests the engine to stop, and no measurement is lost. If the lab ends, the engine's stdin closes. The
engine then stops and writes its data.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from plimsoll.deploy.binary import require_same_version
from plimsoll.errors import EngineError
from plimsoll.plan.source.secret import Secret

FORMAT: Final = "plimsoll.engine/1"
HELLO_S: Final = 10.0
QUIT_S: Final = 10.0
LISTEN_S: Final = 20.0
"""The time to create keys and find a port."""
MAX_LINE: Final = 4_000_000
MAX_WAITING: Final = 10_000
"""Events that were not read yet. If the queue is full, the engine waits and omits seconds."""
MAX_NOTES: Final = 1000
"""Notes between runs that are kept. If there are more, the oldest are dropped."""
REFUSAL_KINDS: Final = ("agent-refused", "stranger")
KEPT_LINES: Final = 10
"""Last lines of the engine's stderr that an error message quotes."""
POLL_S: Final = 0.2


class EngineTalk:
    """An engine process. It ends with `close`, or at the end of the `with` block."""

    def __init__(self, binary: Path, check_interrupt: Callable[[], None] = lambda: None) -> None:
        self._binary = binary
        self._check_interrupt = check_interrupt
        self._events: queue.Queue[bytes | dict[str, Any] | None] = queue.Queue(MAX_WAITING)
        self._joined: dict[str, Mapping[str, Any]] = {}
        self._refusal_reasons: deque[str] = deque(maxlen=MAX_NOTES)
        self._deferred_notes: deque[dict[str, Any]] = deque(maxlen=MAX_NOTES)
        """Notes that arrived during another command. They belong to the next run."""
        self._changed = threading.Condition()
        self._ended = False
        self._last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        try:
            self._process = subprocess.Popen(
                [binary, "control"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"the engine {binary} cannot be started: {error}") from error
        self._readers = [
            threading.Thread(target=self._read_events, name="engine-events", daemon=True),
            threading.Thread(target=self._read_log, name="engine-log", daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        try:
            self._read_hello()
        except BaseException:
            self.close(1.0)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(QUIT_S if error is None else 1.0)

    def close(self, timeout_s: float = QUIT_S) -> None:
        """Ends the engine; kills it if it does not end within `timeout_s`."""
        with contextlib.suppress(EngineError):
            self._send({"type": "quit"})
        stdin, *outputs = self._process.stdin, self._process.stdout, self._process.stderr
        if stdin:
            with contextlib.suppress(OSError):
                stdin.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for reader, stream in zip(self._readers, outputs, strict=True):
            reader.join(1.0)
            if stream and not reader.is_alive():  # one that still reads holds the stream's lock
                stream.close()

    def kill(self) -> None:
        """Kills the engine. Its agents end with it."""
        self._process.kill()

    def ask(self, command: Mapping[str, Any], last: str, timeout_s: float) -> Iterator[dict[str, Any]]:
        """Sends a command, between runs, and yields its events up to the one of type `last`. Raises
        EngineError when the engine rejects it or has ended, or after `timeout_s`."""
        for event in self._events_of(command, last, timeout_s):
            if event.get("type") != last:
                yield event

    def listen(self, address: str, ports: tuple[int, int], experiment: str, *, quic: bool) -> Secret:
        """Opens a door for agents that dial in; returns their token, a JSON text. `ports`: first and last
        port that may be used. Raises EngineError."""
        command = {
            "type": "listen",
            "experiment": experiment,
            "address": address,
            "ports": list(ports),
            "quic": quic,
        }
        [*_, event] = self._events_of(command, "listening", LISTEN_S)
        return Secret(json.dumps(event["token"]))

    def joined_agents(self, wait_s: float) -> Mapping[str, Mapping[str, Any]]:
        """All agents that have dialled in, by name, with the facts of their hosts. Waits for a new agent, at
        most `wait_s`. Raises EngineError when the engine has ended."""
        with self._changed:
            known = len(self._joined)
            self._changed.wait_for(lambda: self._ended or len(self._joined) > known, wait_s)
            if self._ended:
                raise EngineError(self._end_message())
            return dict(self._joined)

    def refusal_reasons(self) -> Sequence[str]:
        """The reasons why agents were refused, as texts, in order of time; at most the last 1,000."""
        with self._changed:
            return tuple(self._refusal_reasons)

    def _events_of(self, command: Mapping[str, Any], last: str, timeout_s: float) -> Iterator[dict[str, Any]]:
        self._send(command)
        deadline = time.monotonic() + timeout_s
        while True:
            event = self._event(deadline)
            if event.get("type") == "refused":
                raise EngineError(f"the engine rejects the command: {event.get('error')}")
            if event.get("type") == "note":
                self._deferred_notes.append(event)
                continue
            yield event
            if event.get("type") == last:
                return

    def _read_hello(self) -> None:
        hello = self._event(time.monotonic() + HELLO_S)
        if hello.get("type") != "hello" or hello.get("format") != FORMAT:
            raise EngineError(f"{self._binary} does not use the protocol {FORMAT}")
        require_same_version(str(hello.get("version")), self._binary)

    def _send(self, command: Mapping[str, Any]) -> None:
        pipe = self._process.stdin
        if pipe is None or pipe.closed:
            raise EngineError("the engine is already closed")
        try:
            pipe.write(json.dumps(command, separators=(",", ":")).encode() + b"\n")
            pipe.flush()
        except OSError as error:
            raise EngineError(f"{self._end_message()} ({error})") from error

    def _event(self, deadline: float) -> dict[str, Any]:
        while True:
            self._check_interrupt()
            remaining = deadline - time.monotonic()
            event = self._next(min(max(remaining, 0.0), POLL_S))
            if event is not None:
                return event
            if remaining <= 0:
                raise EngineError(
                    f"the engine {self._binary} did not answer before the timeout{self._last_output()}"
                )

    def _next(self, timeout_s: float) -> dict[str, Any] | None:
        """The next event, or None after `timeout_s`. Raises EngineError when the engine has ended."""
        try:
            event = self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if event is None:
            self._events.put(None)
            raise EngineError(self._end_message())
        if isinstance(event, bytes):
            raise EngineError(f"{self._binary} printed a line that is not an event: {event[:200]!r}")
        return event

    def _read_events(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        while (line := stream.readline(MAX_LINE)).endswith(b"\n"):
            self._dispatch(line)
        if len(line) == MAX_LINE:
            self._events.put(line)  # a reader raises an error; a shorter line means that the engine died
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._events.put(None)

    def _dispatch(self, line: bytes) -> None:
        """Agents connect or are rejected at any time. All other events are for the next command."""
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            self._events.put(line)
        elif event.get("type") == "joined":
            with self._changed:
                self._joined[str(event.get("name"))] = event.get("facts") or {}
                self._changed.notify_all()
        else:
            if event.get("kind") in REFUSAL_KINDS:
                with self._changed:
                    self._refusal_reasons.append(str(event.get("text")))
            self._events.put(event)

    def _read_log(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        while line := stream.readline(MAX_LINE):
            self._last_lines.append(line.decode("utf-8", "replace").rstrip()[:500])

    def _end_message(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.returncode
        if code is None:
            how = "closed its output"
        else:
            self._readers[1].join(1.0)  # its last output may not have been read yet
            how = f"ended (killed by signal {-code})" if code < 0 else f"ended ({code})"
        return f"the engine {self._binary} {how}{self._last_output()}"

    def _last_output(self) -> str:
        lines = list(self._last_lines)
        return "; its last output:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
