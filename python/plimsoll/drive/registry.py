"""Registers the experiments that run on this host: one small file for each, for `status` and `stop`.

A process id may be reused. So the file also contains the start time of the process, and both must match
before a signal is sent.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from plimsoll.drive.directory import write_json

FORMAT = "plimsoll.running/1"


@dataclass(frozen=True, slots=True)
class RunningExperiment:
    """An experiment that runs now. `start_ticks`: field 22 of /proc/PID/stat. `outer`: id and start time of
    the process that cleans up after it, if there is one."""

    pid: int
    start_ticks: int
    directory: Path
    file: Path
    outer: tuple[int, int] | None = None

    def is_running(self) -> bool:
        """Whether the process that wrote the file still runs."""
        return start_ticks(self.pid) == self.start_ticks

    def has_ended(self) -> bool:
        """Whether it has ended, and also the process that cleans up after it."""
        cleaned = self.outer is None or start_ticks(self.outer[0]) != self.outer[1]
        return cleaned and not self.is_running()

    def stop(self) -> None:
        """Requests a stop, as Ctrl-C does: the run ends cleanly, and its data is kept."""
        if self.is_running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGINT)


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot, or None if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def registry_directory() -> Path:
    """The directory of the files: below XDG_STATE_HOME, or ~/.local/state."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "plimsoll" / "running"


def register(directory: Path, outer: int | None = None) -> Path | None:
    """Registers this process. Returns None if the file cannot be written (a read-only home directory); then
    `status` does not list it. `outer`: id of a process that cleans up after this one."""
    ticks = start_ticks(os.getpid())
    outer_ticks = start_ticks(outer) if outer else None
    path = registry_directory() / f"{os.getpid()}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(
            path,
            {
                "format": FORMAT,
                "pid": os.getpid(),
                "start_ticks": ticks,
                "directory": str(directory.resolve()),
                "outer": [outer, outer_ticks] if outer_ticks else None,
            },
        )
    except Exception:
        return None
    return path


def unregister(path: Path | None) -> None:
    """Removes the file."""
    if path:
        with contextlib.suppress(OSError):
            path.unlink()


def running_experiments() -> list[RunningExperiment]:
    """All experiments of this user that run on this host. Files of ended processes are removed."""
    experiments = []
    for file in sorted(registry_directory().glob("*.json")):
        try:
            entry = json.loads(file.read_text(encoding="utf-8"))
            pid, ticks = int(entry["pid"]), int(entry["start_ticks"])
            outer = entry.get("outer")
            cleans_up = (int(outer[0]), int(outer[1])) if outer else None
            experiment = RunningExperiment(pid, ticks, Path(entry["directory"]), file, cleans_up)
        except (OSError, ValueError, LookupError, TypeError):
            continue
        if experiment.is_running():
            experiments.append(experiment)
        else:
            unregister(file)
    return experiments
