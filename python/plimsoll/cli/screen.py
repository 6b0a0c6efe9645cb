"""What is known of a terminal. Importing it takes no time: verbs that only show something start with it."""

from __future__ import annotations

import os
from typing import TextIO

WIDTH_WITHOUT_TERMINAL = 100


def wants_colour(stream: TextIO) -> bool:
    """A terminal, unless NO_COLOR says otherwise (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
