"""Numbers of a trace in words. Each time is marked as recorded, estimated, or a range.

`interval_only` of a run means that tracing was most of it: then each time is a range.
"""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import PurePosixPath

from plimsoll.analyse.results.wording import SPACE, UNKNOWN, count, percent, plural, quantity
from plimsoll.plan.source.units import about_size
from plimsoll.trace.profile import Profile, RunTime, Source, Times, Unparsed

LIMIT_NOT_UNDERSTOOD = 0.01
"""Share of lines that may be not understood before that changes the exit code: a log cut at both ends has two."""


def seconds(value: float | None) -> str:
    """A length of time in the unit that suits it."""
    return quantity(None if value is None else value * 1000, "ms")


def size(value: float | None) -> str:
    """Bytes in the unit that suits it, powers of 1000."""
    return UNKNOWN if value is None else about_size(value).replace(" ", SPACE)


def share(value: float | None) -> str:
    """A share of 1 in two digits, because its terms are rarely known more precisely."""
    return percent(value, 2)


def span(low: float | None, high: float | None) -> str:
    """`0.8 to 1.4 s`; one number if both look the same, `up to 1.4 s` if the lower end is 0."""
    first, last = seconds(low), seconds(high)
    if first == last:
        return first
    if low == 0:
        return f"up to {last}"
    number, _, unit = first.rpartition(SPACE)
    return f"{number if unit == last.rpartition(SPACE)[2] else first} to {last}"


def duration(times: Times | None, interval_only: bool) -> str:
    """The best estimate of a time, or its range where one number would be misleading."""
    if times is None:
        return UNKNOWN
    if interval_only and times.low_s is not None:
        return span(times.low_s, times.high_s)
    return seconds(times.best_s)


def run_time(time: RunTime) -> str:
    """How long the run took: recorded, and without the cost of tracing."""
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
    """The subtracted cost of tracing, or why none was subtracted."""
    if not source.has_durations:
        return "The log has no durations of calls (strace -T), so times in calls are unknown."
    if source.calibration is None:
        return (
            "Times are as recorded and too long, because the cost of tracing was not measured on the traced host. "
            "`plimsoll trace record` measures it."
        )
    cost, inside = (
        [seconds(each / 1e9) for each in values]
        for values in (source.calibration.call_ns, source.calibration.duration_ns)
    )
    said = (
        f"Tracing cost {cost[0]} per call on the traced host ({cost[1]} to {cost[2]}), {inside[0]} of it within "
        f"the recorded duration ({inside[1]} to {inside[2]}), measured over {count(source.calibration.calls)} calls."
    )
    if source.recorder == "strace" and time.traced_call_s is not None:
        run = [seconds(each) for each in time.traced_call_s]
        said += (
            f" In this run it was about {run[0]} ({run[1]} to {run[2]}), estimated from its shortest calls."
        )
    return f"{said} It is subtracted from every time below, down to zero at most."


def command(source: Source) -> str:
    """The traced program as a shell command."""
    if source.command:
        return shlex.join(source.command)
    return (
        "processes that were already running" if source.attached else "a program that the log does not name"
    )


def name(profile: Profile) -> str:
    """A short name of what ran: the program and its first argument that is not an option."""
    words = profile.source.command
    if words:
        said = [words[0], *[word for word in words[1:] if not word.startswith("-")][:1]]
        return " ".join(PurePosixPath(word).name for word in said)[:60]
    first = profile.processes[0].program if profile.processes else None
    return PurePosixPath(first).name[:60] if first else "a traced program"


def facts(profile: Profile) -> list[str]:
    """Where the trace comes from, in a few words each."""
    source = profile.source
    version = source.recorder_version.removeprefix("strace -- version ")
    machine = f"on {source.host[0]} ({', '.join(source.host[1:])})" if source.host else ""
    said = [f"recorded by {source.recorder} {version}".strip(), machine, date(source.zero_unix_ns)]
    if source.status is not None:
        ended = f"exit status {source.status}" if source.status >= 0 else f"ended by signal {-source.status}"
        said.append(ended)
    return [each for each in said if each]


def date(zero_unix_ns: int | None) -> str:
    """The minute at which the trace begins; nothing where the source has no date."""
    if zero_unix_ns is None or zero_unix_ns < 10**17:  # before 1973: stamps that are no dates
        return ""
    return f"{datetime.fromtimestamp(zero_unix_ns / 1e9, UTC):%Y-%m-%d %H:%M} UTC"


def chosen(profile: Profile) -> str:
    """The selection; empty where nothing was left out."""
    asked = profile.chosen
    said = []
    if asked.file is not None:
        said.append(f"files that match {asked.file}")
    if asked.from_s is not None:
        said.append(f"from {seconds(asked.from_s)}")
    if asked.to_s is not None:
        said.append(f"to {seconds(asked.to_s)}")
    return f"Only {', '.join(said)}." if said else ""


def not_understood(found: Unparsed) -> list[str]:
    """The parts of the trace that were not understood, a sentence each; empty where all was."""
    said = []
    if not found.whole:
        said.append("The trace is incomplete: it was cut off, or is still being written.")
    if found.odd_lines:
        said.append(f"{count(found.odd_lines)} of {plural(found.lines, 'line')} were not understood.")
    if found.cut_lines:
        said.append(
            "The last line of the log was cut off."
            if found.cut_lines == 1
            else f"The last lines of {count(found.cut_lines)} logs were cut off."
        )
    if found.unknown_calls:
        said.append(f"{plural(found.unknown_calls, 'call')} with an unknown name left out.")
    if found.halves:
        said.append(f"{plural(found.halves, 'call')} without a recorded start left out.")
    if found.endless:
        said.append(f"{plural(found.endless, 'call')} without a recorded end.")
    return said


def understood(odd_lines: int, unknown_calls: int, lines: int) -> bool:
    """Whether the share of lines that were not understood is below the limit."""
    return odd_lines + unknown_calls <= LIMIT_NOT_UNDERSTOOD * max(lines, 1)
