"""Options whose values have units."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

from plimsoll.plan.source import units

Value = TypeVar("Value")


def quantity(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """Makes `parse` usable as a `type` of argparse: its UnitError becomes the message of the option."""

    def read(text: str) -> Value:
        try:
            return parse(text)
        except units.UnitError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read
