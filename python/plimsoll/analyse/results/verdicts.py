"""Verdicts, doubts and reasons of the machine-readable result, as codes and numbers.

A part of `results`, under the same rules. The values of the enumerations are stored in analysis.json and must not
change. `answer` makes sentences from them; no code parses a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

Value = float | int | str | bool | None | tuple[str | float | bool | None, ...]
"""A figure behind a verdict: a number, a name, or several of them."""


@dataclass(frozen=True, slots=True)
class RuleId:
    """The rule that made a verdict, as `verdict_rules` lists it."""

    name: str
    version: int


@dataclass(frozen=True, slots=True)
class VerdictRule:
    """A rule with its statement in one sentence."""

    name: str
    version: int
    statement: str
    rests_on: tuple[str, ...] = ()
    """Rules whose verdicts it uses."""


class Severity(StrEnum):
    """The effect of a reason on its subject: it makes the subject invalid, doubtful or failed, or is only noted."""

    INVALID = "invalid"
    DOUBTFUL = "doubtful"
    FAILED = "failed"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason with the figures behind it. `text`: the reason as a sentence, filled in by `answer`."""

    code: str
    severity: Severity
    values: dict[str, Value] = field(default_factory=dict)
    rule: RuleId | None = None
    text: str = ""


class RunVerdict(StrEnum):
    """Whether a run measured the target."""

    VALID = "valid"
    DOUBTFUL = "doubtful"
    INVALID = "invalid"


class RunReason(StrEnum):
    """Codes of the reasons against a run."""

    NOT_FINISHED = "not finished"
    NOTHING_ENDED = "nothing ended"
    TESTER_CPU = "tester cpu"
    STARTED = "started"
    LATENESS = "lateness"
    GAPS = "gaps"
    DAMAGED = "damaged record"
    LOST_RECORDS = "lost records of agents"
    UNKNOWN_LOAD = "unknown load of agents"
    TREND = "trend"
    STEAL = "steal"
    LOST_AGENTS = "lost agents"
    UNKNOWN_CLOCKS = "unknown clocks"
    REQUESTS = "requests counted"


class BottleneckVerdict(StrEnum):
    """Whether a component was found that limits a run."""

    RESOLVED = "resolved"
    LOAD_GENERATOR = "load generator"
    NOT_RESOLVED = "not resolved"


class BottleneckReason(StrEnum):
    """Codes of the reasons for a bottleneck, or for none."""

    LOAD_GENERATOR_FULL = "load generator full"
    FULL = "full"
    MEMORY = "memory"
    NOTHING_FULL = "nothing full"
    NOT_TOLD_APART = "not told apart"
    NOT_WATCHED = "not watched"


class CapacityKind(StrEnum):
    """Kinds of capacities."""

    NOMINAL = "nominal"
    USABLE = "usable"
    ERROR_LIMITED = "error-limited"


class CapacityReason(StrEnum):
    """Codes of remarks about a capacity."""

    NO_THROUGHPUT = "no throughput"
    NOT_FLAT = "not shown to be flat"
    HIGHEST = "highest of several"
    HELD_NOWHERE = "held nowhere"
    BOUND_HELD_NOWHERE = "bound held nowhere"
    NOTHING_ENDED = "nothing ended"
    HELD_AT_BOUND = "held at the bound"
    HELD_AT_ESTIMATE = "held at the estimate"
    NO_BOUND = "no bound"
    ERROR_RATE = "error rate"
    LOWER_LOAD = "a lower load breaks the rule"
    LIMIT_NOT_REACHED = "limit not reached"
    LIMITED_BY = "limited by"
    NO_VALUE = "no value"


class ThresholdVerdict(StrEnum):
    """Verdicts on a threshold for a cell."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_JUDGED = "not judged"


class ThresholdReason(StrEnum):
    """Codes of the reasons for the verdict on a threshold, and of remarks about it."""

    BROKEN = "broken"
    NO_VALID_RUN = "no valid run"
    NO_SAMPLE = "no sample"
    NO_CELL = "no cell"
    NOT_YET = "not yet"
    ABSENT = "absent"
    FEW_BEYOND = "few values beyond"
    NOT_COMPLETED = "not completed"


class ModelReason(StrEnum):
    """Codes of remarks about the fit of a model."""

    ORDERS_ABSENT = "orders taken as absent"
    ORDERS_LEFT_OUT = "orders left out"
    RESIDUAL_IS_ERROR = "residual is the error"
    NO_ERROR = "no error term"
    NOT_ORTHOGONAL = "not orthogonal"
    NO_VARIATION = "no variation"
    NO_ALLOCATION = "no allocation"
    VARIANCES_DIFFER = "variances differ"
    DRIFT = "drift"
    LOG_SCALE = "log scale"
    OUTLIERS = "outliers"
    BY_PASS = "by pass"


class RegressionVerdict(StrEnum):
    """Whether the runs contradict the form of a regression."""

    FITS = "no lack of fit shown"
    REJECTED = "lack of fit"
    NOT_TESTED = "cannot be tested"


class UntestedReason(StrEnum):
    """Why a regression has no test of lack of fit."""

    NO_REPETITION = "no cell was repeated"
    NO_FREEDOM = "as many coefficients as cells"
    NO_VARIATION = "no variation"


class LeftOutReason(StrEnum):
    """Codes of the reasons why runs, terms or transactions are not in the figures."""

    EXCLUDED = "excluded"
    HOST = "host not taken"
    NOT_ESTIMABLE = "not estimable"
    MEASURED_NOTHING = "measured nothing"
    WITHIN_WARMUP = "ended within its warm-up"
    INVALID = "invalid"
    DROPPED = "dropped"
    MISSED = "missed"
    IN_PROGRESS = "in progress at the end"
    NO_METRIC = "no such metric"
    NO_FIT = "no fit"
    NO_VALUE = "no value"


@dataclass(frozen=True, slots=True)
class LeftOutPart:
    """`what` is not in the figures, for the reason `why`."""

    what: str
    why: str
    code: LeftOutReason | None = None
    values: dict[str, Value] = field(default_factory=dict)
    """The figures and names of `what` and `why`."""
    cells: tuple[dict[str, str], ...] = ()
    """The cells that are left out, if `what` is about cells."""


class Topic(StrEnum):
    """Topics of the sentences of the answer."""

    PROGRESS = "progress"
    NOTHING = "nothing measured"
    CHEAPEST = "cheapest consistency"
    READERS = "readers"
    CACHES = "caches"
    RANKING = "ranking"
    SATURATION = "saturation"
    SUFFICIENT = "sufficient level"
    CELLS = "cells"
    STAGES = "stages"
    RAMP = "ramp"
    CHANGES = "changes"
    CONDITIONS = "conditions"
    ACTIONS = "actions"
    SITES = "sites"
    SITES_FAIRNESS = "fairness of sites"
    POOL = "pool of hosts"
    FEW_TRANSACTIONS = "few transactions"
    EFFECTS = "effects"
    REGRESSION = "regression"
    MEMORY = "memory"
    FAN_OUT = "fan-out"
    COST = "cost"
    SESSIONS = "sessions"
    THRESHOLDS = "thresholds"
    VALIDITY = "validity"
    REPETITIONS = "repetitions"
    SEARCH = "search"


class RankingVerdict(StrEnum):
    """Verdicts on the combination with the highest nominal capacity."""

    HIGHEST = "highest"
    NOT_TOLD_APART = "not told apart"
    ONE_OBSERVATION = "highest, without intervals"


class CheapestVerdict(StrEnum):
    """Verdicts on the level of consistency with the lowest cost."""

    CHEAPEST = "cheapest"
    ONLY = "only one without stale answers"
    NOT_TOLD_APART = "not told apart"
    NONE_CLEAN = "none without stale answers"


class SitesVerdict(StrEnum):
    """Whether a service treats its nearest and its farthest site alike, without the round trips."""

    ALIKE = "alike"
    WAITS_MORE = "waits more"
    WAITS_LESS = "waits less"


Subject = dict[str, str | dict[str, str]]
"""The subject of a verdict, by name: `{"run": "0001"}`, `{"metric": ..., "combination": {...}}`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence of the answer. `verdict`, `values` and `rule` are empty unless a rule made the statement."""

    topic: Topic
    text: str
    verdict: str = ""
    values: dict[str, Value] = field(default_factory=dict)
    rule: RuleId | None = None


@dataclass(frozen=True, slots=True)
class StatedVerdict:
    """A verdict as a rule stated it. `rule`, `version`: None if the analysis recorded none. `values`: levels and names
    that are part of the verdict, such as the ends of a bracket."""

    verdict: str
    rule: str | None
    version: int | None
    values: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SupersededVerdict:
    """A verdict of an earlier analysis of the same measurements that differs by a newer rule."""

    what: str
    """Name of the rule that makes the verdict now."""
    subject: Subject
    earlier: StatedVerdict
    now: StatedVerdict
    changed: tuple[str, ...]
    """Names of the rules with another version now: its own, or those that it rests on."""
    text: str = ""


class OverloadVerdict(StrEnum):
    """Whether the target completes the planned load."""

    OVERLOADED = "overloaded"
    KEPT_UP = "kept up"
    NOT_DECIDED = "not decided"


class ChangedSeries(StrEnum):
    """Series of a run that are examined for changes."""

    THROUGHPUT = "throughput"
    RESPONSE = "response time"
    CPU = "cpu"


class BinOutcome(StrEnum):
    """Result of a rule in one bin of a ramp."""

    HELD = "held"
    FAILED = "failed"
    NOT_JUDGED = "not judged"
    """Too few transactions, or none."""


class RampVerdict(StrEnum):
    """Verdicts of a rule under a rising load."""

    HELD = "held"
    FAILED_FROM = "failed from a load on"
    FAILED_THROUGHOUT = "failed from the lowest load on"
    LAST_ONLY = "failed in the last bin only"
    RECOVERED = "failed and held again"
    NOT_JUDGED = "not judged"


class SaturationVerdict(StrEnum):
    """Verdicts on the load at which throughput stops rising, relative to the levels that were run."""

    BRACKETED = "bracketed"
    INCREASED = "increased"
    AT_LOWEST = "at or below the lowest level"
    RETROGRADE = "retrograde"
    CANNOT_SAY = "cannot be said"


class SaturationReason(StrEnum):
    """Why there is no verdict on saturation, or the evidence for the bracket."""

    TOO_FEW_LEVELS = "too few levels"
    NOTHING_SUCCEEDED = "nothing succeeded"
    ONE_REPETITION = "one repetition"
    RUNS_DIFFER = "runs differ"
    OVERLOADED = "overloaded"
    """The bracket is between the levels at which the target is not overloaded and those at which it is."""
    FULL = "full component"
    """The throughputs do not decide; from the upper end of the bracket on, a component of the target is full."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Relative gain of throughput (0.1: 10 % more) from the load `start` to `end`, with its 95 % interval."""

    start: float
    end: float
    gain: float
    low: float
    high: float


class ResourceKind(StrEnum):
    """Kinds of resources of a utilization. OTHER: a core, disk or link. With OTHER and DISK_OF_LIMIT, the utilization
    contains its name."""

    CPU = "cpu"
    CPU_OF_CORES = "cpu of its cores"
    CPU_OF_SHARED_CORES = "cpu of shared cores"
    CPU_OF_PROCESS = "cpu of its process"
    CPU_OF_LIMIT = "cpu of its limit"
    DISK_OF_LIMIT = "disk of its limit"
    BUSIEST_THREAD = "busiest thread"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TermPart:
    """The factors of a term of a model, or of an alias of it (`sign` -1: with the opposite sign)."""

    factors: tuple[str, ...]
    sign: int = 1
