"""URLs of databases, in which a user may stand, and a password that is used and never stored.

The file is stored as it was written, so that a password comes from the environment (`${env:NAME}`) or stands in a
secret. No message quotes a URL in which there may be one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol
from urllib.parse import parse_qsl, urlsplit

from plimsoll.plan import model
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.secret import Secret

SCHEMES: Final = ("postgresql", "postgres", "mysql", "mariadb")
"""Of databases that have users."""
_ENCODE: Final = (
    "in a URL, characters such as @ / ? # of a user, password or database must be percent-encoded; "
    "sql.password accepts a password unencoded"
)


class Context(Protocol):
    """What the functions here need of the one who resolves."""

    def wrong(self, path: KeyPath, message: str, near: str | None = None) -> None:
        """Reports a problem."""

    def as_written(self, path: KeyPath, value: str) -> str:
        """The value, or what stands for it in the file where it came from the environment."""


def is_database(address: str | Secret) -> bool:
    """Whether it is the URL of a database server."""
    text = address.reveal() if isinstance(address, Secret) else address
    return text.partition("://")[0] in SCHEMES


def endpoint(
    address: str | Secret, name: str | None, at: KeyPath, schemes: Sequence[str], context: Context
) -> model.Endpoint:
    """A database server by its URL. `schemes`: those that the driver can be sent to; empty: any."""
    text = address.reveal() if isinstance(address, Secret) else address
    nothing = model.Endpoint(name or "database", "", None)
    scheme = text.partition("://")[0]
    if schemes and scheme not in schemes:
        known = " or ".join(f"{one}:" for one in schemes)
        context.wrong(at, f"the URL has the scheme {scheme}: expected {known}")
        return nothing
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError:
        context.wrong(at, f"this is not a URL: {_ENCODE}")
        return nothing
    if text.count("@") != url.netloc.count("@") or text.count("@") > 1:
        context.wrong(at, _ENCODE)
        return nothing
    if not url.hostname:
        context.wrong(at, f"the URL names no host: expected {scheme}://USER@HOST:PORT/DATABASE")
    elif not url.username:
        context.wrong(at, f"the URL names no user: expected {scheme}://USER@HOST:PORT/DATABASE")
    for key, value in parse_qsl(url.query, keep_blank_values=True):
        _parameter(key, value, at, context)
    if isinstance(address, Secret):
        return model.Endpoint(name or "database", address, None)
    written = context.as_written(at, address)
    if url.password is not None and _is_literal(written):
        context.wrong(
            at,
            "the URL contains a password, and the file is stored: write ${env:NAME} in its place, or "
            'give sql: {password: {secret: "${env:NAME}"}}',
        )
        return nothing
    shown = written.rpartition("@")[2].partition("/")[0] if "@" in written else written
    return model.Endpoint(name or shown, address if url.password is None else Secret(address), None)


def _parameter(key: str, value: str, at: KeyPath, context: Context) -> None:
    """Only `sslmode=disable` is accepted: it is the default of Plimsoll."""
    if key == "sslmode" and value != "disable":
        context.wrong(
            at,
            "sslmode in a URL is not supported: give sql: {tls: {ca_file: ca.pem}} for TLS, or leave sslmode out",
        )
    elif key != "sslmode":
        context.wrong(at, f"unknown URL parameter {key}: leave it out")


def _is_literal(written: str) -> bool:
    """Whether the text of the file contains the password of a URL."""
    login, at_sign, _ = written.rpartition("@")
    return bool(at_sign) and "${" not in login.partition("://")[2].partition(":")[2]


def password(given: str | Secret | None, at: KeyPath, context: Context) -> Secret | None:
    """`sql.password`, which comes from the environment or is a secret."""
    if isinstance(given, str) and context.as_written(at, given) == given:
        context.wrong(
            at,
            'the file contains the password, and the file is stored: write {secret: "${env:NAME}"} in its place',
        )
        return None
    return Secret(given) if isinstance(given, str) else given


def check_settings(
    settings: Mapping[str, object],
    target: model.Target,
    services: Mapping[str, model.Service],
    at: KeyPath,
    context: Context,
) -> None:
    """The connection settings of a workload of `sql` must fit its endpoints."""
    files = {one.name for one in services.values() if one.kind == "sqlite"}
    started = {one.name for one in services.values() if one.kind in ("postgres", "mariadb")}
    given = [key for key in ("password", "tls") if settings.get(key) is not None]
    for one in target.endpoints:
        url = one.url.reveal() if isinstance(one.url, Secret) else one.url or ""
        for key in given:
            if one.service in files or url.startswith("sqlite:"):
                why = "is an SQLite file, which has no users and no TLS: leave this key out"
                context.wrong((*at, key), f"{one.name} {why}")
        if "password" in given and "@" in url and urlsplit(url).password is not None:
            context.wrong((*at, "password"), f"the URL of {one.name} also contains a password: give only one")
        if "tls" in given and one.service in started:
            context.wrong((*at, "tls"), f"Plimsoll starts {one.service} without TLS: leave this key out")
        if "tls" in given and "sslmode=disable" in url:
            context.wrong((*at, "tls"), f"the URL of {one.name} contains sslmode=disable: give only one")
