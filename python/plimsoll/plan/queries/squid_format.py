"""The codes of Squid's `logformat`: what a line has for each. Pure.

Source: Squid, squid.conf, `logformat`: `%` [encoding] [[-]width[.precision]] [{argument}] code [{argument}].
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from plimsoll.plan.queries.access_line import SECOND_NS, UNITS_NS
from plimsoll.plan.queries.log_fields import COUNT, LOCAL, LOCAL_TIME, FormatError, LogField, date_pattern

_OF_PAGE: Final = (
    "sn ea note ts tu tl tg tr dt tS >a >A >p >eui >la >lp la lp <a <A <p <la <lp <pt <tt un ul ui ue us credentials "
    "Hs >Hs <Hs h >h <h >ha mt rm >rm <rm ru >ru <ru rp >rp <rp rP >rP <rP rs >rs <rs rd >rd <rd rv >rv <rv et Ss Sh "
    "st >st <st >sh <sh <sH <sS <bs err_code err_detail master_xaction request_attempts transport::>connection_id"
)
"""Codes of the manual. Squid reads the longest code that matches."""
_KNOWN: Final = "|".join(map(re.escape, sorted(_OF_PAGE.split(), key=len, reverse=True)))
CODE: Final = re.compile(
    r"%(?:(%)|[\"'#/\[]?(-?\d*)(?:\.(\d+))?(?:\{([^}]*)\})?"
    rf"(?:http::)?({_KNOWN}|(?:[a-z]+::)?[<>]?[A-Za-z_]+)(?:\{{([^}}]*)\}})?)"
)
"""Groups: a literal percent sign; width, precision, argument, code, argument."""
OF_SQUID: Final = re.compile(
    r"%[\"'#/\[]?-?\d*(?:\.\d+)?(?:\{[^}]*\})?(?:http::)?[<>]?(?:ru|rm|rp|ts|tS|tl|tg|Hs|Ss)"
)
"""A code that Apache does not have: its directives have one letter."""
FIELDS: Final[Mapping[str, LogField]] = {
    ">a": LogField("client"),
    ">A": LogField("client", rank=1),
    ">rd": LogField("host"),
    "rm": LogField("method"),
    ">rm": LogField("method", rank=1),
    "ru": LogField("target"),
    ">ru": LogField("target", rank=1),
    "rp": LogField("target", rank=2),
    ">rp": LogField("target", rank=3),
    ">Hs": LogField("status", r"\d{1,3}|-"),
    "Hs": LogField("status", r"\d{1,3}|-", rank=1),
    "<st": LogField("size", COUNT),
    "tr": LogField("duration", r"\d{1,12}(?:\.\d{1,9})?|-", 0, UNITS_NS["ms"], UNITS_NS["ms"]),
    "ts": LogField("time", r"\d{9,11}", 0, SECOND_NS, SECOND_NS, is_end=True),
    "tS": LogField("time", r"\d{9,11}\.\d{1,9}", 1, SECOND_NS, UNITS_NS["ms"]),
    "tl": LogField("time", LOCAL_TIME, 2, 0, SECOND_NS, is_end=True, names=LOCAL),
    "tg": LogField("time", LOCAL_TIME, 3, 0, SECOND_NS, is_end=True, names=LOCAL),
}  # fmt: skip


def squid_field(found: re.Match[str]) -> LogField:
    """The field of a code, a match of `CODE`; one that is not known is not used. Raises FormatError."""
    width, precision, code = found[2], found[3], found[5]
    argument = found[4] if found[4] is not None else found[6]
    if code == "tu":
        field = _fraction(int(precision or 3))
    elif code in ("tl", "tg") and argument:
        pattern, names = date_pattern(argument, f"%{{{argument}}}{code}")
        field = LogField("time", pattern, 2, 0, SECOND_NS, is_end=True, names=names)
    elif code == ">h" and (argument or "").lower() == "host":
        field = LogField("host", rank=1)
    else:
        field = FIELDS.get(code, LogField())
    return _padded(field, width)


def _fraction(digits: int) -> LogField:
    """The part of a second in units of `digits` decimals: `%03tu` are ms, `%.6tu` are µs."""
    if not 1 <= digits <= 6:
        raise FormatError(f"%.{digits}tu: expected a precision of 1 to 6")
    unit = SECOND_NS // 10**digits
    return LogField("fraction", r"\d{1,6}", 0, unit, unit, is_end=True)


def _padded(field: LogField, width: str) -> LogField:
    """The field with the spaces that its width adds: on the left, or on the right of `%-9a`."""
    if not width or width.startswith("0"):
        return field
    text = f"(?:{field.pattern})" if field.pattern else r"\S+"
    return replace(field, pattern=f"{text} *" if width.startswith("-") else f" *{text}")
