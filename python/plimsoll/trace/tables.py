"""A profile as tables of text: the same for the terminal and the page. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from plimsoll.analyse.results.wording import UNKNOWN, count, quantity
from plimsoll.report.tables.table import Column, Table
from plimsoll.trace.profile import FileProfile, Io, Process, Profile, Times
from plimsoll.trace.words import chosen, duration, facts, seconds, share, size

MAX_FAILURES = 200
"""Maximum number of rows of the tables of failures and of blind spots."""

MOSTLY_TRACING = "Tracing was most of this run: durations and speeds of single calls are unreliable."


def table(title: str, heads: str, rows: Iterable[Sequence[str]], note: str = "") -> Table:
    """A table. `heads`: heads of the columns, separated by |; a head that begins with # is that of a numeric column."""
    columns = tuple(Column(head.lstrip("#"), numeric=head.startswith("#")) for head in heads.split("|"))
    return Table(title, columns, tuple(tuple(row) for row in rows), note)


def ratio(part: float, whole: float) -> float | None:
    """part / whole; None if `whole` is 0."""
    return part / whole if whole else None


def totals(profile: Profile) -> Table:
    """Reads and writes of all files together."""
    rows = [
        ("reads", *_direction(profile.totals, writes=False, interval_only=profile.time.interval_only)),
        ("writes", *_direction(profile.totals, writes=True, interval_only=profile.time.interval_only)),
    ]
    heads = "|#requests|#data|#distinct bytes|#again|#mean size|#time in calls|#mean speed"
    return table("Data", heads, rows, "Speed: bytes over the time in calls.")


def _direction(io: Io, *, writes: bool, interval_only: bool) -> tuple[str, ...]:
    requests, data, unique, again, time = (
        (io.writes, io.write_bytes, io.unique_write_bytes, io.overwritten_bytes, io.write_time)
        if writes
        else (io.reads, io.read_bytes, io.unique_read_bytes, io.reread_bytes, io.read_time)
    )
    about = "≥ " if io.approximate else ""
    return (
        count(requests),
        size(data),
        about + size(unique),
        size(again),
        size(ratio(data, requests)),
        duration(time, interval_only),
        speed(data, time, interval_only),
    )


def speed(data: int, time: Times | None, interval_only: bool) -> str:
    """Bytes per second; a dash if the time is unknown, or consists mostly of the cost of tracing."""
    if time is None or not data or time.best_s <= 0 or interval_only:
        return UNKNOWN
    return quantity(data / time.best_s, "bytes_rate")


def source(profile: Profile) -> Table:
    """The source of the trace: recorder, options, resolution, selection."""
    rows = [("recorded", ", ".join(facts(profile)))]
    if profile.source.options:
        rows.append(("options", " ".join(profile.source.options)))
    if profile.source.elapsed_s is not None:
        rows.append(("from start to end of the program", seconds(profile.source.elapsed_s)))
    rows.append(("resolution of times", seconds(profile.source.resolution_s)))
    if chosen(profile):
        rows.append(("shown", chosen(profile)))
    return table("The trace", "|", rows)


def files(profile: Profile, max_rows: int) -> Table:
    """The busiest files, their names last."""
    heads = "#time|#reads|#read|#writes|#written|#seeks|#useless|#in order|file"
    rows = [_file(file, profile.time.interval_only) for file in busiest(profile)[:max_rows]]
    more = len(profile.files) - len(rows)
    return table("Files", heads, rows, f"and {count(more)} more" if more > 0 else "")


def busiest(profile: Profile) -> list[FileProfile]:
    """Files that exist, in the order of the engine: by time, then by bytes."""
    return [file for file in profile.files if file.kind != "name"]


def _file(file: FileProfile, interval_only: bool) -> tuple[str, ...]:
    known = [time for time in (file.read_time, file.write_time, file.sync_time, file.metadata_time) if time]
    return (
        duration(summed(known), interval_only),
        count(file.reads),
        size(file.read_bytes),
        count(file.writes),
        size(file.write_bytes),
        count(file.seeks),
        count(file.useless_seeks),
        share(file.sequential_share),
        display_name(file),
    )


def display_name(file: FileProfile) -> str:
    """The name of a file, and the number of its other names."""
    more = len(file.other_names)
    return f"{file.path} (+{more} name{'s' if more > 1 else ''})" if more else file.path


def summed(times: Sequence[Times]) -> Times | None:
    """The sum of all times; None if there are none. A part that is unknown in one of them is unknown in the sum."""
    if not times:
        return None

    def total(values: Iterable[float | None]) -> float | None:
        known = list(values)
        return None if None in known else sum(value for value in known if value is not None)

    return Times(
        recorded_s=sum(time.recorded_s for time in times),
        low_s=total(time.low_s for time in times),
        corrected_s=total(time.corrected_s for time in times),
        high_s=total(time.high_s for time in times),
    )


def calls(profile: Profile, max_rows: int | None = None) -> Table:
    """Calls by their names."""
    rows = [
        (
            call.name,
            call.effect,
            count(call.count),
            count(sum(call.errors.values())),
            size(call.bytes) if call.bytes else UNKNOWN,
            duration(call.time, profile.time.interval_only),
            *(seconds(value) for value in (call.mean_s, call.p50_s, call.p99_s, call.max_s)),
        )
        for call in profile.calls[:max_rows]
    ]
    note = "Mean to longest: estimates without the median cost of tracing." if _corrected(profile) else ""
    if profile.time.interval_only:
        note = MOSTLY_TRACING
    return table("Calls", "call|what it does|#calls|#failed|#data|#time|#mean|#p50|#p99|#longest", rows, note)


def _corrected(profile: Profile) -> bool:
    return profile.source.has_durations and profile.source.calibration is not None


def failures(profile: Profile) -> Table:
    """Calls that failed, by call and error."""
    failed = [
        (call.name, error, times) for call in profile.calls for error, times in call.errors.items() if times
    ]
    failed.sort(key=lambda failure: -failure[2])
    rows = [(call, error, count(times)) for call, error, times in failed[:MAX_FAILURES]]
    return table("Calls that failed", "call|error|#times", rows)


def missing(profile: Profile, max_rows: int | None = None) -> Table:
    """Paths that were looked up but not found."""
    rows = [(count(path.count), path.path) for path in profile.missing[:max_rows]]
    return table("Paths that were not found", "#times|name", rows)


def blind_spots(profile: Profile, max_rows: int = MAX_FAILURES) -> Table:
    """What the trace does not show."""
    rows = [(spot.text,) for spot in profile.blind_spots[:max_rows]]
    more = len(profile.blind_spots) - len(rows)
    return table("What the trace does not show", "", rows, f"and {count(more)} more" if more > 0 else "")


def bursts(profile: Profile) -> Table:
    """Intervals with a rate far above the mean."""
    rows = [
        (
            burst.of,
            seconds(burst.from_s),
            seconds(burst.to_s),
            size(burst.amount) if burst.of == "bytes" else count(burst.amount),
            share(burst.share),
            f"{quantity(burst.times_mean, 'number')} ×",
        )
        for burst in profile.bursts
    ]
    return table("Bursts", "of|#from|#to|#amount|#share of the run|#times the mean rate", rows)


def processes(profile: Profile, max_rows: int, *, brief: bool = False) -> Table:
    """The process tree, parents before children, indented by depth. `brief`: programs without directories."""
    rows = [
        (
            str(process.pid),
            count(len(process.threads)),
            seconds(process.start_s),
            seconds(process.end_s - process.start_s),
            count(process.calls),
            size(process.read_bytes),
            size(process.write_bytes),
            duration(process.calls_time, profile.time.interval_only),
            duration(process.waiting_time, profile.time.interval_only),
            f"{'  ' * depth}{_program(process, brief)}",
        )
        for depth, process in tree(profile.processes)[:max_rows]
    ]
    more = len(profile.processes) - len(rows)
    heads = "#process|#threads|#start|#lived|#calls|#read|#written|#in calls|#waiting|program"
    return table("Processes", heads, rows, f"and {count(more)} more" if more > 0 else "")


def _program(process: Process, brief: bool) -> str:
    name = process.program or UNKNOWN
    return PurePosixPath(name).name if brief else name


def tree(processes: Sequence[Process]) -> list[tuple[int, Process]]:
    """Depth and process, each followed by its children. Every process appears once, also if its parent is invalid."""
    children: dict[int | None, list[int]] = {}
    for index, process in enumerate(processes):
        parent = process.parent if process.parent is not None and process.parent < index else None
        children.setdefault(parent, []).append(index)
    ordered: list[tuple[int, Process]] = []
    waiting = [(0, index) for index in reversed(children.get(None, []))]
    while waiting:
        depth, index = waiting.pop()
        ordered.append((depth, processes[index]))
        waiting += [(depth + 1, child) for child in reversed(children.get(index, []))]
    return ordered
