"""Differences between configurations, and which of them make results incomparable."""

from __future__ import annotations

from plimsoll.compare.configuration import ABSENT, differences, flat, gates, with_accepted

OLD = {
    "services": {"web": {"kind": "delay", "time": "2ms"}},
    "load": {"rate": "50/s"},
    "run": {"duration": "10s", "keep": "all"},
    "hosts": {"cpus": [0, 1]},
    "before_run": [],
}


def test_each_path_is_listed_with_both_values() -> None:
    new = {
        **OLD,
        "load": {"rate": "60/s", "think": "1s"},
        "services": {"web": {"kind": "delay", "time": "3ms"}},
    }
    found = {one.path: (one.old, one.new, one.is_gate) for one in differences(OLD, new, "b")}
    assert found == {
        "services.web.time": ("2ms", "3ms", False),
        "load.rate": ("50/s", "60/s", True),
        "load.think": (ABSENT, "1s", True),
    }


def test_lists_of_values_are_one_leaf_and_lists_of_mappings_are_not() -> None:
    assert flat({"a": [0, 1], "b": [{"c": 1}, {"c": None}], "d": {}}) == {
        "a": "[0, 1]",
        "b.0.c": "1",
        "b.1.c": "null",
        "d": "{}",
    }


def test_a_section_that_is_not_known_is_a_gate() -> None:
    assert gates(differences(OLD, {**OLD, "added_later": 1}, "b"))


def test_a_path_is_accepted_by_itself_or_by_its_beginning_and_is_listed_once() -> None:
    new = {**OLD, "load": {"rate": "60/s"}, "run": {"duration": "5s", "keep": "all"}}
    found = [*differences(OLD, new, "b"), *differences(OLD, new, "b")]
    assert [one.path for one in gates(with_accepted(found, ["load"]))] == ["run.duration"]
    assert [one.path for one in gates(with_accepted(found, ["load.rat"]))] == ["load.rate", "run.duration"]
    assert not gates(with_accepted(found, ["load.rate", "run"]))
