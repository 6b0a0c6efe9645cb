"""A flame graph as SVG: from folded stacks to rectangles, and from these to the picture. Pure.

Positions and widths are shares of the width, so that the picture fills a page of any width and its texts keep their
size. Each function is an svg of its own, which cuts its name at its edge.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Final

from plimsoll.analyse.results.wording import percent, plural
from plimsoll.deploy.perf.stacks import Stack, is_unnamed
from plimsoll.report.template import PACKAGE, asset

MIN_SHARE: Final = 0.002
"""Functions with a smaller share of the samples are not drawn."""
MAX_DEPTH: Final = 60
"""Levels that are drawn."""
HEIGHT: Final = 18
"""Height of a level, px."""
NAMED: Final = 0.025
"""Functions with a smaller share of the width have no name in the picture, only as a title."""
NAMED_NARROW: Final = 0.12
"""The same on a narrow page."""
FILE_WIDTH: Final = 1200
"""Width of the picture as a file, px."""
COLOURS: Final = ("#f6c177", "#f4b183", "#f2a65a", "#efc050", "#f0a07c", "#e8b45c")
"""Fills of functions. They are light, so that dark text is readable in both colour schemes."""
UNNAMED_COLOUR: Final = "#c3cad1"


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A function, with the samples in which it was called in this way. `level`: 0 is the process. `left`, `share`: of
    the width of the picture, 0 to 1."""

    name: str
    level: int
    left: float
    share: float
    samples: int


@dataclass(slots=True)
class _Node:
    samples: int = 0
    called: dict[str, _Node] = field(default_factory=dict)


def rectangles(stacks: Mapping[Stack, int]) -> list[Rectangle]:
    """The rectangles of all levels, each before those on it. Functions with a share below `MIN_SHARE` are left out."""
    root = _Node()
    for stack, samples in stacks.items():
        root.samples += samples
        node = root
        for name in stack[:MAX_DEPTH]:
            node = node.called.setdefault(name, _Node())
            node.samples += samples
    return list(_above(root, 0, 0, root.samples)) if root.samples else []


def _above(node: _Node, level: int, before: int, total: int) -> Iterator[Rectangle]:
    """The rectangles above a node. `before`: samples at its left."""
    for name, called in sorted(node.called.items()):
        if called.samples >= MIN_SHARE * total:
            yield Rectangle(name, level, before / total, called.samples / total, called.samples)
            yield from _above(called, level + 1, before, total)
        before += called.samples


def flame_svg(stacks: Mapping[Stack, int], title: str, *, as_file: bool = False) -> str:
    """The picture. `as_file`: with a width and colours of its own."""
    drawn = rectangles(stacks)
    levels = max((each.level for each in drawn), default=0) + 1
    height = levels * HEIGHT
    style = f"<style>{_file_style()}</style>" if as_file else ""
    paper = '<rect width="100%" height="100%" fill="#ffffff"/>' if as_file else ""
    width = str(FILE_WIDTH) if as_file else "100%"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="flame" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title)}">{style}{paper}{"".join(_frame(each, levels) for each in drawn)}</svg>'
    )


def _frame(each: Rectangle, levels: int) -> str:
    top = (levels - 1 - each.level) * HEIGHT
    title = f"{each.name}: {plural(each.samples, 'sample')}, {percent(each.share)}"
    size = ' class="wide-only"' if each.share < NAMED_NARROW else ""
    name = f'<text{size} x="4" y="13">{escape(each.name)}</text>' if each.share >= NAMED else ""
    return (
        f'<svg x="{100 * each.left:.3f}%" y="{top}" width="{100 * each.share:.3f}%" height="{HEIGHT}">'
        f'<title>{escape(title)}</title><rect width="100%" height="{HEIGHT - 1}" fill="{_colour(each.name)}"/>'
        f"{name}</svg>"
    )


def _colour(name: str) -> str:
    """The same for one function in all pictures."""
    return UNNAMED_COLOUR if is_unnamed(name) else COLOURS[zlib.crc32(name.encode()) % len(COLOURS)]


def _file_style() -> str:
    rules = [line for line in asset(PACKAGE, "report.css").splitlines() if line.startswith(".flame ")]
    return "\n".join(rules).replace("var(--text)", "sans-serif").replace("var(--paper)", "#ffffff")


@dataclass(frozen=True, slots=True)
class FunctionShare:
    """A function. `own`: samples in which it was running; `total`: also those in which a function that it called was
    running."""

    name: str
    own: int
    total: int


def function_shares(stacks: Mapping[Stack, int]) -> list[FunctionShare]:
    """All functions, those with the most own samples first."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for (process, *functions), samples in stacks.items():
        own[functions[-1] if functions else process] += samples
        for name in set(functions or [process]):  # a function that calls itself counts once
            total[name] += samples
    shares = [FunctionShare(name, samples, total[name]) for name, samples in own.items()]
    return sorted(shares, key=lambda share: (-share.own, share.name))
