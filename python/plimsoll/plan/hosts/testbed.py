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
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from plimsoll.errors import BadInput, Problem
from plimsoll.plan.links import Rates, SignedDuration
from plimsoll.plan.model.links import DirectedLink, Link, Shape, delay_problems, link_problems
from plimsoll.plan.schema.paths import Origins
from plimsoll.plan.schema.problems import translate
from plimsoll.plan.source.document import MAX_TEXT, KeyPath, parse_document
from plimsoll.plan.source.fields import Duration, Fraction, Name, Raw, Seed, Size, format_version, shown
from plimsoll.plan.source.near import nearest

FORMAT_VERSION: Final = 1
LAB: Final = "lab"
"""Name of the host on which controller and services run."""
MAX_HOSTS: Final = 500
MAX_PER_SITE: Final = 250
"""Hosts of a site, and sites: an address is 10.TESTBED.SITE.HOST."""
PREFIX: Final = 16

SiteName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{0,15}$")]
"""The name of a site, which is also the beginning of hostnames."""


class SiteRaw(Raw):
    """A place with hosts."""

    hosts: Annotated[int, Field(ge=0, le=MAX_PER_SITE)]


class LinkRaw(Raw):
    """Delay, rate, loss and queue of a link, in both directions. `name`: for `hosts.links` of an experiment."""

    between: list[str]
    name: Name | None = None
    rtt: Duration
    jitter: Duration = 0
    asymmetry: SignedDuration = 0
    rate: Rates = None
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
class HostSpec:
    """One emulated host."""

    name: str
    site: str
    address: str


@dataclass(frozen=True, slots=True)
class TestbedSpec:
    """A testbed file, parsed and checked. `lan`: between hosts of one site; `routes`: the sites of each route over more
    than one link, by direction."""

    __test__ = False

    name: str
    lab_site: str
    sites: tuple[str, ...]
    hosts: tuple[HostSpec, ...]
    lan: Shape
    links: tuple[Link, ...]
    routes: tuple[tuple[str, ...], ...]
    congestion: str | None
    seed: int

    @property
    def lab(self) -> HostSpec:
        """The host `lab`."""
        return next(host for host in self.hosts if host.name == LAB)

    @property
    def directed_links(self) -> tuple[DirectedLink, ...]:
        """The networks of the sites, then both directions of each link."""
        inside = [DirectedLink(site, site, self.lan) for site in self.sites]
        return (*inside, *(directed for link in self.links for directed in link.directions()))

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
            if (link := self._link(("links", index), raw_link)) is not None
        ]
        self._check_duplicate_links(links)
        self._report(("lan",), delay_problems(raw.lan.rtt, raw.lan.jitter, 0))
        linked = {pair for link in links for pair in ((link.first, link.second), (link.second, link.first))}
        routes = () if self.problems else self._routes(linked)
        hosts = self._hosts()
        if self.problems:
            raise BadInput(self.problems)
        return TestbedSpec(
            name=raw.name,
            lab_site=raw.lab,
            sites=tuple(raw.sites),
            hosts=hosts,
            lan=Shape(raw.lan.rtt // 2, raw.lan.jitter, loss=raw.lan.loss),
            links=tuple(links),
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

    def _link(self, path: KeyPath, raw: LinkRaw) -> Link | None:
        if len(raw.between) != 2 or raw.between[0] == raw.between[1]:
            self._wrong((*path, "between"), "expected two different sites, like [cern, lyon]")
            return None
        known = [self._check_site((*path, "between", index), name) for index, name in enumerate(raw.between)]
        first, second = raw.between
        link = Link(
            name=raw.name or f"{first}-{second}",
            first=first,
            second=second,
            rtt_ns=raw.rtt,
            jitter_ns=raw.jitter,
            asymmetry_ns=raw.asymmetry,
            forward_bit_s=raw.rate.forward if raw.rate else None,
            backward_bit_s=raw.rate.backward if raw.rate else None,
            loss=raw.loss,
            queue_bytes=raw.queue,
        )
        self._report(path, link_problems(link))
        return link if all(known) else None

    def _report(self, path: KeyPath, problems: Mapping[str, str]) -> None:
        for key, message in problems.items():
            self._wrong((*path, key), message)

    def _check_duplicate_links(self, links: Sequence[Link]) -> None:
        first: dict[frozenset[str], int] = {}
        for index, link in enumerate(self.raw.links):
            pair = frozenset(link.between)
            if pair in first:
                self._wrong(("links", index), f"this pair of sites already has a link: links.{first[pair]}")
            first.setdefault(pair, index)
        for name, count in Counter(link.name for link in links).items():
            if count > 1 and len(first) == len(self.raw.links):
                self._wrong(("links",), f'{count} links have the name "{name}"')

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
        "links": [engine_link(link, number) for link in spec.directed_links],
        "routes": [{"sites": [number[name] for name in route]} for route in spec.routes],
    }


def engine_link(link: DirectedLink, number: Mapping[str, int]) -> dict[str, Any]:
    """One direction as the engine reads it. `number`: index of each site."""
    return {"from": number[link.source], "to": number[link.to], "shape": asdict(link.shape)}
