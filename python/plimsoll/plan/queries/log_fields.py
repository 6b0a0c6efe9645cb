"""The variables of nginx's `log_format` and the directives of Apache's `LogFormat`: what a line has for each. Pure.

`squid_format` has those of Squid.

Sources: nginx, ngx_http_core_module and ngx_http_log_module, "Embedded Variables"; Apache HTTP Server 2.4,
mod_log_config, "Custom Log Formats".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from plimsoll.plan.queries.access_line import SECOND_NS, UNITS_NS

Role = Literal[
    "client", "host", "request", "method", "target", "path", "query", "status", "size",
    "duration", "time", "fraction", "",
]  # fmt: skip
"""What a field is used for. `request`: METHOD TARGET PROTOCOL; `path`: without the query; `fraction`: a part of a
second, in addition to a time; empty: not used."""


class FormatError(ValueError):
    """A format string that cannot be used. The text is the reason."""


@dataclass(frozen=True, slots=True)
class LogField:
    """A field of a line. `pattern`: a regular expression of its text; empty: the text up to the next literal of the
    format. `rank`: of several fields with one role, the lowest is used. `unit_ns`: of a duration, a number that is a
    time, or a fraction. `grain_ns`: resolution of a time or duration. `is_end`: whether a time is that of the end.
    `names`: of a time as text, the parts of its date in the order of the groups of `pattern`."""

    role: Role = ""
    pattern: str = ""
    rank: int = 0
    unit_ns: int = 0
    grain_ns: int = 0
    is_end: bool = False
    names: str = ""


LOCAL: Final = "local"
"""Names of the only form of time that servers write by default, `25/Nov/2026:16:49:02 +0100`."""
COUNT: Final = r"\d{1,18}|-"
_NUMBER: Final = r"\d{1,12}(?:\.\d{1,9})?|-"
LOCAL_TIME: Final = r"\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4}"
_DATE_PARTS: Final[Mapping[str, str]] = {
    "Y": r"\d{4}", "m": r"\d{2}", "d": r"\d{2}", "b": r"[A-Z][a-z]{2}", "H": r"\d{2}", "M": r"\d{2}", "S": r"\d{2}",
    "z": r"[+-]\d{4}|[+-]\d{2}:\d{2}",
}  # fmt: skip
"""Conversions of strftime, with the text of each."""
_SHORT_DATES: Final = {"T": "%H:%M:%S", "F": "%Y-%m-%d", "R": "%H:%M"}
_OF_PROXIES: Final = re.compile(r"upstream_(addr|.*_time|status|.*_length|bytes_.*)")
_LISTED: Final = r"[^\s,\"\[\]|;{}]+(?:(?:, | : )[^\s,\"\[\]|;{}]+)*"
"""Values of several servers that were tried one after the other."""
NGINX: Final[Mapping[str, LogField]] = {
    "remote_addr": LogField("client"),
    "realip_remote_addr": LogField("client", rank=1),
    "proxy_protocol_addr": LogField("client", rank=2),
    "http_host": LogField("host"),
    "host": LogField("host", rank=1),
    "server_name": LogField("host", rank=2),
    "request": LogField("request"),
    "request_method": LogField("method"),
    "request_uri": LogField("target"),
    "uri": LogField("path"),
    "document_uri": LogField("path", rank=1),
    "args": LogField("query"),
    "query_string": LogField("query", rank=1),
    "is_args": LogField(pattern=r"\??"),
    "status": LogField("status", r"\d{3}|-"),
    "body_bytes_sent": LogField("size", COUNT),
    "bytes_sent": LogField("size", COUNT, rank=1),
    "request_time": LogField("duration", _NUMBER, unit_ns=SECOND_NS, grain_ns=UNITS_NS["ms"]),
    "msec": LogField("time", r"\d{9,11}\.\d{3}", 0, SECOND_NS, UNITS_NS["ms"], is_end=True),
    "time_local": LogField("time", LOCAL_TIME, 1, 0, SECOND_NS, is_end=True, names=LOCAL),
    "time_iso8601": LogField(
        "time",
        r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})([+-]\d{2}:\d{2})",
        2, 0, SECOND_NS, is_end=True, names="YmdHMSz",
    ),
}  # fmt: skip
_APACHE: Final[Mapping[str, LogField]] = {
    "h": LogField("client"),
    "a": LogField("client", rank=1),
    "v": LogField("host", rank=1),
    "V": LogField("host", rank=2),
    "r": LogField("request"),
    "m": LogField("method"),
    "U": LogField("path"),
    "q": LogField("query"),
    "s": LogField("status", r"\d{3}|-"),
    "b": LogField("size", COUNT),
    "B": LogField("size", COUNT),
    "O": LogField("size", COUNT, rank=1),
    "D": LogField("duration", COUNT, 0, UNITS_NS["us"], UNITS_NS["us"]),
    "T": LogField("duration", COUNT, 2, SECOND_NS, SECOND_NS),
    "t": LogField("time", LOCAL_TIME, 1, 0, SECOND_NS, names=LOCAL),
}
_TIMES_OF_APACHE: Final = {
    "sec": (SECOND_NS, r"\d{9,11}"), "msec": (UNITS_NS["ms"], r"\d{12,14}"), "usec": (UNITS_NS["us"], r"\d{15,17}"),
}  # fmt: skip
_FRACTIONS: Final = {"msec_frac": (UNITS_NS["ms"], r"\d{3}"), "usec_frac": (UNITS_NS["us"], r"\d{6}")}


def nginx_field(name: str) -> LogField:
    """The field of the variable `$name`; an unknown variable is a field that is not used."""
    if _OF_PROXIES.fullmatch(name):
        return LogField(pattern=_LISTED)
    return NGINX.get(name, LogField())


def apache_field(letter: str, argument: str | None) -> LogField:
    """The field of the directive `%{argument}letter`; one that is not known is not used. Raises FormatError."""
    if letter == "t" and argument is not None:
        return _time_of_apache(argument)
    if letter == "T" and argument is not None:
        if argument not in UNITS_NS:
            raise FormatError(f"%{{{argument}}}T: expected %{{s}}T, %{{ms}}T or %{{us}}T")
        unit = next(ns for name, ns in UNITS_NS.items() if name == argument)
        return LogField("duration", COUNT, 1, unit, unit)
    if letter == "i" and (argument or "").lower() == "host":
        return LogField("host")
    if argument is not None and letter not in "ahp":
        return LogField()
    return _APACHE.get(letter, LogField())


def _time_of_apache(argument: str) -> LogField:
    """The field of `%{argument}t`: a number, a fraction, or a time as text (strftime)."""
    is_end = argument.startswith("end:")
    form = argument.removeprefix("end:").removeprefix("begin:")
    if form in _TIMES_OF_APACHE:
        unit, pattern = _TIMES_OF_APACHE[form]
        return LogField("time", pattern, 0, unit, unit, is_end)
    if form in _FRACTIONS:
        unit, pattern = _FRACTIONS[form]
        return LogField("fraction", pattern, 0, unit, unit, is_end)
    pattern, names = date_pattern(form, f"%{{{form}}}t")
    return LogField("time", pattern, 1, 0, SECOND_NS, is_end, names)


def date_pattern(form: str, directive: str) -> tuple[str, str]:
    """The pattern of a time in the form of strftime, with a group for each part, and the names of the parts.
    `directive`: for messages. Raises FormatError."""
    text = re.sub(r"%([TFR])", lambda found: _SHORT_DATES[found[1]], form)
    pattern, names = "", ""
    for conversion, literal in re.findall(r"%(.)|([^%]+|%)", text):
        if not conversion:
            pattern += re.escape(literal)
        elif conversion not in _DATE_PARTS or conversion in names:
            raise FormatError(
                f"{directive}: %{conversion} of a time cannot be read; expected one each of %Y, %m or %b, %d, %H, %M, "
                "%S, and %z"
            )
        else:
            pattern += f"({_DATE_PARTS[conversion]})"
            names += conversion
    if not {"Y", "d", "H", "M", "S"} <= set(names) or not {"m", "b"} & set(names):
        raise FormatError(f"{directive}: a time needs year, month, day, hour, minute and second")
    return pattern, names
