"""Replaces addresses of other services in texts: `{NAME.url}` and the others of `PARTS`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from plimsoll.plan.services.addresses import ADDRESS, CREDENTIALS

_JDBC: Final = {"postgresql": "postgresql", "mysql": "mariadb"}
"""The names of databases in URLs for Java programs, by the scheme of the service's URL."""


def with_addresses(text: str, urls: Mapping[str, str]) -> str:
    """The text with the addresses of these services. `urls`: their URLs, by name."""
    return ADDRESS.sub(lambda match: _part(urls[match[1]], match[2]) if match[1] in urls else match[0], text)


def _part(url: str, part: str) -> str:
    parts = urlsplit(url)
    match part:
        case "host":
            return str(parts.hostname)
        case "port":
            return str(parts.port)
        case "path":
            return parts.path
        case "jdbc":
            return jdbc_url(url)
        case "credentials":
            return str(PurePosixPath(parts.path).parent / CREDENTIALS)
        case _:
            return url


def jdbc_url(url: str) -> str:
    """The URL of a database for Java programs, such as jdbc:postgresql://127.0.0.1:5432/plimsoll?user=plimsoll."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return f"jdbc:{url}"
    user, _, address = parts.netloc.rpartition("@")
    return f"jdbc:{_JDBC[parts.scheme]}://{address}{parts.path}?user={user}"
