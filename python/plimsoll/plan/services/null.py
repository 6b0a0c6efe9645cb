"""The service kind `null`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from plimsoll.plan.model.cell import Service
from plimsoll.plan.services.section import Addresses
from plimsoll.plan.services.stateless import StatelessSection
from plimsoll.plan.source.fields import PlainText


class NullService(StatelessSection):
    """Reads all input, and answers each line with `reply`, or does not answer."""

    kind: Literal["null"]
    reply: PlainText | None = None

    runs_in_engine: ClassVar[bool] = True

    def scheme(self) -> str:
        return "tcp"

    @staticmethod
    def engine_config(service: Service, addresses: Addresses) -> dict[str, Any]:
        return {"reply": service.settings["reply"] or None}
