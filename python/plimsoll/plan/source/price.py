"""Prices per hour, such as `0.20 EUR/h`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import PlainSerializer, WithJsonSchema
from pydantic.functional_validators import PlainValidator

from plimsoll.plan.source.fields import shown
from plimsoll.plan.source.units import UnitError

PRICE_LIKE: Final = "a price is written like 0.20 EUR/h, with the code of a currency in three capital letters"
PRICE_PATTERN: Final = r"^\s*[0-9]*\.?[0-9]+\s*[A-Z]{3}\s*/\s*h\s*$"
MAX_PRICE: Final = 1e6
"""A higher price per hour is a mistake."""
_PRICE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([A-Z]{3})\s*/\s*h\s*")


@dataclass(frozen=True, slots=True)
class Price:
    """What a component costs in one hour. `currency`: its code in ISO 4217."""

    per_hour: float
    currency: str

    def __str__(self) -> str:
        text = f"{self.per_hour:.6f}".rstrip("0").rstrip(".")
        return f"{text} {self.currency}/h"


def parse_price(value: object) -> Price:
    """The price "0.20 EUR/h". From 0 to MAX_PRICE, to a millionth. Raises UnitError."""
    match = _PRICE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise UnitError(f"{shown(value)} is not a price per hour: {PRICE_LIKE}")
    per_hour = float(match[1])
    if per_hour > MAX_PRICE:
        raise UnitError(f"{shown(value)} is more than {MAX_PRICE:,.0f} {match[2]}/h")
    if 0 < per_hour < 1e-6:
        raise UnitError(f"{shown(value)} is less than 0.000001 {match[2]}/h")
    return Price(round(per_hour, 6), match[2])


HourlyPrice = Annotated[
    Price,
    PlainValidator(parse_price),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": PRICE_PATTERN, "examples": ["0.20 EUR/h"]}),
]
"""What a component costs in one hour."""
