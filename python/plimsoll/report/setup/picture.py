"""A picture of the set-up as SVG: components by tier, their hosts, the links between them, and the bottleneck. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Final

from plimsoll.plan.topology import Component, Connection, Topology
from plimsoll.report.template import PACKAGE, asset

WIDTH: Final = 190
HEIGHT: Final = 62
"""Size of a box, px."""
GAP_X: Final = 22
GAP_Y: Final = 58
LABEL: Final = 16
"""Additional gap if links have labels."""
SHOWN: Final = ("round trip", "rate", "loss")
"""Properties of a link that its label contains."""
MARGIN: Final = 6
MAX_PER_ROW: Final = 4
"""Boxes of one row. A tier with more has several rows."""
MAX_TEXT: Final = 26
MAX_LABEL: Final = 32
"""Characters of a line in a box, and of the label of a link."""
COLOURS: Final = {
    "--ink": "#1b2530",
    "--muted": "#5a6775",
    "--shade": "#9aa7b3",
    "--panel": "#f5f7f9",
    "--paper": "#ffffff",
    "--bad": "#b3261e",
    "--text": "sans-serif",
}
"""Values of the page's variables in a file, which no page surrounds."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What was measured of a component: its utilization in words, and whether it is the bottleneck."""

    text: str
    is_bottleneck: bool = False


@dataclass(frozen=True, slots=True)
class _Box:
    x: float
    y: float

    @property
    def middle(self) -> float:
        return self.x + WIDTH / 2


def is_worth_drawing(topology: Topology) -> bool:
    """Whether the picture shows more than one sentence: three components, or two on different hosts."""
    places = {component.place for component in topology.components if component.role != "system"}
    return len(topology.components) > 2 or len(places) > 1


def setup_picture(topology: Topology, marks: Mapping[str, Mark], *, as_file: bool = False) -> str:
    """The SVG. `marks`: by name of the component. `as_file`: with colours of its own."""
    rows = _rows(topology.components)
    gap = GAP_Y + (LABEL if any(edge.link for edge in topology.connections) else 0)
    boxes = _boxes(rows, gap)
    width = max(box.x for box in boxes.values()) + WIDTH + MARGIN
    height = max(box.y for box in boxes.values()) + HEIGHT + MARGIN
    links = list(dict.fromkeys(edge.link for edge in topology.connections if edge.link))
    parts = [_line(edge, boxes) for edge in topology.connections if {edge.source, edge.to} <= boxes.keys()]
    parts += [_link_label(edge, boxes) for edge in topology.connections if edge.link]
    parts += [
        _box(component, boxes[component.name], marks.get(component.name)) for component in topology.components
    ]
    style = f"<style>{_file_style()}</style>" if as_file else ""
    described = describe(topology, marks) + "".join(f" {link}." for link in links)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="set-up" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-label="{escape(described)}">{style}'
        f"{ARROW}{''.join(parts)}</svg>"
    )


ARROW: Final = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>'
)


def _file_style() -> str:
    """The rules of the page for this picture, with fixed colours."""
    rules = [line for line in asset(PACKAGE, "report.css").splitlines() if line.startswith(".set-up ")]
    text = "\n".join(rules)
    for name, value in COLOURS.items():
        text = text.replace(f"var({name})", value)
    return text


def describe(topology: Topology, marks: Mapping[str, Mark]) -> str:
    """The picture in words, for those who cannot see it."""
    sentences = [f"{edge.source} sends requests to {edge.to}" for edge in topology.connections]
    sentences += [f"{name} is the bottleneck" for name, mark in marks.items() if mark.is_bottleneck]
    return ". ".join(sentences) + "."


def _rows(components: Sequence[Component]) -> list[list[Component]]:
    rows = []
    for _, tier in groupby(components, key=lambda component: component.tier):
        of_tier = list(tier)
        rows += [of_tier[at : at + MAX_PER_ROW] for at in range(0, len(of_tier), MAX_PER_ROW)]
    return rows


def _boxes(rows: Sequence[Sequence[Component]], gap: int) -> dict[str, _Box]:
    widest = max(len(row) for row in rows)
    boxes = {}
    for number, row in enumerate(rows):
        left = MARGIN + (widest - len(row)) * (WIDTH + GAP_X) / 2
        for at, component in enumerate(row):
            boxes[component.name] = _Box(left + at * (WIDTH + GAP_X), MARGIN + number * (HEIGHT + gap))
    return boxes


def _line(edge: Connection, boxes: Mapping[str, _Box]) -> str:
    start, end = boxes[edge.source], boxes[edge.to]
    if end.y <= start.y:  # in one row: components of a tier with several rows
        from_y, to_y = start.y + HEIGHT / 2, end.y + HEIGHT / 2
        return f'<path d="M{start.x + WIDTH:g} {from_y:g}L{end.x:g} {to_y:g}" marker-end="url(#head)"/>'
    top, bottom = start.y + HEIGHT, end.y
    middle = (top + bottom) / 2
    return (
        f'<path d="M{start.middle:g} {top:g}C{start.middle:g} {middle:g} {end.middle:g} {middle:g} '
        f'{end.middle:g} {bottom:g}" marker-end="url(#head)"/>'
    )


def _link_label(edge: Connection, boxes: Mapping[str, _Box]) -> str:
    # Next to its source: lines to one component meet at the other end.
    box = boxes[edge.source]
    x, y = box.middle, box.y + HEIGHT + 15
    name, _, properties = edge.link.partition(": ")
    shown = [part.removeprefix("round trip ").removeprefix("rate ") for part in properties.split(", ")]
    kept = [text for text, part in zip(shown, properties.split(", "), strict=True) if part.startswith(SHOWN)]
    return (
        f'<text class="link" x="{x:g}" y="{y:g}">link {escape(_cut(name))}</text>'
        f'<text class="link" x="{x:g}" y="{y + 14:g}">{escape(_cut(", ".join(kept), MAX_LABEL))}</text>'
    )


def _box(component: Component, box: _Box, mark: Mark | None) -> str:
    role = "limit" if mark is not None and mark.is_bottleneck else component.role
    second = ", ".join(part for part in (component.kind, component.place) if part)
    lines = [("name", component.name), ("", second or ("existing system" if role == "system" else ""))]
    lines.append(("mark", mark.text if mark is not None else ""))
    shown = [(kind, text) for kind, text in lines if text]
    first = box.y + HEIGHT / 2 - (len(shown) - 1) * 8.5 + 4.5
    texts = "".join(
        f'<text class="{kind}" x="{box.middle:g}" y="{first + at * 17:g}">{escape(_cut(text))}</text>'
        for at, (kind, text) in enumerate(shown)
    )
    return (
        f'<g class="{role}"><title>{escape(": ".join(text for _, text in shown))}</title>'
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{WIDTH}" height="{HEIGHT}" rx="7"/>{texts}</g>'
    )


def _cut(text: str, limit: int = MAX_TEXT) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
