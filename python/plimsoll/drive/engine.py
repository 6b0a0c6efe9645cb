"""A session with the engine: JSON lines over its stdin and stdout (crate `model`, session.rs).

The engine gets a session of its own, so that Ctrl-C at the terminal reaches the lab alone: the lab then asks the
engine to stop, and nothing that was measured is lost. If the lab dies, the engine sees its stdin close, stops and
writes what it has.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plimsoll.deploy.binary import require_same_version
from plimsoll.deploy.hosts.session import LISTEN_S, listening
from plimsoll.errors import EngineError
from plimsoll.plan.secret import Secret

FORMAT = "plimsoll.engine/1"
HELLO_TIMEOUT_S = 10.0
QUIT_TIMEOUT_S = 10.0
KEPT_LINES = 50
"""Last lines of the engine's stderr that an error message may quote."""


@dataclass(frozen=True, slots=True)
class Started:
    """The load has begun. `t0_unix_ns`: the run's zero by this host's clock."""

    t0_unix_ns: int
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Second:
    """One second of all agents together; counts are those of the second, times in ms."""

    second: int
    started: int
    succeeded: int
    failed: int
    dropped: int
    items: int
    payload: int
    active: int
    in_progress: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened, `t_s` seconds after the run's zero."""

    t_s: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run ended: done, stopped, ceiling, agent-lost, service-gone."""

    status: str
    reason: str
    counters: dict[str, int]
    in_flight: int
    balanced: bool
    damage: tuple[str, ...]
    lost: tuple[str, ...] = ()
    """Names of agents that were lost."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The run document could not be carried out; nothing was measured."""

    error: str


Message = Started | Second | Note | Finished | Refused


class EngineSession:
    """One engine process; runs are carried out in it one after the other."""

    def __init__(self, binary: Path, log: Path | None = None) -> None:
        self._binary = binary
        self._log = log
        self._messages: queue.Queue[Message | None] = queue.Queue()
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._asking = False
        self._joined: dict[str, Mapping[str, Any]] = {}
        self._news = threading.Condition()
        self._ended = False
        self._last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        try:
            self._process = subprocess.Popen(
                [binary, "control"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"the engine {binary} cannot be started: {error}") from error
        self._hello: queue.Queue[dict[str, Any] | None] = queue.Queue(maxsize=1)
        self._readers = [
            threading.Thread(target=self._read_events, name="engine-events", daemon=True),
            threading.Thread(target=self._read_log, name="engine-log", daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        self._greet()

    @property
    def pid(self) -> int:
        """Process id of the engine's controller."""
        return self._process.pid

    def listen(self, address: str, ports: tuple[int, int], experiment: str, *, quic: bool) -> Secret:
        """Opens a door for agents that dial in; gives their token, a JSON text. Raises EngineError."""
        command = listening(address, ports, experiment, quic=quic)
        [*_, event] = self._answered(command, "listening", LISTEN_S)
        return Secret(json.dumps(event["token"]))

    def joined(self, wait_s: float) -> Mapping[str, Mapping[str, Any]]:
        """Agents that have ever dialled in, with what they say of their hosts; waits for another one, at most `wait_s`.
        Raises EngineError when the engine is gone."""
        with self._news:
            known = len(self._joined)
            self._news.wait_for(lambda: self._ended or len(self._joined) > known, wait_s)
            if self._ended:
                raise EngineError(self._obituary())
            return dict(self._joined)

    def ask(self, command: Mapping[str, Any], last: str, timeout_s: float) -> Iterator[dict[str, Any]]:
        """Sends a command, between runs, and gives its events up to the one of type `last`. Raises EngineError when it
        is refused, when the engine is gone, or after `timeout_s`."""
        for event in self._answered(command, last, timeout_s):
            if event["type"] != last:
                yield event

    def _answered(self, command: Mapping[str, Any], last: str, timeout_s: float) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + timeout_s
        self._asking = True
        try:
            self._send(dict(command))
            while True:
                try:
                    event = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
                except queue.Empty:
                    raise EngineError(f"the engine {self._binary} did not answer in time") from None
                if event is None:
                    self._answers.put(None)
                    raise EngineError(self._obituary())
                if event["type"] == "refused":
                    raise EngineError(f"the engine refuses: {event.get('error')}")
                yield event
                if event["type"] == last:
                    return
        finally:
            self._asking = False

    def start_run(
        self,
        spec: dict[str, Any],
        agents: Sequence[Mapping[str, Any]] = (),
        rules: Mapping[str, Any] | None = None,
    ) -> None:
        """Hands over a run document, and who carries it (nobody: one agent of this host); events follow from
        `next_message`."""
        self._send({"type": "run", "spec": spec, "agents": list(agents), "rules": dict(rules or {})})

    def stop_run(self, reason: str) -> None:
        """Asks for the end of the run that goes on; `Finished` follows."""
        with contextlib.suppress(EngineError):
            self._send({"type": "stop", "reason": reason})

    def next_message(self, timeout_s: float) -> Message | None:
        """The next message, or None when none came in time. Raises EngineError when the engine is gone."""
        try:
            message = self._messages.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if message is None:
            self._messages.put(None)
            raise EngineError(self._obituary())
        return message

    def close(self) -> None:
        """Ends the engine; kills it if it does not end by itself."""
        with contextlib.suppress(EngineError):
            self._send({"type": "quit"})
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(QUIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join(1.0)
        for stream in (self._process.stdout, self._process.stderr):
            if stream:
                stream.close()

    def kill(self) -> None:
        """Ends the engine at once; its agents end with it."""
        self._process.kill()

    def _greet(self) -> None:
        try:
            hello = self._hello.get(timeout=HELLO_TIMEOUT_S)
        except queue.Empty:
            self.close()
            raise EngineError(f"the engine {self._binary} said nothing for {HELLO_TIMEOUT_S:.0f} s") from None
        if hello is None or hello.get("format") != FORMAT:
            self.close()
            raise EngineError(f"{self._binary} does not speak {FORMAT}: {self._obituary()}")
        try:
            require_same_version(str(hello.get("version")), self._binary)
        except EngineError:
            self.close()
            raise

    def _send(self, command: dict[str, Any]) -> None:
        pipe = self._process.stdin
        if pipe is None or pipe.closed:
            raise EngineError("the engine was closed")
        try:
            pipe.write(json.dumps(command, separators=(",", ":")) + "\n")
            pipe.flush()
        except OSError as error:
            raise EngineError(f"{self._obituary()} ({error})") from error

    def _read_events(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        greeted = False
        for line in stream:
            try:
                event = json.loads(line)
                if not greeted:
                    self._hello.put(event)
                    greeted = True
                else:
                    self._take(event)
            except (ValueError, KeyError, TypeError, AttributeError):
                self._last_lines.append(f"(not understood) {line.rstrip()[:500]}")
        if not greeted:
            self._hello.put(None)
        self._messages.put(None)
        self._answers.put(None)
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _take(self, event: dict[str, Any]) -> None:
        """Agents come whenever they like; all else belongs to a question, or to a run."""
        if event["type"] == "joined":
            with self._news:
                self._joined[str(event["name"])] = event["facts"]
                self._news.notify_all()
        elif self._asking:
            self._answers.put(event)
        else:
            self._messages.put(_parse(event))

    def _read_log(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        log = self._log.open("a", encoding="utf-8") if self._log else None
        for line in stream:
            self._last_lines.append(line.rstrip()[:500])
            if log:
                log.write(line)
                log.flush()
        if log:
            log.close()

    def _obituary(self) -> str:
        code = self._process.poll()
        if code is None:
            return "the engine closed its output"
        how = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
        lines = "\n".join(f"  {line}" for line in list(self._last_lines)[-10:])
        return f"the engine ended ({how})" + (f"; its last lines:\n{lines}" if lines else "")


def _parse(event: dict[str, Any]) -> Message:
    match event["type"]:
        case "started":
            return Started(event["t0_unix_ns"], tuple(event["agents"]))
        case "second":
            counters = event["counters"]
            return Second(
                second=event["second"],
                started=counters["started"],
                succeeded=counters["succeeded"],
                failed=counters["failed"],
                dropped=counters["dropped"],
                items=counters["items"],
                payload=counters["payload"],
                active=event["active"],
                in_progress=event["in_progress"],
                p50_ms=event["p50_ms"],
                p95_ms=event["p95_ms"],
                p99_ms=event["p99_ms"],
            )
        case "note":
            return Note(event["t_s"], event["kind"], event["text"])
        case "finished":
            return Finished(
                event["status"],
                event["reason"],
                event["counters"],
                event["in_flight"],
                event["balanced"],
                tuple(event["damage"]),
                tuple(event.get("lost", ())),
            )
        case "refused":
            return Refused(event["error"])
        case other:
            raise ValueError(f"unknown event {other!r}")
