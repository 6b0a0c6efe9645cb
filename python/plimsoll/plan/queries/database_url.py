"""URLs of databases, which may contain a user, and a password that is used and never stored.

The file is stored as written, so a password must come from the environment (`${env:NAME}`) or be in a secret. No
message quotes a URL that may contain a password.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol
from urllib.parse import parse_qsl, urlsplit

from plimsoll.plan.model import cell as model
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.secret import Secret

SCHEMES: Final = ("postgresql", "postgres", "mysql", "mariadb")
"""Schemes of databases that have users."""
_ENCODE: Final = (
    "in a URL, characters such as @ / ? # of a user, password or database must be percent-encoded; "
    "{password} accepts a password unencoded"
)
_KEYS_OF_SQL: Final = (
    "sql.password",
    'sql: {password: {secret: "${env:NAME}"}}',
    "sql: {tls: {ca_file: ca.pem}}",
)
_KEYS_OF_WATCH: Final = ("password", 'password: {secret: "${env:NAME}"}', "tls: {ca_file: ca.pem}")
"""How messages name the key of a password, a password from the environment, and TLS."""


class Context(Protocol):
    """The part of `drivers.driver.Context` that this module needs."""

    def wrong(self, path: KeyPath, message: str, near: str | None = None) -> None:
        """Reports a problem."""

    def as_written(self, path: KeyPath, value: str) -> str:
        """The value, or its text in the file if it came from the environment."""


def is_database(address: str | Secret) -> bool:
    """Whether an address is the URL of a database server."""
    text = address.reveal() if isinstance(address, Secret) else address
    return text.partition("://")[0] in SCHEMES


def endpoint(
    address: str | Secret,
    name: str | None,
    at: KeyPath,
    schemes: Sequence[str],
    context: Context,
    *,
    is_watched: bool = False,
) -> model.Endpoint:
    """The endpoint of a database server. `schemes`: those of the driver (empty: any); `is_watched`: the URL is that of
    `watch`. Problems are reported."""
    key, example, tls_example = _KEYS_OF_WATCH if is_watched else _KEYS_OF_SQL
    encode = _ENCODE.format(password=key)
    text = address.reveal() if isinstance(address, Secret) else address
    without_url = model.Endpoint(name or "database", "", None)
    scheme = text.partition("://")[0]
    if schemes and scheme not in schemes:
        known = " or ".join(f"{expected}:" for expected in schemes)
        context.wrong(at, f"the URL has the scheme {scheme}: expected {known}")
        return without_url
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError:
        context.wrong(at, f"this is not a URL: {encode}")
        return without_url
    if text.count("@") != url.netloc.count("@") or text.count("@") > 1:
        context.wrong(at, encode)
        return without_url
    if not url.hostname:
        context.wrong(at, f"the URL names no host: expected {scheme}://USER@HOST:PORT/DATABASE")
    elif not url.username:
        context.wrong(at, f"the URL names no user: expected {scheme}://USER@HOST:PORT/DATABASE")
    for parameter, value in parse_qsl(url.query, keep_blank_values=True):
        _parameter(parameter, value, tls_example, at, context)
    if isinstance(address, Secret):
        return model.Endpoint(name or "database", address, None)
    written = context.as_written(at, address)
    if url.password is not None and _is_literal(written):
        context.wrong(
            at,
            "the URL contains a password, and the file is stored: write ${env:NAME} in its place, or "
            f"give {example}",
        )
        return without_url
    shown = written.rpartition("@")[2].partition("/")[0] if "@" in written else written
    return model.Endpoint(name or shown, address if url.password is None else Secret(address), None)


def _parameter(key: str, value: str, tls_example: str, at: KeyPath, context: Context) -> None:
    """Reports a parameter of the URL. Only `sslmode=disable` is accepted: it is the default of Plimsoll."""
    if key == "sslmode" and value != "disable":
        context.wrong(
            at,
            f"sslmode in a URL is not supported: give {tls_example} for TLS, or leave sslmode out",
        )
    elif key != "sslmode":
        context.wrong(at, f"unknown URL parameter {key}: leave it out")


def _is_literal(written: str) -> bool:
    """Whether the text of the file contains the password of a URL."""
    login, at_sign, _ = written.rpartition("@")
    return bool(at_sign) and "${" not in login.partition("://")[2].partition(":")[2]


def password(value: str | Secret | None, at: KeyPath, context: Context) -> Secret | None:
    """The secret of a key `password`, which must come from the environment or be a secret. Otherwise it is reported."""
    if isinstance(value, str) and context.as_written(at, value) == value:
        context.wrong(
            at,
            'the file contains the password, and the file is stored: write {secret: "${env:NAME}"} in its place',
        )
        return None
    return Secret(value) if isinstance(value, str) else value


def check_settings(
    settings: Mapping[str, object],
    target: model.Target,
    services: Mapping[str, model.Service],
    at: KeyPath,
    context: Context,
) -> None:
    """Reports connection settings of a workload of `sql` that do not apply to its endpoints."""
    files = {service.name for service in services.values() if service.kind == "sqlite"}
    started = {service.name for service in services.values() if service.kind in ("postgres", "mariadb")}
    given = [key for key in ("password", "tls") if settings.get(key) is not None]
    for target_endpoint in target.endpoints:
        url = (
            target_endpoint.url.reveal()
            if isinstance(target_endpoint.url, Secret)
            else target_endpoint.url or ""
        )
        for key in given:
            if target_endpoint.service in files or url.startswith("sqlite:"):
                why = "is an SQLite file, which has no users and no TLS: leave this key out"
                context.wrong((*at, key), f"{target_endpoint.name} {why}")
        if "password" in given and "@" in url and urlsplit(url).password is not None:
            context.wrong(
                (*at, "password"),
                f"the URL of {target_endpoint.name} also contains a password: give only one",
            )
        if "tls" in given and target_endpoint.service in started:
            context.wrong(
                (*at, "tls"), f"Plimsoll starts {target_endpoint.service} without TLS: leave this key out"
            )
        if "tls" in given and "sslmode=disable" in url:
            context.wrong(
                (*at, "tls"), f"the URL of {target_endpoint.name} contains sslmode=disable: give only one"
            )
