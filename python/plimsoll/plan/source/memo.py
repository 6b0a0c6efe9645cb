"""Results remembered by the very objects that they were made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")
MISSING: Final = object()


class Memo:
    """Results by a name and the identity of what they were made from, which is never changed and is kept as long.

    By identity, not by equality: to compare sections would take as long as to work on them again.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], tuple[Any, tuple[object, ...]]] = {}

    def get(
        self, what: str, of: tuple[object, ...], make: Callable[[], T], keep: Callable[[], bool] | None = None
    ) -> T:
        """The result `what` of these objects, made if need be. `keep`: asked afterwards whether to remember it."""
        found: T = self.known(what, of)
        if found is MISSING:
            found = make()
            if keep is None or keep():
                self.put(what, of, found)
        return found

    def known(self, what: str, of: tuple[object, ...]) -> Any:
        """The result if there is one, else MISSING."""
        return self._found.get((what, *map(id, of)), (MISSING,))[0]

    def put(self, what: str, of: tuple[object, ...], result: object) -> None:
        """Remembers a result."""
        self._found[(what, *map(id, of))] = (result, of)
