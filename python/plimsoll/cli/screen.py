"""Properties of the terminal. The module imports quickly, because verbs that only show something need it."""

from __future__ import annotations

import os
from typing import TextIO

WIDTH_WITHOUT_TERMINAL = 100


def wants_colour(stream: TextIO) -> bool:
    """Whether the stream is a terminal and NO_COLOR is not set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
