"""Who runs what on this host: one small file per running experiment, for `status` and `stop`.

A process id alone may be reused, so the file carries the process's start time as the kernel has it, and both must
agree before a signal is sent.
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
class Running:
    """An experiment that runs now. `start_ticks`: field 22 of /proc/PID/stat; `outer`: both of a process that cleans up
    behind it, where there is one."""

    pid: int
    start_ticks: int
    directory: Path
    file: Path
    outer: tuple[int, int] | None = None

    def alive(self) -> bool:
        """Whether the very process that wrote the file still runs."""
        return start_ticks(self.pid) == self.start_ticks

    def over(self) -> bool:
        """Whether it has ended, and who cleans up behind it has too."""
        cleaned = self.outer is None or start_ticks(self.outer[0]) != self.outer[1]
        return cleaned and not self.alive()

    def stop(self) -> None:
        """Asks it to stop as Ctrl-C would: the run ends cleanly, what was measured is kept."""
        if self.alive():
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


def enter(directory: Path, outer: int | None = None) -> Path | None:
    """Enters this process; None where no state can be kept (a read-only home), which costs `status` only. `outer`: id
    of a process that cleans up behind this one."""
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


def leave(path: Path | None) -> None:
    """Takes the entry out."""
    if path:
        with contextlib.suppress(OSError):
            path.unlink()


def running() -> list[Running]:
    """All experiments that run on this host by this user; entries of dead processes are swept."""
    found = []
    for file in sorted(registry_directory().glob("*.json")):
        try:
            entry = json.loads(file.read_text(encoding="utf-8"))
            pid, ticks = int(entry["pid"]), int(entry["start_ticks"])
            outer = entry.get("outer")
            cleans_up = (int(outer[0]), int(outer[1])) if outer else None
            one = Running(pid, ticks, Path(entry["directory"]), file, cleans_up)
        except (OSError, ValueError, LookupError, TypeError):
            continue
        if one.alive():
            found.append(one)
        else:
            leave(file)
    return found
