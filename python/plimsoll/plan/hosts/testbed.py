"""The testbed file: emulated hosts at sites, and the links between them.

::

    testbed: 1
    name: wan
    lab: cern                       # the site of the host `lab`, where controller and services run
    sites:
      cern: {hosts: 2}              # hosts cern-1, cern-2
      lyon: {hosts: 4}
    links:                          # both directions
      - {between: [cern, lyon], rtt: 60ms, jitter: 1ms, rate: 100Mbit/s}
    lan: {rtt: 0.3ms}               # between hosts of one site

Sites without a link between them reach each other through the lab's site, over both links. docs/testbed.md defines the
keys.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, ValidationError
from pydantic.functional_validators import PlainValidator

from plimsoll.errors import BadInput, Problem
from plimsoll.plan.schema.paths import Origins
from plimsoll.plan.schema.problems import translate
from plimsoll.plan.source import units
from plimsoll.plan.source.document import MAX_TEXT, KeyPath, parse_document
from plimsoll.plan.source.fields import Duration, Fraction, Raw, Seed, Size, format_version, shown
from plimsoll.plan.source.near import nearest

FORMAT_VERSION: Final = 1
LAB: Final = "lab"
"""Name of the host on which controller and services run."""
MAX_HOSTS: Final = 500
MAX_PER_SITE: Final = 250
"""Hosts of a site, and sites: an address is 10.TESTBED.SITE.HOST."""
MAX_RTT_NS: Final = 60 * units.NS["s"]
PREFIX: Final = 16

_BITS: Final = {"bit/s": 1, "kbit/s": 1000, "Mbit/s": 1000**2, "Gbit/s": 1000**3}
_LOWEST_RATE: Final = 1000
_HIGHEST_RATE: Final = 10**12
RATE_LIKE: Final = "a rate of a link is written like 512kbit/s, 100Mbit/s or 1Gbit/s"
_MIN_QUEUE: Final = 2_000
_DEFAULT_QUEUE: Final = 64 * 1514
"""At least 64 full frames: with a short round trip, the queue would otherwise be too small for TCP."""
_UNBOUNDED_QUEUE: Final = 256 * 10**6
"""Without a rate no queue forms. At most this many bytes are in flight, which bounds the memory."""
_MAX_QUEUE: Final = 4 * 10**9


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


BitRate = Annotated[int, PlainValidator(parse_bit_rate)]
SignedDuration = Annotated[int, PlainValidator(parse_signed_duration)]


class BothRatesRaw(Raw):
    """Forward is from the first site of `between` to the second."""

    forward: BitRate
    backward: BitRate


def _both_directions(value: object) -> object:
    return value if isinstance(value, dict) else {"forward": value, "backward": value}


SiteName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{0,15}$")]
"""The name of a site, which is also the beginning of hostnames."""


class SiteRaw(Raw):
    """A place with hosts."""

    hosts: Annotated[int, Field(ge=0, le=MAX_PER_SITE)]


class LinkRaw(Raw):
    """Delay, rate, loss and queue of a link, in both directions."""

    between: list[str]
    rtt: Duration
    jitter: Duration = 0
    asymmetry: SignedDuration = 0
    rate: Annotated[BothRatesRaw | None, BeforeValidator(_both_directions)] = None
    loss: Fraction = 0.0
    queue: Size | None = None


class LanRaw(Raw):
    """The network of a site. It has no rate: with a switch, each pair of hosts has its own."""

    rtt: Duration = 0
    jitter: Duration = 0
    loss: Fraction = 0.0


class TestbedRaw(Raw):
    """A whole testbed file."""

    __test__ = False  # not for pytest

    testbed: Annotated[int, format_version(FORMAT_VERSION)]
    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,30}$")]
    lab: str
    sites: Annotated[dict[SiteName, SiteRaw], Field(min_length=1)]
    links: list[LinkRaw] = Field(default_factory=list)
    lan: LanRaw = LanRaw()
    congestion: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,15}$")] | None = None
    seed: Seed = 1


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
class HostSpec:
    """One emulated host."""

    name: str
    site: str
    address: str


@dataclass(frozen=True, slots=True)
class TestbedSpec:
    """A testbed file, parsed and checked. `routes`: the sites of each route over more than one link, by direction."""

    __test__ = False

    name: str
    lab_site: str
    sites: tuple[str, ...]
    hosts: tuple[HostSpec, ...]
    links: tuple[DirectedLink, ...]
    routes: tuple[tuple[str, ...], ...]
    congestion: str | None
    seed: int

    @property
    def lab(self) -> HostSpec:
        """The host `lab`."""
        return next(host for host in self.hosts if host.name == LAB)

    def fingerprint(self) -> str:
        """A hash that is equal for files with the same meaning."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def load_testbed(path: str | Path) -> TestbedSpec:
    """Reads and checks a testbed file. Raises BadInput with all problems."""
    name = str(path)
    try:
        with Path(path).open("rb") as file:
            text = file.read(4 * MAX_TEXT + 1).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(
            [Problem(f"the file is not UTF-8 text ({error.reason} at byte {error.start})", file=name)]
        ) from None
    except OSError as error:
        raise BadInput(
            [Problem(f"the testbed file cannot be read: {error.strerror or error}", file=name)]
        ) from None
    return parse_testbed(text, name)


def parse_testbed(text: str, name: str) -> TestbedSpec:
    """Checks the text of a testbed file. `name`: of the file in messages. Raises BadInput with all problems."""
    document = parse_document(text, name)
    origins = Origins(document)
    if not isinstance(document.data, Mapping):
        raise BadInput([Problem(f"expected a mapping, got {shown(document.data)}", file=name, line=1)])
    try:
        raw = TestbedRaw.model_validate(document.data)
    except ValidationError as error:
        raise BadInput(translate(error, document.data, origins, {}, TestbedRaw)) from None
    return _Checker(raw, origins).spec()


class _Checker:
    """Creates the testbed from the raw model, and collects problems between its sections."""

    def __init__(self, raw: TestbedRaw, origins: Origins) -> None:
        self.raw = raw
        self.origins = origins
        self.problems: list[Problem] = []

    def spec(self) -> TestbedSpec:
        raw = self.raw
        self._check_site(("lab",), raw.lab)
        links = [
            link
            for index, raw_link in enumerate(raw.links)
            for link in self._link(("links", index), raw_link)
        ]
        self._check_duplicate_links()
        self._check_delays(("lan",), raw.lan.rtt, raw.lan.jitter, 0)
        routes = () if self.problems else self._routes({(link.source, link.to) for link in links})
        hosts = self._hosts()
        if self.problems:
            raise BadInput(self.problems)
        lan = Shape(raw.lan.rtt // 2, raw.lan.jitter, loss=raw.lan.loss)
        inside = [DirectedLink(site, site, lan) for site in raw.sites]
        return TestbedSpec(
            name=raw.name,
            lab_site=raw.lab,
            sites=tuple(raw.sites),
            hosts=hosts,
            links=(*inside, *links),
            routes=routes,
            congestion=raw.congestion,
            seed=raw.seed,
        )

    def _wrong(self, path: KeyPath, message: str, near: str | None = None) -> None:
        file, line = self.origins.place(path)
        self.problems.append(Problem(message, ".".join(map(str, path)), file, line, nearest=near))

    def _check_site(self, path: KeyPath, name: str) -> bool:
        if name in self.raw.sites:
            return True
        known = ", ".join(self.raw.sites)
        self._wrong(path, f'there is no site "{name}" (sites: {known})', nearest(name, self.raw.sites))
        return False

    def _link(self, path: KeyPath, raw: LinkRaw) -> list[DirectedLink]:
        if len(raw.between) != 2 or raw.between[0] == raw.between[1]:
            self._wrong((*path, "between"), "expected two different sites, like [cern, lyon]")
            return []
        known = [self._check_site((*path, "between", index), name) for index, name in enumerate(raw.between)]
        self._check_delays(path, raw.rtt, raw.jitter, raw.asymmetry)
        if raw.queue is not None and not _MIN_QUEUE <= raw.queue <= _MAX_QUEUE:
            self._wrong((*path, "queue"), "the size of a queue must be from 2kB (one full frame) to 4GB")
        if not all(known):
            return []
        first, second = raw.between
        rates = raw.rate
        forward, backward = (None, None) if rates is None else (rates.forward, rates.backward)
        return list(
            directions(
                first, second, raw.rtt, raw.asymmetry, raw.jitter, forward, backward, raw.loss, raw.queue
            )
        )

    def _check_delays(self, path: KeyPath, rtt: int, jitter: int, asymmetry: int) -> None:
        if rtt > MAX_RTT_NS:
            self._wrong((*path, "rtt"), "the round-trip time must be at most 60s")
        if abs(asymmetry) > rtt:
            self._wrong(
                (*path, "asymmetry"), "the delay of one direction would be negative: the limit is the rtt"
            )
        elif jitter > rtt - abs(asymmetry):
            self._wrong(
                (*path, "jitter"),
                "the delay of one direction would be negative: the limit is rtt - |asymmetry|",
            )

    def _check_duplicate_links(self) -> None:
        first: dict[frozenset[str], int] = {}
        for index, link in enumerate(self.raw.links):
            pair = frozenset(link.between)
            if pair in first:
                self._wrong(("links", index), f"this pair of sites already has a link: links.{first[pair]}")
            first.setdefault(pair, index)

    def _routes(self, linked: set[tuple[str, str]]) -> tuple[tuple[str, ...], ...]:
        lab, routes = self.raw.lab, []
        for source in self.raw.sites:
            if source != lab and (source, lab) not in linked:
                self._wrong(
                    ("sites", source),
                    f"the site has no link to the site of the lab: add one between {lab} and {source}",
                )
            for to in self.raw.sites:
                if source != to and lab not in (source, to) and (source, to) not in linked:
                    routes.append((source, lab, to))
        return tuple(routes)

    def _hosts(self) -> tuple[HostSpec, ...]:
        # Testbeds share no network, so equal addresses would be possible; different ones are easier to recognize.
        net = 64 + int(hashlib.sha256(self.raw.name.encode()).hexdigest(), 16) % 128
        if len(self.raw.sites) > MAX_PER_SITE:
            self._wrong(("sites",), f"expected at most {MAX_PER_SITE} sites")
            return ()
        if 1 + sum(site.hosts for site in self.raw.sites.values()) > MAX_HOSTS:
            self._wrong(("sites",), f"expected at most {MAX_HOSTS} hosts, including the host lab")
        hosts = [HostSpec(LAB, self.raw.lab, f"10.{net}.0.1")]
        for number, (name, site) in enumerate(self.raw.sites.items(), start=1):
            hosts += [
                HostSpec(f"{name}-{host}", name, f"10.{net}.{number}.{host}")
                for host in range(1, site.hosts + 1)
            ]
        return tuple(hosts)


def directions(
    first: str,
    second: str,
    rtt_ns: int,
    asymmetry_ns: int,
    jitter_ns: int,
    forward_bit_s: int | None,
    backward_bit_s: int | None,
    loss: float,
    queue_bytes: int | None,
    down: bool = False,
) -> tuple[DirectedLink, DirectedLink]:
    """Both directions of a link: from site `first` to site `second`, and back. The round trip varies by at most ±
    `jitter_ns`; `asymmetry_ns`: forward minus backward delay; `queue_bytes`: None: `default_queue`."""
    forward = (rtt_ns + asymmetry_ns) // 2

    def shape(delay: int, rate: int | None) -> Shape:
        queue = queue_bytes if queue_bytes is not None else default_queue(rtt_ns, rate)
        return Shape(delay, jitter_ns, rate, loss, queue, down)

    return (
        DirectedLink(first, second, shape(forward, forward_bit_s)),
        DirectedLink(second, first, shape(rtt_ns - forward, backward_bit_s)),
    )


def default_queue(rtt_ns: int, rate_bit_s: int | None) -> int:
    """Queue capacity in bytes: rate times round trip, the classical rule (C. Villamizar, C. Song,
    doi:10.1145/205511.205520), and at least 64 full frames."""
    if rate_bit_s is None:
        return _UNBOUNDED_QUEUE
    return min(_MAX_QUEUE, max(_DEFAULT_QUEUE, rate_bit_s * rtt_ns // (8 * units.NS["s"])))


def document(spec: TestbedSpec) -> dict[str, Any]:
    """The document that the engine reads, without the parts of this machine (directory, daemon)."""
    number = {name: index for index, name in enumerate(spec.sites)}
    return {
        "testbed": FORMAT_VERSION,
        "name": spec.name,
        "seed": spec.seed,
        "congestion": spec.congestion,
        "prefix": PREFIX,
        "sites": list(spec.sites),
        "hosts": [
            {"name": host.name, "site": number[host.site], "address": host.address} for host in spec.hosts
        ],
        "links": [engine_link(link, number) for link in spec.links],
        "routes": [{"sites": [number[name] for name in route]} for route in spec.routes],
    }


def engine_link(link: DirectedLink, number: Mapping[str, int]) -> dict[str, Any]:
    """One direction as the engine reads it. `number`: index of each site."""
    return {"from": number[link.source], "to": number[link.to], "shape": asdict(link.shape)}
