"""Structured results with their texts filled in: the sentences that stand beside codes and numbers in analysis.json."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.analyse.answer.brackets import bracket_text
from plimsoll.analyse.results import Saturation


def worded_saturation(found: Saturation) -> Saturation:
    """With `text`."""
    return replace(found, text=bracket_text(found))
