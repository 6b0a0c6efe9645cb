"""The flame graphs of a report: of each service with `perf: true`, at the highest level of the load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from markupsafe import Markup

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.wording import number, percent, plural
from plimsoll.deploy.perf.stacks import Profile, Stack, merged
from plimsoll.report.flames.flame_graph import MIN_SHARE, flame_svg, function_shares
from plimsoll.report.labels import Labels
from plimsoll.report.tables.table import Table, table_of

MAX_GRAPHS: Final = 8
"""Flame graphs of one report. The files perf.folded of the others remain in the results."""
MAX_FUNCTIONS: Final = 12
"""Rows of the table of functions."""
TOTAL: Final = (
    "Own: the function itself was running. Total: it, or a function that it had called, was running."
)


@dataclass(frozen=True, slots=True)
class ServiceProfile:
    """The samples of a service in a run. `error`: why there are none."""

    run: str
    service: str
    profile: Profile | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class FlameGraph:
    """A flame graph with its table of functions. `key`: as a file name. The first one is not folded."""

    key: str
    title: str
    caption: str
    stacks: dict[Stack, int]
    functions: Table

    @property
    def svg(self) -> Markup:
        """The picture in a page. It escapes all names."""
        return Markup(flame_svg(self.stacks, self.title))


def flame_graphs(labels: Labels, profiles: Sequence[ServiceProfile]) -> tuple[list[FlameGraph], list[str]]:
    """The flame graphs, and remarks on what is missing."""
    runs = shown_runs(labels)
    shown = [each for each in profiles if each.run in {run.id for run in runs}]
    graphs: list[FlameGraph] = []
    for service in dict.fromkeys(each.service for each in shown):
        cells = dict.fromkeys(labels.cell(run.cell) for run in runs)
        for cell in cells:
            of_cell = {run.id for run in runs if labels.cell(run.cell) == cell}
            found = [each for each in shown if each.service == service and each.run in of_cell]
            taken = [each for each in found if each.profile is not None and each.profile.samples]
            if taken:
                several = len(labels.analysis.cells) > 1
                graphs.append(_graph(service, cell if several else "", taken, len(graphs) + 1))
    remarks = [
        f"No flame graph of {service}: {error}."
        for service, error in dict.fromkeys((each.service, each.error) for each in shown if each.error)
    ]
    remarks += [
        f"No flame graph of {each.service} in run {each.run}: perf took no sample, because it used no processor time."
        for each in shown
        if each.profile is not None and not each.profile.samples
    ]
    if len(graphs) > MAX_GRAPHS:
        left = plural(len(graphs) - MAX_GRAPHS, "more flame graph")
        remarks.append(f"This file leaves out {left}; the files perf.folded contain the samples.")
    return graphs[:MAX_GRAPHS], remarks


def shown_runs(labels: Labels) -> list[RunResult]:
    """The runs at the highest level of the load, of those that are valid; all runs if there is no load factor."""
    runs = [run for run in labels.runs() if run.valid] or list(labels.runs())
    if labels.load_factor is None:
        return runs
    loads = [load for run in runs if (load := labels.load(run)) is not None]
    return [run for run in runs if labels.load(run) == max(loads, default=None)]


def _uncertainty(samples: int) -> float:
    """Half of the greatest 95 % interval of a share, which is that of one half."""
    return 1.96 * sqrt(0.25 / samples)


def _graph(service: str, cell: str, taken: Sequence[ServiceProfile], position: int) -> FlameGraph:
    profiles = [each.profile for each in taken if each.profile is not None]
    stacks = merged(profiles)
    samples = sum(stacks.values())
    unnamed = sum(profile.unnamed for profile in profiles)
    seconds = sum(profile.seconds for profile in profiles)
    runs = ", ".join(each.run for each in taken)
    word = "run" if len(taken) == 1 else "runs"
    caption = (
        f"{plural(samples, 'sample')} of the processor time of {service}, {profiles[0].hz} per second, during "
        f"{number(seconds)} s of {word} {runs}. Width: the share of the samples in which a function, or a function "
        f"above it that it had called, was running. Functions below {percent(MIN_SHARE, 1)} are not drawn. "
        + (
            f"{percent(unnamed / samples)} of the samples end in a function without a name (grey), because its program "
            "has no symbols."
            if unnamed
            else "All samples end in a function with a name."
        )
        + f" If samples are independent, shares are uncertain by at most ± {percent(_uncertainty(samples), 2)} of all "
        "samples (95 %)."
    )
    rows = [
        (each.name, percent(each.own / samples), percent(each.total / samples))
        for each in function_shares(stacks)[:MAX_FUNCTIONS]
    ]
    title = f"{service}, {cell}" if cell else service
    functions = table_of(f"Functions of {title} with the most samples", "Function", "Own|Total", rows, TOTAL)
    name = "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in service)
    return FlameGraph(f"flame-{position}-{name}", title, caption, stacks, functions)
