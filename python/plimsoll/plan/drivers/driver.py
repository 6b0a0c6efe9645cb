"""How a driver describes itself: its section of the experiment file, and what of it goes to the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import ValidationError

from plimsoll.plan.model import Json, Operation
from plimsoll.plan.queries.query import Query
from plimsoll.plan.queries.request_log import RequestLog
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Raw

Requests = list[tuple[str, dict[str, Json]]]
"""Default name and request of each operation."""


class Context(Protocol):
    """Reports problems of the file and finds the files that it names. `ResolveContext` implements it."""

    def wrong(self, path: KeyPath, message: str, near: str | None = None) -> None:
        """Reports a problem."""

    def invalid(self, error: ValidationError, tree: Any, model: type[Raw], path: KeyPath) -> None:
        """Reports the problems of a section that is checked apart."""

    def file(self, name: str, path: KeyPath) -> str:
        """Absolute name of a file that must exist; reports it where it does not."""

    def beside(self, name: str) -> str:
        """Absolute name of what may not exist."""

    def as_written(self, path: KeyPath, value: str) -> str:
        """The value, or what stands for it in the file where it came from the environment: names are stored."""

    def request_log(self, name: str, path: KeyPath) -> RequestLog | None:
        """The Frontier requests of a log. Reports its problems."""


def _no_files(settings: Mapping[str, Any], operations: Sequence[Operation]) -> Iterator[str]:
    return iter(())


@dataclass(frozen=True, slots=True)
class Driver:
    """One driver. The engine's half is `crates/drive/src/drivers/NAME`.

    `section`: the model of its section. `shared_keys`: keys of the section that hold for all requests of a workload; an
    entry of `mix` cannot give them. `schemes`: of the URLs that it can be sent to; empty: it needs no target.
    `settings`, `requests`: what the engine gets for the workload and for each operation, as JSON. `asking`: the request
    for a query that the lab has made; None: the driver sends no queries. `files`: absolute names of the files that a
    host with testers needs. `one_of`: pairs of alternative keys; an entry
    of `mix` that has one of a pair replaces the other one of the section.
    """

    section: type[Raw]
    shared_keys: frozenset[str]
    schemes: tuple[str, ...]
    settings: Callable[[Any, KeyPath, Context], dict[str, Json]]
    requests: Callable[[Any, KeyPath, Context], Requests]
    asking: Callable[[Any, Query], dict[str, Json]] | None = None
    files: Callable[[Mapping[str, Any], Sequence[Operation]], Iterator[str]] = _no_files
    one_of: tuple[tuple[str, str], ...] = ()
