"""The resolved model of the links of a testbed. Frozen dataclasses; times in ns, rates in bit/s, sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from plimsoll.plan.source import units

MAX_RTT_NS: Final = 60 * units.NS["s"]
_MIN_QUEUE: Final = 2_000
_DEFAULT_QUEUE: Final = 64 * 1514
"""At least 64 full frames: with a short round trip, the queue would otherwise be too small for TCP."""
_UNBOUNDED_QUEUE: Final = 256 * 10**6
"""Without a rate no queue forms. At most this many bytes are in flight, which bounds the memory."""
_MAX_QUEUE: Final = 4 * 10**9


@dataclass(frozen=True, slots=True)
class Shape:
    """One direction of a link. Times in ns, `loss` from 0 to 1. `jitter_ns`: width of the uniform distribution around
    `delay_ns`; `rate_bit_s`: None: unlimited; `queue_bytes`: capacity of the queue before the transmitter."""

    delay_ns: int
    jitter_ns: int = 0
    rate_bit_s: int | None = None
    loss: float = 0.0
    queue_bytes: int = _UNBOUNDED_QUEUE
    down: bool = False


@dataclass(frozen=True, slots=True)
class DirectedLink:
    """A shape from one site to another; from a site to itself it is the LAN."""

    source: str
    to: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Link:
    """A link between two sites. The round trip varies by at most ± `jitter_ns`; `asymmetry_ns`: forward minus backward
    delay, where forward is from `first` to `second`; rates in bit/s, None: no limit; `queue_bytes`: None:
    `default_queue`; `name`: FIRST-SECOND if the file gives none."""

    name: str
    first: str
    second: str
    rtt_ns: int
    jitter_ns: int = 0
    asymmetry_ns: int = 0
    forward_bit_s: int | None = None
    backward_bit_s: int | None = None
    loss: float = 0.0
    queue_bytes: int | None = None
    down: bool = False

    def directions(self) -> tuple[DirectedLink, DirectedLink]:
        """Both directions: from site `first` to site `second`, and back."""
        forward = (self.rtt_ns + self.asymmetry_ns) // 2
        return (
            DirectedLink(self.first, self.second, self._shape(forward, self.forward_bit_s)),
            DirectedLink(self.second, self.first, self._shape(self.rtt_ns - forward, self.backward_bit_s)),
        )

    def _shape(self, delay_ns: int, rate_bit_s: int | None) -> Shape:
        queue = self.queue_bytes if self.queue_bytes is not None else default_queue(self.rtt_ns, rate_bit_s)
        return Shape(delay_ns, self.jitter_ns, rate_bit_s, self.loss, queue, self.down)


def link_problems(link: Link) -> dict[str, str]:
    """What is wrong with the properties of a link: a message by key of the file."""
    problems = delay_problems(link.rtt_ns, link.jitter_ns, link.asymmetry_ns)
    if link.queue_bytes is not None and not _MIN_QUEUE <= link.queue_bytes <= _MAX_QUEUE:
        problems["queue"] = "the size of a queue must be from 2kB (one full frame) to 4GB"
    return problems


def delay_problems(rtt_ns: int, jitter_ns: int, asymmetry_ns: int) -> dict[str, str]:
    """What is wrong with delays: a message by key of the file."""
    problems = {}
    if rtt_ns > MAX_RTT_NS:
        problems["rtt"] = "the round-trip time must be at most 60s"
    if abs(asymmetry_ns) > rtt_ns:
        problems["asymmetry"] = "the delay of one direction would be negative: the limit is the rtt"
    elif jitter_ns > rtt_ns - abs(asymmetry_ns):
        problems["jitter"] = "the delay of one direction would be negative: the limit is rtt - |asymmetry|"
    return problems


def default_queue(rtt_ns: int, rate_bit_s: int | None) -> int:
    """Queue capacity in bytes: rate times round trip, the classical rule (C. Villamizar, C. Song,
    doi:10.1145/205511.205520), and at least 64 full frames."""
    if rate_bit_s is None:
        return _UNBOUNDED_QUEUE
    return min(_MAX_QUEUE, max(_DEFAULT_QUEUE, rate_bit_s * rtt_ns // (8 * units.NS["s"])))
