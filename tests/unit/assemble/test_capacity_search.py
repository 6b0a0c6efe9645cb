"""The searches of several cells, with simulated trials in the place of runs."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.unit.assemble.searched import Searched, carry_out

from plimsoll.analyse.effects.found_capacity import capacity_effects
from plimsoll.analyse.results.load.search import SearchResult
from plimsoll.assemble.adaptive.run_source import is_done
from plimsoll.assemble.adaptive.search_result import search_result
from plimsoll.collect.decisions import read_decisions
from plimsoll.collect.results import open_results
from plimsoll.drive.directory import ResultsDirectory
from plimsoll.plan import Plan


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    return carry_out(tmp_path_factory.mktemp("searched"))


def blocks_of(directory: ResultsDirectory) -> list[tuple[int, str]]:
    """The search and the cell of the trials, each change once."""
    lines = [line for line in read_decisions(directory.path) if "run" in line]
    return [
        key for key, _ in itertools.groupby(lines, lambda line: (line["search"], line["cell"]["servers"]))
    ]


def analysed(plan: Plan, directory: ResultsDirectory) -> SearchResult:
    found = search_result(open_results(directory.path))
    assert found is not None
    return found


def test_the_searches_of_all_cells_form_blocks_in_random_order(searched: Searched, tmp_path: Path) -> None:
    _, directory = searched
    blocks = blocks_of(directory)
    assert [search for search, _ in blocks] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    orders = [tuple(cell for search, cell in blocks if search == number) for number in range(3)]
    assert all(sorted(order) == ["2", "3", "5"] for order in orders)
    assert len(set(orders)) > 1
    _, listed = carry_out(tmp_path, repeat=1, order="listed")
    assert [cell for _, cell in blocks_of(listed)] == ["2", "3", "5"]


def test_the_capacity_is_a_response_of_the_factors(searched: Searched) -> None:
    result = analysed(*searched)
    effects = capacity_effects(result, {"servers": ["2", "3", "5"]})
    for one, truth in zip(effects.ratios, (1.5, 2.5), strict=True):
        assert one.ratio.low is not None and one.ratio.high is not None
        assert 0.9 * truth < one.ratio.low < one.ratio.high < 1.1 * truth
    assert [len(cell.capacities[0].searches) for cell in result.cells] == [3, 3, 3]
    assert [cell.cell["servers"] for cell in result.cells] == ["2", "3", "5"], "the order of the file"


def test_the_bounds_of_a_search_close_in(searched: Searched) -> None:
    for cell in analysed(*searched).cells:
        assert cell.trials[0].bounds["fast"] == (None, None), "the warm-up does not count"
        for number in range(3):
            bounds = [trial.bounds["fast"] for trial in cell.trials if trial.search == number]
            lower, upper = bounds[-1]
            assert lower is not None and upper is not None
            found = cell.capacities[0].searches[number]
            assert (lower, upper) == (found.relevant_lower, found.relevant_upper)
            widths = [upper / lower for lower, upper in bounds if lower is not None and upper is not None]
            assert widths[-1] <= widths[0]


def test_loads_in_testers_have_no_conditional_throughput(searched: Searched, tmp_path: Path) -> None:
    in_testers = carry_out(tmp_path, axis="load.testers", ends=("20", "4000"), repeat=1)
    for cell in analysed(*in_testers).cells:
        (one,) = cell.capacities[0].searches
        assert one.conditional_throughput is None
        assert one.relevant_lower is not None and one.relevant_lower.is_integer()
    for cell in analysed(*searched).cells:
        assert all(one.conditional_throughput is not None for one in cell.capacities[0].searches)


def test_nothing_is_left_of_a_search_that_has_ended(searched: Searched) -> None:
    plan, directory = searched
    assert is_done(plan, directory, frozenset())
    last = sorted((directory.path / "runs").iterdir())[-1]
    kept = (last / "run.json").read_text()
    (last / "run.json").unlink()
    stored = {name: (directory.path / name).read_text() for name in ("trials.jsonl", "plan.json")}
    assert not is_done(plan, directory, frozenset())
    last.mkdir(exist_ok=True)
    (last / "run.json").write_text(kept)
    for name, text in stored.items():
        (directory.path / name).write_text(text)
