"""The reader of an exporter during a run: it continues after every failure, and reports it."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from plimsoll.collect.results import RunFiles
from plimsoll.deploy.counters import Reading
from plimsoll.deploy.counters.watch import WatchLog
from plimsoll.drive.run.watching import host_of, watched_records
from plimsoll.plan import Redactor
from plimsoll.plan.model.cell import WatchedExporter

SECRET = "token-1234"


class FakeReader:
    """Returns these readings, one after the other; raises those that are exceptions."""

    version = "made"
    unmatched: tuple[str, ...] = ()
    is_closed = False

    def __init__(self, *steps: Reading | Exception) -> None:
        self.steps = list(steps)

    def read(self) -> Reading:
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def close(self) -> None:
        self.is_closed = True


def watched(name: str = "squid-host", host: str = "squid.example.org", kind: str = "node") -> WatchedExporter:
    url = f"http://{host}:9100/metrics"
    return WatchedExporter(name, kind, url, url, host, (), 1)  # type: ignore[arg-type]


def reading(value: float, **gauges: float) -> Reading:
    return Reading({"asked": value}, gauges)


class Slow(FakeReader):
    """Waits before its n-th reading until `let` is set."""

    def __init__(self, holds_at: int, *steps: Reading | Exception) -> None:
        super().__init__(*steps)
        self._left = holds_at
        self.held, self.let = threading.Event(), threading.Event()

    def read(self) -> Reading:
        self._left -= 1
        if self._left == 0:
            self.held.set()
            assert self.let.wait(10)
        return super().read()


def result(tmp_path: Path, *steps: Reading | Exception) -> WatchLog:
    """A log that has read every step. It is held at the last one until `finish` was called."""
    source = Slow(len(steps), *steps)
    log = WatchLog(
        watched(), source, tmp_path / "services" / "squid-host" / "counters.jsonl", Redactor([SECRET])
    )
    log.start()
    assert source.held.wait(10)
    log.finish()
    source.steps.append(steps[-1])  # `finish` was called during a reading, so it reads again
    source.let.set()
    return log


def test_a_log_contains_differences_means_and_lines(tmp_path: Path) -> None:
    log = result(tmp_path, reading(10, load=1.0), reading(14, load=4.0), reading(19, load=2.0))
    readings = log.result()
    assert readings.counters == {"asked": 9}
    assert (readings.gauges, readings.peaks) == ({"load": 2}, {"load": 4})
    assert readings.means == {"load": pytest.approx((1 + 4 + 2 + 2) / 4)}
    assert (readings.readings, readings.version, readings.gaps, readings.resets) == (4, "made", (), ())
    lines = RunFiles("0001", tmp_path, {}).counters("squid-host")
    assert [line["values"]["asked"] for line in lines] == [10, 14, 19, 19]


def test_failures_in_between_are_one_gap_and_the_counts_remain_complete(tmp_path: Path) -> None:
    refused = ConnectionRefusedError(111, "Connection refused")
    log = result(tmp_path, reading(10), refused, TimeoutError("timed out"), reading(5), reading(6))
    readings = log.result()
    (gap,) = readings.gaps
    assert gap.why == "Connection refused" and gap.start < gap.end
    assert len(readings.resets) == 1 and gap.end == readings.resets[0]
    assert readings.counters == {"asked": 6}
    text = (tmp_path / "services" / "squid-host" / "counters.jsonl").read_text()
    assert [json.loads(line)["lost"] for line in text.splitlines() if "lost" in line] == [
        "Connection refused"
    ]


def test_an_exporter_that_never_answers_has_one_gap_and_no_counts(tmp_path: Path) -> None:
    readings = result(tmp_path, OSError("x"), OSError("y")).result()
    assert (readings.readings, readings.counters, len(readings.gaps)) == (0, {}, 1)
    assert RunFiles("0001", tmp_path, {}).counters("squid-host") == [], "the file has the usual format"


def test_gauges_that_appear_later_are_declared_before_their_first_line(tmp_path: Path) -> None:
    result(tmp_path, reading(1), reading(2, load=1.0), reading(3)).result()
    text = (tmp_path / "services" / "squid-host" / "counters.jsonl").read_text()
    assert [line["gauges"] for line in map(json.loads, text.splitlines()) if "gauges" in line] == [
        [],
        ["load"],
    ]


def test_a_full_disk_is_a_gap_to_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = WatchLog(
        watched(), FakeReader(reading(1)), tmp_path / "file" / "counters.jsonl", Redactor([SECRET])
    )
    log.start()
    log.wait_for_first()
    log.finish()
    (gap,) = log.result().gaps
    assert "File exists" in gap.why or "Not a directory" in gap.why


def test_the_record_contains_counters_and_gaps_without_secrets(tmp_path: Path) -> None:
    log = result(tmp_path, reading(10), OSError(f"no way to {SECRET}\x1b[2J"), reading(12), reading(13))
    (record,) = watched_records([(watched(), log.result())], 0.0, Redactor([SECRET]))
    assert record["counters"] == {"asked": 3}
    assert record["gaps"][0]["why"] == "no way to ***?[2J"
    assert SECRET not in (tmp_path / "services" / "squid-host" / "counters.jsonl").read_text()
    assert record["every_s"] == 1e-9 and record["host"] == "squid-host"


def test_systems_on_the_same_host_are_found_by_their_url() -> None:
    squid, other = watched("squid", kind="squid"), watched("far", "elsewhere.example.org", "squid")
    host, local = watched(), watched("here", "127.0.0.1")
    all_of = [squid, host, other, local]
    assert [host_of(system, all_of) for system in all_of] == ["squid-host", "squid-host", "far", ""]
