"""Carries out the actions of one run at their times, and records them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from plimsoll.drive.run.actions.context import ActionContext, ActionMeans
from plimsoll.drive.run.actions.table import ACTIONS
from plimsoll.errors import PlimsollError
from plimsoll.plan.model.cell import Action

DONE: Final = "done"
FAILED: Final = "failed"
NOT_REACHED: Final = "not reached"
"""The run ended before the action was due."""
JOIN_S: Final = 0.1
KIND: Final = "action"
"""The kind of events of actions."""

Report = Callable[[float, str, str], None]
"""Receives an event: seconds from the run's zero, kind, text."""


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """What became of an action. `began_s`, `ended_s`: from the run's zero; None if it did not begin."""

    action: Action
    outcome: str = NOT_REACHED
    began_s: float | None = None
    ended_s: float | None = None
    remark: str = ""
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """The entry of run.json."""
        action = self.action
        return {
            "kind": action.kind,
            "label": action.label,
            "service": action.service,
            "planned_s": action.at_ns / 1e9,
            "planned_for_s": action.for_ns / 1e9,
            "began_s": _rounded(self.began_s),
            "ended_s": _rounded(self.ended_s),
            "outcome": self.outcome,
            "error": self.error,
        }


class TimedActions:
    """The actions of one run. `begin` starts a thread for each; `finish` must be called after the run.

    Events are passed to `report` only by `deliver`, which the thread of the run calls: listeners and the event log are
    not made for several threads. `redact`: removes secrets from a text.
    """

    def __init__(
        self,
        actions: Sequence[Action],
        means: ActionMeans,
        report: Report,
        redact: Callable[[str], str],
    ) -> None:
        self._records = [ActionRecord(action) for action in actions]
        self._context = ActionContext(means, self._wait)
        self._report = report
        self._redact = redact
        self._over = threading.Event()
        self._events: queue.SimpleQueue[tuple[float, str]] = queue.SimpleQueue()
        self._zero_ns = 0
        self._threads: list[threading.Thread] = []

    @property
    def records(self) -> Sequence[ActionRecord]:
        """The records, in order of the planned times."""
        return tuple(self._records)

    def begin(self, t0_unix_ns: int) -> None:
        """Starts to wait for the times of the actions. `t0_unix_ns`: the run's zero. The wall clock is read once: a
        step of it during the run moves no action."""
        self._zero_ns = time.monotonic_ns() - (time.time_ns() - t0_unix_ns)
        for position, record in enumerate(self._records):
            # Daemon threads, so that a command that never ends does not prevent the end of the lab.
            thread = threading.Thread(
                target=self._carry_out, args=(position, record), name=record.action.label, daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def deliver(self) -> None:
        """Passes the events so far to `report`."""
        while True:
            try:
                t_s, text = self._events.get_nowait()
            except queue.Empty:
                return
            self._report(t_s, KIND, text)

    def finish(self) -> None:
        """Ends the waiting, and returns when no action is in progress: a pause is continued, a restart is complete, a
        command has ended."""
        self._over.set()
        for thread in self._threads:
            while thread.is_alive():
                thread.join(JOIN_S)
                self.deliver()
        self.deliver()

    def _wait(self, seconds: float) -> bool:
        return not self._over.wait(max(0.0, seconds))

    def _now_s(self) -> float:
        return (time.monotonic_ns() - self._zero_ns) / 1e9

    def _carry_out(self, position: int, record: ActionRecord) -> None:
        action = record.action
        if not self._wait(action.at_ns / 1e9 - self._now_s()):
            return
        began = self._now_s()
        if action.for_ns or action.kind in ("restart", "run"):
            self._events.put((began, action.label))
        try:
            remark = self._redact(ACTIONS[action.kind](action, self._context))
        except PlimsollError as error:
            text = " ".join(self._redact(str(error)).split()).rstrip(":")  # a command may have no output
            record = replace(record, outcome=FAILED, error=text)
        except Exception as error:  # it must not end without a record
            text = self._redact(f"{type(error).__name__}: {error}")
            record = replace(record, outcome=FAILED, error=text)
        else:
            record = replace(record, outcome=DONE, remark=remark)
        ended = self._now_s()
        self._records[position] = replace(record, began_s=began, ended_s=ended)
        self._events.put((ended, self._end_text(self._records[position], ended - began)))

    @staticmethod
    def _end_text(record: ActionRecord, seconds: float) -> str:
        label = record.action.label
        if record.outcome == FAILED:
            return f"{label} failed: {record.error}"
        return f"{label}: {record.remark} after {seconds:.3f} s" if record.remark else label


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
