"""Counters are read during a run: differences, files, and a server that stops answering."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from plimsoll.deploy.counters import Reading, Source, ours, recorder
from plimsoll.deploy.counters.recorder import FORMAT, CounterLog


class FakeSource:
    """A server that counts by tens, and fails at the n-th reading."""

    def __init__(self, fails_at: int = 1000) -> None:
        self.readings = 0
        self.closed = False
        self._fails_at = fails_at

    def open(self) -> None:
        pass

    def read(self) -> Reading:
        self.readings += 1
        if self.readings >= self._fails_at:
            raise ConnectionResetError("the server went away")
        return Reading(
            {"hits": 10.0 * self.readings, "time": 0.1 * self.readings}, {"clients": float(self.readings)}
        )

    def last(self) -> Mapping[str, Any]:
        return {"gauges": {"objects": 7.0}, "statements": [{"statement": "SELECT 1"}]}

    def close(self) -> None:
        self.closed = True


def start_log(source: Source, path: Path) -> CounterLog:
    log = CounterLog("db", "postgres", source, path)
    log.start()
    log.wait_for_first()
    return log


def test_a_log_contains_differences_last_values_and_lines(tmp_path: Path) -> None:
    source, path = FakeSource(), tmp_path / "services" / "db" / "counters.jsonl"
    log = start_log(source, path)
    assert source.readings == 1, "the first is there before the run begins"
    log.finish()
    counts = log.result()
    assert counts.counters == {"hits": 10, "time": 0.1}
    assert counts.gauges == {"clients": 2, "objects": 7}
    assert counts.details == {"statements": [{"statement": "SELECT 1"}]}
    assert not counts.failed
    assert source.closed
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == {"format": FORMAT, "service": "db", "kind": "postgres", "gauges": ["clients"]}
    assert [line["values"]["hits"] for line in lines[1:]] == [10, 20]
    assert 0 <= lines[2]["t"] - lines[1]["t"] < 60


def test_a_gauge_that_appears_later_is_in_another_first_line(tmp_path: Path) -> None:
    class Growing(FakeSource):
        def read(self) -> Reading:
            reading = super().read()
            return Reading(reading.counters, {f"wait.Lock.{number}": 1.0 for number in range(self.readings)})

    path = tmp_path / "counters.jsonl"
    log = start_log(Growing(), path)
    log.finish()
    log.result()
    heads = [json.loads(line) for line in path.read_text().splitlines() if "format" in line]
    assert [head["gauges"] for head in heads] == [["wait.Lock.0"], ["wait.Lock.0", "wait.Lock.1"]]


def test_a_server_that_stops_answering_is_reported_once_without_differences(tmp_path: Path) -> None:
    source = FakeSource(fails_at=2)
    log = start_log(source, tmp_path / "counters.jsonl")
    log.finish()
    counts = log.result()
    assert counts.failed == "ConnectionResetError: the server went away"
    assert counts.failed_at > 0
    assert (counts.counters, counts.gauges) == ({}, {})
    assert source.closed
    assert len((tmp_path / "counters.jsonl").read_text().splitlines()) == 2, "what was read stays"


def test_a_source_that_cannot_be_opened_does_not_delay_the_run(tmp_path: Path) -> None:
    log = start_log(FakeSource(fails_at=1), tmp_path / "counters.jsonl")
    log.finish()
    assert "went away" in log.result().failed


def test_a_full_disk_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = start_log(FakeSource(), tmp_path / "file" / "counters.jsonl")
    log.finish()
    assert "FileExistsError" in log.result().failed


def test_a_server_that_is_started_again_is_read_again(tmp_path: Path) -> None:
    """What it counted before the kill, up to the last reading, and since the restart; the gap is known."""
    first, second = FakeSource(fails_at=3), FakeSource()
    sources: list[Source | None] = [None, second]
    log = CounterLog("db", "postgres", first, tmp_path / "counters.jsonl", lambda: sources.pop(0))
    log.start()
    deadline = time.monotonic() + 30
    while second.readings < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    log.finish()
    counts = log.result()
    assert not counts.failed
    assert counts.counters["hits"] == 10 + 10 * second.readings
    assert len(counts.resets) == 1
    (gap,) = counts.gaps
    assert "went away" in gap.why and gap.end > gap.start
    assert counts.details == {"statements": [{"statement": "SELECT 1"}]}


class Backlog(FakeSource):
    """A server that has not accepted `waiting` connections when it is asked first, and accepts one for each reading."""

    def __init__(self, waiting: int) -> None:
        super().__init__()
        self._waiting = waiting

    def read(self) -> Reading:
        super().read()
        return Reading({"requests": float(min(self.readings, self._waiting))})


@pytest.mark.parametrize("waiting, is_unsettled", [(1, False), (4, False), (10**6, True)])
def test_a_run_begins_and_ends_when_no_more_requests_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: int, is_unsettled: bool
) -> None:
    monkeypatch.setattr(recorder, "REST_S", 0.001)
    monkeypatch.setattr(recorder, "MAX_REST_S", 0.5)
    source = Backlog(waiting)
    log = CounterLog("web", "nginx", source, tmp_path / "counters.jsonl", arrivals="requests")
    log.start()
    log.wait_for_first()
    assert source.readings > waiting or is_unsettled
    log.finish()
    assert log.result().is_unsettled == is_unsettled
    if not is_unsettled:
        assert log.result().counters == {"requests": 0}


def test_no_thread_remains(tmp_path: Path) -> None:
    log = start_log(FakeSource(), tmp_path / "counters.jsonl")
    log.finish()
    log.result()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("counters-")]


def test_counters_of_own_services_are_separate_from_gauges() -> None:
    values = ours.reading(
        b'{"received": 3, "keys": 2, "purge_delay_ms": 1.5, "watching": 1, "clock_ns": 5}\n'
    )
    assert values.counters == {"received": 3.0, "purge_delay_ms": 1.5}
    assert values.gauges == {"keys": 2.0, "watching": 1.0, "clock_ns": 5.0}
