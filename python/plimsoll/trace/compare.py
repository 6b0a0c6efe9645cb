"""Two traces side by side: totals, calls by kind, and the files that differ. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from plimsoll.analyse.results.wording import UNKNOWN, count, quantity
from plimsoll.report.tables.table import Table
from plimsoll.report.terminal import Style, aligned
from plimsoll.trace.profile import FileProfile, Profile, Times
from plimsoll.trace.tables import summed, table
from plimsoll.trace.terminal import fitted
from plimsoll.trace.words import duration, run_time, size

MAX_CALLS: Final = 20
MAX_FILES: Final = 20
HEADS: Final = "|#A|#B|#B/A"

Row = tuple[str, str, str, str]


def comparison(a: Profile, b: Profile) -> list[Table]:
    """Tables of totals, calls and files, with the ratio B/A if both values are known."""
    return [_totals(a, b), _calls(a, b), _files(a, b)]


def _row(label: str, a: float, b: float, show: Callable[[float], str]) -> Row:
    return (label, show(a), show(b), ratio(a, b))


def _whole(value: float) -> str:
    return count(int(value))


def ratio(a: float | None, b: float | None) -> str:
    """B/A as text; `only B` if A is 0; a dash if one is unknown or both are 0."""
    if a is None or b is None or (not a and not b):
        return UNKNOWN
    return quantity(b / a, "number") if a else "only B"


def _time(label: str, a: Times | None, b: Times | None, only: tuple[bool, bool]) -> Row:
    """A row of two times. It has a ratio only if both have a single estimate. `only`: whether A, B is a range."""
    known = None if any(only) or a is None or b is None else ratio(a.best_s, b.best_s)
    return (label, duration(a, only[0]), duration(b, only[1]), known or UNKNOWN)


def _totals(a: Profile, b: Profile) -> Table:
    only = a.time.interval_only, b.time.interval_only
    ta, tb = a.totals, b.totals
    rows: list[Row] = [
        _time("run, without tracing where known", a.time.wall, b.time.wall, only),
        _time("in calls", a.time.calls, b.time.calls, only),
        _time("in reads", ta.read_time, tb.read_time, only),
        _time("in writes", ta.write_time, tb.write_time, only),
        _time("in syncs", ta.sync_time, tb.sync_time, only),
        _time("in other calls on files", ta.metadata_time, tb.metadata_time, only),
    ]
    for label, show, name in (
        ("calls", _whole, "calls"),
        ("calls that failed", _whole, "failed_calls"),
        ("files", _whole, "files"),
        ("processes", _whole, "processes"),
        ("opens", _whole, "opens"),
        ("reads", _whole, "reads"),
        ("bytes read", size, "read_bytes"),
        ("distinct bytes read", size, "unique_read_bytes"),
        ("writes", _whole, "writes"),
        ("bytes written", size, "write_bytes"),
        ("seeks", _whole, "seeks"),
        ("useless seeks", _whole, "useless_seeks"),
        ("syncs", _whole, "syncs"),
    ):
        rows.append(_row(label, getattr(ta, name), getattr(tb, name), show))
    note = f"A: {run_time(a.time)}. B: {run_time(b.time)}."
    return table("In all", HEADS, rows, note)


def _calls(a: Profile, b: Profile) -> Table:
    counts = [{call.name: call.count for call in profile.calls} for profile in (a, b)]
    names = sorted(
        {*counts[0], *counts[1]},
        key=lambda name: -max(counts_of_trace.get(name, 0) for counts_of_trace in counts),
    )
    rows = [_row(name, counts[0].get(name, 0), counts[1].get(name, 0), _whole) for name in names[:MAX_CALLS]]
    return table("Calls", f"call{HEADS}", rows, _more(len(names) - MAX_CALLS))


def _files(a: Profile, b: Profile) -> Table:
    """Files whose requests or bytes differ, the greatest differences first."""
    only = a.time.interval_only, b.time.interval_only
    sides = [{file.path: file for file in profile.files if file.kind != "name"} for profile in (a, b)]
    differing = []
    for path in {**sides[0], **sides[1]}:
        first, second = (side.get(path) for side in sides)
        if _work(first) != _work(second):
            differing.append((-abs(_moved(first) - _moved(second)), path, first, second))
    differing.sort(key=lambda entry: entry[:2])
    rows = [
        (
            *(count(sum(_work(file)[:3])) for file in (first, second)),
            *(size(_moved(file)) for file in (first, second)),
            ratio(_moved(first), _moved(second)),
            *(
                duration(_spent(file), interval_only)
                for file, interval_only in zip((first, second), only, strict=True)
            ),
            path,
        )
        for _, path, first, second in differing[:MAX_FILES]
    ]
    heads = "#calls A|#calls B|#bytes A|#bytes B|#B/A|#time A|#time B|file"
    return table("Files that differ", heads, rows, _more(len(differing) - MAX_FILES) if differing else "")


def _work(file: FileProfile | None) -> tuple[int, int, int, int]:
    return (0, 0, 0, 0) if file is None else (file.reads, file.writes, file.opens, _moved(file))


def _moved(file: FileProfile | None) -> int:
    return 0 if file is None else file.read_bytes + file.write_bytes


def _spent(file: FileProfile | None) -> Times | None:
    if file is None:
        return None
    times: Iterable[Times | None] = (file.read_time, file.write_time, file.sync_time, file.metadata_time)
    return summed([time for time in times if time is not None])


def _more(remaining: int) -> str:
    return f"and {count(remaining)} more" if remaining > 0 else ""


def comparison_lines(a: Profile, b: Profile, names: tuple[str, str], width: int, colour: bool) -> list[str]:
    """The comparison as lines for the terminal. `names`: of A and B; `width`: in columns, at least 60."""
    style = Style(max(width, 60), colour)
    lines = [
        style.paint(line, "bold")
        for line in (*style.wrapped(f"A: {names[0]}"), *style.wrapped(f"B: {names[1]}"))
    ]
    for section in comparison(a, b):
        rows = fitted(style, section)
        body = aligned(style, section.columns, rows) if rows else style.wrapped("no difference")
        lines += ["", f"  {section.title}", *body]
        lines += [style.paint(line, "dim") for line in style.wrapped(section.note)] if section.note else []
    return lines
