"""Numbers of a trace as text. Each time is marked as recorded, as estimated, or as a range.

If `interval_only` of a run is true, tracing was most of the run, and each time is a range.
"""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import PurePosixPath

from plimsoll.analyse.results.wording import SPACE, UNKNOWN, count, percent, plural, quantity
from plimsoll.plan.source.units import about_size
from plimsoll.trace.profile import Profile, RunTime, Source, Times, UnparsedCounts

LIMIT_NOT_UNDERSTOOD = 0.01
"""Share of lines not understood above which the exit code is 97. A log that was cut at both ends has two such lines."""


def seconds(value: float | None) -> str:
    """A duration in s as text, in a suitable unit."""
    return quantity(None if value is None else value * 1000, "ms")


def size(value: float | None) -> str:
    """Bytes as text, in a suitable unit (powers of 1000)."""
    return UNKNOWN if value is None else about_size(value).replace(" ", SPACE)


def share(value: float | None) -> str:
    """A share of 1 as a percentage with two digits, because its terms are rarely known more precisely."""
    return percent(value, 2)


def span(low: float | None, high: float | None) -> str:
    """A range of times in s: `0.8 to 1.4 s`; one number if both are the same text, `up to 1.4 s` if `low` is 0."""
    first, last = seconds(low), seconds(high)
    if first == last:
        return first
    if low == 0:
        return f"up to {last}"
    number, _, unit = first.rpartition(SPACE)
    return f"{number if unit == last.rpartition(SPACE)[2] else first} to {last}"


def duration(times: Times | None, interval_only: bool) -> str:
    """The best estimate of a time, or its range if a single number would be misleading (`interval_only`)."""
    if times is None:
        return UNKNOWN
    if interval_only and times.low_s is not None:
        return span(times.low_s, times.high_s)
    return seconds(times.best_s)


def run_time(time: RunTime) -> str:
    """The duration of the run, as recorded and without the cost of tracing."""
    wall = time.wall
    recorded = f"{seconds(wall.recorded_s)} as recorded"
    if wall.corrected_s is None:
        return f"{recorded}; the cost of tracing is unknown"
    traced = f"tracing was about {share(time.tracing_share)} of it"
    if time.traced_call_s is not None:
        traced += f", {seconds(time.traced_call_s[0])} a call"
    if time.interval_only:
        between = span(wall.low_s, wall.high_s)
        return f"{recorded}; {between} without tracing ({traced}, too much for a single estimate)"
    ends = span(wall.low_s, wall.high_s)
    about = seconds(wall.corrected_s)
    return f"{recorded}; about {about} without tracing ({traced if ends == about else f'{ends}; {traced}'})"


def correction(source: Source, time: RunTime) -> str:
    """A text about the subtracted cost of tracing, or the reason why none was subtracted."""
    if not source.has_durations:
        return "The log has no durations of calls (strace -T), so times in calls are unknown."
    if source.calibration is None:
        return (
            "Times are as recorded and too long, because the cost of tracing was not measured on the traced host. "
            "`plimsoll trace record` measures it."
        )
    cost, inside = (
        [seconds(value / 1e9) for value in values]
        for values in (source.calibration.call_ns, source.calibration.duration_ns)
    )
    text = (
        f"Tracing cost {cost[0]} per call on the traced host ({cost[1]} to {cost[2]}), {inside[0]} of it within "
        f"the recorded duration ({inside[1]} to {inside[2]}), measured over {count(source.calibration.calls)} calls."
    )
    if source.recorder == "strace" and time.traced_call_s is not None:
        run = [seconds(value) for value in time.traced_call_s]
        text += (
            f" In this run it was about {run[0]} ({run[1]} to {run[2]}), estimated from its shortest calls."
        )
    return f"{text} It is subtracted from every time below, down to zero at most."


def command(source: Source) -> str:
    """The traced program as a shell command."""
    if source.command:
        return shlex.join(source.command)
    return (
        "processes that were already running" if source.attached else "a program that the log does not name"
    )


def name(profile: Profile) -> str:
    """A short name of the run: the program and its first argument that is not an option, at most 60 characters."""
    words = profile.source.command
    if words:
        parts = [words[0], *[word for word in words[1:] if not word.startswith("-")][:1]]
        return " ".join(PurePosixPath(word).name for word in parts)[:60]
    first = profile.processes[0].program if profile.processes else None
    return PurePosixPath(first).name[:60] if first else "a traced program"


def facts(profile: Profile) -> list[str]:
    """Short texts about the source of the trace: recorder, host, date, exit status."""
    source = profile.source
    version = source.recorder_version.removeprefix("strace -- version ")
    machine = f"on {source.host[0]} ({', '.join(source.host[1:])})" if source.host else ""
    parts = [f"recorded by {source.recorder} {version}".strip(), machine, date(source.zero_unix_ns)]
    if source.status is not None:
        ended = f"exit status {source.status}" if source.status >= 0 else f"ended by signal {-source.status}"
        parts.append(ended)
    return [part for part in parts if part]


def date(zero_unix_ns: int | None) -> str:
    """The minute at which the trace begins; empty if the source has no date."""
    if zero_unix_ns is None or zero_unix_ns < 10**17:  # before 1973: stamps that are no dates
        return ""
    return f"{datetime.fromtimestamp(zero_unix_ns / 1e9, UTC):%Y-%m-%d %H:%M} UTC"


def chosen(profile: Profile) -> str:
    """A sentence about the selection; empty if the whole trace was selected."""
    selection = profile.chosen
    parts = []
    if selection.file is not None:
        parts.append(f"files that match {selection.file}")
    if selection.from_s is not None:
        parts.append(f"from {seconds(selection.from_s)}")
    if selection.to_s is not None:
        parts.append(f"to {seconds(selection.to_s)}")
    return f"Only {', '.join(parts)}." if parts else ""


def not_understood(unparsed: UnparsedCounts) -> list[str]:
    """A sentence for each kind of problem with the trace; empty if the whole trace was understood."""
    sentences = []
    if not unparsed.whole:
        sentences.append("The trace is incomplete: it was cut off, or is still being written.")
    if unparsed.odd_lines:
        sentences.append(
            f"{count(unparsed.odd_lines)} of {plural(unparsed.lines, 'line')} were not understood."
        )
    if unparsed.cut_lines:
        sentences.append(
            "The last line of the log was cut off."
            if unparsed.cut_lines == 1
            else f"The last lines of {count(unparsed.cut_lines)} logs were cut off."
        )
    if unparsed.unknown_calls:
        sentences.append(f"{plural(unparsed.unknown_calls, 'call')} with an unknown name left out.")
    if unparsed.halves:
        sentences.append(f"{plural(unparsed.halves, 'call')} without a recorded start left out.")
    if unparsed.endless:
        sentences.append(f"{plural(unparsed.endless, 'call')} without a recorded end.")
    return sentences


def understood(odd_lines: int, unknown_calls: int, lines: int) -> bool:
    """Whether the share of lines that were not understood is within the limit."""
    return odd_lines + unknown_calls <= LIMIT_NOT_UNDERSTOOD * max(lines, 1)
