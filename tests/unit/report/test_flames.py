"""Flame graphs: rectangles of stacks, the picture, the table of functions, and the runs that are shown."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.golden.fixture import designed, set_up, single

from plimsoll.deploy.perf.stacks import Profile
from plimsoll.report.figures import write_figures
from plimsoll.report.flames.flame_graph import HEIGHT, MAX_DEPTH, flame_svg, function_shares, rectangles
from plimsoll.report.flames.flames import ServiceProfile, flame_graphs, shown_runs
from plimsoll.report.html import render
from plimsoll.report.labels import Labels

STACKS = {
    ("app", "main", "parse"): 30,
    ("app", "main", "send", "[libc.so.6]"): 50,
    ("app", "main"): 20,
    ("app", "main", "send", "rare"): 0,
}


def test_a_function_is_as_wide_as_its_samples_and_stands_on_its_caller() -> None:
    found = {each.name: each for each in rectangles(STACKS)}
    assert [(name, each.level, each.samples) for name, each in found.items()] == [
        ("app", 0, 100), ("main", 1, 100), ("parse", 2, 30), ("send", 2, 50), ("[libc.so.6]", 3, 50),
    ]  # fmt: skip
    assert (found["parse"].left, found["parse"].share) == (0.0, 0.3)
    assert (found["send"].left, found["send"].share) == (0.3, 0.5)
    assert found["[libc.so.6]"].left == found["send"].left


def test_callers_that_differ_have_rectangles_of_their_own() -> None:
    found = rectangles({("app", "a", "f"): 1, ("app", "b", "f"): 3})
    assert [(each.left, each.share) for each in found if each.name == "f"] == [(0.0, 0.25), (0.25, 0.75)]


def test_rare_functions_and_very_deep_stacks_are_not_drawn() -> None:
    assert {each.name for each in rectangles({("a", "f"): 999, ("a", "g"): 1})} == {"a", "f"}
    deep = rectangles({tuple(f"f{level}" for level in range(200)): 5})
    assert len(deep) == MAX_DEPTH
    assert rectangles({}) == []


def test_the_picture_is_xml_with_a_title_for_each_function() -> None:
    picture = ElementTree.fromstring(flame_svg({("a", "<script>&\"'"): 7}, "a & b"))
    frames = picture.findall("{*}svg")
    assert [frame.findtext("{*}title") for frame in frames] == [
        "a: 7 samples, 100\u00a0%",
        "<script>&\"': 7 samples, 100\u00a0%",
    ]
    assert [int(frame.get("y", "")) for frame in frames] == [HEIGHT, 0]  # the process is at the bottom
    assert picture.get("width") == "100%"
    assert ElementTree.fromstring(flame_svg(STACKS, "x", as_file=True)).get("width") == "1200"


def test_a_function_that_calls_itself_counts_once() -> None:
    shares = {
        each.name: each for each in function_shares({("a", "f", "g", "f"): 4, ("a", "f"): 1, ("a", "h"): 2})
    }
    assert (shares["f"].own, shares["f"].total) == (5, 5)
    assert "g" not in shares  # it never ran itself
    assert next(iter(shares)) == "f"


def profiles(*runs: str) -> list[ServiceProfile]:
    return [ServiceProfile(run, "gate", Profile(STACKS, 99, 1.0, 4.0, 100)) for run in runs]


def test_the_runs_at_the_highest_load_are_drawn_together() -> None:
    labels = Labels(designed())
    shown = shown_runs(labels)
    assert {labels.load(run) for run in shown} == {max(labels.loads)}
    every = profiles(*(run.id for run in labels.runs()))
    graphs, remarks = flame_graphs(labels, every)
    assert remarks == []
    cells = {labels.cell(run.cell) for run in shown}
    assert {graph.title for graph in graphs} == {f"gate, {cell}" for cell in cells}
    assert sum(sum(graph.stacks.values()) for graph in graphs) == 100 * len(shown)


def test_the_page_has_the_graph_its_facts_and_its_table() -> None:
    analysis = single()
    page = render(analysis, set_up(), profiles(analysis.runs[0].id), bundle="")
    text = page.replace("\u00a0", " ")
    assert 'id="flame-1-gate"' in page
    assert "100 samples of the processor time of gate, 99 per second, during 4.00 s of run" in text
    assert "50.0 % of the samples end in a function without a name" in text
    assert re.search(r"\[libc\.so\.6\]</td><td class=\"n\">50\.0 %", text)
    assert page.count('<svg xmlns="http://www.w3.org/2000/svg" class="flame"') == 1
    assert 'id="flames"' not in render(analysis, set_up(), bundle="")


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        (ServiceProfile("1", "db", None, "perf was not found"), "No flame graph of db: perf was not found."),
        (ServiceProfile("1", "db", Profile({}, 99, 0.0, 1.0)), "perf took no sample"),
    ],
)
def test_a_missing_graph_is_explained(missing: ServiceProfile, text: str) -> None:
    analysis = single()
    graphs, remarks = flame_graphs(Labels(analysis), [replace(missing, run=analysis.runs[0].id)])
    assert graphs == []
    assert len(remarks) == 1
    assert text in remarks[0]


def test_figures_have_the_picture_and_the_stacks(tmp_path: Path) -> None:
    analysis = single()
    written = write_figures(analysis, tmp_path, "svg", profiles=profiles(analysis.runs[0].id))
    picture, folded = written[-2:]
    assert (picture.name, folded.name) == ("flame-1-gate.svg", "flame-1-gate.folded")
    assert ElementTree.parse(picture).getroot().get("width") == "1200"
    assert "var(" not in picture.read_text()  # no page defines its colours
    assert folded.read_text().splitlines()[0] == "app;main 20"
