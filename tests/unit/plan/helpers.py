"""Small experiment files for the tests of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from plimsoll.errors import BadInput
from plimsoll.plan import Experiment, parse_experiment

BASE = """\
plimsoll: 1
name: small
services:
  web: {kind: echo}
workload:
  driver: http
  target: web
load: {testers: 1}
run: {duration: 1s}
"""


def load(
    text: str,
    sets: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    directory: Path = Path("/nowhere"),
) -> Experiment:
    """An experiment from text. Its file is x.yaml in messages."""
    return parse_experiment(text, "x.yaml", directory, sets, environ or {})


def problems(
    text: str,
    sets: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    directory: Path = Path("/nowhere"),
) -> list[str]:
    """The lines of the error message for an invalid file."""
    with pytest.raises(BadInput) as caught:
        load(text, sets, environ, directory)
    return str(caught.value).split("\n")


def alternatives(names: Iterable[str]) -> str:
    """The names as a message lists them: `a, b or c`."""
    *others, last = names
    return f"{', '.join(others)} or {last}"


def edited(old: str, new: str, text: str = BASE) -> str:
    """The small file with one thing changed."""
    assert old in text
    return text.replace(old, new)
