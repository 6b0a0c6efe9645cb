"""Traces are made and read by the engine: its subcommands `trace ...`, and what they answer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from pydantic import ValidationError

from plimsoll.deploy.binary import find_engine
from plimsoll.errors import BadInput, EngineError, ExitCode
from plimsoll.trace.pictures import COLUMNS, MAX_POINTS, ROWS, Pictures
from plimsoll.trace.pictures import read as read_pictures
from plimsoll.trace.profile import Part, ProfileDocument, read


class TraceSummary(Part):
    """The engine's summary of a trace file that it wrote. `lines`: of text, or records; `bytes`: of the file."""

    events: int
    bytes: int
    lines: int
    odd_lines: int
    cut_lines: int
    examples: tuple[str, ...]
    unknown_calls: int
    halves: int
    endless: int
    status: int | None = None
    elapsed_ns: int | None = None


@dataclass(frozen=True, slots=True)
class TraceSelection:
    """The requested part of a trace: files with matching names, calls of a window of time (seconds from its zero)."""

    file: str | None = None
    from_s: float | None = None
    to_s: float | None = None

    def options(self) -> list[str]:
        """As the engine takes it."""
        pairs = (("--file", self.file), ("--from", self.from_s), ("--to", self.to_s))
        return [f"{name}={value}" for name, value in pairs if value is not None]


def import_logs(logs: Sequence[Path], output: Path, directory: Path | None) -> TraceSummary:
    """Logs of strace become a trace file."""
    where = [] if directory is None else ["--directory", str(directory)]
    return _made(_answer("import", "--output", str(output), *where, "--", *map(str, logs)))


def record(
    output: Path,
    command: Sequence[str],
    *,
    pids: Sequence[int] = (),
    seconds: float | None = None,
    source: str = "strace",
    calibrated: bool = True,
    one_core: bool = False,
    force: bool = False,
) -> tuple[int, TraceSummary | None]:
    """Records a program, which inherits stdin, stdout and stderr. Returns its exit status and a summary.

    The summary is None if recording failed; the engine reports the reason on stderr. Signals go to the program: it
    ends, and the recording with it.
    """
    words = ["--output", str(output)] + (["--force"] if force else [])
    words += [word for pid in pids for word in ("--pid", str(pid))]
    words += [] if seconds is None else ["--for", str(seconds)]
    words += [] if source == "strace" else ["--source", source]
    words += [] if calibrated else ["--uncalibrated"]
    words += ["--one-core"] if one_core else []
    words += ["--", *command] if command else []
    with tempfile.TemporaryDirectory(prefix="plimsoll-trace-") as place:
        said = Path(place) / "report.json"
        with _Passing() as passing:
            process = subprocess.Popen([find_engine(), "trace", "record", "--report", str(said), *words])
            passing.on = process
            status = process.wait()
        return status, _made(said.read_bytes()) if said.exists() else None


class _Passing:
    """While it is entered, a Ctrl-C leaves us waiting (the terminal has sent it to all), and a SIGTERM is passed on.

    A handler of ours, not SIG_IGN: what is ignored stays ignored in the program that is recorded.
    """

    def __init__(self) -> None:
        self.on: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Passing:
        self._before = {each: signal.signal(each, self._pass) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _pass(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGTERM and self.on is not None:
            self.on.send_signal(number)


def profile(trace: Path, wanted: TraceSelection) -> ProfileDocument:
    """The profile of a trace file."""
    return read(_answer("profile", *wanted.options(), "--", str(trace)))


def pictures(
    trace: Path, wanted: TraceSelection, *, limit: int = MAX_POINTS, columns: int = COLUMNS, rows: int = ROWS
) -> Pictures:
    """Requests of every file for its picture: `limit` in all one by one, those of the busiest files in bins."""
    bounds = ("--limit", str(limit), "--columns", str(columns), "--rows", str(rows))
    return read_pictures(_answer("points", "--each", *bounds, *wanted.options(), "--", str(trace)))


def export(trace: Path, kind: str, output: Path, root: Path | None = None) -> None:
    """Writes the trace in another format. The engine reports on stderr what that format cannot represent.

    Raises EngineError if it fails, or if the trace is incomplete and the export contains only its complete part.
    """
    below = [] if root is None else ["--root", str(root)]
    done = subprocess.run(
        [find_engine(), "trace", "export", "--to", kind, "--output", str(output), *below, "--", str(trace)],
        check=False,
        stdout=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise EngineError(f"{trace}: the export as {kind} is incomplete or failed; the reason is above")


def _answer(*words: str) -> bytes:
    """Returns what the engine prints; raises BadInput if it rejects an option, EngineError if it fails."""
    done = subprocess.run([find_engine(), "trace", *words], check=False, capture_output=True)
    if done.returncode == 0:
        print(done.stderr.decode(errors="replace"), end="", file=sys.stderr)
        return done.stdout
    said = done.stderr.decode(errors="replace").partition("\n\nFor more information")[0].strip()
    if done.returncode == ExitCode.BAD_INPUT:
        raise BadInput(said.removeprefix("error: "))
    said = said.removeprefix("plimsoll-engine: ")
    raise EngineError(said or f"plimsoll-engine trace {words[0]} ended with status {done.returncode}")


def _made(text: bytes) -> TraceSummary:
    try:
        found: dict[str, Any] = json.loads(text)
        return TraceSummary.model_validate(found)
    except (ValueError, ValidationError) as error:
        raise EngineError(f"the engine's summary of the trace has an unexpected form: {error}") from error
