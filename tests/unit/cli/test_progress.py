"""The progress display of a running experiment."""

from __future__ import annotations

import io

import pytest

from plimsoll.cli.experiments.progress import Progress, clock
from plimsoll.cli.screen import wants_colour
from plimsoll.drive.engine import RunSecond


def second(number: int, **changed: float) -> RunSecond:
    values = {
        "started": 10, "succeeded": 10, "failed": 0, "dropped": 0, "items": 10, "payload": 100, "active": 1,
        "in_progress": 1, "p50_ms": 1.5, "p95_ms": 2.0, "p99_ms": 3.0, **changed,
    }  # fmt: skip
    return RunSecond(second=number, **values)  # type: ignore[arg-type]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("no file")


def test_plain_lines_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    now = [100.0]
    monkeypatch.setattr("plimsoll.cli.experiments.progress.time.monotonic", lambda: now[0])
    progress = Progress(out, {"0001": 30, "0002": 45})
    progress.run_begins("0001", 1, 2, {"testers": "4"}, 30)
    for number in range(30):
        now[0] += 1
        progress.second(second(number, failed=2))
    progress.run_ended("0001", "done", "")
    progress.run_begins("0002", 2, 2, {"testers": "8"}, 45)
    progress.run_ended("0002", "agent-lost", "it was killed")
    progress.clear()
    lines = out.getvalue().splitlines()
    assert "\x1b" not in out.getvalue() and "\r" not in out.getvalue()
    assert lines[0] == "run 1/2  testers 4  1:15 left"
    assert lines[1] == "run 1/2  testers 4  1:05 left  10 requests/s  p50 1.50 ms  2 errors/s"
    assert len(lines) == 6, "one line in ten seconds, one per run, one for the end that was not planned"
    assert lines[4] == "run 2/2  testers 8  0:45 left"
    assert lines[5] == "run 2/2  testers 8  agent-lost: it was killed"


def test_the_remaining_time_includes_restarts_between_runs() -> None:
    out = io.StringIO()
    progress = Progress(out, {"0001": 32, "0002": 50})
    progress.run_begins("0001", 1, 2, {}, 30)
    progress.run_ended("0001", "done", "")
    progress.run_begins("0002", 2, 2, {}, 45)
    assert [line[-4:] for line in out.getvalue().replace(" left", "").splitlines()] == ["1:22", "0:50"]


def test_one_changing_line_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    progress = Progress(out, {"0001": 30})
    progress.run_begins("0001", 1, 1, {"a": "x" * 200}, 30)
    progress.second(second(0))
    progress.clear()
    assert "\n" not in out.getvalue()
    assert out.getvalue().endswith("\r\x1b[K")
    assert all(len(part) < 80 for part in out.getvalue().split("\r\x1b[K")), "never wrapped"


def test_the_same_note_is_printed_once_per_experiment() -> None:
    out = io.StringIO()
    progress = Progress(out, {})
    for run in ("0001", "0002"):
        progress.run_begins(run, int(run), 2, {}, 1)
        progress.note("clock", "it was set")
        progress.note("clock", "it was set")
    progress.note("clock", "it was set again")
    assert out.getvalue().count("it was set\n") == 1
    assert out.getvalue().count("it was set again\n") == 1


def test_quiet_prints_nothing() -> None:
    out = io.StringIO()
    progress = Progress(out, {}, quiet=True)
    progress.run_begins("0001", 1, 1, {}, 1)
    progress.note("a", "b")
    progress.run_ended("0001", "stopped", "x")
    progress.clear()
    assert out.getvalue() == ""


def test_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert wants_colour(Terminal())
    assert not wants_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_colour(Terminal())


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (75.2, "1:15"), (4000, "1:06:40")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text
