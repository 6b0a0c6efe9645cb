"""New connections: their number, their times, and the line of the summary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.golden.fixture import single
from tests.unit.analyse.made import run
from tests.unit.versioned import Row, S, make_results

from plimsoll.analyse.results.document import as_document
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.analyse.results.run import NameLookup
from plimsoll.analyse.run.connections import CONNECT, HANDSHAKE, connections
from plimsoll.api import analysis
from plimsoll.report.terminal import summary_lines


def test_times_are_those_of_all_connections() -> None:
    connect = np.array([0.001 * n for n in range(1, 101)])
    opened = connections({CONNECT: connect, HANDSHAKE: connect[:10] * 2}, (NameLookup("local", "db", 3.0),))
    assert opened is not None
    figures = opened.connections
    assert (figures.opened, figures.connect_ms.count, figures.tls_handshake_ms.count) == (100, 100, 10)
    assert figures.connect_ms.p50 == pytest.approx(50.0)
    assert figures.connect_ms.mean == pytest.approx(50.5)
    assert figures.tls_handshake_ms.max == pytest.approx(20.0)
    assert set(opened.histograms) == {"connect", "tls_handshake"}
    result = replace(run(), connections=figures)
    assert metric_value(result, "connect_p50") == pytest.approx(50.0)
    assert metric_value(result, "tls_handshake_mean") == pytest.approx(11.0)
    assert metric_value(run(), "connect_p50") is None


def test_without_connections_there_is_nothing() -> None:
    assert connections({}) is None
    plain = connections({CONNECT: np.array([0.002])})
    assert plain is not None
    assert set(plain.histograms) == {"connect"}, "no handshake: no histogram"
    assert plain.connections.tls_handshake_ms.count == 0


def test_the_summary_has_a_line_where_connections_were_opened() -> None:
    before = single()
    assert "connections" not in " ".join(summary_lines(before))
    assert "connections" not in as_document(before)["runs"][0]
    some = connections(
        {CONNECT: np.full(50, 120e-6), HANDSHAKE: np.full(50, 2.1e-3)}, (NameLookup("local", "db", 3.0),)
    )
    assert some is not None
    after = replace(before, runs=(replace(before.runs[0], connections=some.connections),))
    lines = " ".join(" ".join(summary_lines(after, width=160)).split())
    line = "connections.......: 50 opened, connect p50 120 us, TLS handshake p50 2.10 ms, name lookup 3.00 ms"
    assert line in lines, lines
    assert as_document(after)["runs"][0]["connections"]["opened"] == 50


def test_connections_of_the_warm_up_count(tmp_path: Path) -> None:
    made = make_results(tmp_path / "made", [({}, [Row(start=S, end=S + 1)])], seconds=2, warmup_s=0.5)
    path = made / "runs" / "0001" / "metrics.parquet"
    table = pq.read_table(path)
    rows = [(0, "tcp_connect_s", 0.25), (S, "tcp_connect_s", 0.5), (0, "tls_handshake_s", 0.125)]
    more = pa.table(
        {
            "agent": pa.array(["local"] * 3).cast(table.schema.field("agent").type),
            "tester": pa.array([0] * 3, table.schema.field("tester").type),
            "start": pa.array([start for start, _, _ in rows], table.schema.field("start").type),
            "metric": pa.array([name for _, name, _ in rows]).cast(table.schema.field("metric").type),
            "value": pa.array([value for _, _, value in rows], table.schema.field("value").type),
        }
    )
    pq.write_table(pa.concat_tables([table, more.cast(table.schema)]), path)
    (run,) = analysis(made).runs
    assert run.connections is not None
    assert (run.connections.opened, run.connections.tls_handshake_ms.count) == (2, 1)
    assert run.connections.connect_ms.max == 500.0
    assert not {"tcp_connect_s", "tls_handshake_s"} & {metric.name for metric in run.metrics}
