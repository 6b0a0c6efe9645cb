"""Call stacks of samples: parsed from the text of `perf script`, folded, and stored as text. Pure.

The folded form has one line per distinct stack: its functions from the outermost to the innermost, separated by `;`, a
space, and the number of samples. It is the form that other programs for flame graphs read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from plimsoll.errors import DamagedResults

FORMAT: Final = "plimsoll.perf"
VERSION: Final = 1
FIELDS: Final = "comm,pid,ip,sym,dso"
"""The fields that `perf script` must print, for its option -F."""
UNKNOWN: Final = "unknown"
MAX_NAME: Final = 300
"""Maximum length of the name of a function, characters. Names of C++ templates can have thousands."""
_FRAME: Final = re.compile(r"\s+[0-9a-f]+ (.*) \(([^()]*(?:\([^()]*\))?)\)$")
_HEAD: Final = re.compile(r"\s*(.*?)\s+(-?\d+)\s*$")
_HASH: Final = re.compile(r"::h[0-9a-f]{16}$")
"""The end of a name of the Rust compiler, which differs between builds."""

Stack = tuple[str, ...]
"""The name of the process, and its functions from the outermost to the innermost."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The samples of one service in one run. `stacks`: number of samples by stack. `hz`: samples per second of
    processor time. `began_s`: from the run's zero. `seconds`: how long samples were taken. `reported`: the number of
    samples by perf's own count (None: it printed none). `guard`: samples of Plimsoll's guard, which are left out."""

    stacks: Mapping[Stack, int] = field(repr=False)
    hz: int
    began_s: float
    seconds: float
    reported: int | None = None
    guard: int = 0

    @property
    def samples(self) -> int:
        """Number of samples."""
        return sum(self.stacks.values())

    @property
    def unnamed(self) -> int:
        """Number of samples whose innermost function has no name, because its program has no symbols."""
        return sum(count for stack, count in self.stacks.items() if len(stack) < 2 or is_unnamed(stack[-1]))

    @property
    def frames(self) -> tuple[int, int]:
        """Number of functions in all samples, and of those without a name."""
        named = unnamed = 0
        for (_, *functions), count in self.stacks.items():
            without = sum(map(is_unnamed, functions))
            unnamed += without * count
            named += (len(functions) - without) * count
        return named + unnamed, unnamed

    def to_text(self) -> str:
        """The content of perf.folded: a line of facts, then the stacks."""
        frames, unnamed_frames = self.frames
        facts = {
            "hz": self.hz,
            "began_s": round(self.began_s, 3),
            "seconds": round(self.seconds, 3),
            "samples": self.samples,
            "reported": self.reported,
            "guard": self.guard,
            "unnamed": self.unnamed,
            "frames": frames,
            "unnamed_frames": unnamed_frames,
        }
        return f"# {FORMAT}/{VERSION} {json.dumps(facts)}\n" + folded_lines(self.stacks)


def folded_lines(stacks: Mapping[Stack, int]) -> str:
    """The stacks as lines, sorted."""
    return "".join(f"{';'.join(stack)} {count}\n" for stack, count in sorted(stacks.items()))


def is_unnamed(function: str) -> bool:
    """Whether the text stands for a function without a name: `[libc.so.6]`."""
    return function.startswith("[") and function.endswith("]")


def parse_folded(text: str, name: str) -> Profile:
    """The profile of a file perf.folded. `name`: of the file, for messages. Raises DamagedResults."""
    head, _, rest = text.partition("\n")
    found = re.fullmatch(rf"# {re.escape(FORMAT)}/(\d+) (\{{.*\}})", head)
    if found is None:
        raise DamagedResults(f"{name}: not a {FORMAT} file")
    if int(found[1]) > VERSION:
        raise DamagedResults(
            f"{name}: its format is version {found[1]} of {FORMAT}; this release reads up to version {VERSION}: use a "
            "newer Plimsoll"
        )
    try:
        facts = json.loads(found[2])
        stacks: Counter[Stack] = Counter()
        for line in rest.splitlines():
            names, _, count = line.rpartition(" ")
            stacks[tuple(names.split(";"))] += int(count)
        return Profile(
            stacks,
            int(facts["hz"]),
            float(facts["began_s"]),
            float(facts["seconds"]),
            facts["reported"],
            int(facts["guard"]),
        )
    except (ValueError, LookupError, TypeError) as error:
        raise DamagedResults(f"{name} cannot be read: {error}") from error


def fold(lines: Iterable[str], guard: int = 0) -> tuple[dict[Stack, int], int]:
    """The stacks in the text of `perf script -F comm,pid,ip,sym,dso`, with the samples of each; and the number of those
    of the process `guard`, which are left out."""
    stacks: Counter[Stack] = Counter()
    left_out = 0
    for pid, process, frames in _samples(lines):
        if pid == guard:
            left_out += 1
        else:
            stacks[(process, *reversed(frames))] += 1
    return dict(stacks), left_out


def _samples(lines: Iterable[str]) -> Iterator[tuple[int, str, list[str]]]:
    """Id and name of the process, and the functions, innermost first, of each sample. A sample is a line with the
    process, a line for each function, and an empty line."""
    process: tuple[int, str] | None = None
    frames: list[str] = []
    for line in lines:
        text = line.rstrip("\n")
        if not text.strip():
            if process is not None:
                yield *process, frames
            process, frames = None, []
        elif process is None:
            head = _HEAD.match(text)
            process = (int(head[2]), _plain(head[1])) if head else (-1, _plain(text))
        else:
            frames.append(_function(text))
    if process is not None:
        yield *process, frames


def _function(line: str) -> str:
    """The name of the function of a line; of one without a name, its file in brackets."""
    found = _FRAME.match(line)
    if found is None:
        return f"[{UNKNOWN}]"
    symbol, file = found[1], found[2]
    if symbol == f"[{UNKNOWN}]":
        return f"[{_plain(file.strip('[]').rpartition('/')[2]) or UNKNOWN}]"
    return _plain(_HASH.sub("", symbol))


def _plain(name: str) -> str:
    """The name without the signs that separate names in the folded form."""
    printable = "".join(sign if sign.isprintable() else " " for sign in name.replace(";", ":"))
    return " ".join(printable.split())[:MAX_NAME] or UNKNOWN


def merged(profiles: Iterable[Profile]) -> dict[Stack, int]:
    """The stacks of several profiles together."""
    stacks: Counter[Stack] = Counter()
    for profile in profiles:
        stacks.update(profile.stacks)
    return dict(stacks)
