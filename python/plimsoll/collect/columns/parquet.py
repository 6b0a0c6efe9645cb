"""transactions.parquet and samples.parquet as numpy arrays, a row group at a time, so memory stays bounded."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plimsoll.collect.columns.samples import SampleSeries
from plimsoll.collect.columns.transactions import OUTCOMES, Transactions
from plimsoll.collect.files import require_readable
from plimsoll.errors import DamagedResults

READ = (
    "scheduled",
    "start",
    "end",
    "outcome",
    "code",
    "tester",
    "workload",
    "items",
    "payload",
    "sent",
    "received",
)
NAMED = ("outcome", "code", "workload")


@dataclass
class Names:
    """Numbers of the texts of a column, in order of appearance; the same in all row groups of a run."""

    texts: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        """The number of a text; a new text is added."""
        number = self.numbers.get(text)
        if number is None:
            number = self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return number

    @classmethod
    def of(cls, texts: tuple[str, ...]) -> Names:
        """The texts, numbered in this order."""
        names = cls()
        for text in texts:
            names.number(text)
        return names


class EndpointRoundTrips(Protocol):
    """The round trips of the connections of a run. `endpoints`: names of the endpoints, by number."""

    @property
    def endpoints(self) -> tuple[str, ...]: ...

    def of(self, tester: NDArray[np.integer], endpoint: NDArray[np.integer]) -> NDArray[np.int64]:
        """The round trip of each transaction, ns; -1: not measured."""


def require_format(file: Any, name: str, path: Path) -> None:
    """Raises DamagedResults unless the Parquet file states the format `name` in a version that this release reads."""
    stated_format = (file.metadata.metadata or {}).get(b"format", b"")
    require_readable(stated_format.decode("utf-8", "replace"), name, path)


class TransactionFile:
    """The transactions of one run. `names` contains the texts of the named columns in the row groups that were read.
    `operations`, `connected`: whether to read these columns; `round_trips`: those of the transactions. Raises
    DamagedResults."""

    def __init__(
        self,
        path: Path,
        workloads: tuple[str, ...],
        *,
        operations: bool = False,
        connected: bool = False,
        round_trips: EndpointRoundTrips | None = None,
    ) -> None:
        has_endpoints = round_trips is not None and len(round_trips.endpoints) > 1
        self._read = (
            *READ,
            *(("operation",) if operations else ()),
            *(("endpoint",) if has_endpoints else ()),
        )
        self._round_trips = round_trips
        try:
            # The format is checked first: a file of another version may lack the columns that are read below.
            require_format(pq.ParquetFile(path), "plimsoll.transactions", path)
            self._file = pq.ParquetFile(
                path, read_dictionary=[*NAMED, *self._read[len(READ) :]], memory_map=True
            )
        except (OSError, pa.ArrowException) as error:
            raise DamagedResults(f"{path} cannot be read: {error}") from error
        except KeyError as error:
            raise DamagedResults(f"{path} has no column {error}") from error
        columns = self._file.schema_arrow.names
        for name in self._read:
            if name not in columns:
                raise DamagedResults(f"{path} has no column {name}")
        optional = ("first_byte", *(("connected",) if connected else ()))
        self._read = (*self._read, *(name for name in optional if name in columns))
        self._path = path
        self.names = {"outcome": Names.of(OUTCOMES), "code": Names.of(("",)), "workload": Names.of(workloads)}
        self.names["operation"] = Names()
        self.names["endpoint"] = Names.of(round_trips.endpoints if round_trips else ())

    @property
    def rows(self) -> int:
        """Number of transactions."""
        return int(self._file.metadata.num_rows)

    @property
    def testers(self) -> int:
        """Number of testers: the greatest tester number plus one, from the statistics of the row groups."""
        greatest = -1
        column = self._file.schema_arrow.get_field_index("tester")
        for group in range(self._file.num_row_groups):
            statistics = self._file.metadata.row_group(group).column(column).statistics
            if statistics is None or not statistics.has_min_max:
                values = self._file.read_row_group(group, columns=["tester"]).column("tester")
                greatest = max([greatest, *values.to_pylist()])
            else:
                greatest = max(greatest, int(statistics.max))
        return greatest + 1

    def chunks(self) -> Iterator[Transactions]:
        """Yields the transactions row group by row group. Raises DamagedResults if the file is damaged."""
        for group in range(self._file.num_row_groups):
            try:
                table = self._file.read_row_group(group, columns=list(self._read), use_threads=False)
            except (OSError, pa.ArrowException) as error:
                raise DamagedResults(f"{self._path}: row group {group} cannot be read: {error}") from error
            yield self._transactions(table)

    def _transactions(self, table: Any) -> Transactions:
        start = _ints(table, "start")
        end = _ints(table, "end")
        return Transactions(
            scheduled=start + _ints(table, "scheduled"),
            start=start,
            end=np.where(end < 0, np.int64(-1), start + end),
            outcome=self._named(table, "outcome").astype(np.uint8),
            code=self._named(table, "code"),
            tester=numbers(table, "tester"),
            workload=self._named(table, "workload"),
            items=_ints(table, "items"),
            payload=_ints(table, "payload"),
            sent=_ints(table, "sent"),
            received=_ints(table, "received"),
            operation=self._named(table, "operation") if "operation" in self._read else None,
            first_byte=_ints(table, "first_byte") if "first_byte" in self._read else None,
            connected=_ints(table, "connected") if "connected" in self._read else None,
            round_trip=self._round_trip_of(table),
        )

    def _round_trip_of(self, table: Any) -> NDArray[np.int64] | None:
        if self._round_trips is None:
            return None
        tester = numbers(table, "tester")
        has_one = "endpoint" not in self._read
        endpoint = np.zeros(tester.size, dtype=np.int64) if has_one else self._named(table, "endpoint")
        return self._round_trips.of(tester, endpoint)

    def _named(self, table: Any, column: str) -> NDArray[np.int64]:
        """Numbers of a dictionary column. Each row group has its own dictionary; `self.names` is the same for all."""
        return numbered(table, column, self.names[column])[1]


def _column(table: Any, name: str) -> Any:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def numbers(table: Any, name: str) -> NDArray[Any]:
    """A column of numbers without nulls; read-only, and copied only if it consists of several chunks.

    Read by DLPack, as pyarrow's `to_numpy` imports pandas where pandas is installed: 0.5 s of processor time.
    """
    return np.from_dlpack(_column(table, name))


def _ints(table: Any, name: str) -> NDArray[np.int64]:
    return numbers(table, name).astype(np.int64, copy=False)


def read_samples(path: Path) -> list[SampleSeries]:
    """The series of samples.parquet, one for each component, metric, part and agent. Raises DamagedResults."""
    try:
        file = pq.ParquetFile(path)
        table = file.read()
    except (OSError, pa.ArrowException) as error:
        raise DamagedResults(f"{path} cannot be read: {error}") from error
    require_format(file, "plimsoll.samples", path)
    try:
        columns = [table.column(name).to_pylist() for name in ("component", "metric", "part", "agent")]
        t_s = numbers(table, "t") / 1e9
        value = numbers(table, "value")
    except KeyError as error:
        raise DamagedResults(f"{path}: missing column: {error}") from error
    rows: dict[tuple[str, str, str, str], list[int]] = {}
    for index, key in enumerate(zip(*columns, strict=True)):
        rows.setdefault(key, []).append(index)
    return [
        SampleSeries(component, metric, part, t_s[at], value[at], agent)
        for (component, metric, part, agent), at in rows.items()
    ]


def read_whole_metrics(path: Path, names: Collection[str]) -> dict[str, NDArray[np.float64]]:
    """metrics.parquet: the values of the whole run by name, for those of `names` that occur. Raises DamagedResults."""
    int64 = np.iinfo(np.int64)
    metrics = read_metrics(path, int64.min, int64.max)
    return {name: values for name, values in metrics.items() if name in names}


def read_metrics(
    path: Path, start_ns: int, end_ns: int, without: Collection[str] = ()
) -> dict[str, NDArray[np.float64]]:
    """metrics.parquet: values by name of the transactions that started in [start_ns, end_ns), except for the names in
    `without`. Raises DamagedResults."""
    try:
        file = pq.ParquetFile(path)
        table = file.read(columns=["start", "metric", "value"])
    except (OSError, pa.ArrowException) as error:
        raise DamagedResults(f"{path} cannot be read: {error}") from error
    require_format(file, "plimsoll.metrics", path)
    start = numbers(table, "start")
    inside = (start >= start_ns) & (start < end_ns)
    names, number = numbered(table, "metric")
    number, values = number[inside], numbers(table, "value")[inside]
    indices = {names[index]: index for index in np.unique(number).tolist()}
    return {name: values[number == index] for name, index in sorted(indices.items()) if name not in without}


def row_groups(path: Path, name: str, columns: tuple[str, ...]) -> Iterator[Any]:
    """Yields the row groups of a table, with these columns. Raises DamagedResults, also if the file does not exist."""
    try:
        file = pq.ParquetFile(path)
        require_format(file, name, path)
        missing = [column for column in columns if column not in file.schema_arrow.names]
        if missing:
            raise DamagedResults(f"{path} has no column {missing[0]}")
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, columns=list(columns), use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise DamagedResults(f"{path} cannot be read: {error}") from error


def numbered(table: Any, column: str, names: Names | None = None) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct texts of a column, and for each row the index of its text among them. `names`: texts that already
    have a number; new texts are added to it."""
    names = Names() if names is None else names
    parts = [np.empty(0, dtype=np.int64)]
    for chunk in table.column(column).chunks:
        chunk = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        mapping = np.array(
            [names.number(text) for text in chunk.dictionary.to_pylist()] or [0], dtype=np.int64
        )
        parts.append(mapping[np.from_dlpack(chunk.indices)])
    return names.texts, np.concatenate(parts)
