"""The profile of a trace as the engine returns it (crate `trace`, profile/json.rs), validated by pydantic.

Times are seconds since the zero of the trace, or lengths in seconds, where they end in `_s`; bytes are results of
calls. Unknown values are None, never 0. The engine escapes names of files: control characters and bytes that are not
UTF-8 appear as \\xNN.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from plimsoll.errors import EngineError

NAME: Final = "plimsoll.profile"
MAJOR: Final = 1

Share = Annotated[float, Field(ge=0)]


class Part(BaseModel):
    """A part of the profile. Unknown keys of a newer engine are ignored; a missing key is an error."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Times(Part):
    """A total of times: as recorded, and without the cost of tracing where that is known (best estimate and range)."""

    recorded_s: float
    low_s: float | None
    corrected_s: float | None
    high_s: float | None

    @property
    def best_s(self) -> float:
        """The time without the cost of tracing if that is known, else the recorded time."""
        return self.recorded_s if self.corrected_s is None else self.corrected_s


class Calibration(Part):
    """The cost of tracing a call on the traced host, ns: median, and the range of 90 % of the measurements."""

    call_ns: tuple[float, float, float]
    duration_ns: tuple[float, float, float]
    calls: int


class Source(Part):
    """Where the trace comes from."""

    recorder: str
    recorder_version: str
    options: tuple[str, ...]
    command: tuple[str, ...]
    attached: bool
    host: tuple[str, ...]
    zero_unix_ns: int | None
    resolution_s: float
    has_durations: bool
    calibration: Calibration | None
    status: int | None
    elapsed_s: float | None


class Selection(Part):
    """The selection: an expression for names, a window of time."""

    file: str | None
    from_s: float | None
    to_s: float | None


class RunTime(Part):
    """Duration of the run. `interval_only`: tracing was most of it, so a single number would be misleading."""

    start_s: float
    end_s: float
    wall: Times
    calls: Times | None
    waiting: Times | None
    tracing_share: float | None
    traced_call_s: tuple[float, float, float] | None
    interval_only: bool


class NonFileRequests(Part):
    """Data to and from pipes, sockets and other descriptors that are not files."""

    reads: int
    read_bytes: int
    writes: int
    write_bytes: int


class Bin(Part):
    """A range of a histogram, from `from` to below `to`."""

    from_: float = Field(alias="from")
    to: float
    count: int


class Spread(Part):
    """The distribution of values."""

    count: int
    mean: float
    sd: float | None
    min: float
    max: float
    histogram: tuple[Bin, ...]


class Requests(Part):
    """Requests of one direction: bytes, seconds, bytes per second."""

    size: Spread
    duration_s: Spread | None
    speed: Spread | None
    small: int
    small_s: float | None


class FailedCalls(Part):
    """Calls that failed in the same way."""

    call: str
    error: str
    count: int


class Io(Part):
    """Operations on one file, or on all files."""

    opens: int
    reads: int
    read_bytes: int
    unique_read_bytes: int
    reread_bytes: int
    short_reads: int
    end_reads: int
    writes: int
    write_bytes: int
    unique_write_bytes: int
    overwritten_bytes: int
    approximate: bool
    seeks: int
    useless_seeks: int
    still_seeks: int
    sequential_share: Share | None
    consecutive_share: Share | None
    descending_share: Share | None
    unknown_offsets: int
    modify_writes: int
    direct: int
    unaligned_direct: int
    syncs: int
    read_s: float | None
    write_s: float | None
    read_time: Times | None
    write_time: Times | None
    sync_time: Times | None
    metadata_time: Times | None
    run_share: Share | None
    read: Requests | None
    write: Requests | None
    metadata: dict[str, int]
    failed: tuple[FailedCalls, ...]
    maps: int
    mapped_bytes: int

    @property
    def calls_s(self) -> float | None:
        """Time in all its calls, best estimate; None if the trace has no durations."""
        times = [self.read_time, self.write_time, self.sync_time, self.metadata_time]
        known = [time.best_s for time in times if time is not None]
        return sum(known) if known else None

    @property
    def failures(self) -> int:
        """Number of calls that failed, for any reason."""
        return sum(calls.count for calls in self.failed)


class Totals(Io):
    """All files together."""

    calls: int
    failed_calls: int
    files: int
    processes: int
    threads: int
    elsewhere: NonFileRequests


class FileProfile(Io):
    """A file. `timeline`: rows of bin, calls, bytes read, bytes written."""

    path: str
    other_names: tuple[str, ...]
    kind: str
    incarnations: int
    size: int | None
    open_s: float
    first_s: float
    last_s: float
    threads: int
    process_count: int
    processes: tuple[int, ...]
    executable: bool
    timeline: tuple[tuple[int, int, int, int], ...]


class Work(Part):
    """Calls, bytes and times of a thread or a process."""

    calls: int
    failed_calls: int
    read_bytes: int
    write_bytes: int
    calls_time: Times | None
    waiting_time: Times | None
    cpu_s: float | None


class Thread(Work):
    """A thread. `id`: its index in the table of the trace."""

    id: int
    tid: int
    start_s: float
    end_s: float


class Process(Work):
    """A process. `parent`: index in the list of processes."""

    pid: int
    parent: int | None
    program: str | None
    executes: int
    start_s: float
    end_s: float
    threads: tuple[Thread, ...]


class CallKind(Part):
    """A call, by its name."""

    name: str
    effect: str
    count: int
    errors: dict[str, int]
    bytes: int
    time: Times | None
    mean_s: float | None
    p50_s: float | None
    p99_s: float | None
    max_s: float | None


class MissingPath(Part):
    """A path that was looked up but not found."""

    path: str
    count: int


class Timeline(Part):
    """Requests, bytes and calls over time, as columns of the same length."""

    start_s: float
    bin_s: float
    reads: tuple[int, ...]
    read_bytes: tuple[int, ...]
    writes: tuple[int, ...]
    write_bytes: tuple[int, ...]
    metadata: tuple[int, ...]
    other: tuple[int, ...]


class Burst(Part):
    """An interval with a rate far above the mean. `of`: bytes or calls."""

    of: str
    from_s: float
    to_s: float
    amount: int
    share: float
    times_mean: float


class UnparsedCounts(Part):
    """Counts of the parts of the trace that could not be understood."""

    whole: bool
    lines: int
    odd_lines: int
    cut_lines: int
    examples: tuple[str, ...]
    unknown_calls: int
    halves: int
    endless: int


class BlindSpot(Part):
    """A kind of access that the trace does not show."""

    kind: str
    file: str | None
    count: int
    bytes: int | None
    text: str


class Finding(Part):
    """A finding."""

    kind: str
    file: str | None
    numbers: dict[str, float]
    text: str


class Profile(Part):
    """The file accesses of an application."""

    format: str
    source: Source
    chosen: Selection
    time: RunTime
    totals: Totals
    files: tuple[FileProfile, ...]
    processes: tuple[Process, ...]
    calls: tuple[CallKind, ...]
    missing: tuple[MissingPath, ...]
    timeline: Timeline
    bursts: tuple[Burst, ...]
    unparsed: UnparsedCounts
    blind_spots: tuple[BlindSpot, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class ProfileDocument:
    """A profile, and the JSON document from which it was read."""

    profile: Profile
    document: dict[str, Any]


def read(text: str | bytes) -> ProfileDocument:
    """Parses the profile that the engine printed. Raises EngineError if it is malformed or of a newer major version."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise EngineError(f"the engine's profile is not valid JSON: {error}") from error
    require_format(document, NAME, MAJOR)
    try:
        return ProfileDocument(Profile.model_validate(document), document)
    except ValidationError as error:
        raise EngineError(f"the engine's profile has an unexpected form: {error}") from error


def require_format(document: Any, name: str, major: int) -> None:
    """Raises EngineError unless the document has this format and no newer version."""
    text = document.get("format") if isinstance(document, dict) else None
    found_name, _, version = text.rpartition("/") if isinstance(text, str) else ("", "", "")
    if found_name != name or not version.isdecimal():
        raise EngineError(f"the engine returned format {text!r}; {name}/{major} was expected")
    if int(version) > major:
        raise EngineError(
            f"the engine returned format {text}; this lab supports {name}/{major}: install both from one release"
        )
