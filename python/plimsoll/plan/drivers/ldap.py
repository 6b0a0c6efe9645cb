"""The driver `ldap`: searches in a directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from plimsoll.plan.drivers.common import ClientTls, Connection, client_tls_settings, tls_files
from plimsoll.plan.drivers.driver import Context, Driver, Requests
from plimsoll.plan.drivers.source_addresses import KEY, SourceAddresses, source_settings
from plimsoll.plan.model.cell import Json, Operation
from plimsoll.plan.queries.database_url import password
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Count, Duration, PlainText, Raw, Text
from plimsoll.plan.source.units import NS

MAX_LIMIT = 2**31 - 1
"""The largest limit of a search (RFC 4511, maxInt)."""
Limit = Annotated[int, Field(ge=0, le=MAX_LIMIT)]


class SimpleBind(Raw):
    """A name and a password."""

    dn: PlainText
    password: Text


class LdapSection(Raw):
    """Searches in an LDAP directory."""

    base: Text = ""
    scope: Literal["base", "one", "sub"] = "sub"
    filter: Text = "(objectClass=*)"
    attributes: list[PlainText] = Field(default_factory=list)
    size_limit: Limit = 0
    time_limit: Duration = 0
    page_size: Count | None = None
    expect_entries: Annotated[int, Field(ge=0)] | None = None
    bind: Literal["anonymous", "external"] | SimpleBind = "anonymous"
    connection: Connection = "kept"
    start_tls: bool = False
    tls: ClientTls | None = None
    source_addresses: SourceAddresses | None = None


def _bind(section: LdapSection, at: KeyPath, context: Context) -> dict[str, Json]:
    if not isinstance(section.bind, SimpleBind):
        return {"kind": section.bind}
    secret = password(section.bind.password, (*at, "password"), context)
    return {"kind": "simple", "dn": section.bind.dn, "password": secret or ""}


def _ldap_settings(section: LdapSection, at: KeyPath, context: Context) -> dict[str, Json]:
    return {
        "connection": section.connection,
        "bind": _bind(section, (*at, "bind"), context),
        "start_tls": section.start_tls,
        "tls": None
        if section.tls is None
        else client_tls_settings(section.tls, (*at, "tls"), context, is_made=True),
        **source_settings(section.source_addresses, at, context),
    }


def _ldap_requests(section: LdapSection, at: KeyPath, context: Context) -> Requests:
    text = section.filter
    if isinstance(text, str) and not (text.startswith("(") and text.endswith(")")):
        context.wrong(
            (*at, "filter"), f'expected a filter in parentheses, such as (objectClass=*), got "{text}"'
        )
    if section.time_limit % NS["s"] or section.time_limit > MAX_LIMIT * NS["s"]:
        context.wrong((*at, "time_limit"), "LDAP limits the time in whole seconds: give a value such as 5s")
    request: dict[str, Json] = {
        "base": section.base,
        "scope": section.scope,
        "filter": section.filter,
        "attributes": list(section.attributes),
        "size_limit": section.size_limit,
        "time_limit_s": section.time_limit // NS["s"],
        "page_size": section.page_size,
        "expect_entries": section.expect_entries,
    }
    return [("search", request)]


def _files(settings: Mapping[str, Any], operations: Sequence[Operation]) -> Iterator[str]:
    yield from tls_files(settings)


LDAP = Driver(
    LdapSection,
    frozenset({"bind", "connection", "start_tls", "tls", KEY}),
    ("ldap", "ldaps"),
    _ldap_settings,
    _ldap_requests,
    files=_files,
)
