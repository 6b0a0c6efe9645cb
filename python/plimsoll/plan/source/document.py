"""YAML text to plain data with the line of every key.

The format is YAML 1.2, which includes JSON: only `true` and `false` are booleans, `yes`, `on` and dates are strings,
keys are always strings. This module reads the node graph itself. The constructors of the library do not provide all
of these: the line of every key and item, an error for duplicate keys, and a limit on the size of expanded aliases.
No text of a file can create an object of a Python type.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.scanner import Scanner, ScannerError

from plimsoll.errors import BadInput, Problem

MAX_TEXT: Final = 1_000_000
"""Maximum length of an experiment file, characters."""
MAX_NODES: Final = 100_000
"""Maximum number of values in a file after aliases are expanded: a file of 1 kB must not fill the memory."""
DEEPEST: Final = 40

KeyPath = tuple[str | int, ...]
"""The path of a value: keys of mappings and indexes of lists, from the root."""

_INT: Final = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL: Final = re.compile(r"0o([0-7]+)\Z")
_HEX: Final = re.compile(r"0x([0-9a-fA-F]+)\Z")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_STR_TAG: Final = "tag:yaml.org,2002:str"
_CORE_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp", "merge", "value")
)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: plain data, and the line (from 1) of each of its values by path."""

    data: Any
    name: str
    text: str = field(repr=False)
    lines: Mapping[KeyPath, int] = field(repr=False)
    parts: Mapping[KeyPath, Document] = field(default_factory=dict, repr=False)
    """Documents of other files, by the path of the value that each replaces."""

    def place(self, path: KeyPath) -> tuple[str, int | None]:
        """File and line of a value."""
        for at, part in self.parts.items():
            if path[: len(at)] == at:
                return part.place(path[len(at) :])
        return self.name, self.line(path)

    def line(self, path: KeyPath) -> int | None:
        """The line of the value, or of the nearest enclosing value in the file."""
        for length in range(len(path), -1, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return line
        return None


def dotted(path: KeyPath) -> str:
    """The path as text: "workloads.readers.load.rate", "thresholds.0.test"."""
    return ".".join(str(part) for part in path)


def parse_document(text: str, name: str) -> Document:
    """Parses a YAML or JSON text. `name`: of the file in messages. Raises BadInput with file and line."""
    if len(text) > MAX_TEXT:
        raise _bad(
            name,
            None,
            f"the file is longer than {MAX_TEXT:,} characters: move data into separate files",
        )
    if name.endswith(".json"):
        text = text.replace(
            "\t", " "
        )  # white space in JSON, but not in YAML; a JSON string cannot contain it
    node = _compose(text, name)
    if node is None:
        raise _bad(name, None, "the file is empty: `plimsoll init` writes a template")
    walker = _Walker(name)
    data = walker.value(node, (), 0)
    if walker.problems:
        raise BadInput(walker.problems)
    return Document(data, name, text, walker.lines)


def parse_value(text: str) -> Any:
    """The value of `--set path=value`, read as in a file ("4", "30s", "[1, 2]"). Raises BadInput."""
    if not text.strip():
        return ""
    return parse_document(text, "").data


def plain_scalar(text: str) -> Any:
    """The value of an unquoted scalar in YAML 1.2: None, True, False, a number, otherwise the text itself."""
    if text in ("", "~", "null"):
        return None
    if text in ("true", "false"):
        return text == "true"
    if _INT.match(text):
        return int(text) if len(text) <= 20 else text
    if match := _OCTAL.match(text):
        return int(match[1], 8) if len(text) <= 20 else text
    if match := _HEX.match(text):
        return int(match[1], 16) if len(text) <= 20 else text
    if _FLOAT.match(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text


def _bad(name: str, line: int | None, message: str) -> BadInput:
    return BadInput([Problem(message, file=name, line=line)])


class _BoundedScanner(Scanner):
    """The scanner of the library, which refuses deep nesting before it searches all open brackets for a key."""

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: N803 (name of the library)
        if self.flow_level > DEEPEST:
            problem = f"nested deeper than {DEEPEST} levels"
            raise ScannerError(None, None, problem, self.reader.get_mark())
        super().fetch_flow_collection_start(TokenClass, to_push)


def _compose(text: str, name: str) -> Node | None:
    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = _BoundedScanner
    try:
        nodes = yaml.compose_all(io.StringIO(text))
        first = next(nodes, None)
        if first is not None and next(nodes, None) is not None:
            raise _bad(
                name,
                None,
                'the file contains several YAML documents: remove "---", and write one experiment per file',
            )
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(part for part in (error.context, error.problem) if part) or "syntax error"
        line = None if mark is None else mark.line + 1
        around = text.split("\n")[max(0, line - 2) : line] if line is not None else []
        advice = _advice(reason, around[-1] if around else "", around[0] if len(around) > 1 else "")
        raise _bad(name, line, f"invalid YAML: {reason}{advice}") from None
    except (YAMLError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else "syntax error"
        raise _bad(name, None, f"invalid YAML: {reason}") from None
    except RecursionError:
        raise _bad(name, None, f"the file is nested deeper than {DEEPEST} levels") from None
    return first


def _advice(reason: str, line: str, before: str) -> str:
    if "${" in line:
        return " (${...} inside { } or [ ] needs quotes)"
    if "mapping values are not allowed" in reason and _indent(line) > _indent(before) and ": " in before:
        return " (this line is indented deeper than the line before it, which already has a value)"
    if "mapping values are not allowed" in reason:
        return " (a string with a colon in it needs quotes)"
    if "found character" in reason and "'\\t'" in reason:
        return " (indent with spaces, not with tabs)"
    if "cannot start any token" in reason:
        return " (a string that begins with this character needs quotes)"
    return ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


class _Walker:
    """Creates plain data from the nodes of one document, and collects lines and problems."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self.count = 0

    def value(self, node: Node, path: KeyPath, depth: int) -> Any:
        self.count += 1
        line = node.start_mark.line + 1
        if self.count > MAX_NODES:
            raise _bad(
                self.name,
                line,
                f"the file contains more than {MAX_NODES:,} values (with aliases expanded)",
            )
        if depth > DEEPEST:
            raise _bad(self.name, line, f"nested deeper than {DEEPEST} levels (or an alias refers to itself)")
        self.lines.setdefault(path, line)
        tag = str(node.tag or "")
        if tag and tag not in _CORE_TAGS:
            self._problem(line, path, f'the tag "{tag}" is not supported: leave it out')
        if isinstance(node, ScalarNode):
            return self._scalar(node, tag)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, index), depth + 1) for index, item in enumerate(node.value)]
        if isinstance(node, MappingNode):
            return self._mapping(node, path, depth)
        raise _bad(self.name, line, "invalid YAML: unknown kind of node")

    @staticmethod
    def _scalar(node: ScalarNode, tag: str) -> Any:
        text = str(node.value)
        if node.style in ("'", '"', "|", ">"):
            return text
        value = plain_scalar(text)
        return (
            text if tag == _STR_TAG and not isinstance(value, float) else value
        )  # "1e3" is a number to YAML 1.2

    def _mapping(self, node: MappingNode, path: KeyPath, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        first_at: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                self._problem(line, path, "a key must be a plain string")
                continue
            key = str(key_node.value)
            if key == "<<" and key_node.style is None:
                self._problem(
                    line, path, 'merge keys ("<<") are not supported in YAML 1.2: write the keys out'
                )
                continue
            if key in mapping:
                self._problem(line, (*path, key), f"duplicate key, first in line {first_at[key]}")
                continue
            first_at[key] = line
            self.lines[(*path, key)] = line
            mapping[key] = self.value(value_node, (*path, key), depth + 1)
        return mapping

    def _problem(self, line: int, path: KeyPath, message: str) -> None:
        self.problems.append(Problem(message, dotted(path), self.name, line))
