"""`plimsoll report --quantum`: what it accepts, and that it changes the bins of charts but no other figure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.hosts_made import Made, Site, make

from plimsoll.analyse.results.document import as_document
from plimsoll.assemble.run.component_series import MAX_CHART_BINS, chart_quantum
from plimsoll.assemble.run.options import Options
from plimsoll.assemble.whole import analysis
from plimsoll.collect.results import open_results
from plimsoll.errors import BadInput

NEAR = Made(sites=(Site("near", ("n1", "n2"), 0.3),), testers=2, seconds=30)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("quantum") / "results", NEAR)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "--quantum 5: "),
        ("soon", "--quantum soon: "),
        ("-2s", "--quantum -2s: "),
        ("0s", "expected whole seconds, at least 1s"),
        ("500ms", "expected whole seconds, at least 1s"),
        ("2500ms", "expected whole seconds, at least 1s"),
        ("1m", "longer than every run: the longest, 0001, has 30 s; give a shorter time"),
    ],
)
def test_a_quantum_that_makes_no_sense_is_refused(directory: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        chart_quantum(text, open_results(directory))
    assert message in str(refused.value)


def test_too_many_bins_are_refused_with_the_least_quantum(directory: Path) -> None:
    results = open_results(directory)
    summary = results.runs[0].summary
    assert summary is not None
    summary["measured_end_ns"] = 3601 * 10**9
    with pytest.raises(BadInput, match=f"would have more than {MAX_CHART_BINS} bins; give at least 7s"):
        chart_quantum("6s", results)
    assert chart_quantum("7s", results) == 7.0


@pytest.mark.parametrize(("text", "seconds"), [("1s", 1.0), ("10s", 10.0), (" 30s ", 30.0)])
def test_whole_seconds_are_accepted(directory: Path, text: str, seconds: float) -> None:
    assert chart_quantum(text, open_results(directory)) == seconds


def test_it_changes_the_time_series_only(directory: Path) -> None:
    usual, wide = (as_document(analysis(directory, Options(chart_quantum_s=q))) for q in (None, 10.0))
    (run,), (of_wide,) = usual["runs"], wide["runs"]
    assert (run["series"]["quantum_s"], of_wide["series"]["quantum_s"]) == (1.0, 10.0)
    assert (run["component_series"]["quantum_s"], of_wide["component_series"]["quantum_s"]) == (1.0, 10.0)
    for name in ("throughput_per_s", "errors_per_s"):
        whole = [sum(run["series"][name][at : at + 10]) / 10 for at in (0, 10, 20)]
        assert of_wide["series"][name][:3] == pytest.approx(whole)
    for document in (usual, wide):
        for shown in document["runs"]:
            del shown["series"], shown["component_series"]
    assert list(_differences(usual, wide, ())) == []


def _differences(first: Any, second: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        for key in first:
            yield from _differences(first[key], second[key], (*path, str(key)))
    elif first != second:
        yield path


def test_every_series_of_a_run_has_a_value_for_each_bin(directory: Path) -> None:
    (run,) = analysis(directory).runs
    series = run.component_series
    assert series is not None
    assert [component.component for component in series.components][:1] == ["testers"]
    for component in series.components:
        for values in (*component.resources.values(), *component.counters.values()):
            assert len(values) == series.bins


def test_one_second_histograms_have_bins_of_that_width_too(tmp_path: Path) -> None:
    path = make(tmp_path / "results", Made(sites=NEAR.sites, testers=2, seconds=20, keep="summaries"))
    (run,) = analysis(path, Options(chart_quantum_s=5.0)).runs
    assert run.series is not None
    assert run.series.quantum_s == 5.0
    assert run.component_series is not None
    assert run.component_series.quantum_s == 5.0
