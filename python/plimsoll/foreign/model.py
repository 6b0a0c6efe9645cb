"""One run of another tool, and how it is computed from transactions."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from plimsoll.analyse.stats.quantiles import exact_quantiles, is_large_enough
from plimsoll.errors import BadInput, Problem

QUANTILES: Final = {"response_p50": 0.5, "response_p95": 0.95, "response_p99": 0.99}
Lines = Iterable[tuple[int, str]]
"""Lines with their numbers from 1, without line breaks."""


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """`requests`: number, failed ones included; `errors`: those that failed. `throughput`: successful requests per
    second. `times_ms`: of the names of QUANTILES; a quantile that the file does not contain, or that its number of
    requests does not support, is absent. `is_summary`: the tool computed the figures, so their definitions are its own.
    None: unknown."""

    requests: int | None
    errors: int | None
    throughput: float | None
    times_ms: Mapping[str, float] = field(default_factory=dict)
    is_summary: bool = False


class Record(BaseModel):
    """A record of a file of another tool: fields that Plimsoll does not use are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


_Model = TypeVar("_Model", bound=Record)


class Transactions:
    """Collects requests: starts (s), durations (ms), and whether they succeeded."""

    def __init__(self) -> None:
        self._start: list[float] = []
        self._ms: list[float] = []
        self._failed: list[bool] = []

    def add(self, start_s: float, ms: float, *, ok: bool) -> None:
        """Adds a request."""
        self._start.append(start_s)
        self._ms.append(ms)
        self._failed.append(not ok)

    def run(self, file: str) -> ForeignRun:
        """The figures over the whole run. The times are those of the successful requests, as in the closed loads of
        Plimsoll. Raises BadInput without a request."""
        if not self._ms:
            raise BadInput(f"{file}: contains no request")
        start, ms = (np.array(values, dtype=np.float64) for values in (self._start, self._ms))
        failed = np.array(self._failed, dtype=np.bool_)
        length = float((start + ms / 1000).max() - start.min())
        succeeded = int((~failed).sum())
        return ForeignRun(
            requests=ms.size,
            errors=int(failed.sum()),
            throughput=succeeded / length if length > 0 else None,
            times_ms=quantiles_ms(ms[~failed]),
        )


def quantiles_ms(ms: NDArray[np.float64]) -> dict[str, float]:
    """The quantiles of durations that their number supports: at least ten values beyond each."""
    ns = np.rint(ms * 1e6).astype(np.int64)
    known = {name: q for name, q in QUANTILES.items() if is_large_enough(q, ns.size)}
    if not known:
        return {}
    found = exact_quantiles(ns, list(known.values()))
    return {name: value / 1e6 for name, value in zip(known, found, strict=True)}


def supported(times_ms: Mapping[str, float | None], requests: int | None) -> dict[str, float]:
    """The quantiles of a summary that are known, and that its number of requests supports."""
    return {
        name: value
        for name, value in times_ms.items()
        if value is not None and (requests is None or is_large_enough(QUANTILES[name], requests))
    }


def record(model: type[_Model], value: Any, file: str, line: int | None = None) -> _Model:
    """The value as a record. Raises BadInput with file and line."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors()[0]
        place = ".".join(map(str, found["loc"]))
        refuse(file, line, f"{place}: {found['msg']}" if place else found["msg"])


def number(text: str, name: str, file: str, line: int) -> float:
    """A finite number of a text file. Raises BadInput."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        refuse(file, line, f'{name}: expected a number, got "{text[:40]}"')
    return value


def refuse(file: str, line: int | None, message: str) -> NoReturn:
    """Raises BadInput for a place in a file."""
    raise BadInput([Problem(message, file=file, line=line)])


def csv_rows(lines: Lines, file: str, needed: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file with a head, each with the number of its last line: a quoted value may contain line
    breaks. Raises BadInput."""
    reader = csv.reader(f"{text}\n" for _, text in lines)
    names: list[str] = []
    try:
        for row in reader:
            line = reader.line_num
            if not names:
                names = row
                if missing := [name for name in needed if name not in names]:
                    refuse(
                        file,
                        line,
                        f"expected a column {missing[0]}; the columns are {', '.join(names)[:200]}",
                    )
            elif row:
                if len(row) < len(names):
                    refuse(file, line, f"expected {len(names)} columns, got {len(row)}")
                yield line, dict(zip(names, row, strict=False))
    except csv.Error as error:
        refuse(file, reader.line_num, f"is not valid CSV: {error}")


def json_of(text: str, file: str) -> Any:
    """The JSON document of a file. Raises BadInput with the line of an error."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        refuse(file, error.lineno, f"is not valid JSON: {error.msg}")
    except RecursionError:
        refuse(file, None, "is nested too deeply")


def json_line(text: str, file: str, line: int) -> Any:
    """The JSON value of a line. Raises BadInput."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        refuse(file, line, f"is not valid JSON: {getattr(error, 'msg', error)}")
