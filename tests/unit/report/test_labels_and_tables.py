"""Labels are short and unique, and tables contain the numbers of the charts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.golden.fixture import designed, single

from plimsoll.analyse.results.analysis import Analysis, Capacity
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.analyse.results.run import NameLookup, StageResult
from plimsoll.analyse.results.verdicts import CapacityKind, SaturationVerdict
from plimsoll.analyse.run.connections import connections
from plimsoll.analyse.stats.interval import Interval
from plimsoll.report.labels import ONLY, Labels
from plimsoll.report.tables import analysis as tables
from plimsoll.report.tables import capacities
from plimsoll.report.tables import run as run_tables
from plimsoll.report.tables.table import Table


def plain(table: Table) -> list[list[str]]:
    return [[cell.replace("\u00a0", " ") for cell in row] for row in table.rows]


def test_a_bare_number_gets_its_factors_name() -> None:
    labels = Labels(designed())
    assert (
        labels.combination({"zip": "0", "method": "squid", "size": "1 MB", "testers": "4"})
        == "zip 0, method squid, size 1 MB"
    )
    assert labels.combination({"run.proxy": "on"}) == "proxy on"
    assert labels.combination({"testers": "4"}) == ONLY
    assert labels.cell({"zip": "0", "testers": "4"}) == "zip 0, testers 4"


def test_order_is_that_of_the_experiment_file() -> None:
    analysis = designed()
    factors = {"zip level": ["5", "0", "1"], "testers": ["1", "2", "4", "8"]}
    labels = Labels(replace(analysis, experiment=replace(analysis.experiment, factors=factors)))
    assert labels.combinations == ("zip level 5", "zip level 0", "zip level 1")
    assert [cell.load for cell in labels.cells()][:4] == [1.0, 2.0, 4.0, 8.0]


def test_loads_are_shown_as_in_the_experiment_file() -> None:
    analysis = designed()
    cells = tuple(
        replace(cell, cell={**cell.cell, "testers": f"{cell.cell['testers']}/s"}) for cell in analysis.cells
    )
    labels = Labels(replace(analysis, cells=cells, runs=()))
    assert labels.load_label(4.0) == "4/s"
    assert labels.load_label(3.0) == "3"
    assert labels.load_label(None) == "–"


def test_run_values_go_by_every_name() -> None:
    run = single().runs[0]
    assert metric_value(run, "throughput") == run.traffic.throughput_per_s
    assert metric_value(run, "response_p95") == run.traffic.response_ms.p95
    assert metric_value(run, "no such thing") is None


def test_the_capacity_table() -> None:
    table = capacities.capacities(Labels(designed()))
    assert table.title == "Capacity in requests/s"
    assert plain(table)[0] == [
        "zip level 0", "flattens between 2 and 4", "gateway", "1,453 ± 26 at 4",
    ]  # fmt: skip
    # a rule that never binds has no column: it would repeat the nominal capacity
    assert (
        "Not limiting: usable (highest with p(95)<2s), error-limited (highest load with rate<10%). "
        in table.note
    )
    assert table.note.count("Not limiting") == 1
    limited = designed()
    usable = Capacity(CapacityKind.USABLE, Interval(900.0, 880.0, 920.0), 2.0, "p95", True, "")
    saturation = limited.saturation[0]
    mine = tuple(
        usable if capacity.kind == CapacityKind.USABLE else capacity for capacity in saturation.capacities
    )
    changed = replace(limited, saturation=(replace(saturation, capacities=mine), *limited.saturation[1:]))
    rows = plain(capacities.capacities(Labels(changed)))
    assert rows[0][4].startswith("900 ± 20")


def test_a_capacity_that_no_load_has_shows_the_reason() -> None:
    analysis = designed()
    none = Capacity(CapacityKind.USABLE, None, None, "", True, "no level meets the rule")
    saturation = replace(analysis.saturation[0], capacities=(none,))
    assert capacities.capacity_words(Labels(analysis), saturation, "usable") == "no level meets the rule"
    assert capacities.capacity_words(Labels(analysis), saturation, "nominal") == "–"


@pytest.mark.parametrize(
    ("verdict", "lower", "upper", "falls", "said"),
    [
        ("bracketed", 2.0, 4.0, None, "flattens between 2 and 4"),
        ("retrograde", 2.0, 4.0, 8.0, "flattens between 2 and 4, falls from 8 on"),
        ("retrograde", 2.0, 8.0, 8.0, "increases beyond 2, falls from 8 on"),
        ("increased", 4.0, None, None, "increased beyond 4"),
        ("at or below the lowest level", None, 1.0, None, "flat from 1 on"),
        ("cannot be said", None, None, None, "cannot be said"),
    ],
)
def test_saturation_words(
    verdict: str, lower: float | None, upper: float | None, falls: float | None, said: str
) -> None:
    analysis = designed()
    saturation = replace(
        analysis.saturation[0],
        verdict=SaturationVerdict(verdict),
        lower=lower,
        upper=upper,
        falls_from=falls,
    )
    assert capacities.saturation_words(Labels(analysis), saturation) == said


def test_throughput_has_interval_and_degrees_of_freedom() -> None:
    table = tables.throughput(Labels(designed()))
    assert plain(table)[0] == [
        "zip level 0", "1", "2 of 2", "995 ± 18 requests/s", "978 to 1,013 requests/s", "12", "104 MB/s", "1.00",
    ]  # fmt: skip
    assert "pooled over the design" in table.note
    assert "No intervals" in tables.throughput(Labels(designed(repetitions=1))).note


def test_response_falls_back_to_the_range_of_the_runs() -> None:
    analysis = designed()
    bare = tuple(replace(cell, responses={}) for cell in analysis.cells)
    row = plain(tables.response(Labels(replace(analysis, cells=bare))))[3]
    assert " to " in row[3]
    assert row[2].endswith("ms")


def test_monitored_values_have_units() -> None:
    row = plain(tables.utilization(Labels(designed())))[0]
    assert "memory.rss 25 MB" in row[4]
    assert "cpu 33 %" in row[4]


def test_effects_on_the_log_scale_multiply() -> None:
    analysis = designed()
    table = tables.effects(Labels(analysis), analysis.models[0])
    assert plain(table)[0][:4] == ["zip level", "0", "× 1.92", "× 1.88 to × 1.96"]
    linear = replace(
        analysis.effects[0], scale="linear", effect=120.0, interval=Interval(120.0, 110.0, 130.0)
    )
    assert tables.effect_value(linear).replace("\u00a0", " ") == "+120 requests/s"


def test_validity_shows_reasons_and_evidence() -> None:
    table = tables.validity(Labels(designed()))
    rows = {row[0]: row for row in plain(table)}
    assert [column.name for column in table.columns][4:7] == ["Succeeded", "Tester cpu", "Started"]
    assert rows["0007"][2] == "invalid"
    assert "97 % of a core" in rows["0007"][3]
    assert rows["0005"][2] == "doubtful"
    assert rows["0001"][4:] == ["34,846", "35.0 %", "99.9 %", "120 µs", "–"]


def test_counts_that_do_not_balance_are_marked() -> None:
    analysis = single()
    run = replace(analysis.runs[0], counts=replace(analysis.runs[0].counts, balanced=False))
    assert "NOT balanced" in plain(tables.run_counts(Labels(replace(analysis, runs=(run,)))))[0]


def test_stages_of_a_run() -> None:
    run = single().runs[0]
    staged = replace(
        run,
        stages=(StageResult(1, "", 0.0, 10.0, run.traffic), StageResult(2, "peak", 10.0, 20.0, run.traffic)),
    )
    assert [row[0] for row in plain(run_tables.stages(staged))] == ["stage 1", "peak"]


def test_connections_of_a_run() -> None:
    run = single().runs[0]
    assert run_tables.connections(replace(run, connections=None)) is None
    seconds = {"tcp_connect_s": np.full(200, 0.002), "tls_handshake_s": np.full(300, 0.02)}
    opened = connections(seconds, (NameLookup("local", "db.example.org", 3.0),))
    assert opened is not None
    table = run_tables.connections(replace(run, connections=opened.connections))
    assert table is not None
    rows = {
        row[0]: dict(zip([column.name for column in table.columns], row, strict=True)) for row in plain(table)
    }
    assert (rows["TCP connect"]["Connections"], rows["TLS handshake"]["Connections"]) == ("200", "300")
    assert rows["TCP connect"]["p50"] == "2.00 ms" and rows["TLS handshake"]["p95"] == "20.0 ms"
    assert table.note.replace("\u00a0", " ").endswith("Name lookups: db.example.org on local 3.00 ms.")


@pytest.mark.parametrize("analysis", [designed(), single(), designed(hostile=True)])
def test_every_row_is_as_long_as_its_head(analysis: Analysis) -> None:
    labels = Labels(analysis)
    made = [
        capacities.capacities,
        tables.throughput,
        tables.totals,
        tables.response,
        tables.distribution,
        tables.errors,
        tables.utilization,
        tables.fairness,
        tables.order,
        tables.validity,
        tables.objections,
        tables.run_counts,
        tables.thresholds,
        tables.left_out,
    ]
    for make in made:
        table = make(labels)
        assert all(len(row) == len(table.columns) for row in table.rows), table.title
