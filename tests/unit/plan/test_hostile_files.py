"""Files damaged at random: the result is an experiment or BadInput, never another exception."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.unit.plan.test_design import ACCESS_METHODS

from plimsoll.errors import BadInput
from plimsoll.plan import make_plan, parse_experiment

ROOT = Path(__file__).parents[3]
SEEDS = [
    ACCESS_METHODS,
    *(path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.yaml"))),
]
WRONG: list[Any] = [
    None, True, 0, -1, 1, 1.5, 10**30, "", "x", "5", "5s", "10%", "1kB", "1/s", "${vars.a}", "${env:A}", "${", "a.b.c",
    [], {}, [[]], [1, 2], {"a": 1}, {"secret": "x"}, {"secret": 5}, {"path": "load.testers"}, ["1s", "2s"], "{}",
    "http://[", "null", "frontier", "sqlite", [None], {"": None}, "p(95)<5", {"uniform": [2, 1]}, "zip", "load",
]  # fmt: skip


def damaged(node: Any, dice: random.Random, depth: int = 0) -> Any:
    """A copy with something replaced, renamed, doubled or left out."""
    if dice.random() < 0.04 and depth:
        return dice.choice(WRONG)
    if isinstance(node, dict):
        copy = {}
        for key, value in node.items():
            roll = dice.random()
            if roll < 0.02:
                continue
            copy[key if roll > 0.05 else dice.choice([f"{key}x", key[:-1], key[::-1], "5"])] = damaged(
                value, dice, depth + 1
            )
        return copy
    if isinstance(node, list):
        return [damaged(item, dice, depth + 1) for item in node if dice.random() > 0.05]
    return node


def tried(text: str) -> str:
    try:
        experiment = parse_experiment(text, "x.yaml", ROOT / "examples", (), {"A": "b"})
        make_plan(experiment, 1).to_json()
        experiment.effective_yaml()
    except BadInput as error:
        return str(error)
    return ""


@pytest.mark.parametrize("number", range(len(SEEDS)))
def test_damaged_structure_is_accepted_or_rejected(number: int) -> None:
    whole = YAML(typ="safe", pure=True).load(SEEDS[number])
    refused = 0
    for seed in range(15):
        out = io.StringIO()
        YAML().dump(damaged(whole, random.Random(seed * 1000 + number)), out)
        message = tried(out.getvalue())
        refused += bool(message)
        assert not message or "x.yaml" in message
    assert refused > 2


@pytest.mark.parametrize("number", range(len(SEEDS)))
def test_damaged_text_is_accepted_or_rejected(number: int) -> None:
    text = SEEDS[number]
    for seed in range(10):
        dice = random.Random(seed * 1000 + number)
        letters = list(text)
        for _ in range(dice.randint(1, 6)):
            at = dice.randrange(len(letters))
            letters[at : at + dice.randint(0, 3)] = dice.choice(
                ["", "{", "[", ":", "\n", "\t", "'", "*", "&", "\x00", "é", "-"]
            )
        tried("".join(letters))


def test_truncated_text_is_accepted_or_rejected() -> None:
    for length in range(0, len(ACCESS_METHODS), 37):
        tried(ACCESS_METHODS[:length])
