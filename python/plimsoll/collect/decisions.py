"""Decisions on the runs of an experiment that does not know them in advance: trials.jsonl (docs/results.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from plimsoll.collect.files import read_lines, require_readable

NAME = "trials.jsonl"


def read_decisions(path: Path) -> list[dict[str, Any]]:
    """The lines of trials.jsonl after the first one, which contains the format; empty if there is no such file. Raises
    DamagedResults."""
    lines = read_lines(path / NAME)
    if lines:
        require_readable(lines[0].get("format"), "plimsoll.trials", path / NAME)
    return lines[1:]


def is_ended(decisions: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a search has its answer: no trial follows."""
    return any(decision.get("decision") == "end" for decision in decisions)


def due_runs(
    planned: Iterable[Mapping[str, Any]], decisions: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The planned runs without those that a decision to stop a cell left out: those of its later repetitions."""
    last: list[tuple[Mapping[str, str], int]] = [
        (decision["cell"], decision["before_repetition"])
        for decision in decisions
        if decision.get("decision") == "stop"
    ]
    return [
        dict(run)
        for run in planned
        if not any(run["cell"] == cell and run["repetition"] >= repetition for cell, repetition in last)
    ]
