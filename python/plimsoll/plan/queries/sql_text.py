"""SQL files cut into statements, with the line of each. Pure.

The client libraries send one statement at a time where an error shall name its line, so the file is cut here: at
semicolons outside of quotes, dollar quotes (PostgreSQL) and comments. Texts are characters of one byte each (Latin-1),
so that every byte of the file reaches the server as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

Dialect = Literal["postgres", "mariadb"]
MAX_BYTES: Final = 64_000_000

_POSTGRES: Final = r"(?<!\w)[eE]'|'|\"|--|/\*|(?<![\w$])\$(?:[A-Za-z_\x80-\xff][\w\x80-\xff]*)?\$"
_MARIADB: Final = r"'|\"|`|\#|--(?=[\s\x00-\x1f]|\Z)|/\*"
_ESCAPED: Final = {
    quote: re.compile(rf"(?:[^\\{quote}]++|\\.|{quote}{quote})*+{quote}", re.DOTALL) for quote in ("'", '"')
}
_DELIMITER: Final = re.compile(r"DELIMITER[ \t]+(\S+)[ \t]*\r?(?:\n|\Z)", re.IGNORECASE)
_COPY: Final = re.compile(r"COPY\b[^;]*\bFROM\s+STDIN\b", re.IGNORECASE)
_SPACE: Final = re.compile(r"\s*")


class SqlTextError(ValueError):
    """A file that cannot be cut. `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement without its delimiter and the comments before it; `line` on which it begins, from 1."""

    text: str
    line: int


def statements(data: bytes, dialect: Dialect) -> Iterator[Statement]:
    """The statements of a file, in order. Raises SqlTextError, when the statement at fault is reached."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    if (nul := text.find("\0")) >= 0:
        raise SqlTextError(
            1 + text.count("\n", 0, nul), "the file contains a NUL byte, which SQL does not allow"
        )
    counted = at = 0
    line, delimiter = 1, ";"
    following = _next(dialect, delimiter)
    first: int | None = None
    while True:
        token = following.search(text, at)
        gap = len(text) if token is None else token.start()
        if first is None and (begin := _skipped(text, at)) < gap:
            if dialect == "mariadb" and (told := _DELIMITER.match(text, begin)) is not None:
                delimiter, at = told[1], told.end()
                following = _next(dialect, delimiter)
                continue
            first = begin
        if token is not None and token[0] != delimiter:
            here, at = token.start(), _end(text, token, dialect)
            if first is None and not _is_comment(text, token, dialect):
                first = here
            continue
        if first is not None:
            line, counted = line + text.count("\n", counted, first), first
            yield Statement(_checked(text[first:gap].rstrip(), line, dialect), line)
        if token is None:
            return
        at, first = token.end(), None


def _next(dialect: Dialect, delimiter: str) -> re.Pattern[str]:
    return re.compile(f"{_POSTGRES if dialect == 'postgres' else _MARIADB}|{re.escape(delimiter)}")


def _skipped(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _is_comment(text: str, token: re.Match[str], dialect: Dialect) -> bool:
    """MariaDB executes the text in `/*! ... */`."""
    if dialect == "mariadb" and text.startswith(("/*!", "/*M!"), token.start()):
        return False
    return token[0] in ("--", "#", "/*")


def _end(text: str, token: re.Match[str], dialect: Dialect) -> int:
    """Where a quote or a comment ends."""
    opened, start = token[0], token.end()
    if opened in ("--", "#"):
        found = text.find("\n", start)
        return len(text) if found < 0 else found
    if opened == "/*":
        return _comment_end(text, token.start(), nested=dialect == "postgres")
    if opened.startswith("$"):
        return _after(text, opened, start, token.start(), "a dollar quote")
    quote = opened[-1]
    if quote == "`" or (dialect == "postgres" and len(opened) == 1):
        # A doubled quote ends one text and begins the next: the same place is found.
        return _after(text, quote, start, token.start(), "a quote")
    found_at = _ESCAPED[quote].match(text, start)
    if found_at is None:
        raise SqlTextError(1 + text.count("\n", 0, token.start()), f"a quote {quote} is not closed")
    return found_at.end()


def _after(text: str, closing: str, start: int, opened: int, what: str) -> int:
    found = text.find(closing, start)
    if found < 0:
        raise SqlTextError(1 + text.count("\n", 0, opened), f"{what} {closing} is not closed")
    return found + len(closing)


def _comment_end(text: str, opened: int, *, nested: bool) -> int:
    depth, at = 1, opened + 2
    for found in re.compile(r"/\*|\*/").finditer(text, at):
        if found[0] == "*/":
            depth -= 1
        elif nested:
            depth += 1
        if depth == 0:
            return found.end()
    raise SqlTextError(1 + text.count("\n", 0, opened), "a comment /* is not closed")


def _checked(text: str, line: int, dialect: Dialect) -> str:
    """What only a client program understands is refused with what to do."""
    if dialect == "postgres" and text.startswith("\\"):
        word = text.split(None, 1)[0]
        raise SqlTextError(line, f"{word} is a psql command, not SQL: remove the line")
    if dialect == "postgres" and _COPY.match(text):
        raise SqlTextError(line, "COPY ... FROM STDIN is not supported: use INSERT (pg_dump --inserts)")
    return text
