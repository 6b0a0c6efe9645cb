"""Reads a results directory. The values are those that `drive` and the engine wrote; nothing is computed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from plimsoll.collect.decisions import due_runs, is_ended, read_decisions
from plimsoll.collect.files import read_json, read_lines, require_readable
from plimsoll.deploy.perf.stacks import Profile, parse_folded
from plimsoll.errors import DamagedResults


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

    @cached_property
    def decisions(self) -> list[dict[str, Any]]:
        """The decisions on the runs of an experiment that does not know them in advance."""
        return read_decisions(self.path)

    @cached_property
    def due(self) -> list[dict[str, Any]]:
        """The runs of the plan, without those that a decision left out."""
        return due_runs(self.plan["runs"], self.decisions)

    @cached_property
    def controls(self) -> frozenset[str]:
        """Ids of the runs that only the comparison of a paired design uses: further runs of its old level."""
        return frozenset(run["id"] for run in self.plan["runs"] if run.get("control"))

    @cached_property
    def due_without_controls(self) -> list[dict[str, Any]]:
        """The runs of `due` that figures of the experiment include."""
        return [run for run in self.due if run["id"] not in self.controls]

    @property
    def planned(self) -> int:
        """Number of runs in the plan, without those that a decision left out."""
        return len(self.due)

    @property
    def complete(self) -> bool:
        """Whether every planned run has been carried out, and no further one is to be planned."""
        if self.plan.get("open_ended") and not is_ended(self.decisions):
            return False
        return {run["id"] for run in self.due} <= {run.id for run in self.runs}


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
