"""A table of text cells, as the page and the terminal show it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """Head of a column; numbers are right-aligned."""

    name: str
    numeric: bool = False

    @property
    def is_prose(self) -> bool:
        """Whether the cells are sentences, in which back-ticks mark code. In other cells they are part of a value,
        such as an SQL statement."""
        return self.name == "Why"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text cells under their heads. `note` is printed below."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def table_of(title: str, words: str, numbers: str, rows: Iterable[Iterable[str]], note: str = "") -> Table:
    """Heads separated by |: those of text columns, then those of numeric ones."""
    columns = [Column(name) for name in words.split("|") if name] + [
        Column(name, numeric=True) for name in numbers.split("|") if name
    ]
    return Table(title, tuple(columns), tuple(tuple(row) for row in rows), note)
