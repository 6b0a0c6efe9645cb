"""Batches: each query of a request has its own values.

The engine draws a value once for each request, and uses it everywhere in the request. For a batch, every generator is
therefore copied for each position. Copies of random generators draw one after the other from the tester's sequence.
Copies of lists that are used in turn contain every N-th item, so that together they go through the list like one
generator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import Final, TypeVar

from plimsoll.plan.model.cell import Generator, Operation

_PLACE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_Item = TypeVar("_Item")


def apart(
    operations: Sequence[Operation], values: Mapping[str, Generator]
) -> tuple[tuple[Operation, ...], dict[str, Generator]]:
    """Operations in which each query of a batch has its own values, and the generators with the copies for them."""
    all_values: dict[str, Generator] = dict(values)
    return tuple(_operation(operation, values, all_values) for operation in operations), all_values


def _operation(
    operation: Operation, values: Mapping[str, Generator], all_values: dict[str, Generator]
) -> Operation:
    texts = operation.request.get("queries")
    if not isinstance(texts, list) or len(texts) < 2:
        return operation
    count = len(texts)

    def numbered(text: str, position: int) -> str:
        def replacement(match: re.Match[str]) -> str:
            if match[1] not in values:
                return match[0]
            name = f"{match[1]}__{count}_{position + 1}"
            all_values.setdefault(name, _copy_for_position(values[match[1]], position, count))
            return f"{{{name}}}"

        return _PLACE.sub(replacement, text)

    queries = [numbered(text, position) for position, text in enumerate(texts)]
    return replace(operation, request={**operation.request, "queries": queries})


def _copy_for_position(values: Generator, position: int, count: int) -> Generator:
    if values.kind == "recorded":
        return replace(values, sequence=_every_nth(values.sequence, position, count))
    if values.kind == "list" and values.order == "round-robin":
        return replace(values, items=_every_nth(values.items, position, count))
    return values


def _every_nth(items: tuple[_Item, ...], position: int, count: int) -> tuple[_Item, ...]:
    """Items position, position + count, ... of the endless repetition of `items`, one full period of them."""
    length = len(items)
    turns = length // gcd(length, count) if length else 0
    return tuple(items[(turn * count + position) % length] for turn in range(turns))
