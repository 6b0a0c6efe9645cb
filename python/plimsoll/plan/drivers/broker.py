"""The driver `broker`: jobs for which a broker chooses sites."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from plimsoll.plan.drivers.common import ClientTls, Connection, client_tls_settings, tls_files
from plimsoll.plan.drivers.driver import Context, Driver, Requests
from plimsoll.plan.drivers.source_addresses import KEY, SourceAddresses, source_settings
from plimsoll.plan.model.cell import Json, Operation
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
    tls: ClientTls | None = None
    source_addresses: SourceAddresses | None = None


def _broker_settings(section: BrokerSection, at: KeyPath, context: Context) -> dict[str, Json]:
    return {
        "connection": section.connection,
        "tls": None
        if section.tls is None
        else client_tls_settings(section.tls, (*at, "tls"), context, is_made=True),
        **source_settings(section.source_addresses, at, context),
    }


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


def _files(settings: Mapping[str, Any], operations: Sequence[Operation]) -> Iterator[str]:
    yield from tls_files(settings)


BROKER = Driver(
    BrokerSection,
    frozenset({"connection", "tls", KEY}),
    ("broker", "brokers", "http", "https"),
    _broker_settings,
    _broker_requests,
    files=_files,
)
