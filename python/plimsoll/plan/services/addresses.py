"""Addresses of other services in the texts of a service: `{NAME.url}` and similar."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.services.section import Services, check_order, find_service, kind_of
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.secret import Secret

PARTS: Final = ("url", "host", "port", "jdbc")
"""What a text can contain of another service. `jdbc`: the URL of a database for Java programs."""
ADDRESS: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*(?:\.[0-9]+)?)\.(" + "|".join(PARTS) + r")\}")


def services_in(
    texts: Iterable[str | Secret], name: str, services: Services, at: KeyPath, context: Context
) -> tuple[str, ...]:
    """The services whose addresses these texts of the service `name` contain, each once. Reports unknown services,
    those that start later, and addresses that a service does not have."""
    needs: dict[str, None] = {}
    for text in texts:
        for match in ADDRESS.finditer(text.reveal() if isinstance(text, Secret) else text):
            other = match[1]
            section = find_service(other, services, at, context)
            if section is None:
                continue
            check_order(name, other, services, at, context)
            needs[other] = None
            kind = kind_of(type(section))
            if match[2] == "jdbc" and section.database_kind is None:
                context.wrong(at, f"{match[0]}: {other} is a service of kind {kind}, not a database")
            if match[2] in ("host", "port") and not section.starts_process:
                context.wrong(at, f"{match[0]}: {other} is a service of kind {kind}, which has no address")
    return tuple(needs)
