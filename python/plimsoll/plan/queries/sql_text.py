"""Splits SQL files into statements, with the line of each. Pure.

Each statement is sent separately, so that an error message contains its line. Therefore the file is split here: at
semicolons outside of quotes, dollar quotes (PostgreSQL) and comments. Texts are decoded as Latin-1, one character per
byte, so that the server receives every byte of the file unchanged.
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
    """A file that cannot be split into statements. `line`: from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement without its delimiter and the comments before it. `line`: of its first character, from 1."""

    text: str
    line: int


def statements(data: bytes, dialect: Dialect) -> Iterator[Statement]:
    """The statements of a file, in order. Raises SqlTextError when it reaches an invalid statement."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    if (nul := text.find("\0")) >= 0:
        raise SqlTextError(
            1 + text.count("\n", 0, nul), "the file contains a NUL byte, which SQL does not allow"
        )
    counted = at = 0
    line, delimiter = 1, ";"
    following = _token_pattern(dialect, delimiter)
    first: int | None = None
    while True:
        token = following.search(text, at)
        gap = len(text) if token is None else token.start()
        if first is None and (begin := _skip_space(text, at)) < gap:
            if dialect == "mariadb" and (command := _DELIMITER.match(text, begin)) is not None:
                delimiter, at = command[1], command.end()
                following = _token_pattern(dialect, delimiter)
                continue
            first = begin
        if token is not None and token[0] != delimiter:
            here, at = token.start(), _token_end(text, token, dialect)
            if first is None and not _is_comment(text, token, dialect):
                first = here
            continue
        if first is not None:
            line, counted = line + text.count("\n", counted, first), first
            yield Statement(_check_statement(text[first:gap].rstrip(), line, dialect), line)
        if token is None:
            return
        at, first = token.end(), None


def _token_pattern(dialect: Dialect, delimiter: str) -> re.Pattern[str]:
    return re.compile(f"{_POSTGRES if dialect == 'postgres' else _MARIADB}|{re.escape(delimiter)}")


def _skip_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _is_comment(text: str, token: re.Match[str], dialect: Dialect) -> bool:
    """MariaDB executes the text in `/*! ... */`."""
    if dialect == "mariadb" and text.startswith(("/*!", "/*M!"), token.start()):
        return False
    return token[0] in ("--", "#", "/*")


def _token_end(text: str, token: re.Match[str], dialect: Dialect) -> int:
    """The index after the end of a quote or a comment, which `token` opens."""
    opened, start = token[0], token.end()
    if opened in ("--", "#"):
        newline = text.find("\n", start)
        return len(text) if newline < 0 else newline
    if opened == "/*":
        return _comment_end(text, token.start(), nested=dialect == "postgres")
    if opened.startswith("$"):
        return _closing_end(text, opened, start, token.start(), "a dollar quote")
    quote = opened[-1]
    if quote == "`" or (dialect == "postgres" and len(opened) == 1):
        # A doubled quote ends one text and begins the next, so the end is found without a special case.
        return _closing_end(text, quote, start, token.start(), "a quote")
    closing = _ESCAPED[quote].match(text, start)
    if closing is None:
        raise SqlTextError(1 + text.count("\n", 0, token.start()), f"a quote {quote} is not closed")
    return closing.end()


def _closing_end(text: str, closing: str, start: int, opened: int, kind: str) -> int:
    index = text.find(closing, start)
    if index < 0:
        raise SqlTextError(1 + text.count("\n", 0, opened), f"{kind} {closing} is not closed")
    return index + len(closing)


def _comment_end(text: str, opened: int, *, nested: bool) -> int:
    depth, at = 1, opened + 2
    for token in re.compile(r"/\*|\*/").finditer(text, at):
        if token[0] == "*/":
            depth -= 1
        elif nested:
            depth += 1
        if depth == 0:
            return token.end()
    raise SqlTextError(1 + text.count("\n", 0, opened), "a comment /* is not closed")


def _check_statement(text: str, line: int, dialect: Dialect) -> str:
    """The statement. Raises SqlTextError for statements that only a client program can execute."""
    if dialect == "postgres" and text.startswith("\\"):
        word = text.split(None, 1)[0]
        raise SqlTextError(line, f"{word} is a psql command, not SQL: remove the line")
    if dialect == "postgres" and _COPY.match(text):
        raise SqlTextError(line, "COPY ... FROM STDIN is not supported: use INSERT (pg_dump --inserts)")
    return text
