"""The description of a driver: its section of the experiment file, and the JSON for the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import ValidationError

from plimsoll.plan.model.cell import Generator, Json, Operation
from plimsoll.plan.queries.access_line import LineFormat
from plimsoll.plan.queries.access_log import AccessLog
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
        """Reports the problems of a section that is validated separately."""

    def file(self, name: str, path: KeyPath) -> str:
        """Absolute path of a file, which is reported if it does not exist."""

    def beside(self, name: str) -> str:
        """Absolute path of a file, which need not exist."""

    def as_written(self, path: KeyPath, value: str) -> str:
        """The value, or its text in the file if it came from the environment. Names that are stored need it."""

    def request_log(self, name: str, path: KeyPath) -> RequestLog | None:
        """The Frontier requests of a log; None if there are none. Problems are reported."""

    def access_log(self, name: str, path: KeyPath, form: LineFormat, max_objects: int) -> AccessLog | None:
        """The GET and HEAD requests of a log; None if there are none. Problems are reported."""


@dataclass(frozen=True, slots=True)
class LogRequests:
    """The requests of a log. `requests`: default name, weight and request of each operation; `values`: generators
    that they need; `at_ns`: times of a log to replay; `remarks`: texts that `plan` prints."""

    requests: tuple[tuple[str, float, dict[str, Json]], ...] = ()
    values: Mapping[str, Generator] = field(default_factory=dict)
    at_ns: tuple[int, ...] | None = None
    remarks: tuple[str, ...] = ()


def _no_files(settings: Mapping[str, Any], operations: Sequence[Operation]) -> Iterator[str]:
    return iter(())


@dataclass(frozen=True, slots=True)
class Driver:
    """One driver. The engine's half is `crates/drive/src/drivers/NAME`.

    `section`: the model of its section. `shared_keys`: keys of the section that apply to all requests of a workload;
    an entry of `mix` cannot contain them. `schemes`: of the URLs of its targets; empty: it needs no target.
    `settings`, `requests`: return the JSON for the engine, of the workload and of each operation. `query_request`:
    returns the request for a query that the lab has made; None: the driver sends no queries. `log_requests`: returns
    the requests of the log of the section, None if it has none; the function is None if the driver sends queries, or
    has no logs. `files`: returns absolute paths of the files that a host with testers needs. `one_of`: pairs of
    alternative keys; if an entry of `mix` has one of them, the other one of the section does not apply.
    """

    section: type[Raw]
    shared_keys: frozenset[str]
    schemes: tuple[str, ...]
    settings: Callable[[Any, KeyPath, Context], dict[str, Json]]
    requests: Callable[[Any, KeyPath, Context], Requests]
    query_request: Callable[[Any, Query], dict[str, Json]] | None = None
    files: Callable[[Mapping[str, Any], Sequence[Operation]], Iterator[str]] = _no_files
    one_of: tuple[tuple[str, str], ...] = ()
    log_requests: Callable[[Any, KeyPath, Context], LogRequests | None] | None = None
