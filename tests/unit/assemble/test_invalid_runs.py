"""Experiments whose invalid runs cannot be repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll.assemble.adaptive.invalid_runs import invalid_runs
from plimsoll.errors import BadInput
from plimsoll.plan import make_plan, parse_experiment

FILE = """
plimsoll: 1
name: adaptive
workload: {driver: http, target: "http://127.0.0.1:1/"}
"""
UNTIL = "run: {duration: 5s}\nload: {testers: 2}\ndesign: {repetitions: {until: {throughput: 10%}, at_least: 5}}\n"
SEARCH = "search: {axis: load.rate, from: 10/s, to: 1000/s, goals: {few: {errors: rate<1%}}}\n"


@pytest.mark.parametrize(("text", "name"), [(UNTIL, "repetitions: {until: ...}"), (SEARCH, "a search")])
def test_runs_that_follow_from_earlier_ones_are_not_repeated(text: str, name: str, tmp_path: Path) -> None:
    plan = make_plan(parse_experiment(FILE + text, "x.yaml", tmp_path, (), {}), 1)
    with pytest.raises(BadInput, match="follow from the runs before them") as refusal:
        invalid_runs(plan, tmp_path)
    assert name in str(refusal.value)
