"""Reads a results directory. The values are those that `drive` and the engine wrote; nothing is computed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from plimsoll.deploy.perf.stacks import Profile, parse_folded
from plimsoll.errors import DamagedResults

READABLE = {
    "plimsoll.plan": 1,
    "plimsoll.run-record": 1,
    "plimsoll.environment": 1,
    "plimsoll.baseline": 1,
    "plimsoll.summary": 1,
    "plimsoll.live": 1,
    "plimsoll.transactions": 1,
    "plimsoll.samples": 1,
    "plimsoll.clock": 1,
    "plimsoll.clock-map": 1,
    "plimsoll.probes": 1,
    "plimsoll.metrics": 1,
    "plimsoll.analysis": 1,
    "plimsoll.counters": 1,
    "plimsoll.runs": 1,
    "plimsoll.suite": 1,
}
"""Formats and their greatest major version that this release reads."""


def require_readable(stated_format: object, name: str, path: Path) -> None:
    """Raises DamagedResults unless `stated_format` is "NAME/MAJOR" with a major version that this release reads."""
    kind, _, major = str(stated_format).partition("/")
    if kind != name or not major.isdigit():
        raise DamagedResults(f"{path}: not a {name} file (its format is {stated_format!r})")
    if int(major) > READABLE[name]:
        raise DamagedResults(
            f"{path}: its format is version {major} of {name}; this release reads up to version "
            f"{READABLE[name]}: use a newer Plimsoll"
        )


def read_json(path: Path, name: str) -> dict[str, Any]:
    """Reads a JSON file of Plimsoll; raises DamagedResults if it is missing, invalid or has a newer format."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DamagedResults(f"{path} is missing") from error
    except (OSError, ValueError) as error:
        raise DamagedResults(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise DamagedResults(f"{path}: expected a JSON object")
    require_readable(document.get("format"), name, path)
    return document


@dataclass(frozen=True)
class RunFiles:
    """The files of one run. `record` is the content of run.json."""

    id: str
    path: Path
    record: dict[str, Any]

    @cached_property
    def summary(self) -> dict[str, Any] | None:
        """The content of summary.json; None if it does not exist."""
        path = self.path / "summary.json"
        return read_json(path, "plimsoll.summary") if path.exists() else None

    @property
    def transactions(self) -> Path | None:
        """Path of transactions.parquet; None if it does not exist."""
        path = self.path / "transactions.parquet"
        return path if path.exists() else None

    @property
    def samples(self) -> Path | None:
        """Path of samples.parquet; None if it does not exist."""
        path = self.path / "samples.parquet"
        return path if path.exists() else None

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The lines of events.jsonl, without a truncated last line."""
        return read_lines(self.path / "events.jsonl")

    def counters(self, service: str) -> list[dict[str, Any]]:
        """Readings of a service, `{"t": unix seconds, "values": {...}}`; empty if it has no counters."""
        path = self.path / "services" / service / "counters.jsonl"
        lines = read_lines(path)
        if lines:
            require_readable(lines[0].get("format"), "plimsoll.counters", path)
        return [line for line in lines if "values" in line]

    def gauges(self, service: str) -> frozenset[str]:
        """Names of the values of its readings that also decrease."""
        lines = read_lines(self.path / "services" / service / "counters.jsonl")
        return frozenset(name for line in lines if "format" in line for name in line.get("gauges", ()))

    def profile(self, service: str) -> Profile | None:
        """The samples of a service; None if it has no perf.folded. Raises DamagedResults."""
        path = self.path / "services" / service / "perf.folded"
        try:
            return parse_folded(path.read_text(encoding="utf-8", errors="replace"), str(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DamagedResults(f"{path} cannot be read: {error}") from error

    @cached_property
    def live(self) -> list[dict[str, Any]]:
        """The lines of live.jsonl without the first one, which contains the format."""
        lines = read_lines(self.path / "live.jsonl")
        if lines:
            require_readable(lines[0].get("format"), "plimsoll.live", self.path / "live.jsonl")
        return [line for line in lines if "second" in line]


@dataclass(frozen=True)
class Results:
    """A results directory."""

    path: Path
    plan: dict[str, Any]
    environment: dict[str, Any]
    experiment_text: str
    effective_text: str
    runs: tuple[RunFiles, ...]

    @property
    def planned(self) -> int:
        """Number of runs in the plan."""
        return len(self.plan["runs"])

    @property
    def complete(self) -> bool:
        """Whether every planned run has been carried out."""
        return len(self.runs) == self.planned


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file, one per line; empty if there is no file. Invalid lines are left out: a killed process
    leaves its last line incomplete."""
    objects = []
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            objects.append(value)
    return objects


def open_results(path: Path) -> Results:
    """Reads a results directory; raises DamagedResults if it is not a results directory or cannot be read."""
    if not path.is_dir():
        raise DamagedResults(f"{path} is not a directory")
    if not (path / "plan.json").exists():
        raise DamagedResults(f"{path} is not a results directory: it has no plan.json")
    plan = read_json(path / "plan.json", "plimsoll.plan")
    runs = []
    for planned in plan["runs"]:
        record = path / "runs" / planned["id"] / "run.json"
        if record.exists():
            runs.append(RunFiles(planned["id"], record.parent, read_json(record, "plimsoll.run-record")))
    return Results(
        path=path,
        plan=plan,
        environment=read_json(path / "environment.json", "plimsoll.environment"),
        experiment_text=_text(path / "experiment.yaml"),
        effective_text=_text(path / "effective.yaml"),
        runs=tuple(runs),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
