"""The properties of a link in files: in a testbed file, and in `hosts.links` and `actions` of an experiment file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic.functional_validators import PlainValidator

from plimsoll.plan.model.links import Link, link_problems
from plimsoll.plan.source import units
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Duration, Fraction, Raw, ShortForm, Size, shown

_BITS: Final = {"bit/s": 1, "kbit/s": 1000, "Mbit/s": 1000**2, "Gbit/s": 1000**3}
_LOWEST_RATE: Final = 1000
_HIGHEST_RATE: Final = 10**12
RATE_LIKE: Final = "a rate of a link is written like 512kbit/s, 100Mbit/s or 1Gbit/s"
UNLIMITED: Final = "none"
_PATTERN: Final = r"^\s*(none|([0-9]+(\.[0-9]+)?|\.[0-9]+)\s*(bit|kbit|Mbit|Gbit)/s)\s*$"


def parse_bit_rate(value: object) -> int:
    """Bits per second of "512kbit/s", "100Mbit/s", "1 Gbit/s": from 1 kbit/s to 1 Tbit/s.

    Raises UnitError, also for rates in bytes: "100MB/s" is eight times "100Mbit/s", and could be a mistake.
    """
    text = value if isinstance(value, str) else ""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([A-Za-z/]+)\s*", text)
    if match is None or match[2] not in _BITS:
        raise units.UnitError(f"expected a rate of bits, got {shown(value)}: {RATE_LIKE}")
    rate = float(match[1]) * _BITS[match[2]]
    if not _LOWEST_RATE <= rate <= _HIGHEST_RATE:
        raise units.UnitError(f"{shown(value)}: the rate of a link must be from 1 kbit/s to 1 Tbit/s")
    return round(rate)


def show_bit_rate(rate: int) -> str:
    """The rate in the largest unit that needs no rounding; parse_bit_rate returns the same rate."""
    for unit, factor in reversed(_BITS.items()):
        if rate % factor == 0:
            return f"{rate // factor}{unit}"
    return f"{rate}bit/s"


def parse_signed_duration(value: object) -> int:
    """Nanoseconds of "35ms" or "-35ms". Raises UnitError."""
    if isinstance(value, str) and value.strip().startswith("-"):
        return -units.parse_duration(value.strip()[1:])
    return units.parse_duration(value)


def show_signed_duration(duration_ns: int) -> str:
    """The duration as parse_signed_duration reads it."""
    return f"{'-' if duration_ns < 0 else ''}{units.show_duration(abs(duration_ns))}"


def parse_rate_limit(value: object) -> int | None:
    """As parse_bit_rate; None for "none", a link without a limit. Raises UnitError."""
    return None if value == UNLIMITED else parse_bit_rate(value)


def show_rate_limit(rate: int | None) -> str:
    """The limit as parse_rate_limit reads it."""
    return UNLIMITED if rate is None else show_bit_rate(rate)


_RATE_SCHEMA: Final = {"type": "string", "pattern": _PATTERN, "examples": ["100Mbit/s", UNLIMITED]}
RateLimit = Annotated[
    int | None,
    PlainValidator(parse_rate_limit),
    PlainSerializer(show_rate_limit, return_type=str),
    WithJsonSchema(_RATE_SCHEMA),
]
"""Bits per second; None: no limit."""
SignedDuration = Annotated[
    int,
    PlainValidator(parse_signed_duration),
    PlainSerializer(show_signed_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "^\\s*-?" + units.DURATION_PATTERN.lstrip("^")}),
]
"""Nanoseconds, negative or not."""


class BothRatesRaw(Raw):
    """Forward is from the first site of `between` to the second."""

    forward: RateLimit
    backward: RateLimit


def _both_directions(value: object) -> object:
    return value if isinstance(value, dict | None) else {"forward": value, "backward": value}


def _show_rates(value: BothRatesRaw | None) -> object:
    if value is None:
        return None
    if value.forward == value.backward:
        return show_rate_limit(value.forward)
    return {"forward": show_rate_limit(value.forward), "backward": show_rate_limit(value.backward)}


Rates = Annotated[
    BothRatesRaw | None,
    BeforeValidator(_both_directions),
    PlainSerializer(_show_rates),
    ShortForm(_RATE_SCHEMA),
]
"""The rates of both directions: one value for both, or a mapping."""


def describe(link: Link) -> str:
    """A link and its properties in words."""
    return describe_levels([link])


def describe_levels(links: Sequence[Link]) -> str:
    """The same for a link as it is in different cells, at least one: `link far: round trip 10ms, rate 2Mbit/s to
    100Mbit/s`. Other properties than the round trip and the rate are those of the first cell."""
    link = links[0]
    rtts = sorted({each.rtt_ns for each in links})
    by_rate = sorted(links, key=lambda each: each.forward_bit_s or _HIGHEST_RATE)
    rates = list(dict.fromkeys(map(_rate_in_words, by_rate)))
    parts = [f"round trip {units.show_duration(rtts[0])}"]
    if len(rtts) > 1:
        parts[0] += f" to {units.show_duration(rtts[-1])}"
    if link.jitter_ns:
        parts.append(f"jitter {units.show_duration(link.jitter_ns)}")
    if link.asymmetry_ns:
        parts.append(f"asymmetry {show_signed_duration(link.asymmetry_ns)}")
    parts.append(rates[0] if len(rates) == 1 else f"{rates[0]} to {rates[-1].removeprefix('rate ')}")
    if link.loss:
        parts.append(f"loss {units.show_fraction(link.loss)}")
    if link.queue_bytes is not None:
        parts.append(f"queue {units.show_size(link.queue_bytes)}")
    return f"link {link.name}: {', '.join(parts)}"


def _rate_in_words(link: Link) -> str:
    forward, backward = (show_rate_limit(rate) for rate in (link.forward_bit_s, link.backward_bit_s))
    if forward != backward:
        return f"rate {forward} from {link.first} to {link.second}, {backward} back"
    return "no rate limit" if forward == UNLIMITED else f"rate {forward}"


class LinkChangesRaw(Raw):
    """Properties of a link that replace those of the testbed file. A property that is not given keeps its value."""

    rtt: Duration | None = None
    jitter: Duration | None = None
    asymmetry: SignedDuration | None = None
    rate: Rates = None
    loss: Fraction | None = None
    queue: Size | None = None


def changed_link(link: Link, changes: LinkChangesRaw) -> Link:
    """The link with the properties that are given. A queue of the testbed file that is not given is kept only if rate
    and rtt are, too: it was chosen for them."""
    rate = changes.rate
    keeps_queue = changes.queue is None and rate is None and changes.rtt is None
    return replace(
        link,
        rtt_ns=link.rtt_ns if changes.rtt is None else changes.rtt,
        jitter_ns=link.jitter_ns if changes.jitter is None else changes.jitter,
        asymmetry_ns=link.asymmetry_ns if changes.asymmetry is None else changes.asymmetry,
        forward_bit_s=link.forward_bit_s if rate is None else rate.forward,
        backward_bit_s=link.backward_bit_s if rate is None else rate.backward,
        loss=link.loss if changes.loss is None else changes.loss,
        queue_bytes=link.queue_bytes if keeps_queue else changes.queue,
    )


def report_link(link: Link, changes: LinkChangesRaw, at: KeyPath, wrong: Callable[..., Any]) -> None:
    """Reports what is wrong with a changed link at `at` of the file: at the key, if it is given there."""
    for key, message in link_problems(link).items():
        wrong((*at, key) if getattr(changes, key) is not None else at, message)
