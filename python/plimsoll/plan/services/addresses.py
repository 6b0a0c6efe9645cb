"""Addresses of other services in the texts of a service: `{NAME.url}` and similar."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.services.section import Services, check_order, find_service, kind_of
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.secret import Secret

PARTS: Final = ("url", "host", "port", "path", "jdbc", "credentials")
"""What a text can contain of another service. `path`: of its URL. `jdbc`: the URL of a database for Java programs.
`credentials`: the directory of the certificates that the service makes for its clients."""
FILES: Final = "files"
"""The directory of the files of a GridFTP server, in its own directory. The path of its URL ends with it."""
CREDENTIALS: Final = "credentials"
"""The directory of its certificates, beside that of its files. So its path follows from the URL."""
ADDRESS: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*(?:\.[0-9]+)?)\.(" + "|".join(PARTS) + r")\}")


def services_in(
    texts: Iterable[str | Secret], name: str | None, services: Services, at: KeyPath, context: Context
) -> tuple[str, ...]:
    """The services whose addresses these texts of the service `name` contain, each once. None: texts of a workload,
    which starts after all services. Reports unknown services, those that start later, and addresses that a service does
    not have."""
    needs: dict[str, None] = {}
    for text in texts:
        for match in ADDRESS.finditer(text.reveal() if isinstance(text, Secret) else text):
            other = match[1]
            section = find_service(other, services, at, context)
            if section is None:
                continue
            if name is not None:
                check_order(name, other, services, at, context)
            needs[other] = None
            kind = kind_of(type(section))
            if match[2] == "jdbc" and section.database_kind is None:
                context.wrong(at, f"{match[0]}: {other} is a service of kind {kind}, not a database")
            if match[2] == "credentials" and not section.makes_credentials:
                context.wrong(
                    at,
                    f"{match[0]}: {other} makes no certificates "
                    "(`kind: gram`; `kind: gridftp` with `security: gsi`; `kind: slapd` with `tls`)",
                )
            if match[2] in ("host", "port") and not section.starts_process:
                context.wrong(at, f"{match[0]}: {other} is a service of kind {kind}, which has no address")
    return tuple(needs)
