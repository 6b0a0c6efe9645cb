"""Results of the actions of a run: what was done, how long nothing succeeded, and when the service had recovered.

Part of the tree in `results`, under the same rules for names and units. Times ending in `_s` are in seconds; those of
actions, outages and phases are from the run's zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from plimsoll.analyse.results.run import ErrorCount, Traffic
from plimsoll.analyse.results.verdicts import RuleId


class RecoveryVerdict(StrEnum):
    """Whether throughput and response time came back to what they were before."""

    RECOVERED = "recovered"
    NOT_RECOVERED = "not recovered"
    UNDECIDED = "cannot be decided"


class RecoveryReason(StrEnum):
    """Why a recovery cannot be decided."""

    NO_BASELINE = "no baseline"
    """Too short a time, or too few successes, before the actions."""
    TOO_SHORT = "too short"
    """The next action, or the end of the run, follows too soon."""
    TOO_NOISY = "too noisy"
    """The figures before vary so much that no window would show half of the throughput."""
    LOAD_CHANGES = "load changes"
    """The load changes by plan, so that before and after cannot be compared."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """One action. `began_s`, `ended_s`: None if the run ended before."""

    kind: str
    label: str
    service: str
    planned_s: float
    planned_for_s: float
    began_s: float | None
    ended_s: float | None
    outcome: str
    """done, failed, not reached"""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Outage:
    """A time without success: from the end of the last successful transaction before it to the end of the first one
    after it, or to the end of the measured window (not `has_ended`)."""

    start_s: float
    end_s: float
    length_s: float
    has_ended: bool
    errors: tuple[ErrorCount, ...]
    """The transactions that failed in it, the most frequent kind first."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Figures of a part of a run, of the transactions that ended in it."""

    start_s: float
    end_s: float
    throughput_per_s: float | None
    response_ms_mean: float | None
    error_rate: float | None


@dataclass(frozen=True, slots=True)
class Recovery:
    """When the service had recovered. `at_s`: from the run's zero; `recovery_s`: from the last action (for a pause: its
    end). Throughput and response time may be below the limit up to `latest_s` after the last action, as their smoothed
    course over windows of `window_s` cannot show more. `throughput_margin`, `response_margin`: the difference from the
    baseline, as a share of it, up to which a window of this length counts as recovered: 5 %, or more if chance explains
    more (None: response times were not judged)."""

    verdict: RecoveryVerdict
    at_s: float | None = None
    recovery_s: float | None = None
    latest_s: float | None = None
    window_s: float | None = None
    throughput_margin: float | None = None
    response_margin: float | None = None
    reason: RecoveryReason | None = None
    rule: RuleId | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """Actions that belong together, such as a kill and the restart after it. `actions`: their positions in `actions`.
    `before`: since the end of the warm-up, or since the recovery from the incident before; `during`: from the first
    action to the last (None: a single instant); `after`: to the next incident, or to the end of the window."""

    actions: tuple[int, ...]
    start_s: float
    release_s: float
    """The last action; for a pause its end."""
    outages: tuple[Outage, ...]
    outage_s: float
    recovery: Recovery
    before: Phase
    during: Phase | None
    after: Phase


@dataclass(frozen=True, slots=True)
class ActionsResult:
    """The actions of a run and their effects."""

    actions: tuple[ActionResult, ...]
    incidents: tuple[Incident, ...]
    outages: tuple[Outage, ...]
    outage_ms: float | None
    """Sum of the lengths of all outages; None if no limit is known."""
    longest_outage_ms: float | None
    outage_limit_s: float | None
    """A time without success is an outage if it is longer than this. None: too few successes before the first
    action."""
    availability: float | None
    """Share of the planned starts of the window that succeeded within `availability_limit_ms`."""
    planned_starts: int
    succeeded_in_time: int
    availability_limit_ms: float
    availability_limit_from: Literal["capacity", "threshold", "default"]
    recovery_ms: float | None
    """The longest recovery of all incidents; None if one of them did not recover, or cannot be decided."""
    outage_rule: RuleId | None = None
    before: Traffic | None = None
    """The window up to the first action."""
    during: Traffic | None = None
    """From the first action to the last; None if they are one instant."""
    after: Traffic | None = None
    """From the last action to the end of the window."""
