"""A profile as tables of text: the same for the terminal and the page. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from plimsoll.analyse.results.wording import UNKNOWN, count, quantity
from plimsoll.report.table import Column, Table
from plimsoll.trace.profile import FileProfile, Io, Process, Profile, Times
from plimsoll.trace.words import chosen, duration, facts, seconds, share, size

MAX_FAILURES = 200
"""Ways to fail, and blind spots, that a table has."""

MOSTLY_TRACING = "Tracing was most of this run: durations and speeds of single calls are unreliable."


def table(title: str, heads: str, rows: Iterable[Sequence[str]], note: str = "") -> Table:
    """Heads are separated by |; those that begin with # are of numbers."""
    columns = tuple(Column(head.lstrip("#"), numeric=head.startswith("#")) for head in heads.split("|"))
    return Table(title, columns, tuple(tuple(row) for row in rows), note)


def ratio(part: float, whole: float) -> float | None:
    """None of nothing."""
    return part / whole if whole else None


def totals(profile: Profile) -> Table:
    """What was done to all files together."""
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
    """Bytes over a time; nothing where the time is nothing but tracing."""
    if time is None or not data or time.best_s <= 0 or interval_only:
        return UNKNOWN
    return quantity(data / time.best_s, "bytes_rate")


def source(profile: Profile) -> Table:
    """Where the trace comes from."""
    rows = [("recorded", ", ".join(facts(profile)))]
    if profile.source.options:
        rows.append(("options", " ".join(profile.source.options)))
    if profile.source.elapsed_s is not None:
        rows.append(("from start to end of the program", seconds(profile.source.elapsed_s)))
    rows.append(("resolution of times", seconds(profile.source.resolution_s)))
    if chosen(profile):
        rows.append(("shown", chosen(profile)))
    return table("The trace", "|", rows)


def files(profile: Profile, most: int) -> Table:
    """The busiest files, their names last."""
    heads = "#time|#reads|#read|#writes|#written|#seeks|#useless|#in order|file"
    rows = [_file(each, profile.time.interval_only) for each in busiest(profile)[:most]]
    more = len(profile.files) - len(rows)
    return table("Files", heads, rows, f"and {count(more)} more" if more > 0 else "")


def busiest(profile: Profile) -> list[FileProfile]:
    """Files that exist, in the engine's order: by time, then bytes."""
    return [each for each in profile.files if each.kind != "name"]


def _file(each: FileProfile, interval_only: bool) -> tuple[str, ...]:
    known = [time for time in (each.read_time, each.write_time, each.sync_time, each.metadata_time) if time]
    return (
        duration(summed(known), interval_only),
        count(each.reads),
        size(each.read_bytes),
        count(each.writes),
        size(each.write_bytes),
        count(each.seeks),
        count(each.useless_seeks),
        share(each.sequential_share),
        named(each),
    )


def named(each: FileProfile) -> str:
    """The name of a file, and the number of its other names."""
    more = len(each.other_names)
    return f"{each.path} (+{more} name{'s' if more > 1 else ''})" if more else each.path


def summed(times: Sequence[Times]) -> Times | None:
    """All together; nothing is known of nothing."""
    if not times:
        return None

    def of(values: Iterable[float | None]) -> float | None:
        known = list(values)
        return None if None in known else sum(value for value in known if value is not None)

    return Times(
        recorded_s=sum(each.recorded_s for each in times),
        low_s=of(each.low_s for each in times),
        corrected_s=of(each.corrected_s for each in times),
        high_s=of(each.high_s for each in times),
    )


def calls(profile: Profile, most: int | None = None) -> Table:
    """Calls by their names."""
    rows = [
        (
            each.name,
            each.effect,
            count(each.count),
            count(sum(each.errors.values())),
            size(each.bytes) if each.bytes else UNKNOWN,
            duration(each.time, profile.time.interval_only),
            *(seconds(value) for value in (each.mean_s, each.p50_s, each.p99_s, each.max_s)),
        )
        for each in profile.calls[:most]
    ]
    note = "Mean to longest: estimates without the median cost of tracing." if _corrected(profile) else ""
    if profile.time.interval_only:
        note = MOSTLY_TRACING
    return table("Calls", "call|what it does|#calls|#failed|#data|#time|#mean|#p50|#p99|#longest", rows, note)


def _corrected(profile: Profile) -> bool:
    return profile.source.has_durations and profile.source.calibration is not None


def failures(profile: Profile) -> Table:
    """Calls that failed, by call and error."""
    found = [
        (each.name, error, times) for each in profile.calls for error, times in each.errors.items() if times
    ]
    found.sort(key=lambda one: -one[2])
    rows = [(call, error, count(times)) for call, error, times in found[:MAX_FAILURES]]
    return table("Calls that failed", "call|error|#times", rows)


def missing(profile: Profile, most: int | None = None) -> Table:
    """Paths that were looked up but not found."""
    rows = [(count(each.count), each.path) for each in profile.missing[:most]]
    return table("Paths that were not found", "#times|name", rows)


def blind_spots(profile: Profile, most: int = MAX_FAILURES) -> Table:
    """What the trace does not show."""
    rows = [(each.text,) for each in profile.blind_spots[:most]]
    more = len(profile.blind_spots) - len(rows)
    return table("What the trace does not show", "", rows, f"and {count(more)} more" if more > 0 else "")


def bursts(profile: Profile) -> Table:
    """When most of it happened."""
    rows = [
        (
            each.of,
            seconds(each.from_s),
            seconds(each.to_s),
            size(each.amount) if each.of == "bytes" else count(each.amount),
            share(each.share),
            f"{quantity(each.times_mean, 'number')} ×",
        )
        for each in profile.bursts
    ]
    return table("Bursts", "of|#from|#to|#amount|#share of the run|#times the mean rate", rows)


def processes(profile: Profile, most: int, *, brief: bool = False) -> Table:
    """The process tree, parents before children, deeper ones further in. `brief`: programs without directories."""
    rows = [
        (
            str(each.pid),
            count(len(each.threads)),
            seconds(each.start_s),
            seconds(each.end_s - each.start_s),
            count(each.calls),
            size(each.read_bytes),
            size(each.write_bytes),
            duration(each.calls_time, profile.time.interval_only),
            duration(each.waiting_time, profile.time.interval_only),
            f"{'  ' * depth}{_program(each, brief)}",
        )
        for depth, each in tree(profile.processes)[:most]
    ]
    more = len(profile.processes) - len(rows)
    heads = "#process|#threads|#start|#lived|#calls|#read|#written|#in calls|#waiting|program"
    return table("Processes", heads, rows, f"and {count(more)} more" if more > 0 else "")


def _program(each: Process, brief: bool) -> str:
    name = each.program or UNKNOWN
    return PurePosixPath(name).name if brief else name


def tree(processes: Sequence[Process]) -> list[tuple[int, Process]]:
    """Depth and process, each followed by its children. Every process appears once, whatever its parents are."""
    children: dict[int | None, list[int]] = {}
    for place, each in enumerate(processes):
        parent = each.parent if each.parent is not None and each.parent < place else None
        children.setdefault(parent, []).append(place)
    found: list[tuple[int, Process]] = []
    waiting = [(0, place) for place in reversed(children.get(None, []))]
    while waiting:
        depth, place = waiting.pop()
        found.append((depth, processes[place]))
        waiting += [(depth + 1, child) for child in reversed(children.get(place, []))]
    return found
