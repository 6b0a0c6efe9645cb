"""Lines in a format that the administrator has defined, as text: nginx's `log_format`, Apache's `LogFormat`, or Squid's
`logformat`. Pure.

A format becomes one regular expression. A field without a form of its own ends at the first unescaped occurrence of the
literal text that follows it in the format. So the time that a line takes is proportional to its length, and a client
cannot add fields, since servers escape quotation marks.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, get_args

from plimsoll.plan.queries.access_line import (
    SECOND_NS,
    AccessRecord,
    Format,
    LineError,
    LineFormat,
    date_ns,
    duration_in_range,
    parse_line,
    size_in_range,
    split_request,
    split_target,
    stamp_ns,
    unescape,
)
from plimsoll.plan.queries.log_fields import LOCAL, FormatError, LogField, Role, apache_field, nginx_field
from plimsoll.plan.queries.squid_format import CODE, OF_SQUID, squid_field

MAX_FORMAT: Final = 4000
"""Maximum length of a format string, characters."""
MAX_FIELDS: Final = 80
NAMES: Final[tuple[str, ...]] = get_args(Format)
_NGINX: Final = re.compile(r"\$(?:\{([a-zA-Z0-9_]+)\}|([a-zA-Z0-9_]+))")
_APACHE: Final = re.compile(r"%(?:(%)|[!\d,]*[<>]?(?:\{([^}]*)\})?(\^[a-zA-Z]{2}|[a-zA-Z]))")
_PIECES: Final = {"$uri$is_args$args": "$request_uri", "$uri?$args": "$request_uri"}
"""Variables that are the target of the request together."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A field of the format, and the index of its first group in the pattern."""

    field: LogField
    group: int


def line_format(text: str, duration: str | None = None) -> LineFormat:
    """The format of a name, such as `nginx`, or of a format string. Raises FormatError."""
    unit = next((each for each in ("s", "ms", "us") if each == duration), None)
    for name in get_args(Format):
        if text == name:
            return LineFormat(name, unit)
    if duration is not None:
        raise FormatError("duration is for format names: a format string contains the duration itself")
    LogPattern.of(text)  # raises the error now
    return LineFormat(text=text)


def line_parser(form: LineFormat) -> Callable[[bytes], AccessRecord]:
    """The function that reads a line of the format; it raises LineError. Raises FormatError."""
    return LogPattern.of(form.text).parse if form.text else partial(parse_line, form=form)


class LogPattern:
    """A format string as a pattern of lines."""

    def __init__(self, pattern: re.Pattern[bytes], parts: Sequence[_Part]) -> None:
        self._pattern = pattern
        self._parts: dict[Role, _Part] = {}
        for part in sorted(parts, key=lambda part: part.field.rank, reverse=True):
            self._parts[part.field.role] = part
        self._check()
        self._grain_ns, self._is_end = self._times()

    @staticmethod
    @lru_cache(maxsize=8)
    def of(text: str) -> LogPattern:
        """The pattern of a format string, or of the whole directive. Raises FormatError."""
        if len(text) > MAX_FORMAT:
            raise FormatError(
                f"the format has {len(text):,} characters; at most {MAX_FORMAT:,} are supported"
            )
        items = _merged(_items(_without_directive(text)))
        parts: list[_Part] = []
        pattern, groups = "", 1
        for position, item in enumerate(items):
            if isinstance(item, str):
                pattern += re.escape(item)
                continue
            following = items[position + 1] if position + 1 < len(items) else ""
            inner = item.pattern or _up_to(following)
            parts.append(_Part(item, groups))
            pattern += f"({inner})"
            groups += 1 + re.compile(inner).groups
        if len(parts) > MAX_FIELDS:
            raise FormatError(f"the format has {len(parts)} fields; at most {MAX_FIELDS} are supported")
        return LogPattern(re.compile(pattern.encode("utf-8"), re.DOTALL), parts)

    def parse(self, line: bytes) -> AccessRecord:
        """The request of a line. Raises LineError."""
        match = self._pattern.fullmatch(line)
        if match is None:
            raise LineError("the line does not have the given format")
        at_ns = self._time(match)
        duration_ns = self._duration(match)
        start_ns = at_ns if duration_ns is None or not self._is_end else at_ns - duration_ns
        method, host, path = self._target(match)
        status, size = self._text(match, "status"), self._text(match, "size")
        return AccessRecord(
            start_ns,
            self._grain_ns,
            duration_ns,
            self._text(match, "client"),
            method,
            host or self._host(match),
            path,
            int(status) if status.isdigit() else 0,
            size_in_range(int(size)) if size.isdigit() else None,
        )

    def _check(self) -> None:
        """Raises FormatError if a request cannot be read from the fields."""
        known = self._parts
        if "request" not in known and not ("method" in known and {"target", "path"} & set(known)):
            raise FormatError(
                "the format has no request: expected $request or $request_method and $request_uri (nginx), %r or "
                "%m and %U%q (Apache), %rm and %ru (Squid)"
            )
        if "time" not in known:
            raise FormatError(
                "the format has no time: expected $msec, $time_local or $time_iso8601 (nginx), %t, %{usec}t or "
                "%{end:usec}t (Apache), %ts.%03tu, %tS or %tl (Squid)"
            )
        if "status" not in known:
            raise FormatError(
                "the format has no status: expected $status (nginx), %>s (Apache) or %>Hs (Squid)"
            )

    def _times(self) -> tuple[int, bool]:
        """Resolution of the starts, ns, and whether the time is that of the end."""
        time = self._parts["time"].field
        grain = time.grain_ns
        fraction = self._parts.get("fraction") if grain == SECOND_NS else None
        if fraction is not None and fraction.field.is_end != time.is_end:
            raise FormatError("one part of the time is that of the begin, and the other that of the end")
        if fraction is not None:
            grain = min(grain, fraction.field.grain_ns)
        if time.is_end and "duration" in self._parts:
            grain = max(grain, self._parts["duration"].field.grain_ns)
        return grain, time.is_end

    def _text(self, match: re.Match[bytes], role: Role) -> bytes:
        """The text of a field; empty if the format does not have it, or the line has `-`."""
        part = self._parts.get(role)
        text = b"" if part is None else match[part.group].strip(b" ")  # a width of Squid adds spaces
        return b"" if text == b"-" else text

    def _time(self, match: re.Match[bytes]) -> int:
        part = self._parts["time"]
        field, text = part.field, match[part.group].strip(b" ")
        if field.names == LOCAL:
            at_ns = stamp_ns(text)
        elif field.names:
            values = match.groups()[part.group : part.group + len(field.names)]
            at_ns = date_ns(dict(zip(field.names, values, strict=True)))
        else:
            at_ns = _scaled(text, field.unit_ns)
        fraction = self._parts.get("fraction")
        if fraction is not None and field.grain_ns == SECOND_NS:
            at_ns += int(match[fraction.group]) * fraction.field.unit_ns
        return at_ns

    def _duration(self, match: re.Match[bytes]) -> int | None:
        text = self._text(match, "duration")
        return duration_in_range(_scaled(text, self._parts["duration"].field.unit_ns)) if text else None

    def _target(self, match: re.Match[bytes]) -> tuple[bytes, bytes, bytes]:
        """Method, host (empty if none) and path of the request."""
        if "request" in self._parts:
            method, target = split_request(match[self._parts["request"].group])
            return method, *split_target(method, unescape(target))
        method = self._text(match, "method")
        if not re.fullmatch(rb"[A-Z][A-Z_-]{0,31}", method):
            raise LineError("the method is not a word in capitals")
        target = unescape(self._text(match, "target" if "target" in self._parts else "path"))
        query = unescape(self._text(match, "query")) if "target" not in self._parts else b""
        if query:
            target += query if query.startswith(b"?") else b"?" + query
        return method, *split_target(method, target)

    def _host(self, match: re.Match[bytes]) -> bytes:
        return unescape(self._text(match, "host")).lower()


def _scaled(text: bytes, unit_ns: int) -> int:
    """A decimal number in ns, without the rounding of floats: 1795621742.345 s needs 20 digits."""
    whole, _, fraction = text.partition(b".")
    return int(whole) * unit_ns + (int(fraction) * unit_ns // 10 ** len(fraction) if fraction else 0)


def _without_directive(text: str) -> str:
    """The format of a line such as `log_format NAME '...' '...';`, `LogFormat "..." NAME` or `logformat NAME ...`."""
    head, _, rest = text.strip().partition(" ")
    if head == "logformat":
        return rest.strip().partition(" ")[2].strip()
    if head not in ("log_format", "LogFormat"):
        return text.replace('\\"', '"').replace("\\t", "\t")
    try:
        words = shlex.split(rest.rstrip().removesuffix(";"))
    except ValueError as error:
        raise FormatError(f"the directive {head} cannot be read: {error}") from None
    if head == "LogFormat":
        return (words[0] if words else "").replace("\\t", "\t")
    return "".join(word for word in words[1:] if not word.startswith("escape="))


def _merged(items: Iterable[str | LogField]) -> list[str | LogField]:
    """The items with literal texts that follow each other as one."""
    merged: list[str | LogField] = []
    for item in items:
        if isinstance(item, str) and merged and isinstance(merged[-1], str):
            merged[-1] += item
        else:
            merged.append(item)
    return merged


def _items(text: str) -> Iterator[str | LogField]:
    """Literal texts and fields, in order. Raises FormatError."""
    if any(not sign.isprintable() and sign != "\t" for sign in text):
        raise FormatError("the format contains a control character")
    is_nginx = _NGINX.search(text) is not None
    is_squid = not is_nginx and OF_SQUID.search(text) is not None
    if not is_nginx and _APACHE.search(text) is None:
        known = ", ".join(NAMES)
        raise FormatError(
            f"expected one of {known}, or a format string of nginx ($remote_addr ...), Apache (%h ...) or Squid "
            "(%>a ...)"
        )
    for pieces, whole in _PIECES.items():
        text = text.replace(pieces, whole)
    if not is_nginx and not is_squid:
        text = re.sub(r"%U%q", "%{target}U", text)
    end = 0
    before: LogField | None = None
    for found in (_NGINX if is_nginx else CODE if is_squid else _APACHE).finditer(text):
        literal = text[end : found.start()]
        end = found.end()
        if not is_nginx:
            _check_literal(literal)
        if not is_nginx and found[1]:  # %%
            yield literal + "%"
            before = None
            continue
        # Apache writes the brackets of its time itself.
        is_bracketed = not is_nginx and not is_squid and (found[2], found[3]) == (None, "t")
        if is_nginx:
            field = nginx_field(found[1] or found[2])
        else:
            field = squid_field(found) if is_squid else _of_apache(found[3], found[2])
        if literal or is_bracketed:
            yield literal + ("[" if is_bracketed else "")
        elif before is not None and not before.pattern:
            raise FormatError(f"nothing separates {found[0]} from the field before it")
        yield field
        if is_bracketed:
            yield "]"
        before = None if is_bracketed else field
    if not is_nginx:
        _check_literal(text[end:])
    yield text[end:]


def _check_literal(text: str) -> None:
    """Raises FormatError if the text between two directives of Apache contains another one."""
    if "%" in text:
        raise FormatError(f"a directive is malformed near {text[text.index('%') :][:20]!r}")


def _of_apache(letter: str, argument: str | None) -> LogField:
    return LogField("target") if (letter, argument) == ("U", "target") else apache_field(letter, argument)


def _up_to(following: str | LogField) -> str:
    """The pattern of a text that ends at the first unescaped occurrence of the following literal."""
    if isinstance(following, LogField) or not following:
        return r"(?:\\.|[^\\])*+"
    return rf"(?:\\.|(?!{re.escape(following)})[^\\])*+"
