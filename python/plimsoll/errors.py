"""The exceptions that Plimsoll raises on purpose, and the exit codes of the command line.

::

    PlimsollError                 an error that is not a bug of Plimsoll               exit 1
    ├── BadInput                  an experiment file, option or table is wrong         exit 2
    ├── DamagedResults            a results directory cannot be read                   exit 1
    ├── EngineError               the engine is missing, of another version, or failed exit 1
    ├── ServiceError              a service did not start, was not ready, or died      exit 1
    ├── AgentsLost                agents were lost, the run is incomplete              exit 98
    └── UserInterrupt             stopped by the user; what was measured is kept       exit 130

A message states what happened, where, and what to do. It is plain text: HTML output must escape it. An exception
outside this tree is a bug.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

MAX_PROBLEMS = 20
"""Maximum number of problems of one file that are shown; the others are counted."""


class ExitCode(IntEnum):
    """Exit codes of every verb. If several of 97, 98, 99 apply, the lowest is returned."""

    PASSED = 0
    ERROR = 1
    BAD_INPUT = 2
    MEASUREMENT_INVALID = 97
    """The load generator was the bottleneck, or no transaction ended, so the results are not valid
    for the target. Outranks 99."""
    AGENTS_LOST = 98
    THRESHOLD_FAILED = 99
    """The value that k6 uses."""
    INTERRUPTED = 130


class PlimsollError(Exception):
    """Base class of all exceptions that are raised on purpose."""

    exit_code: ClassVar[ExitCode] = ExitCode.ERROR


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of an input.

    `path` is the key as a dotted path ("load.testers"; "" for the whole input), `line` counts from
    1, `value` is the invalid value as text, never that of a secret.
    """

    message: str
    path: str = ""
    file: str = ""
    line: int | None = None
    value: str | None = None
    nearest: str | None = None

    def __str__(self) -> str:
        location = self.file if self.line is None else f"{self.file}:{self.line}"
        hint = f'; did you mean "{self.nearest}"?' if self.nearest else ""
        return ": ".join(part for part in (location, self.path, self.message) if part) + hint


class BadInput(PlimsollError):
    """An input is invalid. `problems` contains every problem that was found in one pass."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, problems: Iterable[Problem] | str) -> None:
        listed = (Problem(problems),) if isinstance(problems, str) else tuple(problems)
        self.problems: tuple[Problem, ...] = tuple(dict.fromkeys(listed))
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [str(problem) for problem in self.problems[:MAX_PROBLEMS]]
        more = len(self.problems) - MAX_PROBLEMS
        if more > 0:
            lines.append(f"and {more} more")
        return "\n".join(lines)


class DamagedResults(PlimsollError):
    """A results directory is incomplete, has a newer format, or was not written by Plimsoll."""


class EngineError(PlimsollError):
    """The engine was not found, has another version, or failed."""


class ServiceError(PlimsollError):
    """A service did not start, was not ready in time, or died."""


class AgentsLost(PlimsollError):
    """One or more agents were lost during a run."""

    exit_code = ExitCode.AGENTS_LOST


class UserInterrupt(PlimsollError):
    """The user stopped the work; the measurements so far are kept."""

    exit_code = ExitCode.INTERRUPTED
