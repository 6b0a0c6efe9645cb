"""A search that begins where an earlier one found its brackets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.assemble.searched import PER_SERVER, Searched, carry_out

from plimsoll.assemble.like_search import earlier_cells, expected_search, start_lines, starts_of
from plimsoll.cli.experiments.plan_search import like_document, like_search_lines
from plimsoll.collect.decisions import read_decisions
from plimsoll.drive.resume import resumed_plan
from plimsoll.errors import BadInput
from plimsoll.plan import Plan, load_experiment, make_plan
from plimsoll.plan.model.search import Search


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    return carry_out(tmp_path_factory.mktemp("earlier"), repeat=2)


def search_of(plan: Plan) -> Search:
    assert plan.experiment.search is not None
    return plan.experiment.search


def changed(plan: Plan, change: Callable[[Search], Search]) -> Plan:
    return replace(plan, experiment=replace(plan.experiment, search=change(search_of(plan))))


def test_each_cell_begins_at_its_own_bracket(earlier: Searched, tmp_path: Path) -> None:
    plan, directory = earlier
    starts = starts_of(earlier_cells(plan, directory.path))
    assert list(starts) == [0, 1, 2]
    for index, servers in enumerate((2, 3, 5)):
        assert 0.7 * PER_SERVER * servers < starts[index] < 1.1 * PER_SERVER * servers
    _, later = carry_out(tmp_path, repeat=2, starts=starts)
    begun = [line for line in read_decisions(later.path) if line.get("rule") in ("warm-up", "start")]
    first = {line["cell"]["servers"]: line["load"] for line in reversed(begun) if line["search"] == 0}
    assert first == {"2": starts[0], "3": starts[1], "5": starts[2]}
    number = {path: len(read_decisions(path)) for path in (directory.path, later.path)}
    assert number[later.path] < number[directory.path]


def test_a_resumed_search_keeps_its_starts(earlier: Searched, tmp_path: Path) -> None:
    starts = starts_of(earlier_cells(earlier[0], earlier[1].path))
    plan, directory = carry_out(tmp_path, repeat=1, starts=starts)
    assert plan.to_json()["search_starts"][0] == {"cell": {"servers": "2"}, "load": starts[0]}
    again, _ = resumed_plan(directory.path)
    assert again.starts == starts


def test_a_cell_that_the_results_do_not_have_begins_at_the_lowest_load(earlier: Searched) -> None:
    _, directory = earlier
    file = directory.path / "experiment.yaml"
    other = make_plan(load_experiment(file, ["factors.servers.levels=[3,4]"]), 1)
    cells = earlier_cells(other, directory.path)
    assert [cell.start is None for cell in cells] == [False, True]
    lines = start_lines(search_of(other), cells, Path("old"))
    assert lines[0].startswith("servers 3: the search begins at ")
    assert lines[1] == "servers 4: the search begins at 20/s, no bracket in old"
    assert expected_search(search_of(other), cells).others == 1
    assert like_search_lines(search_of(other), cells, Path("old"))[-1].endswith(
        ", and at most 1 h for 1 other cell"
    )
    none = make_plan(load_experiment(file, ["factors.servers.levels=[8,9]"]), 1)
    with pytest.raises(BadInput, match="no cell of the experiment file has a bracket there"):
        earlier_cells(none, directory.path)


def test_the_expectation_is_that_of_the_later_searches(earlier: Searched) -> None:
    plan, directory = earlier
    cells, search = earlier_cells(plan, directory.path), search_of(plan)
    later = [line["result"] for line in read_decisions(directory.path) if line.get("search") == 1]
    expected = expected_search(search, cells)
    assert expected.seconds == pytest.approx(2 * sum(one["spent_s"] for one in later))
    assert expected.requests == pytest.approx(2 * sum(one["starts"] for one in later))
    limit = min(cell.seconds for cell in cells)
    limited = expected_search(replace(search, max_time_s=limit), cells)
    assert limited.seconds == pytest.approx(len(cells) * limit)
    assert like_document(search, cells)["starts"][0] == {"cell": {"servers": "2"}, "load": cells[0].start}


def test_other_searches_and_results_without_a_search_are_refused(earlier: Searched, tmp_path: Path) -> None:
    plan, directory = earlier
    with pytest.raises(BadInput, match=r"its search varies load\.rate, that of the file load\.testers"):
        earlier_cells(changed(plan, lambda one: replace(one, axis="load.testers")), directory.path)

    def stricter(search: Search) -> Search:
        return replace(search, goals=tuple(replace(goal, response="p(90)<1ms") for goal in search.goals))

    with pytest.raises(BadInput, match=r"its goals are fast \(response p\(90\)<150ms\); those of the file"):
        earlier_cells(changed(plan, stricter), directory.path)
    with pytest.raises(BadInput, match="the experiment file has no `search`"):
        earlier_cells(replace(plan, experiment=replace(plan.experiment, search=None)), directory.path)
    with pytest.raises(BadInput, match="these results are not those of a search"):
        earlier_cells(plan, Path("tests/data/results-v1"))
