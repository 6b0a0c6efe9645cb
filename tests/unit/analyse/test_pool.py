"""The network of the testers' hosts before and after the runs, and the sentence about it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.golden.fixture import empty

from plimsoll.analyse.answer.components.pool import of_pool
from plimsoll.analyse.hosts.pool import NO_AGENT, pool
from plimsoll.analyse.results.components.pool import PoolResult
from plimsoll.collect.baseline import Measurement, read_baseline
from plimsoll.errors import DamagedResults
from plimsoll.report.tables.resources.machine import hosts


def path(to: str = "lab", rtt_ms: float = 20, mbit: float = 19, **more: Any) -> dict[str, Any]:
    rate = mbit * 1e6 / 8
    return {"to": to, "rtt_min_ns": rtt_ms * 1e6, "send_bytes_s": rate, "receive_bytes_s": rate, **more}


def measured(when: str, **paths: list[dict[str, Any]]) -> Measurement:
    entries = [{"host": name, "agent": name, "site": "far", "paths": found} for name, found in paths.items()]
    return Measurement.model_validate({"when": when, "hosts": entries})


def result(*measurements: Measurement) -> PoolResult:
    found = pool(measurements)
    assert found is not None
    return found


def text_of(found: PoolResult) -> str:
    return " ".join(finding.text for finding in of_pool(replace(empty(), pool=found)))


def test_nothing_is_said_of_a_pool_that_did_not_change() -> None:
    same = result(measured("before", a=[path()]), measured("after", a=[path(rtt_ms=21, mbit=17)]))
    alone = result(measured("before", a=[path()]))
    assert text_of(same) == text_of(alone) == "" and pool([]) is None
    assert same.measured_after and not alone.measured_after
    assert of_pool(empty()) == []


def test_hosts_that_became_worse_are_named() -> None:
    before = measured("before", a=[path()], b=[path(), path("old:80")], c=[path()])
    after = measured("after", a=[path(mbit=5)], b=[path(), path("old:80", rtt_ms=80)], c=[path()])
    found = result(before, after)
    assert [(one.host, one.to, one.worse) for one in found.paths] == [
        ("a", "lab", ("send", "receive")),
        ("b", "lab", ()),
        ("b", "old:80", ("round trip",)),
        ("c", "lab", ()),
    ]
    text = text_of(found).replace("\N{NO-BREAK SPACE}", " ")
    assert text == (
        "The pool changed: the network of 2 of 3 hosts of testers was worse after the last run than before the first: "
        "a (throughput to lab fell from 19 Mbit/s to 5 Mbit/s and throughput from lab fell from 19 Mbit/s to 5 Mbit/s) "
        "and b (round trip to old:80 rose from 20.0 ms to 80.0 ms). Compare runs only with others of the same time."
    )


def test_the_first_and_the_last_measurement_of_a_resumed_experiment_are_compared() -> None:
    steps = (
        measured("before", a=[path()]),
        measured("before", a=[path(mbit=5)]),
        measured("after", a=[path()]),
    )
    assert not result(*steps).changed and result(*steps[:2]).changed


def test_a_host_without_a_second_measurement_is_not_worse() -> None:
    found = result(measured("before", a=[path()], b=[path()]), measured("after", b=[path(error="timed out")]))
    assert [one.error for one in found.paths] == [NO_AGENT, "timed out"] and not found.changed


def test_the_table_of_hosts_has_the_slowest_path_and_all_paths_have_a_table() -> None:
    before = measured("before", a=[path(), path("db1", 1, 100)])
    after = measured("after", a=[path(mbit=5), path("db1", 1, 100)])
    environment = {"hosts": [{"name": "a", "site": "far", "facts": {"cores": 2}}]}
    table, paths = hosts(environment, result(before, after))
    row = dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
    plain = {name: text.replace("\N{NO-BREAK SPACE}", " ") for name, text in row.items()}
    assert (plain["Path before"], plain["Throughput before"], plain["Throughput after"]) == (
        "20.0 ms",
        "19 Mbit/s",
        "5 Mbit/s",
    )
    assert [row[:4] for row in paths.rows] == [
        ("a", "far", "lab", "worse: send, receive"),
        ("a", "far", "db1", ""),
    ]


def test_a_file_that_cannot_be_read_is_damaged(tmp_path: Path) -> None:
    assert read_baseline(tmp_path) == ()
    file = tmp_path / "baseline.json"
    minimal = {"when": "before", "hosts": [{"host": "a", "agent": "a", "paths": [{"to": "lab", "later": 1}]}]}
    file.write_text(json.dumps({"format": "plimsoll.baseline/1", "measurements": [minimal], "later": 1}))
    assert read_baseline(tmp_path)[0].hosts[0].figures["lab"].tries == 1
    for text in (
        '{"format": "plimsoll.baseline/2", "measurements": []}',
        '{"format": "plimsoll.baseline/1"}',
        "{",
    ):
        file.write_text(text)
        with pytest.raises(DamagedResults, match=r"baseline\.json"):
            read_baseline(tmp_path)
