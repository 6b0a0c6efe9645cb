"""The context in which a cell is resolved. It collects problems and finds files, as `drivers.driver.Context`
describes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from plimsoll.errors import Problem
from plimsoll.plan.metrics.rules import Rule, RuleError, parse_rule
from plimsoll.plan.queries.access_line import LineFormat
from plimsoll.plan.queries.access_log import AccessLog, read_access_log
from plimsoll.plan.queries.request_log import RequestLog, read_request_log
from plimsoll.plan.schema.paths import Origins
from plimsoll.plan.schema.problems import translate
from plimsoll.plan.source.document import KeyPath, dotted
from plimsoll.plan.source.fields import Raw


def home_of(name: str) -> Path:
    """A path with `~` and `~user` expanded. If there is no such user, the path is not changed, and the missing file is
    reported."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def _as_in_file(path: KeyPath) -> KeyPath:
    """The path of an instance of a service, `services.web.2`, is that of the service in the file."""
    if len(path) > 1 and path[0] == "services" and isinstance(path[1], str):
        return ("services", path[1].partition(".")[0], *path[2:])
    return path


@dataclass(slots=True)
class ResolveContext:
    """Collects the problems of one cell. `written`: texts of the file, by path, for values of the environment;
    `directory`: where relative file names are looked up."""

    origins: Origins
    written: Mapping[KeyPath, str]
    directory: Path
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, path: KeyPath, message: str, near: str | None = None) -> None:
        """Reports a problem at a path."""
        path = _as_in_file(path)
        file, line = self.origins.place(path)
        problem = Problem(message, dotted(path), file, line, self.written.get(path), near)
        if problem not in self.problems:
            self.problems.append(problem)

    def invalid(self, error: ValidationError, tree: Any, kind: type[Raw], path: KeyPath) -> None:
        """Reports the problems of a section that is validated separately."""
        self.problems += translate(error, tree, self.origins, self.written, kind, path)

    def file(self, name: str, path: KeyPath) -> str:
        """Absolute path of a file or directory, which must exist. A relative path is looked up in `directory`."""
        full = self.beside(name)
        if not Path(full).exists():
            self.wrong(path, f"there is no file {self.written.get(path, full)}")
        return full

    def beside(self, name: str) -> str:
        """Absolute path of a file or directory, which need not exist."""
        return str(self.directory / home_of(name))

    def as_written(self, path: KeyPath, value: str) -> str:
        """The value, or its text in the file if it came from the environment."""
        return self.written.get(path, value)

    def lines(self, name: str, path: KeyPath, largest: int = 50_000_000) -> tuple[str, ...]:
        """The lines of a text file, without empty lines at the end. Reports a file that has none, that cannot be read,
        or that has more than `largest` bytes."""
        full = Path(self.file(name, path))
        try:
            if full.is_file() and full.stat().st_size > largest:
                self.wrong(path, f"{name} is larger than {largest:,} bytes")
                return ()
            lines = full.read_text(encoding="utf-8").rstrip("\n").split("\n") if full.is_file() else []
        except (OSError, UnicodeDecodeError) as error:
            self.wrong(path, f"{name} cannot be read: {error}")
            return ()
        if full.exists() and (not lines or lines == [""]):
            self.wrong(path, f"{name} has no lines")
        return tuple(lines)

    def request_log(self, name: str, path: KeyPath) -> RequestLog | None:
        """The Frontier requests of a log; None if it contains none or cannot be read, which is reported."""
        full = Path(self.file(name, path))
        if not full.is_file():
            return None
        shown_name = self.written.get(path, name)
        try:
            log = read_request_log(full)
        except (OSError, EOFError, zlib.error) as error:
            self.wrong(path, f"{shown_name} cannot be read: {error}")
            return None
        if not log.queries:
            self.wrong(path, f"the log contains no Frontier request: {log.remark(shown_name)}")
            return None
        return log

    def access_log(self, name: str, path: KeyPath, form: LineFormat, max_objects: int) -> AccessLog | None:
        """The GET and HEAD requests of a log; None if it contains none or cannot be read, which is reported."""
        full = Path(self.file(name, path))
        if not full.is_file():
            return None
        shown_name = self.written.get(path, name)
        try:
            log = read_access_log(full, form, max_objects)
        except OSError as error:
            self.wrong(path, f"{shown_name} cannot be read: {error}")
            return None
        if not log.start_ns:
            self.wrong(path, f"the log contains no GET or HEAD request: {log.counts.remark(shown_name)}")
            return None
        return log

    def rule(self, text: str, metric: str, path: KeyPath) -> Rule | None:
        """A rule on a metric, such as "p(95)<500ms"; None if it is invalid, which is reported."""
        try:
            return parse_rule(text, metric)
        except RuleError as error:
            self.wrong(path, str(error))
            return None
