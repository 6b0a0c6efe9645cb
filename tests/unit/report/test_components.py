"""The charts of the components of a run, and what services counted next to what the testers measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.golden.fixture import make_run, single, with_components

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.components.component_series import Values
from plimsoll.report.charts import spec
from plimsoll.report.charts.marks import cut_rows
from plimsoll.report.charts.resources.components import LINES, chart, component_title, strips
from plimsoll.report.charts.series import chart as series_chart
from plimsoll.report.charts.series import merged, served_note, served_rows, thin
from plimsoll.report.figures import write_figures
from plimsoll.report.page_data import component_data, component_times, components_note, page_data


@pytest.fixture
def run() -> RunResult:
    return with_components(make_run(1, {}, 1))


def test_each_component_has_strips_of_what_was_measured(run: RunResult) -> None:
    assert run.component_series is not None
    found = {each.component: strips(each) for each in run.component_series.components}
    titles = {name: [strip.title for strip in parts] for name, parts in found.items()}
    assert titles == {
        "db": ["CPU (cores)", "memory (MB)", "counted/s"],
        "gateway": ["CPU (cores)", "memory (MB)", "counted/s"],
        "host": ["CPU (cores)", "memory (GB)", "transfer (MB/s)"],
        "testers": ["CPU (cores)"],
    }
    assert list(found["db"][0].lines) == ["user", "system"]  # no steal: it was zero in the whole run
    assert list(found["db"][2].lines) == ["xact_commit"]
    assert list(found["host"][2].lines) == ["disk written", "network in", "network out"]
    assert max(value or 0 for value in found["host"][2].lines["disk written"]) < 1000
    assert (found["testers"][0].is_stacked, list(found["testers"][0].lines)) == (False, ["in use"])


def test_queues_and_what_was_dropped_are_drawn_where_they_are_not_negligible(run: RunResult) -> None:
    assert run.component_series is not None
    db = run.component_series.components[0]
    queues: dict[str, Values] = {
        "run_queue": (0.1, 0.4),
        "disk_queue": (0.0, 3.0),
        "packet_drops": (None, 2.0),
        "listen_drops": (0.0, None),
    }
    found = strips(replace(db, resources=queues, counters={}))
    assert [(strip.title, strip.lines) for strip in found] == [
        ("waiting", {"at disks": (0.0, 3.0)}),
        ("events/s", {"packets dropped": (None, 2.0)}),
    ]


def test_titles_name_the_kind_and_the_host(run: RunResult) -> None:
    assert run.component_series is not None
    titles = [component_title(each) for each in run.component_series.components]
    assert titles == ["db, postgres on db1", "gateway, frontier", "host", "testers"]


def test_the_chart_is_valid_and_has_every_line(run: RunResult) -> None:
    drawn = chart(run)
    assert drawn is not None
    document = spec(drawn)
    assert len(document["vconcat"]) == 4
    assert sum(name.startswith(LINES) for name in document["datasets"]) == 10
    drawn.to_dict(validate=True)
    assert chart(replace(run, component_series=None)) is None


def test_what_services_counted_is_drawn_where_testers_send_requests(run: RunResult) -> None:
    rows = served_rows(run)
    assert {row["name"] for row in rows} == {"counted by gateway"}
    assert run.series is not None
    assert [row["t"] for row in rows][:3] == [0.5, 2.5, 4.5]  # bins of 2 s, middles as those of 1 s
    assert served_note(run) == "Broad pale lines: requests that the service itself counted."
    assert "served" in json.dumps(spec(series_chart(run))["vconcat"])
    bare = replace(run, component_series=None)
    assert (served_rows(bare), served_note(bare)) == ([], "")
    assert "served" not in json.dumps(spec(series_chart(bare))["vconcat"])


def test_all_time_charts_of_a_run_end_at_the_same_time(run: RunResult) -> None:
    assert cut_rows(run)[1] == {"from": 24.0, "to": 24.0}
    assert component_times(run, 600)[-1] == 24.0
    assert component_times(run, 5) == [0.0, 6.0, 12.0, 18.0, 24.0]


def test_neighbours_are_merged_to_their_mean() -> None:
    values = (1.0, 3.0, None, 5.0, None, None, 7.0)
    assert merged(values, 7) == (1, list(values))
    assert merged(values, 4) == (2, [2.0, 5.0, None, 7.0])
    assert merged((), 4) == (1, [])
    assert thin(values, 2.0, 4) == [(0.0, 2.0), (4.0, 5.0), (8.0, None), (12.0, 7.0), (14.0, 7.0)]


def test_the_page_has_the_bins_of_the_chosen_width_or_few_of_many_runs(run: RunResult) -> None:
    (db, *_) = component_data(run, 600)
    assert db["strips"][0]["names"] == ["user", "system"]
    assert len(db["strips"][0]["values"][0]) == 12
    assert db["strips"][1]["values"] == [200.0]  # constant
    assert [entry["open"] for entry in component_data(run, 600)] == [True, True, True, False]
    series = run.component_series
    assert series is not None
    long = replace(
        series,
        bins=600,
        components=tuple(
            replace(each, resources={name: tuple(float(at) for at in range(600)) for name in each.resources})
            for each in series.components
        ),
    )
    runs = [replace(run, id=f"{at:04d}", component_series=long) for at in range(30)]
    for all_bins, bins in ((False, 75), (True, 600)):
        data = page_data("x", (), runs, all_bins=all_bins)["runs"]["0007"]
        assert len(data["components"][0]["strips"][0]["values"][0]) == bins
        assert len(data["times"]) == bins + 1


def test_the_note_states_the_width_of_the_bins_and_what_is_left_out(run: RunResult) -> None:
    assert components_note(run, 600).endswith("on the time axis above. Bins of 2 s.")
    assert run.component_series is not None
    large = replace(run, component_series=replace(run.component_series, left_out=76))
    assert components_note(large, 6).endswith("Bins of 4 s. 76 more hosts have no charts here.")
    assert components_note(replace(run, component_series=None), 600) == ""


def test_the_figures_contain_the_components(tmp_path: Path) -> None:
    names = {path.name for path in write_figures(single(), tmp_path, "svg")}
    assert {"series-0001.svg", "components-0001.svg"} <= names
    assert "client_http" not in (tmp_path / "components-0001.svg").read_text(encoding="utf-8")
    assert "xact_commit" in (tmp_path / "components-0001.svg").read_text(encoding="utf-8")
