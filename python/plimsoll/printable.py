"""Text from outside (hosts, servers, files), made fit for a terminal."""

from __future__ import annotations

import re
from typing import Final

NARROW_SPACE: Final = "\u202f"
"""Our own, between a number and its unit."""
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """One line, without control characters or marks that turn the direction of text: each becomes its `\\x1b`."""
    return _UNFIT.sub(_shown, text)


def printable_lines(text: str) -> str:
    """As `printable`, line by line."""
    return "\n".join(map(printable, text.split("\n")))


def _shown(match: re.Match[str]) -> str:
    if match[0] == NARROW_SPACE:
        return match[0]
    return " " if match[0] in "\n\t" else f"\\x{ord(match[0]):02x}"
