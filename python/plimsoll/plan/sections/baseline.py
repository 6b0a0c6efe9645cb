"""`hosts.baseline`: the network paths from the hosts of testers that are measured before and after the runs, and the
rule that decides whether a path has become worse. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Literal

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model.cell import Config, Via, Workload
from plimsoll.plan.model.hosts import Host, Requirement
from plimsoll.plan.source.addresses import address_of, netloc
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.source.units import NS
from plimsoll.plan.tiers import proxies_of

LAB: Final = "lab"
"""Name of the host of the lab as the other end of a path."""
HANDSHAKES: Final = 10
"""Handshakes that determine a round trip to a host where Plimsoll listens."""
SYSTEM_HANDSHAKES: Final = 5
"""Handshakes with an existing system. MariaDB refuses a host after 100 connections that were closed at once."""
TRANSFER: Final[Mapping[str, int]] = {
    "min_ns": NS["s"],
    "max_ns": 2 * NS["s"],
    "max_bytes": 256 * 1000**2,
}
"""Limits of a transfer in one direction."""
MAX_LOSS: Final = 0.2
"""Share of its throughput that a path may lose."""
MAX_RISE: Final = 0.2
MIN_RISE_NS: Final = NS["ms"]
"""A round trip has become longer if it rose by more than both."""
TRIES: Final = 3
"""Measurements of a path that has become worse, or does not satisfy `require`. The best of them counts, because other
traffic can only make a path look worse."""
AT: Final = ("hosts", "baseline")


@dataclass(frozen=True, slots=True)
class PathEnd:
    """The other end of a path. `name`: in the results: `lab`, the name of a host of services, or HOST:PORT of an
    existing system. `is_target`: whether the testers send their requests there. `address`: of an existing system."""

    name: str
    kind: Literal["lab", "host", "system"]
    is_target: bool = True
    address: str = ""

    @property
    def has_transfer(self) -> bool:
        """Whether data is transferred. Existing systems get only handshakes."""
        return self.kind != "system"


@dataclass(frozen=True, slots=True)
class PathFigures:
    """A measured path. Round trips in ns; throughput in bytes/s of payload, from the host (`send`) and to it
    (`receive`). None: not measured. `tries`: number of measurements. These are their best figures."""

    to: str
    is_target: bool = True
    rtt_min_ns: float | None = None
    rtt_median_ns: float | None = None
    send_bytes_s: float | None = None
    receive_bytes_s: float | None = None
    error: str = ""
    tries: int = 1

    @property
    def throughput_bytes_s(self) -> float | None:
        """The throughput of the slower direction."""
        if self.send_bytes_s is None or self.receive_bytes_s is None:
            return None
        return min(self.send_bytes_s, self.receive_bytes_s)

    def best_with(self, other: PathFigures) -> PathFigures:
        """The best figures of two measurements of the same path."""
        return replace(
            self,
            rtt_min_ns=_best(min, self.rtt_min_ns, other.rtt_min_ns),
            rtt_median_ns=_best(min, self.rtt_median_ns, other.rtt_median_ns),
            send_bytes_s=_best(max, self.send_bytes_s, other.send_bytes_s),
            receive_bytes_s=_best(max, self.receive_bytes_s, other.receive_bytes_s),
            error=self.error and other.error,
            tries=self.tries + other.tries,
        )


def _best(choose: Any, *values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


class Worse(StrEnum):
    """What has become worse on a path."""

    ROUND_TRIP = "round trip"
    SEND = "send"
    RECEIVE = "receive"


def worse(before: PathFigures, after: PathFigures) -> tuple[Worse, ...]:
    """What has become worse, beyond the bounds. A figure that one of the measurements lacks is not compared."""
    found = []
    if before.rtt_min_ns is not None and after.rtt_min_ns is not None:
        bound = before.rtt_min_ns + max(MIN_RISE_NS, MAX_RISE * before.rtt_min_ns)
        found += [Worse.ROUND_TRIP] if after.rtt_min_ns > bound else []
    for direction, old, new in (
        (Worse.SEND, before.send_bytes_s, after.send_bytes_s),
        (Worse.RECEIVE, before.receive_bytes_s, after.receive_bytes_s),
    ):
        if old is not None and new is not None and new < (1 - MAX_LOSS) * old:
            found.append(direction)
    return tuple(found)


def shortcoming(required: Sequence[Requirement], paths: Sequence[PathFigures]) -> str:
    """Why a host does not satisfy `require: {network: ...}`: the throughput of its slowest path in the slower
    direction. Empty if it does, or if nothing is required."""
    for requirement in required:
        if requirement.what != "network":
            continue
        error = next((path.error for path in paths if path.error), "")
        known = [(path.throughput_bytes_s, path.to) for path in paths if path.throughput_bytes_s is not None]
        if error or not known:
            why = f" ({error})" if error else ""
            return f"its network throughput is not known{why}; required is {requirement.text}"
        slowest, to = min(known)
        if not requirement.holds(slowest):
            return f"its network throughput to {to} is {shown_bits(slowest)}; required is {requirement.text}"
    return ""


def shown_bits(bytes_s: float) -> str:
    """A throughput in bits, as links are declared: "19.1 Mbit/s"."""
    bits = bytes_s * 8
    for unit, factor in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bits >= factor:
            return f"{bits / factor:.3g} {unit}"
    return f"{bits:.0f} bit/s"


def path_ends(configs: Iterable[Config], host: Host | None) -> tuple[PathEnd, ...]:
    """The other ends of the paths of a host, for all runs: where its testers connect to. If it exchanges data with none
    of them, the lab is added. `host` None: a host that is not known before the run, which runs all workloads."""
    ends: dict[str, PathEnd] = {}
    for config in configs:
        for work in config.workloads:
            if host is None or not work.sites or host.site in work.sites:
                ends |= {
                    end.name: end for end in _entries(work, config) if host is None or end.name != host.name
                }
    if not any(end.has_transfer for end in ends.values()):
        ends[LAB] = PathEnd(LAB, "lab", is_target=False)
    return tuple(ends.values())


def _entries(work: Workload, config: Config) -> Iterator[PathEnd]:
    """What the testers of a workload connect to: the proxies, otherwise the endpoints."""
    proxies = [
        (proxy.service, None) if isinstance(proxy, Via) else (None, proxy) for proxy in proxies_of(work)
    ]
    endpoints = [(endpoint.service, endpoint.url) for endpoint in work.target.endpoints]
    for number, (name, url) in enumerate(proxies or endpoints, 1):
        if name is not None:
            service = config.service(name)
            if service.starts_process:
                yield PathEnd(LAB, "lab") if service.host is None else PathEnd(service.host, "host")
            continue
        is_secret = isinstance(url, Secret)
        address = address_of(url.reveal() if isinstance(url, Secret) else str(url or ""))
        if address is not None:
            shown = netloc(*address)
            hidden = f"{work.target.name} {number}"
            yield PathEnd(hidden if is_secret else shown, "system", address=shown)


def check_baseline(configs: Sequence[Config], context: Context) -> None:
    """Reports a baseline that cannot be measured."""
    for config in configs:
        hosts = config.hosts
        if not hosts.baseline:
            continue
        if not hosts.elsewhere:
            message = (
                "the testers run on the host of the lab, and a baseline measures the network of other hosts"
            )
            context.wrong(AT, f"{message}: leave this key out")
            return
        named: Sequence[Host | None] = hosts.hosts or (None,)
        if hosts.controller is None and any(
            end.kind == "lab" for host in named for end in path_ends([config], host)
        ):
            message = "data is transferred between the hosts of the testers and the host of the lab"
            context.wrong(
                AT, f"{message}: give the address at which they reach it, controller: {{address: ...}}"
            )
            return


@dataclass(frozen=True, slots=True)
class BaselineCost:
    """What a measurement costs, once before and once after the runs. `hosts`: their number (None: not known before the
    run); `transfers`: transfers of all hosts together; of one host if their number is not known."""

    hosts: int | None
    transfers: int

    @property
    def least_s(self) -> float:
        """The shortest duration of the transfers, s."""
        return self.transfers * TRANSFER["min_ns"] / 1e9

    @property
    def most_s(self) -> float:
        """The longest duration of the transfers, s."""
        return self.transfers * TRANSFER["max_ns"] / 1e9


def baseline_cost(configs: Sequence[Config]) -> BaselineCost | None:
    """The cost for the hosts of these runs; None if no baseline is measured."""
    measured = [config for config in configs if config.hosts.baseline]
    if not measured:
        return None
    hosts = {host.name: host for config in measured for host in config.hosts.hosts}
    transfers = sum(
        2 * end.has_transfer for host in hosts.values() or (None,) for end in path_ends(measured, host)
    )
    expected = next((config.hosts.expected for config in measured if config.hosts.expected), None)
    if hosts:
        return BaselineCost(len(hosts), transfers)
    return BaselineCost(expected, transfers * (expected or 1))
