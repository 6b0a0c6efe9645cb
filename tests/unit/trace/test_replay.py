"""What a replay has found, in words."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.trace.replay import Answer, in_words

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


def said(**document: Any) -> list[str]:
    """The lines, with plain spaces."""
    return in_words(Answer({"is_cut": False, **document})).replace("\u00a0", " ").splitlines()


def test_a_replay_is_held_against_the_untraced_program() -> None:
    assert said(replayed=REPLAYED) == [
        "1.200 s; as recorded 2.000 s, without the cost of tracing 1.000 s (0.900 to 1.100); "
        "the replay took 1.20 times that",
        "1 call by 2 threads; 0 B read, 4.1 kB written; 12,345 calls on ignored names",
        "All results are those of the trace.",
    ]


def test_what_was_mostly_tracing_is_a_range_and_what_is_aimed_at_is_said() -> None:
    untraced = {"low_s": 1.72, "middle_s": 1.88, "high_s": 3.49}
    slow = REPLAYED | {"wall_s": 2.52, "recorded_s": 5.6, "untraced_s": untraced, "planned_s": 2.5}
    first = (
        "2.520 s; as recorded 5.600 s, without the cost of tracing 1.720 to 3.490 s (tracing was most of it, "
        "so there is no single estimate)"
    )
    aim = "The replay is planned to take 2.500 s, longer than the program took without tracing: "
    timed = said(replayed=slow | {"timing": {"diff": {"scale": 1.0}}})
    assert timed[0] == first and timed[1].startswith(aim) and "--one-core" in timed[1]
    assert not said(replayed=slow | {"timing": "afap"})[1].startswith(aim)
    near = slow | {"timing": {"diff": {"scale": 1.0}}, "planned_s": 1.9}
    assert not said(replayed=near)[1].startswith(aim)


def test_what_is_refused_and_what_is_removed_is_named() -> None:
    refused = {
        "call": "fchown",
        "why": "what belongs to the system is not changed",
        "count": 116,
        "examples": [],
    }
    replayed = REPLAYED | {"is_faithful": False, "refusals": [refused]}
    assert said(replayed=replayed)[-1] == "refused: 116 x fchown: what belongs to the system is not changed"
    prepared = {"made": 0, "grown": 0, "bytes": 0, "removed": 3, "left": []}
    assert said(prepared=prepared) == ["Prepared: 0 created, 3 removed, 0 B."]


def test_differences_are_told_with_an_example_where_there_is_one() -> None:
    found = {"call": "read", "recorded": "ok", "got": "not open", "count": 1}
    replayed = REPLAYED | {
        "is_faithful": False,
        "mismatches": [
            found | {"examples": [{"path": "/data/in", "recorded": 0, "got": -1}]},
            found | {"examples": [{"path": "", "recorded": 0, "got": -1}]},
        ],
        "lost": 1,
        "waits": {"let_go": 2},
    }
    assert said(replayed=replayed)[2:] == [
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
def test_a_check_tells_causes(causes: list[dict[str, Any]], lines: list[str]) -> None:
    assert said(check={"events": 7, "causes": causes, "unexplained": 0, "examples": []}) == lines
