"""What resolving a cell reports problems to and finds files by: the one implementation of `drivers.driver.Context`."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from plimsoll.errors import Problem
from plimsoll.plan.metrics.rules import Rule, RuleError, parse_rule
from plimsoll.plan.queries.request_log import RequestLog, read_request_log
from plimsoll.plan.schema.paths import Origins
from plimsoll.plan.schema.problems import translate
from plimsoll.plan.source.document import KeyPath, dotted
from plimsoll.plan.source.fields import Raw


def home_of(name: str) -> Path:
    """A file's name with `~` and `~user` replaced; as it is where there is no such user, so that the file is missed."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


@dataclass(slots=True)
class ResolveContext:
    """Gathers the problems of one cell and knows where files lie. Serves as `drivers.Where`."""

    origins: Origins
    written: Mapping[KeyPath, str]
    directory: Path
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, path: KeyPath, message: str, near: str | None = None) -> None:
        """Reports a problem at a path."""
        file, line = self.origins.place(path)
        self.problems.append(Problem(message, dotted(path), file, line, self.written.get(path), near))

    def invalid(self, error: ValidationError, tree: Any, kind: type[Raw], path: KeyPath) -> None:
        """Reports the problems of a section that is checked apart."""
        self.problems += translate(error, tree, self.origins, self.written, kind, path)

    def file(self, name: str, path: KeyPath) -> str:
        """Absolute name of a file or directory that must exist; relative ones are beside the experiment
        file."""
        full = self.beside(name)
        if not Path(full).exists():
            self.wrong(path, f"there is no file {self.written.get(path, full)}")
        return full

    def beside(self, name: str) -> str:
        """Absolute name of what may not exist."""
        return str(self.directory / home_of(name))

    def as_written(self, path: KeyPath, value: str) -> str:
        """The value, or its text in the file if it came from the environment."""
        return self.written.get(path, value)

    def lines(self, name: str, path: KeyPath, largest: int = 50_000_000) -> tuple[str, ...]:
        """The lines of a text file, without empty ones at the end. At least one."""
        full = Path(self.file(name, path))
        try:
            if full.is_file() and full.stat().st_size > largest:
                self.wrong(path, f"{name} is larger than {largest:,} bytes")
                return ()
            found = full.read_text(encoding="utf-8").rstrip("\n").split("\n") if full.is_file() else []
        except (OSError, UnicodeDecodeError) as error:
            self.wrong(path, f"{name} cannot be read: {error}")
            return ()
        if full.exists() and (not found or found == [""]):
            self.wrong(path, f"{name} has no lines")
        return tuple(found)

    def request_log(self, name: str, path: KeyPath) -> RequestLog | None:
        """The Frontier requests of a log; None where it holds none, or cannot be read."""
        full = Path(self.file(name, path))
        if not full.is_file():
            return None
        shown_name = self.written.get(path, name)
        try:
            found = read_request_log(full)
        except (OSError, EOFError, zlib.error) as error:
            self.wrong(path, f"{shown_name} cannot be read: {error}")
            return None
        if not found.queries:
            self.wrong(path, f"the log contains no Frontier request: {found.remark(shown_name)}")
            return None
        return found

    def rule(self, text: str, metric: str, path: KeyPath) -> Rule | None:
        """A rule such as "p(95)<500ms" on a metric."""
        try:
            return parse_rule(text, metric)
        except RuleError as error:
            self.wrong(path, str(error))
            return None
