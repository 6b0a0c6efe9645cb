"""What the picture of the set-up shows of the measurements: utilization of each component, and the bottleneck. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Final

from markupsafe import Markup

from plimsoll.analyse.components.bottleneck import NOT_RESOLVED
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.verdicts import ResourceKind
from plimsoll.analyse.results.wording import bottleneck_word, percent
from plimsoll.plan.topology import Topology
from plimsoll.report.key_figures import shown_cell
from plimsoll.report.labels import Labels
from plimsoll.report.setup.picture import Mark, is_worth_drawing, setup_picture

TESTERS: Final = "testers"
MIN_PART: Final = 0.25
"""Services that share a full core are marked if they use at least this part of what its greatest user uses."""
WORDS: Final = {ResourceKind.BUSIEST_THREAD: "busiest thread"}


@dataclass(frozen=True, slots=True)
class Picture:
    """The picture as a part of the page."""

    svg: Markup
    caption: str


def picture_of(labels: Labels, topology: Topology | None) -> Picture | None:
    """The picture with the utilizations of the cell of the key figures. None if there is no topology, or if it is too
    simple."""
    if topology is None or not is_worth_drawing(topology):
        return None
    marks, caption = marks_of(labels, topology)
    # The picture escapes all texts.
    return Picture(Markup(setup_picture(topology, marks)), caption)


def marks_of(labels: Labels, topology: Topology) -> tuple[dict[str, Mark], str]:
    """The marks by component, and the caption: the cell, and the bottleneck in words."""
    cell, bottleneck = shown_cell(labels)
    if cell is None:
        return {}, "Drawn from the experiment file; no valid run."
    runs = [run for run in labels.analysis.runs if run.cell == cell.cell and run.valid]
    limiting = {bottleneck, *_sharing(runs, bottleneck)}
    marks = {}
    for component in topology.components:
        text = _utilization(runs, component.name)
        is_bottleneck = component.name in limiting
        if text or is_bottleneck:
            marks[component.name] = Mark(f"bottleneck: {text}" if is_bottleneck else text, is_bottleneck)
    several = len(labels.analysis.cells) > 1
    where = f"Utilization with {labels.cell(cell.cell)}, the highest throughput. " if several else ""
    known = bool(bottleneck) and bottleneck != NOT_RESOLVED
    limit = f"Bottleneck: {bottleneck_word(bottleneck)}." if known else "The bottleneck was not identified."
    return marks, f"{where}{limit}"


def _sharing(runs: list[RunResult], name: str) -> set[str]:
    """The services that use most of the cores of this name, which they share."""
    used: dict[str, list[float]] = {}
    for run in runs:
        for part in run.utilization:
            if part.role == "cores" and part.component == name:
                for service, share in part.detail.items():
                    used.setdefault(service, []).append(share)
    means = {service: fmean(shares) for service, shares in used.items()}
    return {service for service, mean in means.items() if mean >= MIN_PART * max(means.values())}


def _utilization(runs: list[RunResult], name: str) -> str:
    """`CPU 98 %`: the mean over the runs of the resource that binds the component; empty if it was not measured."""
    measured = [
        part
        for run in runs
        for part in run.utilization
        if part.component == name or (name == TESTERS and part.role == TESTERS)
    ]
    if not measured:
        return ""
    first = measured[0]
    word = first.resource if first.kind == ResourceKind.OTHER else WORDS.get(first.kind, "CPU")
    return f"{word} {percent(fmean(part.mean for part in measured), 2)}"
