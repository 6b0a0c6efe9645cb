"""A conversation with the engine on another host: `plimsoll-engine host` over ssh, JSON lines in both directions.

One connection serves all services of a host. Rejected: one call of ssh for each operation. The start of a
database needs about 20 operations, and over a link with a round trip of 20 ms each login takes 0.3 s. A single
connection also determines the lifetime of all processes on the host.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from plimsoll.errors import ServiceError

START_S: Final = 40.0
"""The time for the login and the first answer."""
ANSWER_S: Final = 60.0
"""The time for the answer to a request that does not wait for a process."""
LAST_BYTES: Final = 8192
"""The number of bytes of the messages of ssh that are searched for the reason of its end."""
HEARTBEAT_S: Final = 5.0
"""The interval of messages that show the engine on the host that the lab is alive."""


class HostError(ServiceError, OSError):
    """A request that a host refused or did not answer. It is also an OSError, as a file operation on this host
    would raise."""


class HostSession:
    """The connection to one host. `argv`: the command whose stdin and stdout are the connection. `host`: its name,
    for messages."""

    def __init__(self, host: str, argv: Sequence[str]) -> None:
        self.host = host
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
        except OSError as error:
            raise HostError(f"{host}: {argv[0]} cannot be started: {error}") from error
        self._changed = threading.Condition()
        # Separate, so that answers are read while a long request is written.
        self._sending = threading.Lock()
        self._answers: dict[int, dict[str, Any]] = {}
        self._codes: dict[int, int] = {}
        self._number = 0
        self._over = False
        self._reason = ""
        self._reader = threading.Thread(target=self._read, name=f"host-{host}", daemon=True)
        self._reader.start()
        threading.Thread(target=self._beat, name=f"heartbeat-{host}", daemon=True).start()

    @property
    def has_ended(self) -> bool:
        """Whether the connection has ended."""
        return self._over

    def end_reason(self) -> str:
        """Why the connection has ended, in one line."""
        return self._reason or "no reason given"

    def call(self, operation: str, timeout_s: float = ANSWER_S, **arguments: Any) -> dict[str, Any]:
        """Sends a request and returns its answer. Raises HostError; FileNotFoundError if a path is missing."""
        with self._changed:
            self._number += 1
            number = self._number
        self._send({"id": number, "op": operation, **arguments})
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while number not in self._answers:
                if self._over:
                    raise HostError(f"the connection to {self.host} has ended: {self.end_reason()}")
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    raise HostError(f"{self.host} does not answer: {operation}, {timeout_s:g} s")
            answer = self._answers.pop(number)
        if "ok" in answer:
            result: dict[str, Any] = answer["ok"]
            return result
        text = f"{self.host}: {answer.get('error', 'no reason given')}"
        if answer.get("missing"):
            raise FileNotFoundError(text)
        raise HostError(text)

    def code_of(self, process: int) -> int | None:
        """The exit status of a process; None while it runs."""
        with self._changed:
            return self._codes.get(process)

    def wait_for_end(self, process: int, timeout_s: float) -> None:
        """Waits until a process or the connection has ended, at most `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or process in self._codes, timeout_s)

    def close(self, timeout_s: float) -> None:
        """Ends the connection, and with it all processes. Waits for their end, at most `timeout_s`."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout_s)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        try:
            with self._sending:  # the heartbeat is sent by another thread
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise HostError(f"the connection to {self.host} has ended: {self.end_reason()}") from error

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # a login may print text
            if not isinstance(message, dict):
                continue
            with self._changed:
                if isinstance(message.get("id"), int):
                    self._answers[message["id"]] = message
                elif isinstance(message.get("ended"), int):
                    self._codes[message["ended"]] = int(message.get("code", 1))
                self._changed.notify_all()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)  # so that its last message is complete
        with self._changed:
            self._reason = self._last_error()
            self._over = True
            self._changed.notify_all()

    def _last_error(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            size = os.fstat(self._errors.fileno()).st_size
            text = os.pread(self._errors.fileno(), LAST_BYTES, max(0, size - LAST_BYTES))
            lines = [line.strip() for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
            return lines[-1][:300] if lines else ""
        return ""

    def _beat(self) -> None:
        while not self._over:
            time.sleep(HEARTBEAT_S)
            with contextlib.suppress(HostError):
                self._send({"id": 0, "op": "ping"})
