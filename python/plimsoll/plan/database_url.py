"""URLs of databases, in which a user may stand, and a password that is used and never stored.

The file is stored as it was written, so that a password comes from the environment (`${env:NAME}`) or stands in a
secret. No message quotes a URL in which there may be one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol
from urllib.parse import urlsplit

from plimsoll.plan import model
from plimsoll.plan.secret import Secret
from plimsoll.plan.source import KeyPath

SCHEMES: Final = ("postgresql", "postgres", "mysql", "mariadb")
"""Of databases that have users."""
_ENCODE: Final = (
    "a URL takes characters such as @ / ? # in a user, a password or a database percent-encoded only; "
    "sql.password takes a password as it is"
)


class Where(Protocol):
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
    address: str | Secret, name: str | None, at: KeyPath, schemes: Sequence[str], where: Where
) -> model.Endpoint:
    """A database server by its URL. `schemes`: those that the driver can be sent to; empty: any."""
    text = address.reveal() if isinstance(address, Secret) else address
    nothing = model.Endpoint(name or "database", "", None)
    scheme = text.partition("://")[0]
    if schemes and scheme not in schemes:
        known = " or ".join(f"{one}:" for one in schemes)
        where.wrong(at, f"a URL of {scheme}: is no URL of {known}")
        return nothing
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError:
        where.wrong(at, f"this is not a URL: {_ENCODE}")
        return nothing
    if text.count("@") != url.netloc.count("@") or text.count("@") > 1:
        where.wrong(at, _ENCODE)
        return nothing
    if not url.hostname:
        where.wrong(at, f"the URL names no host: expected {scheme}://USER@HOST:PORT/DATABASE")
    elif not url.username:
        where.wrong(at, f"the URL names no user: expected {scheme}://USER@HOST:PORT/DATABASE")
    if isinstance(address, Secret):
        return model.Endpoint(name or "database", address, None)
    written = where.as_written(at, address)
    if url.password is not None and _is_literal(written):
        where.wrong(
            at,
            "a URL must not hold a password as it is, since the file is stored: write ${env:NAME} in its place, or "
            'give sql: {password: {secret: "${env:NAME}"}}',
        )
        return nothing
    shown = written.rpartition("@")[2].partition("/")[0] if "@" in written else written
    return model.Endpoint(name or shown, address if url.password is None else Secret(address), None)


def _is_literal(written: str) -> bool:
    """Whether the password of a URL stands in the text of the file."""
    login, at_sign, _ = written.rpartition("@")
    return bool(at_sign) and "${" not in login.partition("://")[2].partition(":")[2]


def password(given: str | Secret | None, at: KeyPath, where: Where) -> Secret | None:
    """`sql.password`, which comes from the environment or is a secret."""
    if isinstance(given, str) and where.as_written(at, given) == given:
        where.wrong(
            at, 'the password stands in the file, which is stored: write {secret: "${env:NAME}"} in its place'
        )
        return None
    return Secret(given) if isinstance(given, str) else given


def check_settings(
    settings: Mapping[str, object], target: model.Target, files: frozenset[str], at: KeyPath, where: Where
) -> None:
    """What a workload of `sql` says about its connections must fit its endpoints. `files`: services that are files."""
    if settings.get("password") is None:
        return
    for one in target.endpoints:
        if one.service in files or (isinstance(one.url, str) and one.url.startswith("sqlite:")):
            where.wrong(
                (*at, "password"), f"{one.name} is an SQLite file, which has no users: leave this out"
            )
        elif isinstance(one.url, Secret) and urlsplit(one.url.reveal()).password is not None:
            where.wrong((*at, "password"), f"the URL of {one.name} holds a password, too: give one of them")
