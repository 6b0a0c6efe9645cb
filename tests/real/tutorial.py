"""The tutorial as a script: its files, its commands and the output that it prints.

A fenced block that begins with `$ ` is a session: commands, each with its output. A block after a paragraph with
"Save this as `NAME`" is a file. HTML comments before a block say what the test does:

    <!-- test: add WORDS -->            options after the name of an experiment file, so that its runs are short
    <!-- test: replace A by B -->       another command in place of one that waits for a time
    <!-- varies: REGEX ;; REGEX -->     what depends on the machine, in lines as `plain` returns them or as printed

They hold until the next paragraph of text.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, Self

LEFT_OUT: Final = "..."
WRAPPED: Final = 84
"""A line of prose of this length or more continues in the next one: the terminal summary wraps at 100 columns. So does
a shorter line that does not end a sentence: a long phrase with figures is not broken."""

UNFINISHED: Final = r".*[^.:!?]$"

PROSE: Final = r"  \S(?!.*\S  +\S)"
"""Indented, and without the columns of a table."""

HANGING: Final = r" {9,}\S"
"""The rest of a wrapped line; rows of a histogram begin with eight spaces at most."""

COUNT: Final = r"\d{1,3}(?:[ ,\u2009\u202f]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e[+-]?\d+)?"
MASKS: Final = (
    (r"(?<![\w.)])(?:~|/)(?:[\w.+-]+/)+[\w.+-]+", "PATH"),
    (r"\d{8}T\d{6}Z", "DATE"),
    (r"#{2,}|(?<=%  )#", ""),  # bars of a histogram
    (rf"(?<![\w.])[-+\u2212]?(?:{COUNT})", "#"),
    (r" ?\(# to #\)| ?(?:\+/-|±) ?#", ""),  # intervals: a figure may have one or none
    (r"#:#(?::#)?", "#"),
    (r"(?<=#) ?(?:ns|us|ms|s|min|h)\b", " time"),
    (r"(?<=#) ?(?:B|kB|MB|GB)\b", " size"),
    (r"# time(?: # time)+", "# time"),
    (r" +", " "),
)


@dataclass
class Step:
    """One command, and the output that the tutorial prints; or a file, whose text is `printed`."""

    line: int
    command: str = ""
    file: str = ""
    printed: list[str] = field(default_factory=list)
    add: str = ""
    replace: Mapping[str, str] = field(default_factory=dict)
    varies: Sequence[str] = ()
    end: int = 0
    """The line after the last line of `printed`."""

    def short(self) -> str:
        """The command as the test runs it."""
        command = self.replace.get(self.command, self.command)
        return (
            re.sub(r"(?<=plimsoll )((?:run|plan) \S+\.yaml)", rf"\1 {self.add}", command)
            if self.add
            else command
        )


def steps(lines: Sequence[str]) -> list[Step]:
    """The steps of the tutorial, in order."""
    found: list[Step] = []
    add = name = ""
    replace: dict[str, str] = {}
    varies: list[str] = []
    inside = session = False
    for number, line in enumerate(lines):
        if line.startswith("```"):
            inside = not inside
            session = False
            if not inside:
                add, replace, varies, name = "", {}, [], ""
        elif inside and line.startswith("$ "):
            session = True
            found.append(Step(number, line[2:], add=add, replace=replace, varies=varies, end=number + 1))
        elif inside and (session or name):
            if name and not session and (not found or found[-1].file != name):
                found.append(Step(number, file=name))
            found[-1].printed.append(line)
            found[-1].end = number + 1
        elif not inside:
            if match := re.fullmatch(r"<!-- test: add (.*) -->", line):
                add = match[1]
            elif match := re.fullmatch(r"<!-- test: replace (.*?) by (.*) -->", line):
                replace = {**replace, match[1]: match[2]}
            elif match := re.fullmatch(r"<!-- varies: (.*) -->", line):
                varies = match[1].split(" ;; ")
            elif match := re.search(r"[Ss]ave this as `(.+?)`", line):
                name = match[1]
    return found


def plain(lines: Sequence[str], varies: Sequence[str] = ()) -> list[str]:
    """Lines, and sentences of wrapped prose, with everything masked that differs between two correct runs. What is
    empty then is dropped."""
    joined: list[str] = []
    for before, line in pairwise(["", *lines]):
        prose = re.match(PROSE, before) and re.match(PROSE, line)
        continues = len(before) >= WRAPPED or re.match(UNFINISHED, before)
        if joined and ((prose and continues) or re.match(HANGING, line)):
            joined[-1] += " " + line.strip()
        else:
            joined.append(line)
    masked = [_masked(line.rstrip(), varies) for line in joined]
    # Where a wrapped line ends depends on figures, so whether the next sentence was joined does, too.
    return [sentence for line in masked for sentence in re.split(r"(?<=\.) (?=[A-Z])", line) if sentence]


def _masked(line: str, varies: Sequence[str]) -> str:
    for pattern in varies:
        line = re.sub(pattern, "", line)
    for pattern, mask in MASKS:
        line = re.sub(pattern, mask, line)
    return line.strip()


def difference(printed: Sequence[str], found: Sequence[str], varies: Sequence[str] = ()) -> str:
    """Where an output is not what the tutorial prints; empty where it is. `...` stands for any lines."""
    wanted = [*plain(printed, varies)]
    rest = plain(found, varies)
    chunks = _chunks(wanted)
    for index, chunk in enumerate(chunks):
        last = index == len(chunks) - 1
        at = 0 if index == 0 else len(rest) - len(chunk) if last else _where(chunk, rest)
        if at < 0 or rest[at : at + len(chunk)] != chunk or (last and at + len(chunk) != len(rest)):
            return _shown(chunk, rest[max(at, 0) :])
        rest = rest[at + len(chunk) :]
    return ""


def _chunks(lines: Sequence[str]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for line in lines:
        if line == LEFT_OUT:
            found.append([])
        else:
            found[-1].append(line)
    return found


def _where(chunk: Sequence[str], lines: Sequence[str]) -> int:
    starts = (at for at in range(len(lines) - len(chunk) + 1) if list(lines[at : at + len(chunk)]) == chunk)
    return next(starts, -1)


def _shown(wanted: Sequence[str], found: Sequence[str]) -> str:
    for number, line in enumerate(wanted):
        if number >= len(found) or found[number] != line:
            return f"the tutorial prints\n  {line}\nand the command\n  {found[number] if number < len(found) else ''}"
    return f"the command prints also\n  {found[len(wanted)]}"


class Shell:
    """One bash for all commands, so that background jobs and `$?` work as in a terminal."""

    def __init__(self, directory: Path, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=directory,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> list[str]:
        """Runs it, and returns the lines that were printed meanwhile."""
        to, out = self._process.stdin, self._process.stdout
        assert to is not None and out is not None
        # `$?` of the command is kept for the next one.
        to.write(f"{command}\n(exit_code=$?; printf '\\n<done>\\n'; exit $exit_code)\n")
        to.flush()
        lines = []
        for line in out:
            if line == "<done>\n":
                break
            lines.append(line.rstrip("\n"))
        return lines[:-1] if lines and not lines[-1] else lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Ends it and what it has started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.communicate(timeout=20)
                break


def renewed(lines: Sequence[str], made: Sequence[tuple[Step, Sequence[str]]]) -> list[str]:
    """The tutorial with today's outputs; what `...` leaves out stays left out."""
    new = list(lines)
    for step, output in reversed(made):
        new[step.line + 1 : step.end] = _elided(step.printed, output)
    return new


def _elided(printed: Sequence[str], output: Sequence[str]) -> list[str]:
    if LEFT_OUT not in printed:
        return list(output)
    shown = list(printed)
    head = shown.index(LEFT_OUT)
    after = shown[len(shown) - shown[::-1].index(LEFT_OUT) :]
    between = shown[head : len(shown) - len(after)]
    if not after:
        return [*output[:head], *between]
    # The end is taken from the line that resembles its first one.
    first = plain(after[:1]) if after[0] else plain(after[1:2])
    starts = [at for at, line in enumerate(output) if plain([line]) == first]
    begin = (starts[-1] if after[0] else starts[-1] - 1) if starts else len(output) - len(after)
    return [*output[:head], *between, *output[begin:]]
