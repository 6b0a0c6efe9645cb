"""The network of the testers' hosts before and after the runs: a part of the machine-readable result."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.analyse.results.verdicts import RuleId


@dataclass(frozen=True, slots=True)
class PoolPath:
    """A path from a host. Round trips: the minimum of the handshakes. Throughput: payload, from the host (`send`) and
    to it (`receive`). None: not measured."""

    host: str
    agent: str
    site: str
    to: str
    """`lab`, a host of services, or HOST:PORT of an existing system."""
    is_target: bool
    """Whether the testers send their requests there."""
    rtt_before_ms: float | None
    rtt_after_ms: float | None
    send_before_bytes_per_s: float | None
    send_after_bytes_per_s: float | None
    receive_before_bytes_per_s: float | None
    receive_after_bytes_per_s: float | None
    worse: tuple[str, ...] = ()
    """What has become worse: `round trip`, `send`, `receive`."""
    error: str = ""
    """Why a figure is missing."""


@dataclass(frozen=True, slots=True)
class PoolResult:
    """The paths of all hosts. `measured_after`: whether there is a measurement after the first one; `changed`: whether
    a path has become worse."""

    paths: tuple[PoolPath, ...]
    measured_after: bool
    changed: bool
    rule: RuleId
