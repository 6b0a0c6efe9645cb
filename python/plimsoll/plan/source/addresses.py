"""Addresses to which clients of a URL connect."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, urlsplit

DEFAULT_PORTS: Final = {
    "catalogue": 5010,
    "catalogues": 5010,
    "ftp": 21,
    "http": 80,
    "https": 443,
    "ldap": 389,
    "ldaps": 636,
    "postgresql": 5432,
    "postgres": 5432,
    "mysql": 3306,
    "mariadb": 3306,
    "rucio": 80,
    "rucios": 443,
    "soap": 5010,
    "soaps": 5010,
}
"""The port of a URL without one, by scheme."""


def netloc(host: str, port: int) -> str:
    """Host and port as in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address_of(url: str) -> tuple[str, int] | None:
    """Host and port to which a client of the URL connects; None if the URL has none."""
    parts: SplitResult = urlsplit(url)
    port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    return (parts.hostname, port) if parts.hostname and port else None
