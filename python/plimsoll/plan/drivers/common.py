"""Keys and checks of several drivers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model.cell import Json
from plimsoll.plan.queries.query import Query
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import PlainText, Raw
from plimsoll.plan.source.secret import HIDDEN, Secret

Queries = list[PlainText]
Connection = Literal["kept", "per-request"]
TLS_FILES: Final = ("ca_file", "cert", "key")


class Tls(Raw):
    """How the certificate of the server is checked, and the client certificate."""

    ca_file: PlainText | None = None
    ca_dir: PlainText | None = None
    cert: PlainText | None = None
    key: PlainText | None = None
    verify: bool = True

    @model_validator(mode="after")
    def _check_pair(self) -> Tls:
        if self.cert is None and self.key is not None:
            raise PydanticCustomError("tls", "key needs a certificate: give cert too")
        return self


class ClientTls(Tls):
    """TLS of testers. `proxy`: they present grid proxies (RFC 3820) of the client certificate. `run`: one for all
    testers of a run; `tester`: one for each."""

    proxy: Literal["run", "tester"] | None = None


def tls_settings(tls: Tls, at: KeyPath, context: Context) -> dict[str, Json]:
    names = {
        key: context.file(name, (*at, key)) if name is not None else None
        for key, name in (
            ("ca_file", tls.ca_file),
            ("ca_dir", tls.ca_dir),
            ("cert", tls.cert),
            ("key", tls.key),
        )
    }
    return {**names, "verify": tls.verify}


def client_tls_settings(
    tls: ClientTls, at: KeyPath, context: Context, *, is_made: bool = False
) -> dict[str, Json]:
    """`is_made`: the service may have made the client certificate."""
    if tls.proxy is not None and tls.cert is None and not is_made:
        context.wrong((*at, "proxy"), "a proxy needs the certificate that issues it: give cert and key")
    return {**tls_settings(tls, at, context), "proxy": tls.proxy}


def tls_files(settings: Mapping[str, Any]) -> Iterator[str]:
    """Files of the TLS settings. A directory (`ca_dir`) is not included: it must exist on every host."""
    tls = settings.get("tls") or {}
    yield from (tls[key] for key in TLS_FILES if isinstance(tls.get(key), str))


def proxy(address: str | Secret, at: KeyPath, context: Context) -> str | Secret:
    """The URL of a proxy. A password in it is reported: no driver would use it, and a URL that is not a secret is
    stored."""
    text = address.reveal() if isinstance(address, Secret) else address
    if text.startswith("https:"):
        context.wrong(at, "a proxy URL must use http://: https:// is not supported")
    if "@" in text:
        context.wrong(
            at, "the proxy URL contains a user or a password: use a Proxy-Authorization header with a secret"
        )
    return address


def short_name(text: str | Secret, longest: int = 60) -> str:
    if isinstance(text, Secret):
        return HIDDEN
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def check_regex(pattern: str | None, path: KeyPath, context: Context, groups: bool = False) -> None:
    """Reports an invalid regular expression. Those of the engine are a subset of Python's: an expression that is
    invalid here is also invalid there. `groups`: it must contain a group."""
    if pattern is None:
        return
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        context.wrong(path, f'"{short_name(pattern)}" is not a regular expression: {error}')
        return
    if groups and compiled.groups < 1:
        context.wrong(
            path, 'the regular expression needs a group around the number, such as "([0-9]+) bytes"'
        )


def named_queries(queries: list[str], at: KeyPath, context: Context) -> list[tuple[str, str]]:
    if not queries:
        context.wrong((*at, "queries"), "expected at least one query, got none")
    named = [
        ("query" if len(queries) == 1 else f"query-{number}", query)
        for number, query in enumerate(queries, 1)
    ]
    for index, query in enumerate(queries):
        if not query.strip():
            context.wrong((*at, "queries", index), "the query is empty")
    return named


def version_of(query: Query) -> Json:
    return None if query.version is None else query.version.to_json()
