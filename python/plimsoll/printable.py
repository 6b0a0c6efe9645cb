"""Text from outside (hosts, servers, files) in a form that is safe in a terminal."""

from __future__ import annotations

import re
from typing import Final

NARROW_SPACE: Final = "\u202f"
"""The space that Plimsoll writes between a number and its unit."""
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text as one line. Control characters, and marks that change the direction of text, are escaped as `\\x1b`;
    line breaks and tabs become spaces."""
    return _UNFIT.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """The text with `printable` applied to each line."""
    return "\n".join(map(printable, text.split("\n")))


def _escaped(match: re.Match[str]) -> str:
    if match[0] == NARROW_SPACE:
        return match[0]
    return " " if match[0] in "\n\t" else f"\\x{ord(match[0]):02x}"
