"""Input and output of a comparison. Field names are the keys of `compare --json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from plimsoll.compare.metrics import Better, ComparedMetric, Scale


class Verdict(StrEnum):
    """`slower`, `faster`: beyond the margin in the bad or the good direction of the metric."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNDECIDED = "undecided"


class Reason(StrEnum):
    """Why a comparison is undecided."""

    ONE_RUN = "one run"
    """A side has fewer than two runs, so there is no variance between runs."""
    UNKNOWN = "unknown value"
    """The metric has no value in a run, such as a percentile among requests that never ended."""
    NOT_POSITIVE = "not above 0"
    """A value has no logarithm."""
    TWO_MODES = "two modes"
    """The values of the runs form two groups, so their mean describes neither."""
    WIDE = "interval"
    """The intervals support no verdict."""
    CONTROL = "control"
    """Equal systems differ by as much in the same experiment."""
    DRIFT = "drift"
    """A metric that the change cannot affect moved, too."""


class Method(StrEnum):
    """How the interval is computed."""

    PAIRED = "pairs within blocks"
    WELCH = "Welch"
    BOOTSTRAP = "bootstrap over runs"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class RunValue:
    """The value of a metric in one valid run (None: unknown). `sequence`: the runs of one sequence, such as a results
    directory, follow each other in `order`. `trials`: number of transactions; the value is a share of them."""

    value: float | None
    sequence: int
    order: int
    block: str | None = None
    trials: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """The runs of both sides of one metric and cell. `same_blocks`: a block of the old side is the block of the same
    name of the new side, because both were measured in it. `control`: the runs of two equal systems in the same
    experiment."""

    metric: ComparedMetric
    cell: Mapping[str, str]
    old: tuple[RunValue, ...]
    new: tuple[RunValue, ...]
    same_blocks: bool = False
    control: Sample | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Two ends of an interval at a level. Of a ratio: new / old; of a difference: new - old."""

    level: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Control:
    """Two equal systems in the same experiment: their ratio or difference, its 95 % interval, and the pairs."""

    estimate: float
    interval: Limits
    pairs: int


@dataclass(frozen=True, slots=True)
class OrderEffect:
    """The later run of a pair against the earlier one: ratio or difference, with its 95 % interval."""

    estimate: float
    interval: Limits


@dataclass(frozen=True, slots=True)
class Drift:
    """A metric that the change cannot affect: its ratio new / old, with its 95 % interval (None: unknown).
    `has_moved`: by more than `margin`, and the interval does not contain 1; of the costs of the load generator: both in
    the same direction."""

    metric: str
    cell: Mapping[str, str]
    estimate: float | None
    interval: Limits | None
    margin: float
    has_moved: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of one cell. `old`, `new`: means over runs, of a ratio geometric means. `old_runs`, `new_runs`: valid
    runs; `pairs`: of blocks, 0 without. `estimate`: the ratio or the difference. `corrected`: the interval at the level
    of Holm's correction, which decides about slower and faster; `inner`: the 90 % interval, which decides about same.
    `adjusted_p`: of the hypothesis that the truth is within the margin. `runs_needed`: of an undecided one,
    runs of each side with which equal systems are probably found to be the same. `control`, `order`: of a paired
    design."""

    metric: str
    cell: Mapping[str, str]
    better: Better
    scale: Scale
    old: float | None
    new: float | None
    old_runs: int
    new_runs: int
    pairs: int
    method: Method
    estimate: float | None
    interval: Limits | None
    corrected: Limits | None
    inner: Limits | None
    margin: float
    adjusted_p: float | None
    verdict: Verdict
    reason: Reason | None = None
    runs_needed: int | None = None
    control: Control | None = None
    order: OrderEffect | None = None


@dataclass(frozen=True, slots=True)
class SerialDependence:
    """Runs that depend on the run before: lag-1 correlation of the residuals in the order of the runs."""

    metric: str
    lag1: float
    runs: int


@dataclass(frozen=True, slots=True)
class ShortRuns:
    """Runs of a cell that are too short for the tail of the response time. `relaxation_s`: time in which a queue
    forgets its state, of the busiest service; `side`: old or new."""

    side: str
    cell: Mapping[str, str]
    service: str
    utilization: float
    window_s: float
    relaxation_s: float


@dataclass(frozen=True, slots=True)
class TwoModes:
    """Runs of a metric and cell in two groups: mean and number of runs of each. `what`: old, new, or pairs; those are
    ratios or differences new / old within blocks."""

    metric: str
    cell: Mapping[str, str]
    what: str
    low: float
    low_runs: int
    high: float
    high_runs: int
