"""Writes the results directory: names, atomic JSON, lines of events. `collect` reads these files.

Every JSON file is written under a temporary name, synced and renamed. So a reader finds the old file or the
new one, and a full disk never leaves an incomplete file under its final name.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from plimsoll.errors import BadInput, PlimsollError

RUN_RECORD = "plimsoll.run-record/1"
ENVIRONMENT = "plimsoll.environment/1"
BASELINE = "plimsoll.baseline/1"
BASELINE_FILE = "baseline.json"
BEFORE_RUNS = ("experiment.yaml", "effective.yaml", "plan.json", "environment.json", BASELINE_FILE)


def write_text(path: Path, text: str) -> None:
    """Writes `text` to `path` completely or not at all. Raises PlimsollError if the file cannot be
    written."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise PlimsollError(f"{path} could not be written: {error.strerror or error}") from error


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Writes a JSON document as `write_text` does."""
    write_text(path, f"{json_text(document)}\n")


def json_text(value: Any, indent: int = 0) -> str:
    """The value as JSON, an entry per line; a list of numbers is one line. Time series would otherwise be most of the
    lines of a file. Raises ValueError for a number that is not finite."""
    if isinstance(value, (list, tuple)) and not all(map(_is_number, value)):
        entries = [json_text(entry, indent + 1) for entry in value]
        start, end = "[]"
    elif isinstance(value, dict) and value:
        entries = [f"{_plain_json(str(key))}: {json_text(entry, indent + 1)}" for key, entry in value.items()]
        start, end = "{}"
    else:
        return _plain_json(value)
    separator = "\n" + " " * (indent + 1)
    return f"{start}{separator}{f',{separator}'.join(entries)}{separator[:-1]}{end}"


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, (int, float))


def _plain_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


class ResultsDirectory:
    """The directory NAME-YYYYmmddTHHMMSSZ, and the files that are written to it while an experiment runs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, parent: Path, name: str, now: datetime.datetime) -> ResultsDirectory:
        """Creates a new directory below `parent`, which is created if necessary. If a directory of the same
        second exists, a number is appended. Raises BadInput."""
        stamp = now.astimezone(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        base = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "experiment"
        try:
            parent.mkdir(parents=True, exist_ok=True)
            for number in range(1, 1000):
                path = parent / (f"{base}-{stamp}" if number == 1 else f"{base}-{stamp}-{number}")
                with contextlib.suppress(FileExistsError):
                    path.mkdir()
                    (path / "runs").mkdir()
                    return cls(path)
        except OSError as error:
            raise BadInput(f"--out {parent}: results cannot be written there: {error.strerror}") from error
        raise BadInput(
            f"--out {parent}: 1,000 results directories of the same second exist; another program may "
            f"start runs in a loop"
        )

    def point_latest(self) -> None:
        """Lets the link `latest` next to the directory point to it."""
        # The link is only for users at a shell, so a file system without links causes no error.
        link = self.path.parent / "latest"
        with contextlib.suppress(OSError):
            if link.is_symlink():
                link.unlink()
            link.symlink_to(self.path.name)

    def discard(self) -> None:
        """Removes the directory if it contains only files that are written before the first run."""
        with contextlib.suppress(OSError):
            (self.path / "runs").rmdir()
            for name in BEFORE_RUNS:
                (self.path / name).unlink(missing_ok=True)
            self.path.rmdir()

    def run(self, run_id: str) -> Path:
        """The directory of one run; created if necessary."""
        path = self.path / "runs" / run_id
        path.mkdir(parents=True, exist_ok=True)
        return path

    def clear_run(self, run_id: str) -> Path:
        """The directory of one run, empty. Files of an earlier attempt are set aside."""
        self.set_aside(run_id)
        return self.run(run_id)

    def set_aside(self, run_id: str) -> None:
        """Moves the files of a run to `abandoned`; they are never deleted."""
        path = self.path / "runs" / run_id
        if path.exists() and any(path.iterdir()):
            aside = self.path / "abandoned"
            aside.mkdir(exist_ok=True)
            path.rename(aside / f"{run_id}.{self.earlier_attempts(run_id) + 1}")

    def earlier_attempts(self, run_id: str) -> int:
        """How many earlier attempts of a run were set aside."""
        return sum(1 for _ in (self.path / "abandoned").glob(f"{run_id}.*"))

    def free_bytes(self) -> int:
        """The free space on the file system."""
        return shutil.disk_usage(self.path).free


class EventLog:
    """events.jsonl of one run. A full disk must not end a run, so failed writes are counted in `lost`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lost = 0
        try:
            path.touch()  # a run without events has an empty file, which differs from a lost file
        except OSError:
            self.lost += 1

    def add(self, t_s: float, kind: str, text: str) -> None:
        """Appends one line: seconds from the run's zero (negative before it), a word, a sentence."""
        line = json.dumps({"t_s": round(t_s, 3), "kind": kind, "text": text}, ensure_ascii=False)
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError:
            self.lost += 1
