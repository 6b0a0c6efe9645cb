"""Conditions of hosts and services that can explain slow or failed transactions of a run, a part of `analysis.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from plimsoll.analyse.results.verdicts import RuleId, Value


class ConditionKind(StrEnum):
    """Kinds of conditions, in the order in which they are reported."""

    LISTEN_QUEUE = "listen queue"
    WORKERS = "workers in use"
    PORTS = "local ports"
    WAITING_PORTS = "ports in TIME-WAIT"
    PACKETS = "packet drops"
    DISK = "disk wait"
    RUN_QUEUE = "run queue"
    OUTSIDE = "processes outside"
    LATE_PACKETS = "late packets"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in the window of a run. It never makes a run invalid or doubtful.

    `component`: the service, the host as in `components`, or the link emulator of a testbed; `host`: empty for the host
    of the lab. `severity`: the figure by which conditions of one kind are compared. `values`: the figures behind it, in
    the units of the samples: seconds, shares of 1, numbers of events in the window.
    """

    kind: ConditionKind
    component: str
    host: str
    severity: float
    values: dict[str, Value] = field(default_factory=dict)
    rule: RuleId | None = None
    text: str = ""
