"""One recording of perf: the process tree of a service, on the host of the service, until it is stopped."""

from __future__ import annotations

import codecs
import contextlib
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Final

from plimsoll.deploy.perf.permission import PACKAGE, PROGRAM, last_message
from plimsoll.deploy.perf.stacks import FIELDS, Profile, fold
from plimsoll.deploy.process import Program, ServiceProcess
from plimsoll.deploy.programs import find_on, missing_text
from plimsoll.deploy.service_hosts import ServiceHost
from plimsoll.errors import ServiceError

HZ: Final = 99
"""Samples per second of processor time. Not 100: it would meet a task with a period of 10 ms always at one point."""
MAX_S: Final = 600
"""The maximum length of a recording, s."""
MAX_SIZE: Final = "16M"
"""The maximum size of the file of perf. perf ends when it is reached."""
MAX_TEXT: Final = 1_000_000_000
"""The maximum size of the text of `perf script`."""
ATTEMPTS: Final = 5
"""A process that ends between the listing and the start of perf makes perf fail."""
BUFFER: Final = "256K"
"""The size of the buffer of each core, which is full after 2.3 s at the greatest depth of stacks that perf records."""
DRAIN_S: Final = 0.01
"""The time that perf runs to write the samples of its buffers."""
ENABLED: Final = b"Events enabled"
"""The message of perf with -D when it begins to take samples."""
BEGIN_S: Final = 20.0
"""The maximum time until this."""
POLL_S: Final = 0.02
END_S: Final = 15.0
"""The time that perf may take to write its file after the signal."""
SCRIPT_S: Final = 120.0
"""The time that `perf script` may take."""
PART: Final = 4_000_000
"""Bytes of the text of `perf script` that are read at once."""
_CAPTURED: Final = re.compile(rb"Captured and wrote [\d.]+ MB \S+(?: \(~?(\d+) samples\))?")


class PerfRecording:
    """Samples of a process tree. `root`: its root, the guard, whose own samples are left out. Samples of processes that
    start later are taken, too. `began`: when it began, by the monotonic clock. Raises ServiceError if perf cannot be
    started."""

    def __init__(self, host: ServiceHost, root: int) -> None:
        self._host = host
        perf = find_on(host.programs, [PROGRAM])
        if perf is None:
            raise ServiceError(missing_text(PROGRAM, PACKAGE, host.programs))
        self._perf = perf
        self._root = root
        self._directory, _ = host.create_workplace(PROGRAM, None)
        try:
            self.began = 0.0
            self._process = self._started()
        except BaseException:
            host.remove(self._directory)
            raise
        self._seconds: float | None = None

    @property
    def _data(self) -> PurePath:
        return self._directory / "perf.data"

    def _started(self) -> ServiceProcess:
        log = self._directory / "log"
        text = b""
        for _ in range(ATTEMPTS):
            process = self._host.start(Program(PROGRAM, self._command(), log, directory=self._directory))
            try:
                text = self._wait_for_begin(process)
            except BaseException:
                process.stop()
                raise
            if ENABLED in text:
                return process
            process.stop()
            self._host.remove(log)
            if b"No such process" not in text:
                break
        raise ServiceError(f"perf ended at once: {last_message(text)}")

    def _wait_for_begin(self, process: ServiceProcess) -> bytes:
        """Waits until perf takes samples, and stops it (see `drain`); or until it has ended. Returns its messages."""
        deadline = time.monotonic() + BEGIN_S
        while time.monotonic() < deadline:
            has_ended = process.has_ended()
            text = self._log_of(process)
            if has_ended or ENABLED in text:
                self.began = time.monotonic()
                if not has_ended:
                    process.pause_tree()
                return text
            process.wait(POLL_S)
        raise ServiceError(f"perf took no sample within {BEGIN_S:g} s: {last_message(self._log_of(process))}")

    def _command(self) -> list[str | PurePath]:
        pids = ",".join(map(str, process_tree(self._host, self._root)))
        sampled = ["-D", "1", "-F", str(HZ), "-e", "cpu-clock", "-g", "-p", pids]
        written = ["--no-buildid-cache", "--max-size", MAX_SIZE, "-m", BUFFER, "-o", str(self._data)]
        return [self._perf, "record", *sampled, *written]

    def drain(self) -> None:
        """Lets perf write the samples in its buffers, and stops it again. To be called every second. Raises
        ServiceError.

        The kernel takes samples also while perf is stopped. When a thread has ended that perf 6.1 was attached to, perf
        polls for it without a pause, and uses a whole core. This would be measured as load of the host.
        """
        if self._has_ended():
            return
        self._process.continue_tree()
        time.sleep(DRAIN_S)
        if not self._has_ended():
            self._process.pause_tree()

    def _has_ended(self) -> bool:
        """Whether perf has ended by itself, at its maximum size."""
        if self._seconds is None and self._process.has_ended():
            self._seconds = time.monotonic() - self.began
        return self._seconds is not None

    def end(self) -> None:
        """Ends the sampling. `stop` must be called afterwards. Raises ServiceError."""
        if not self._has_ended():
            self._seconds = time.monotonic() - self.began
            self._process.continue_tree()
            self._process.send_signal(signal.SIGINT, 0.0)

    def stop(self) -> None:
        """Waits until perf has written its file, and ends it."""
        self._process.wait(END_S)
        self._process.stop()

    def result(self, began_s: float, check_interrupt: Callable[[], None]) -> Profile:
        """The samples, after `stop`. `began_s`: when it began, from the run's zero. Raises ServiceError."""
        log = self._log_of(self._process)
        captured = _CAPTURED.search(log)
        if captured is None:
            raise ServiceError(f"perf failed: {last_message(log)}")
        text = self._directory / "script"
        command: list[str | PurePath] = [self._perf, "script", "--no-inline", "-F", FIELDS, "-i", self._data]
        self._host.run_to_end(
            Program(PROGRAM, command, self._directory / "script-log", stdout=text, directory=self._directory),
            failure="perf script failed",
            check_interrupt=check_interrupt,
            timeout_s=SCRIPT_S,
        )
        reported = int(captured[1]) if captured[1] else None
        stacks, guard = fold(self._lines(text), self._root)
        return Profile(stacks, HZ, began_s, self._seconds or 0.0, reported, guard)

    def remove(self) -> None:
        """Ends the recording if it is in progress, and removes its files."""
        self._process.stop()
        self._host.remove(self._directory)

    def _lines(self, path: PurePath) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest, offset = "", 0
        while offset < MAX_TEXT:
            part = self._host.read(path, offset, PART)
            if not part:
                break
            offset += len(part)
            *lines, rest = (rest + decoder.decode(part)).split("\n")
            yield from lines
        yield rest

    def _log_of(self, process: ServiceProcess) -> bytes:
        with contextlib.suppress(OSError):
            return self._host.read(process.log)
        return b""


def process_tree(host: ServiceHost, root: int) -> list[int]:
    """The process `root` of a host, and its descendants."""
    # One operation, so that a host behind a long link answers once. `ps` is not installed everywhere.
    _, text = host.programs.output(["sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null"])
    return descendants(text, root)


def descendants(stats: str, root: int) -> list[int]:
    """`root` and its descendants. `stats`: lines of /proc/PID/stat. Pure."""
    children: dict[int, list[int]] = {}
    for line in stats.splitlines():
        head, _, tail = line.rpartition(")")
        words = [head.partition(" ")[0], *tail.split()[1:2]]
        if len(words) == 2 and all(word.isdigit() for word in words):
            children.setdefault(int(words[1]), []).append(int(words[0]))
    tree = [root]
    for parent_pid in tree:
        tree += children.get(parent_pid, [])
    return tree
