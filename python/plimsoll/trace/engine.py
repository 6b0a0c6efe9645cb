"""Calls of the engine's subcommands `trace ...`, which write and read traces, and their results."""

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
    """The engine's summary of a trace file that it wrote. `lines`: lines of text, or records; `bytes`: size of the
    file."""

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
        """The selection as options of the engine."""
        pairs = (("--file", self.file), ("--from", self.from_s), ("--to", self.to_s))
        return [f"{name}={value}" for name, value in pairs if value is not None]


def import_logs(logs: Sequence[Path], output: Path, directory: Path | None) -> TraceSummary:
    """Converts logs of strace to a trace file. `directory`: working directory of the program, if the log has none.

    Raises BadInput or EngineError.
    """
    where = [] if directory is None else ["--directory", str(directory)]
    return _parse_summary(_engine_output("import", "--output", str(output), *where, "--", *map(str, logs)))


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
    """Records a program, which inherits stdin, stdout and stderr. Returns the exit status of the engine and a summary.

    The exit status is that of the program, unless recording failed. In that case the summary is None, and the engine
    reports the reason on stderr. Signals are passed to the program; when it ends, the recording ends.
    """
    words = ["--output", str(output)] + (["--force"] if force else [])
    words += [word for pid in pids for word in ("--pid", str(pid))]
    words += [] if seconds is None else ["--for", str(seconds)]
    words += [] if source == "strace" else ["--source", source]
    words += [] if calibrated else ["--uncalibrated"]
    words += ["--one-core"] if one_core else []
    words += ["--", *command] if command else []
    with tempfile.TemporaryDirectory(prefix="plimsoll-trace-") as directory:
        report = Path(directory) / "report.json"
        with _SignalForwarding() as passing:
            process = subprocess.Popen([find_engine(), "trace", "record", "--report", str(report), *words])
            passing.on = process
            status = process.wait()
        return status, _parse_summary(report.read_bytes()) if report.exists() else None


class _SignalForwarding:
    """Context in which a Ctrl-C does not end this process, and a SIGTERM is forwarded to the process `on`.

    The terminal sends a Ctrl-C to all processes, so it is not forwarded. SIG_IGN is not used, because the recorded
    program would inherit it.
    """

    def __init__(self) -> None:
        self.on: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _SignalForwarding:
        self._before = {
            number: signal.signal(number, self._pass) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _pass(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGTERM and self.on is not None:
            self.on.send_signal(number)


def profile(trace: Path, selection: TraceSelection) -> ProfileDocument:
    """The profile of the selected part of a trace file. Raises BadInput or EngineError."""
    return read(_engine_output("profile", *selection.options(), "--", str(trace)))


def pictures(
    trace: Path,
    selection: TraceSelection,
    *,
    limit: int = MAX_POINTS,
    columns: int = COLUMNS,
    rows: int = ROWS,
) -> Pictures:
    """The requests of every file for its picture. In all at most `limit` are returned one by one; files with more
    requests are returned as bins, `columns` of time and `rows` of offset. Raises BadInput or EngineError."""
    bounds = ("--limit", str(limit), "--columns", str(columns), "--rows", str(rows))
    return read_pictures(_engine_output("points", "--each", *bounds, *selection.options(), "--", str(trace)))


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


def _engine_output(*words: str) -> bytes:
    """Returns the output of the engine. Raises BadInput if it rejects an option, EngineError if it fails."""
    done = subprocess.run([find_engine(), "trace", *words], check=False, capture_output=True)
    if done.returncode == 0:
        print(done.stderr.decode(errors="replace"), end="", file=sys.stderr)
        return done.stdout
    message = done.stderr.decode(errors="replace").partition("\n\nFor more information")[0].strip()
    if done.returncode == ExitCode.BAD_INPUT:
        raise BadInput(message.removeprefix("error: "))
    message = message.removeprefix("plimsoll-engine: ")
    raise EngineError(message or f"plimsoll-engine trace {words[0]} ended with status {done.returncode}")


def _parse_summary(text: bytes) -> TraceSummary:
    try:
        document: dict[str, Any] = json.loads(text)
        return TraceSummary.model_validate(document)
    except (ValueError, ValidationError) as error:
        raise EngineError(f"the engine's summary of the trace has an unexpected form: {error}") from error
