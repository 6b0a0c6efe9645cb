"""Times are stated as recorded, estimated or a range, and parts that were not understood are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.trace.made import binned, document, file, picture, pictures, profile_document, times

from plimsoll.cli.traces.trace import trace_path_for
from plimsoll.errors import EngineError
from plimsoll.trace import words
from plimsoll.trace.compare import comparison, comparison_lines
from plimsoll.trace.figures import charts, key
from plimsoll.trace.profile import RunTime, Times, UnparsedCounts, read
from plimsoll.trace.tables import tree
from plimsoll.trace.terminal import summary_lines, tail


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def run_time(**changed: Any) -> RunTime:
    fields = document()["time"] | changed
    return RunTime.model_validate(fields)


def test_a_run_time_is_stated_as_recorded_and_without_tracing() -> None:
    text = plain(words.run_time(run_time()))
    assert (
        text == "2.00 s as recorded; about 1.60 s without tracing "
        "(1.40 to 1.80 s; tracing was about 20 % of it, 30.0 µs a call)"
    )


def test_a_range_without_width_is_not_stated() -> None:
    wall = {"recorded_s": 0.382, "low_s": 0.3812, "corrected_s": 0.3814, "high_s": 0.3814}
    text = plain(words.run_time(run_time(wall=wall, tracing_share=0.0014)))
    assert (
        text
        == "382 ms as recorded; about 381 ms without tracing (tracing was about 0.14 % of it, 30.0 µs a call)"
    )


def test_times_are_ranges_if_tracing_was_most_of_the_run() -> None:
    mostly = run_time(interval_only=True, tracing_share=0.7)
    text = plain(words.run_time(mostly))
    assert "1.40 to 1.80 s without tracing" in text
    assert "1.60" not in text
    assert plain(words.duration(mostly.calls, True)) == "350 to 450 ms"
    assert plain(words.duration(mostly.calls, False)) == "400 ms"


def test_the_cost_of_tracing_is_stated_as_calibrated_and_as_estimated() -> None:
    profile = profile_document().profile
    text = plain(words.correction(profile.source, profile.time))
    assert "Tracing cost 35.0 µs per call on the traced host (30.0 µs to 42.0 µs)" in text, text
    assert "In this run it was about 30.0 µs (25.0 µs to 40.0 µs), estimated from its shortest calls." in text
    preload = profile_document(source=document()["source"] | {"recorder": "preload"}).profile
    assert "In this run" not in words.correction(preload.source, preload.time)


def test_without_calibration_no_time_is_called_corrected() -> None:
    bare = run_time(wall=times(2.0, corrected=False), tracing_share=None)
    assert plain(words.run_time(bare)) == "2.00 s as recorded; the cost of tracing is unknown"
    profile = profile_document(source=document()["source"] | {"calibration": None}).profile
    assert "the cost of tracing was not measured" in words.correction(profile.source, profile.time)


def test_a_range_keeps_both_units_where_they_differ() -> None:
    assert plain(words.span(0.0005, 1.2)) == "500 µs to 1.20 s"
    assert plain(words.span(0.0, 0.534)) == "up to 534 ms"
    assert plain(words.span(0.5, 0.5)) == "500 ms"
    assert words.duration(None, True) == "–"
    unknown = Times(recorded_s=1.0, low_s=None, corrected_s=None, high_s=None)
    assert plain(words.duration(unknown, True)) == "1.00 s"


@pytest.mark.parametrize(
    ("odd", "unknown", "lines", "fine"),
    [(0, 0, 0, True), (1, 0, 100, True), (2, 0, 100, False), (1, 1, 100, False), (1, 0, 10, False)],
)
def test_one_line_of_a_hundred_may_be_odd(odd: int, unknown: int, lines: int, fine: bool) -> None:
    assert words.understood(odd, unknown, lines) is fine


def test_parts_not_understood_are_reported() -> None:
    unparsed = UnparsedCounts(
        whole=False,
        lines=1000,
        odd_lines=3,
        cut_lines=1,
        examples=("?",),
        unknown_calls=1,
        halves=2,
        endless=4,
    )
    text = " ".join(map(plain, words.not_understood(unparsed)))
    for part in (
        "is incomplete",
        "3 of 1,000 lines",
        "last line of the log was cut",
        "1 call with an unknown name",
        "2 calls without a recorded start",
        "4 calls without a recorded end",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("log", "trace"),
    [
        ("job.log", "job.trace"),
        ("job.log.gz", "job.trace"),
        ("job.log.4711", "job.trace"),
        ("job.log.4711.zst", "job.trace"),
        ("job", "job.trace"),
    ],
)
def test_the_trace_is_named_after_its_log(log: str, trace: str) -> None:
    assert trace_path_for(Path("some") / log) == Path("some") / trace


def test_a_trace_is_written_next_to_the_directory_of_its_recorder(tmp_path: Path) -> None:
    for left, trace in ((".job.trace.4711", "job.trace"), (".a.b.7", "a.trace"), ("logs", "logs.trace")):
        (tmp_path / left).mkdir()
        assert trace_path_for(tmp_path / left) == tmp_path / trace


def test_a_newer_profile_is_refused_and_an_older_lab_says_so() -> None:
    with pytest.raises(EngineError, match="install both from one release"):
        read(json.dumps(document(format="plimsoll.profile/2")))
    with pytest.raises(EngineError, match="was expected"):
        read(json.dumps(document(format="plimsoll.run/1")))
    with pytest.raises(EngineError, match="not valid JSON"):
        read("{")
    without = document()
    del without["totals"]
    with pytest.raises(EngineError, match="totals"):
        read(json.dumps(without))


def test_the_terminal_shows_findings_before_numbers_within_its_width() -> None:
    long = [file(f"/a/very/long/way/to/some/file/{at:03d}/" + "x" * 90, reads=at) for at in range(40)]
    lines = summary_lines(profile_document(*long).profile, 100, False)
    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    assert text.index("seeks are useless") < text.index("took") < text.index("Files") < text.index("Calls")
    assert "cp 'a file' b" in text
    assert "and 25 more" in text
    assert "2 kB of libc mapped" in text


def test_names_cannot_move_the_cursor() -> None:
    hostile = file("/tmp/\x1b[2J\u202ename", reads=1)
    text = "\n".join(summary_lines(profile_document(hostile).profile, 100, True))
    assert "\x1b[2J" not in text
    assert "\u202e" not in text


def test_a_long_name_keeps_its_end() -> None:
    assert tail("/a/b/c/name.root", 12) == "../name.root"
    assert tail("short", 12) == "short"


def test_every_process_is_in_the_tree_once_also_with_invalid_parents() -> None:
    processes = profile_document().profile.processes
    strange = [
        processes[0].model_copy(update={"pid": 1, "parent": 2}),
        processes[0].model_copy(update={"pid": 2, "parent": 0}),
        processes[0].model_copy(update={"pid": 3, "parent": 1}),
        processes[0].model_copy(update={"pid": 4, "parent": 0}),
    ]
    assert [(depth, each.pid) for depth, each in tree(strange)] == [(0, 1), (1, 2), (2, 3), (1, 4)]


def test_two_traces_side_by_side() -> None:
    a = profile_document(file("/same", reads=4), file("/only-a", reads=2), file("/more", reads=10)).profile
    b = profile_document(file("/same", reads=4), file("/more", reads=30), file("/only-b", writes=1)).profile
    totals, calls, files = comparison(a, b)
    assert ("reads", "40", "40", "1.00") in totals.rows
    assert ("read", "40", "40", "1.00") in calls.rows
    assert [row[-1] for row in files.rows] == ["/more", "/only-a", "/only-b"]
    assert files.rows[0][4] == "3.00"
    assert files.rows[2][4] == "only B"
    lines = comparison_lines(a, b, ("a.trace", "b.trace"), 100, False)
    assert max(map(len, lines)) <= 100


def test_files_of_figures_have_distinct_names_and_stay_in_their_directory() -> None:
    names = ["/a/../../x", "/b/x", "/a/" + "é" * 300, ".."]
    keys = [key(name) for name in names]
    assert len(set(keys)) == len(names)
    assert all("/" not in key and not key.startswith(".") and len(key) < 60 for key in keys)


def test_titles_of_figures_state_that_requests_are_binned() -> None:
    profile = profile_document(file("/few", reads=10, writes=2), file("/many", reads=10)).profile
    drawn = dict(charts(profile, pictures(picture("/few", 12), binned("/many", 10_000_000))))
    assert {"run", "files"} < set(drawn)
    titles = [chart.to_dict()["title"] for name, chart in drawn.items() if name.startswith("pattern")]
    assert [plain(title) for title in titles] == [
        "/few: 12 requests",
        "/many: binned, 10,000,000 requests in 40 × 40 cells",
    ]


def test_figures_place_requests_and_bins_in_seconds() -> None:
    """Requests of `picture` are 10 ms apart; bins of `binned` are 50 ms wide, halves of it where both were done."""
    profile = profile_document(file("/few", reads=10, writes=2), file("/many", reads=10)).profile
    drawn = dict(charts(profile, pictures(picture("/few", 12), binned("/many", 10_000_000))))
    rows = [
        chart.to_dict()["datasets"]["points"] for name, chart in drawn.items() if name.startswith("pattern")
    ]
    assert [row["t"] for row in rows[0]] == [at / 100 for at in range(12)]
    reads = [row for row in rows[1] if row["way"] == "read"]
    widths = [0.025 if at == 5 else 0.05 for at in range(40)]
    assert [row["t"] for row in reads] == pytest.approx([at * 0.05 for at in range(40)])
    assert [row["t2"] - row["t"] for row in reads] == pytest.approx(widths)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/python3", "-I", "/home/analysis.py", "x"], "python3 analysis.py"),
        (["git", "clone", "-q", "a"], "git clone"),
        (["true"], "true"),
        ([], "cp"),
    ],
)
def test_the_name_of_a_run_has_two_words(command: list[str], name: str) -> None:
    source = document()["source"] | {"command": command}
    assert words.name(profile_document(source=source).profile) == name
