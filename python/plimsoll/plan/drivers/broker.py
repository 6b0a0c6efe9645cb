"""The driver `broker`: jobs for which a broker chooses sites."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import Field

from plimsoll.plan.drivers.common import Connection
from plimsoll.plan.drivers.driver import Context, Driver, Requests
from plimsoll.plan.model.cell import Json
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Duration, PlainText, Raw
from plimsoll.plan.source.units import NS

MAX_SHORT: Final = 2**16 - 1
_NUMBERS: Final = {"vo": (0, MAX_SHORT), "group": (0, MAX_SHORT), "cpus": (1, 1_000_000)}
"""The least and the greatest value of each number of a job."""
_NUMBER: Final = re.compile(r"[0-9]{1,10}")


class BrokerSection(Raw):
    """Jobs for which a broker chooses sites. A number of a job is constant, or a text with a value."""

    vo: PlainText = "0"
    group: PlainText = "0"
    cpus: PlainText = "1"
    runtime: Annotated[Duration, Field(ge=NS["ms"], le=7 * NS["d"])] = 60 * NS["s"]
    connection: Connection = "kept"


def _broker_settings(section: BrokerSection, at: KeyPath, context: Context) -> dict[str, Json]:
    return {"connection": section.connection}


def _broker_requests(section: BrokerSection, at: KeyPath, context: Context) -> Requests:
    for key, (least, most) in _NUMBERS.items():
        text: str = getattr(section, key)
        if "{" not in text and not (_NUMBER.fullmatch(text) and least <= int(text) <= most):
            context.wrong(
                (*at, key),
                f'expected a number from {least} to {most:,}, or a value such as "{{{key}}}", got "{text}"',
            )
    request: dict[str, Json] = {key: getattr(section, key) for key in _NUMBERS}
    return [("decide", {**request, "runtime_ms": round(section.runtime / NS["ms"])})]


BROKER = Driver(
    BrokerSection, frozenset({"connection"}), ("broker", "http"), _broker_settings, _broker_requests
)
