"""Samples of services by perf during the measured window of a run. They never change the result of the run."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from plimsoll.deploy.perf.recording import MAX_S, PerfRecording
from plimsoll.deploy.perf.stacks import Profile
from plimsoll.deploy.running import RunningService
from plimsoll.drive.directory import write_text
from plimsoll.errors import PlimsollError

FILE: Final = "perf.folded"
"""The file of the stacks, in the directory of the service in the results of the run."""
KIND: Final = "perf"
"""The kind of events of recordings."""

DRAIN_EVERY_S: Final = 1.0
"""How often perf writes its samples."""

Report = Callable[[float, str, str], None]
"""Receives an event: seconds from the run's zero, kind, text."""


@dataclass(frozen=True, slots=True)
class _TimedRecording:
    recording: PerfRecording
    began_s: float


class ServiceProfiles:
    """The recordings of one run, of the services with `perf: true`. `warmup_s`, `window_s` (None: only counts end the
    run): of the measured window. Call `finish` at the end of the load, then `keep`, which writes the files.

    Events are passed to `report` in the thread of the run only. `redact`: removes secrets from a text.
    """

    def __init__(
        self,
        services: Sequence[RunningService],
        warmup_s: float,
        window_s: float | None,
        report: Report,
        redact: Callable[[str], str],
    ) -> None:
        self._services = [
            service for service in services if service.spec.perf and service.process is not None
        ]
        self._warmup_s = warmup_s
        self._end_s = warmup_s + (MAX_S if window_s is None else min(window_s, MAX_S))
        self._report = report
        self._redact = redact
        self._over = threading.Event()
        self._events: queue.SimpleQueue[tuple[float, str]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._begun: dict[str, _TimedRecording] = {}
        self._errors: dict[str, str] = {}
        self._profiles: dict[str, Profile] = {}
        self._zero = 0.0

    def begin(self, t0_unix_ns: int) -> None:
        """The load begins; `t0_unix_ns` is the run's zero. Waits in a thread for the end of the warm-up."""
        if not self._services:
            return
        self._zero = time.monotonic() - (time.time_ns() - t0_unix_ns) / 1e9
        self._thread = threading.Thread(target=self._record, name=KIND, daemon=True)
        self._thread.start()

    def deliver(self) -> None:
        """Passes the events so far to `report`."""
        with contextlib.suppress(queue.Empty):
            while True:
                t_s, text = self._events.get_nowait()
                self._report(t_s, KIND, text)

    def finish(self) -> None:
        """Ends the recordings."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self.deliver()

    def keep(self, directory: Path, check_interrupt: Callable[[], None]) -> None:
        """Writes the stacks of each service below `directory`, and removes the files of perf."""
        for name, begun in self._begun.items():
            try:
                if name not in self._errors:
                    self._guarded(name, partial(self._keep, name, begun, directory, check_interrupt))
            finally:
                with contextlib.suppress(PlimsollError, OSError):
                    begun.recording.remove()
        self._begun = {}
        self.deliver()

    def record(self, name: str) -> Mapping[str, Any]:
        """The entry of a service in run.json; empty without a recording."""
        profile = self._profiles.get(name)
        if profile is not None:
            return {
                "perf": {
                    "began_s": round(profile.began_s, 3),
                    "seconds": round(profile.seconds, 3),
                    "samples": profile.samples,
                }
            }
        if name in self._errors:
            return {"perf": {"error": self._errors[name]}}
        if any(service.spec.name == name for service in self._services):
            return {"perf": {"error": "the run ended before its measured window"}}
        return {}

    def _keep(
        self, name: str, begun: _TimedRecording, directory: Path, check_interrupt: Callable[[], None]
    ) -> None:
        profile = begun.recording.result(begun.began_s, check_interrupt)
        write_text(directory / "services" / name / FILE, profile.to_text())
        self._profiles[name] = profile

    def _record(self) -> None:
        """Records until the window or the run has ended."""
        if self._over.wait(max(0.0, self._warmup_s - self._now_s())):
            return
        for service in self._services:
            self._guarded(service.spec.name, partial(self._start, service))
        while (left_s := self._end_s - self._now_s()) > 0 and not self._over.wait(min(DRAIN_EVERY_S, left_s)):
            for name, begun in self._begun.items():
                if name not in self._errors:
                    self._guarded(name, begun.recording.drain)
        for finish in (PerfRecording.end, PerfRecording.stop):
            for name, begun in self._begun.items():
                self._guarded(name, partial(finish, begun.recording))

    def _start(self, service: RunningService) -> None:
        assert service.process is not None, "selected in __init__"
        if self._over.is_set() or self._now_s() >= self._end_s:
            return
        recording = PerfRecording(service.host, service.process.pid)
        self._begun[service.spec.name] = _TimedRecording(recording, recording.began - self._zero)

    def _guarded(self, name: str, act: Callable[[], None]) -> None:
        """Performs `act`; a failure becomes a remark of the run."""
        try:
            act()
        except (PlimsollError, OSError) as error:  # also an interrupt: the run before it is kept
            self._errors[name] = " ".join(self._redact(str(error)).split())
            self._events.put((self._now_s(), f"{name}: no flame graph: {self._errors[name]}"))

    def _now_s(self) -> float:
        return time.monotonic() - self._zero
