"""The reader beside a run: it outlives every failure of what it reads, and tells of it."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from plimsoll.collect.results import RunFiles
from plimsoll.deploy.counters import Reading
from plimsoll.deploy.counters.watch import WatchLog
from plimsoll.drive.run.watching import place_of, watched_records
from plimsoll.plan import Redactor
from plimsoll.plan.model import Watched

SECRET = "token-1234"


class Made:
    """Gives these readings, one after the other; raises what is an exception."""

    version = "made"

    def __init__(self, *steps: Reading | Exception) -> None:
        self.steps = list(steps)

    def read(self) -> Reading:
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


def watched(name: str = "squid-host", host: str = "squid.example.org", kind: str = "node") -> Watched:
    url = f"http://{host}:9100/metrics"
    return Watched(name, kind, url, url, host, (), 1)  # type: ignore[arg-type]


def reading(value: float, **gauges: float) -> Reading:
    return Reading({"asked": value}, gauges)


class Slow(Made):
    """Waits before its n-th reading until it is let go."""

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
    """A log that has taken every step: it is held at the last until it was told to finish."""
    source = Slow(len(steps), *steps)
    log = WatchLog(
        watched(), source, tmp_path / "services" / "squid-host" / "counters.jsonl", Redactor([SECRET])
    )
    log.start()
    assert source.held.wait(10)
    log.finish()
    source.steps.append(steps[-1])  # told while it read: it looks once more
    source.let.set()
    return log


def test_differences_means_and_lines(tmp_path: Path) -> None:
    log = result(tmp_path, reading(10, load=1.0), reading(14, load=4.0), reading(19, load=2.0))
    seen = log.result()
    assert seen.counters == {"asked": 9}
    assert (seen.gauges, seen.peaks) == ({"load": 2}, {"load": 4})
    assert seen.means == {"load": pytest.approx((1 + 4 + 2 + 2) / 4)}
    assert (seen.readings, seen.version, seen.gaps, seen.anew) == (4, "made", (), ())
    lines = RunFiles("0001", tmp_path, {}).counters("squid-host")
    assert [line["values"]["asked"] for line in lines] == [10, 14, 19, 19]


def test_failures_in_between_are_one_gap_and_nothing_is_lost_of_the_count(tmp_path: Path) -> None:
    gone = ConnectionRefusedError(111, "Connection refused")
    log = result(tmp_path, reading(10), gone, TimeoutError("timed out"), reading(5), reading(6))
    seen = log.result()
    (gap,) = seen.gaps
    assert gap.why == "Connection refused" and gap.start < gap.end
    assert len(seen.anew) == 1 and gap.end == seen.anew[0]
    assert seen.counters == {"asked": 6}
    text = (tmp_path / "services" / "squid-host" / "counters.jsonl").read_text()
    assert [json.loads(line)["lost"] for line in text.splitlines() if "lost" in line] == [
        "Connection refused"
    ]


def test_one_that_never_answers(tmp_path: Path) -> None:
    seen = result(tmp_path, OSError("x"), OSError("y")).result()
    assert (seen.readings, seen.counters, len(seen.gaps)) == (0, {}, 1)
    assert RunFiles("0001", tmp_path, {}).counters("squid-host") == [], "the file is one of ours all the same"


def test_gauges_that_appear_later_are_told_of_before_they_stand_in_a_line(tmp_path: Path) -> None:
    result(tmp_path, reading(1), reading(2, load=1.0), reading(3)).result()
    text = (tmp_path / "services" / "squid-host" / "counters.jsonl").read_text()
    assert [line["gauges"] for line in map(json.loads, text.splitlines()) if "gauges" in line] == [
        [],
        ["load"],
    ]


def test_a_disk_that_takes_nothing_is_a_gap_to_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = WatchLog(watched(), Made(reading(1)), tmp_path / "file" / "counters.jsonl", Redactor([SECRET]))
    log.start()
    log.wait_for_first()
    log.finish()
    (gap,) = log.result().gaps
    assert "File exists" in gap.why or "Not a directory" in gap.why


def test_what_the_record_says(tmp_path: Path) -> None:
    log = result(tmp_path, reading(10), OSError(f"no way to {SECRET}\x1b[2J"), reading(12), reading(13))
    (told,) = watched_records([(watched(), log.result())], 0.0, Redactor([SECRET]))
    assert told["counters"] == {"asked": 3}
    assert told["gaps"][0]["why"] == "no way to ***?[2J"
    assert SECRET not in (tmp_path / "services" / "squid-host" / "counters.jsonl").read_text()
    assert told["every_s"] == 1e-9 and told["host"] == "squid-host"


def test_what_is_on_one_host_is_found_by_the_url() -> None:
    squid, other = watched("squid", kind="squid"), watched("far", "elsewhere.example.org", "squid")
    host, here = watched(), watched("here", "127.0.0.1")
    all_of = [squid, host, other, here]
    assert [place_of(one, all_of) for one in all_of] == ["squid-host", "squid-host", "far", ""]
