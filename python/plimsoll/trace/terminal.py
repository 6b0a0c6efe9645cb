"""`plimsoll trace show` in the terminal: the program, the findings, then the numbers. Pure: prints nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.results.wording import count, listing, plural
from plimsoll.report.tables.table import Table
from plimsoll.report.terminal import Style, aligned
from plimsoll.trace import tables, words
from plimsoll.trace.profile import Profile

MAX_FILES: Final = 15
MAX_CALLS: Final = 12
MAX_PROCESSES: Final = 10
MAX_OTHERS: Final = 5
"""Maximum number of paths not found, blind spots, and lines that were not understood."""
MIN_NAME: Final = 12
"""Minimum width of a file's name, in characters."""


def summary_lines(profile: Profile, width: int, colour: bool) -> list[str]:
    """The summary of a trace as lines of at most `width` columns (at least 60)."""
    style = Style(max(width, 60), colour)
    blocks = [
        _head(style, profile),
        _findings(style, profile),
        _run(style, profile),
        _table(style, tables.files(profile, MAX_FILES)),
        _table(style, tables.calls(profile, MAX_CALLS), omitted=len(profile.calls) - MAX_CALLS),
        _table(style, tables.processes(profile, MAX_PROCESSES, brief=True))
        if len(profile.processes) > 1
        else [],
        _table(style, tables.missing(profile, MAX_OTHERS)) if profile.missing else [],
        _blind(style, profile),
        _not_understood(style, profile),
    ]
    return [line for block in blocks if block for line in (*block, "")][:-1]


def _head(style: Style, profile: Profile) -> list[str]:
    lines = [style.paint(line, "bold") for line in style.wrapped(words.command(profile.source))[:3]]
    lines += [style.paint(line, "dim") for line in style.wrapped(" · ".join(words.facts(profile)))]
    selection = words.chosen(profile)
    return lines + ([style.paint(line, "warn") for line in style.wrapped(selection)] if selection else [])


def _findings(style: Style, profile: Profile) -> list[str]:
    lines = []
    for finding in profile.findings:
        first, *rest = style.wrapped(finding.text, "  ! ", "    ")
        lines += [style.paint(first, "warn"), *rest]
    return lines or style.wrapped("No findings.")


def _run(style: Style, profile: Profile) -> list[str]:
    time, all_, only = profile.time, profile.totals, profile.time.interval_only
    lines = style.pair("took", words.run_time(time))
    if time.calls is not None:
        waiting = f", {words.duration(time.waiting, only)} of it waiting" if time.waiting else ""
        lines += style.pair("in calls", f"{words.duration(time.calls, only)} over all threads{waiting}")
    else:
        lines += style.pair("in calls", words.correction(profile.source, profile.time))
    failed = f" ({count(all_.failed_calls)} failed)" if all_.failed_calls else ""
    who = f"{plural(all_.processes, 'process', 'processes')} with {plural(all_.threads, 'thread')}"
    lines += style.pair("calls", f"{count(all_.calls)}{failed} by {who}, {plural(all_.files, 'file')}")
    for verb, done, requests, data, unique, spent in (
        ("read", "again", all_.reads, all_.read_bytes, all_.unique_read_bytes, all_.read_time),
        ("written", "over", all_.writes, all_.write_bytes, all_.unique_write_bytes, all_.write_time),
    ):
        again = all_.reread_bytes if verb == "read" else all_.overwritten_bytes
        parts = [f"{words.size(data)} in {plural(requests, 'request')}"]
        if again:
            parts.append(f"{words.size(unique)} distinct, {words.size(again)} {done}")
        if spent is not None:
            parts.append(f"{words.duration(spent, only)} in calls")
        lines += style.pair(verb, "; ".join(parts))
    lines += style.pair("other calls", _other_calls(profile))
    return lines


def _other_calls(profile: Profile) -> str:
    all_ = profile.totals
    useless = f" ({count(all_.useless_seeks)} useless)" if all_.useless_seeks else ""
    parts = [plural(all_.opens, "open"), f"{plural(all_.seeks, 'seek')}{useless}"]
    if all_.syncs:
        parts.append(plural(all_.syncs, "sync"))
    other = all_.elsewhere
    if other.read_bytes or other.write_bytes:
        parts.append(
            f"pipes and sockets: {words.size(other.read_bytes)} in, {words.size(other.write_bytes)} out"
        )
    return listing(parts)


def _table(style: Style, table: Table, omitted: int = 0) -> list[str]:
    if not table.rows:
        return []
    rows = fitted(style, table)
    lines = [f"  {table.title}", *aligned(style, table.columns, rows)]
    note = (
        f"and {count(omitted)} more" if omitted > 0 else table.note if table.note.startswith("and ") else ""
    )
    return lines + ([style.paint(line, "dim") for line in style.wrapped(note)] if note else [])


def fitted(style: Style, table: Table) -> list[Sequence[str]]:
    """The rows of the table. If the last cell of a row exceeds the remaining width, its beginning is cut off."""
    last = len(table.columns) - 1
    if table.columns[last].numeric or last == 0:
        return list(table.rows)
    widths = [
        max(len(style.text(cell)) for cell in (column.name, *(row[at] for row in table.rows)))
        for at, column in enumerate(table.columns[:last])
    ]
    width = max(style.width - sum(widths) - 2 * last - 2, MIN_NAME)
    return [(*row[:last], tail(style.text(row[last]), width)) for row in table.rows]


def tail(text: str, width: int) -> str:
    """The last `width` characters of a name, because its end is more specific than its beginning."""
    return text if len(text) <= width else f"..{text[2 - width :]}"


def _blind(style: Style, profile: Profile) -> list[str]:
    if not profile.blind_spots:
        return []
    lines = ["  What the trace does not show"]
    for spot in profile.blind_spots[:MAX_OTHERS]:
        lines += style.wrapped(spot.text, "  - ", "    ")
    more = len(profile.blind_spots) - MAX_OTHERS
    return lines + ([style.paint(f"  and {count(more)} more", "dim")] if more > 0 else [])


def _not_understood(style: Style, profile: Profile) -> list[str]:
    lines = []
    for sentence in words.not_understood(profile.unparsed):
        lines += [style.paint(line, "bad") for line in style.wrapped(sentence, "  ! ", "    ")]
    for example in profile.unparsed.examples[:MAX_OTHERS]:
        lines += style.wrapped(example, "    > ", "      ")[:2]
    return lines
