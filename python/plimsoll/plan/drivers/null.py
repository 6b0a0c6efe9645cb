"""The driver `null`: does nothing."""

from __future__ import annotations

from typing import Any

from plimsoll.plan.drivers.driver import Context, Driver, Requests
from plimsoll.plan.model.cell import Json
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Raw


class NullSection(Raw):
    """Sends no requests: measures the cost of the tool itself."""


def _nothing(section: Any, at: KeyPath, context: Context) -> dict[str, Json]:
    return {}


def _null_requests(section: Any, at: KeyPath, context: Context) -> Requests:
    return [("null", {})]


NULL = Driver(NullSection, frozenset(), (), _nothing, _null_requests)
