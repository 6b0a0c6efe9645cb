"""Verdicts, doubts and reasons of the machine-readable result, as codes and numbers.

A part of `results`, under the same rules. The values of the enumerations are what stands in analysis.json, and stay.
Sentences are made from these in `answer`, and nothing but a reader reads a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Value = float | int | str | bool | None | tuple[str, ...]
"""A figure behind a verdict: a number, a name, or several names."""


class SaturationVerdict(StrEnum):
    """Where throughput stops rising, relative to the levels that were run."""

    BRACKETED = "bracketed"
    NOT_REACHED = "not reached"
    AT_LOWEST = "at or below the lowest level"
    RETROGRADE = "retrograde"
    CANNOT_SAY = "cannot be said"


class SaturationReason(StrEnum):
    """Why nothing can be said about saturation."""

    TOO_FEW_LEVELS = "too few levels"
    NOTHING_SUCCEEDED = "nothing succeeded"
    RUNS_DIFFER = "runs differ"


@dataclass(frozen=True, slots=True)
class Doubt:
    """A gain of throughput (0.1: 10 %) from the upper end of a bracket to the load `at` that cannot be excluded."""

    gain: float
    at: float


class ResourceKind(StrEnum):
    """What a utilization is about. OTHER: a core, disk or link that the utilization names."""

    CPU = "cpu"
    CPU_OF_CORES = "cpu of its cores"
    CPU_OF_SHARED_CORES = "cpu of shared cores"
    CPU_OF_PROCESS = "cpu of its process"
    BUSIEST_THREAD = "busiest thread"
    OTHER = "other"
