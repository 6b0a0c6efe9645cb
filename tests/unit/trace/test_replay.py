"""The result of a replay as text."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.trace.replay import ReplayOutput, summary_text

NONE = {"count": 0, "p50_us": 0.0, "p99_us": 0.0, "max_us": 0.0}
REPLAYED: dict[str, Any] = {
    "stopped": False,
    "wall_s": 1.2,
    "recorded_s": 2.0,
    "untraced_s": {"low_s": 0.9, "middle_s": 1.0, "high_s": 1.1},
    "performed": 1,
    "threads": 2,
    "ignored": 12_345,
    "read_bytes": 0,
    "write_bytes": 4096,
    "lateness": NONE,
    "by_call": {},
    "is_faithful": True,
    "mismatches": [],
    "refusals": [],
    "lost": 0,
    "waits": {"let_go": 0},
}


def summary_lines(**document: Any) -> list[str]:
    """The lines, with plain spaces."""
    return summary_text(ReplayOutput({"is_cut": False, **document})).replace("\u00a0", " ").splitlines()


def test_a_replay_is_compared_with_the_untraced_program() -> None:
    assert summary_lines(replayed=REPLAYED) == [
        "1.200 s; as recorded 2.000 s, without the cost of tracing 1.000 s (0.900 to 1.100); "
        "the replay took 1.20 times that",
        "1 call by 2 threads; 0 B read, 4.1 kB written; 12,345 calls on ignored names",
        "All results are those of the trace.",
    ]


def test_mostly_tracing_is_a_range_and_a_long_plan_is_reported() -> None:
    untraced = {"low_s": 1.72, "middle_s": 1.88, "high_s": 3.49}
    slow = REPLAYED | {"wall_s": 2.52, "recorded_s": 5.6, "untraced_s": untraced, "planned_s": 2.5}
    first = (
        "2.520 s; as recorded 5.600 s, without the cost of tracing 1.720 to 3.490 s (tracing was most of it, "
        "so there is no single estimate)"
    )
    aim = "The replay is planned to take 2.500 s, longer than the program took without tracing: "
    timed = summary_lines(replayed=slow | {"timing": {"diff": {"scale": 1.0}}})
    assert timed[0] == first and timed[1].startswith(aim) and "--one-core" in timed[1]
    assert not summary_lines(replayed=slow | {"timing": "afap"})[1].startswith(aim)
    near = slow | {"timing": {"diff": {"scale": 1.0}}, "planned_s": 1.9}
    assert not summary_lines(replayed=near)[1].startswith(aim)


def test_refused_and_removed_files_are_named() -> None:
    refused = {
        "call": "fchown",
        "why": "what belongs to the system is not changed",
        "count": 116,
        "examples": [],
    }
    replayed = REPLAYED | {"is_faithful": False, "refusals": [refused]}
    assert (
        summary_lines(replayed=replayed)[-1]
        == "refused: 116 x fchown: what belongs to the system is not changed"
    )
    prepared = {"made": 0, "grown": 0, "bytes": 0, "removed": 3, "left": []}
    assert summary_lines(prepared=prepared) == ["Prepared: 0 created, 3 removed, 0 B."]


def test_differences_are_reported_with_an_example_if_there_is_one() -> None:
    mismatch = {"call": "read", "recorded": "ok", "got": "not open", "count": 1}
    replayed = REPLAYED | {
        "is_faithful": False,
        "mismatches": [
            mismatch | {"examples": [{"path": "/data/in", "recorded": 0, "got": -1}]},
            mismatch | {"examples": [{"path": "", "recorded": 0, "got": -1}]},
        ],
        "lost": 1,
        "waits": {"let_go": 2},
    }
    assert summary_lines(replayed=replayed)[2:] == [
        "differs: 1 x read: was ok, is not open (/data/in)",
        "differs: 1 x read: was ok, is not open",
        "1 call had no open file: the call that opens it failed, or was not recorded",
        "2 calls waited too long for other threads and continued without them",
    ]


@pytest.mark.parametrize(
    ("causes", "lines"),
    [
        ([], ["Nothing is missing: the directory is ready for 7 calls."]),
        (
            [{"path": "in", "what": "missing", "kind": "file", "size": 2000, "consequences": 3}],
            [
                "1 path must change before the replay:",
                "  in: missing (file, 2 kB); 3 more problems follow from it",
                "To create what is missing, use --prepare.",
            ],
        ),
    ],
)
def test_a_check_reports_causes(causes: list[dict[str, Any]], lines: list[str]) -> None:
    assert summary_lines(check={"events": 7, "causes": causes, "unexplained": 0, "examples": []}) == lines
