"""What the benchmarks of many hosts share: experiments that the lab runs, and what our processes use meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

TICKS: Final = os.sysconf("SC_CLK_TCK")
ROLES: Final = ("control", "agent", "serve")
"""Verbs of the engine, by which its processes are told apart."""
SOUND: Final = {"lateness_floor": "100s", "tester_cpu": "100%", "trend": False, "steal": "100%"}
"""The benches look at what these rules would judge."""


@dataclass
class _Process:
    role: str
    cpu_s: float = 0.0
    rss_bytes: int = 0
    peak_bytes: int = 0


@dataclass
class Watch:
    """Looks at our engines a few times a second: descendants of this process, and those that work in `place`."""

    place: Path
    _known: dict[int, _Process] = field(default_factory=dict)
    _together: dict[str, int] = field(default_factory=dict)
    _others: set[int] = field(default_factory=set)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        assert self._thread is not None
        self._thread.join()

    def cpu_s(self, role: str) -> float:
        """Of all processes of a role, those that have ended included."""
        return sum(one.cpu_s for one in self._known.values() if one.role == role)

    def together(self, role: str) -> int:
        """Greatest sum of the resident sizes that processes of a role had at the same time, bytes."""
        return self._together.get(role, 0)

    def largest(self, role: str) -> int:
        """Greatest resident size of any process of a role, bytes."""
        return max((one.peak_bytes for one in self._known.values() if one.role == role), default=0)

    def _look_on(self) -> None:
        since = 0.0
        # Controllers end as soon as they have stored what came, which is when they are largest.
        while not self._ended.wait(0.02):
            everybody = time.monotonic() - since > 0.25
            if everybody:
                since = time.monotonic()
                self._find()
            for pid, process in self._known.items():
                if everybody or process.role == "control":
                    _look_at(pid, process)
            for role in ROLES:
                now = sum(one.rss_bytes for one in self._known.values() if one.role == role)
                self._together[role] = max(now, self.together(role))

    def _find(self) -> None:
        here = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
        self._others &= here
        for pid in here - self._others - self._known.keys():
            with contextlib.suppress(OSError):
                role = self._role(pid)
                if role is None:
                    self._others.add(pid)
                elif role:
                    self._known[pid] = _Process(role)

    def _role(self, pid: int) -> str | None:
        """None: it is no engine of ours. Empty: it may become one (a child that has not called its program yet)."""
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if not words[0].rpartition(b"/")[2].startswith((b"plimsoll-engine", b"engine-", b"exe")):
            return "" if _descends(pid) else None
        role = words[1].decode(errors="replace") if len(words) > 1 else ""
        ours = any(str(self.place).encode() in word for word in words) or _descends(pid)
        return role if ours and role in ROLES else None


def _descends(pid: int) -> bool:
    while pid > 1:
        if pid == os.getpid():
            return True
        pid = int(_fields(pid)[1])
    return False


def _fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_s(pid: int) -> float:
    """Time that a process has had on cores, s. Raises OSError for one that has ended."""
    fields = _fields(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS


def _look_at(pid: int, process: _Process) -> None:
    process.rss_bytes = 0
    with contextlib.suppress(OSError):  # it has ended
        process.cpu_s = cpu_s(pid)
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                process.peak_bytes = int(line.split()[1]) * 1024
            elif line.startswith("VmRSS:"):
                process.rss_bytes = int(line.split()[1]) * 1024


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """A directory of the bench; testbeds that it brings up stand there, too (the path of a socket is short)."""
    with tempfile.TemporaryDirectory(prefix="pb-") as name:
        before = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = name
        try:
            yield Path(name)
        finally:
            os.environ.pop("XDG_RUNTIME_DIR")
            if before is not None:
                os.environ["XDG_RUNTIME_DIR"] = before


@contextlib.contextmanager
def conditions() -> Iterator[list[str]]:
    """Fills the list with a line on how busy the machine was meanwhile, with whatever ran on it."""
    said: list[str] = []
    before, since = _busy(), time.monotonic()
    yield said
    after, took = _busy(), time.monotonic() - since
    busy, steal, everything = (b - a for a, b in zip(before, after, strict=True))
    load = Path("/proc/loadavg").read_text().split()[0]
    said.append(
        f"{took:.0f} s; cores {busy / everything:.0%} busy, {steal / everything:.1%} stolen, load {load} at the end"
    )


def _busy() -> tuple[int, int, int]:
    user, nice, system, idle, iowait, irq, softirq, steal = (
        int(word) for word in Path("/proc/stat").read_text().split()[1:9]
    )
    busy = user + nice + system + irq + softirq
    return busy, steal, busy + idle + iowait + steal


def run(
    document: dict[str, Any], place: Path, before: Sequence[str] = (), *, lossy: bool = False
) -> dict[str, Any]:
    """The result of the one run of an experiment, which must be sound; its directory is `directory` in it.

    A `lossy` one may have made more transactions than the recorder has taken.
    """
    file, out = place / f"{document['name']}.yaml", place / "out"
    file.write_text(json.dumps({"plimsoll": 1, "validity": SOUND, **document}))
    words = [
        *before,
        sys.executable,
        "-m",
        "plimsoll.cli.main",
        "run",
        str(file),
        "--out",
        str(out),
        "--json",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        sys.exit(f"{document['name']} failed with {done.returncode}:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)["runs"][0]
    newest = max((one for one in out.iterdir() if not one.is_symlink()), key=lambda one: one.stat().st_mtime)
    found["directory"] = str(newest / "runs" / "0001")
    counts = found["counts"]
    balanced = counts["balanced"] or (lossy and counts["lost_records"])
    if not balanced or not counts["succeeded"] or found["response_ms"]["p50"] is None:
        sys.exit(f"{document['name']} is not sound: {counts} {found['errors_by_kind']}\n{done.stderr}")
    return found
