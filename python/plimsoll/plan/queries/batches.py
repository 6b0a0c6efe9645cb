"""Several queries in one request: each draws its values apart.

The engine draws a value once for each request, so that it is the same wherever it stands in it. For a batch every
generator is therefore copied for each position. Copies of random generators draw on, one after the other, from the
tester's sequence; copies of lists that are taken in turn hold every N-th item, so that all together go through the list
as one would.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import Final, TypeVar

from plimsoll.plan.model import Generator, Operation

_PLACE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_Item = TypeVar("_Item")


def apart(
    operations: Sequence[Operation], values: Mapping[str, Generator]
) -> tuple[tuple[Operation, ...], dict[str, Generator]]:
    """Operations whose batches draw their values apart, and the values with the copies for them."""
    made: dict[str, Generator] = dict(values)
    return tuple(_operation(one, values, made) for one in operations), made


def _operation(
    operation: Operation, values: Mapping[str, Generator], made: dict[str, Generator]
) -> Operation:
    texts = operation.request.get("queries")
    if not isinstance(texts, list) or len(texts) < 2:
        return operation
    count = len(texts)

    def numbered(text: str, position: int) -> str:
        def place(match: re.Match[str]) -> str:
            if match[1] not in values:
                return match[0]
            name = f"{match[1]}__{count}_{position + 1}"
            made.setdefault(name, _copy(values[match[1]], position, count))
            return f"{{{name}}}"

        return _PLACE.sub(place, text)

    queries = [numbered(text, position) for position, text in enumerate(texts)]
    return replace(operation, request={**operation.request, "queries": queries})


def _copy(values: Generator, position: int, count: int) -> Generator:
    if values.kind == "recorded":
        return replace(values, sequence=_every(values.sequence, position, count))
    if values.kind == "list" and values.order == "round-robin":
        return replace(values, items=_every(values.items, position, count))
    return values


def _every(items: tuple[_Item, ...], position: int, count: int) -> tuple[_Item, ...]:
    """Items position, position + count, ... of the endless repetition of `items`, up to where they begin again."""
    length = len(items)
    turns = length // gcd(length, count) if length else 0
    return tuple(items[(turn * count + position) % length] for turn in range(turns))
