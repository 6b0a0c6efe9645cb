"""A cache of results by the identity of the objects from which they were made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")
MISSING: Final = object()


class Memo:
    """Results by a name and the identity of their source objects. The objects must not be changed; the memo keeps them
    alive.

    The key is the identity, not equality: a comparison of sections would take as long as the work itself.
    """

    def __init__(self) -> None:
        self._results: dict[tuple[object, ...], tuple[Any, tuple[object, ...]]] = {}

    def get(
        self, name: str, of: tuple[object, ...], make: Callable[[], T], keep: Callable[[], bool] | None = None
    ) -> T:
        """The result `name` of these objects. If there is none, `make` creates it, and `keep` decides whether it is
        stored (default: always)."""
        result: T = self.known(name, of)
        if result is MISSING:
            result = make()
            if keep is None or keep():
                self.put(name, of, result)
        return result

    def known(self, name: str, of: tuple[object, ...]) -> Any:
        """The stored result, or MISSING."""
        return self._results.get((name, *map(id, of)), (MISSING,))[0]

    def put(self, name: str, of: tuple[object, ...], result: object) -> None:
        """Stores a result."""
        self._results[(name, *map(id, of))] = (result, of)
