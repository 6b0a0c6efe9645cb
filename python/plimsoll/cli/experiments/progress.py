"""The progress display of a running experiment: one changing line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TextIO

from plimsoll.analyse.results.wording import SPACE, quantity
from plimsoll.drive.engine import RunSecond
from plimsoll.printable import printable, printable_lines

PLAIN_EVERY_S = 10.0


class Progress:
    """A Listener (drive.run) that writes to a stream. `seconds`: duration of each run in s, with restarts, by run
    id."""

    def __init__(self, stream: TextIO, seconds: Mapping[str, float], *, quiet: bool = False) -> None:
        self._stream = stream
        self._left = dict(seconds)
        self._quiet = quiet
        self._terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._head = ""
        self._run = ""
        self._length = 0.0
        self._last_plain = 0.0
        self._shown = False
        self._is_open_ended = False
        self._noted: set[tuple[str, str]] = set()

    def run_begins(
        self, run_id: str, position: int, total: int | None, cell: Mapping[str, str], seconds: float
    ) -> None:
        """Shows the start of a run; prints a line for it if the output is not a terminal. `total`: None: not known."""
        self._run, self._length = run_id, seconds
        levels = ", ".join(f"{name} {label}" for name, label in cell.items())
        of = "" if total is None else f"/{total}"
        self._is_open_ended = total is None
        self._head = f"run {position}{of}" + (f"  {levels}" if levels else "")
        self._last_plain = time.monotonic()
        left = self._remaining(self._left.get(run_id, seconds))
        if self._terminal:
            self._show(f"{self._head}  starting{left}")
        else:
            self._line(f"{self._head}{left}")

    def second(self, second: RunSecond) -> None:
        """Shows throughput, errors and remaining time. If the output is not a terminal, it does so every
        PLAIN_EVERY_S."""
        rate = f"  {second.succeeded:,} requests/s"
        median = "" if second.p50_ms is None else f"  p50 {quantity(second.p50_ms, 'ms')}".replace(SPACE, " ")
        errors = f"  {second.failed:,} errors/s" if second.failed else ""
        dropped = f"  {second.dropped:,} not started/s" if second.dropped else ""
        left = self._remaining(max(0.0, self._length - second.second - 1))
        # The remaining time comes first, because a narrow terminal cuts off the end of the line.
        text = f"{self._head}{left}{rate}{median}{errors}{dropped}"
        if self._terminal:
            self._show(text)
        elif time.monotonic() - self._last_plain >= PLAIN_EVERY_S:
            self._last_plain = time.monotonic()
            self._line(text)

    def note(self, kind: str, text: str) -> None:
        """Prints an event. Each text is printed once per experiment; events.jsonl of each run contains all events."""
        if (kind, text) not in self._noted:
            self._noted.add((kind, text))
            self._line(f"{self._head}  {kind}: {text}")

    def run_ended(self, run_id: str, status: str, reason: str) -> None:
        """Prints a line only if the run did not end as planned."""
        self._left.pop(run_id, None)
        if status != "done":
            self._line(f"{self._head}  {status}: {reason}")

    def clear(self) -> None:
        """Removes the changing line."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False

    def _remaining(self, of_this_run: float) -> str:
        """The remaining time; empty if nobody knows it."""
        if self._is_open_ended:
            return ""
        rest = of_this_run + sum(seconds for run, seconds in self._left.items() if run != self._run)
        return f"  {clock(rest)} left"

    def _show(self, text: str) -> None:
        if self._quiet:
            return
        width = _width(self._stream)
        self._stream.write("\r\x1b[K" + printable(text)[: width - 1])
        self._stream.flush()
        self._shown = True

    def _line(self, text: str) -> None:
        if self._quiet:
            return
        self.clear()
        self._stream.write(printable_lines(text) + "\n")
        self._stream.flush()


def clock(seconds: float) -> str:
    """75.2 -> "1:15", 4000 -> "1:06:40"."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _width(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 80
