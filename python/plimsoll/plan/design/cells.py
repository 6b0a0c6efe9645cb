"""The cells of a design: sets the levels of a cell in the file, and resolves it.

A design may have 100,000 cells, and most sections of the file are the same in all of them. Therefore levels are set in
a section once for every combination of the levels that change it, and results are cached by the identity of the section
(`Memo`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plimsoll.errors import Problem
from plimsoll.plan.design.factors import Factor
from plimsoll.plan.resolve.cell import FailedCell, ResolvedCell, resolve_cell
from plimsoll.plan.schema.paths import Origins, with_value
from plimsoll.plan.source.document import KeyPath, dotted
from plimsoll.plan.source.memo import Memo


@dataclass(frozen=True, slots=True)
class _Section:
    """A section in which levels are set. `moved`: path of a value in the tree -> its path in the file."""

    tree: Any
    moved: dict[KeyPath, KeyPath]
    problems: list[Problem]


class CellMaker:
    """Creates the cells of one experiment file."""

    def __init__(
        self,
        tree: Mapping[str, Any],
        factors: Sequence[Factor],
        origins: Origins,
        directory: Path,
        environ: Mapping[str, str],
    ) -> None:
        self.factors = factors
        self._tree = tree
        self._origins = origins
        self._directory = directory
        self._environ = environ
        self._memo = Memo()
        self._made: dict[tuple[str, tuple[str | None, ...]], _Section] = {}
        self._changing: dict[str, list[Factor]] = {}
        for factor in factors:
            for name in dict.fromkeys(
                str(setting.path[0]) for level in factor.levels for setting in level.settings
            ):
                self._changing.setdefault(name, []).append(factor)

    def cell(self, labels: Mapping[str, str]) -> ResolvedCell | FailedCell:
        """The cell with these levels, or its problems."""
        tree = dict(self._tree)
        moved: dict[KeyPath, KeyPath] = {}
        problems: list[Problem] = []
        for name in self._changing:
            section = self._section(name, labels)
            if section.moved:
                tree[name] = section.tree
                moved |= section.moved
                problems += section.problems
        if problems:
            return FailedCell(problems, None)
        origins = Origins(self._origins.document, {**self._origins.moved, **moved}, self._origins.set_options)
        return resolve_cell(tree, origins, self._directory, self._environ, self._memo)

    def _section(self, name: str, labels: Mapping[str, str]) -> _Section:
        factors = self._changing[name]
        key = (name, tuple(labels.get(factor.name) for factor in factors))
        if key not in self._made:
            self._made[key] = self._set(name, [factor for factor in factors if factor.name in labels], labels)
        return self._made[key]

    def _set(self, name: str, factors: Sequence[Factor], labels: Mapping[str, str]) -> _Section:
        tree: Mapping[str, Any] = {name: self._tree[name]} if name in self._tree else {}
        moved: dict[KeyPath, KeyPath] = {}
        by_whom: dict[KeyPath, str] = {}
        problems: list[Problem] = []
        for factor in factors:
            for setting in factor.level(labels[factor.name]).settings:
                if setting.path[0] != name:
                    continue
                for path, whose in by_whom.items():
                    if whose != factor.name and paths_overlap(path, setting.path):
                        file, line = self._origins.place(setting.written)
                        message = f"the factors {whose} and {factor.name} both set {dotted(setting.path)}"
                        problems.append(Problem(message, dotted(setting.written), file, line))
                tree = with_value(tree, setting.path, setting.value)
                moved[setting.path] = setting.written
                by_whom[setting.path] = factor.name
        return _Section(tree.get(name), moved, problems)


def paths_overlap(path: KeyPath, other: KeyPath) -> bool:
    """Whether one path is a prefix of the other."""
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter]
