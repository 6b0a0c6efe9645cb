"""`source_addresses`: the local addresses from which the connections of a driver are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model.cell import Json, Target
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import PlainText, ShortForm, shown

Address = IPv4Address | IPv6Address
KEY: Final = "source_addresses"
MAX_SOURCE_ADDRESSES: Final = 1024
"""Maximum number of addresses of a workload. Each agent tries every one before the run."""
_EXPECTED: Final = "expected an IP address, or a range such as 127.0.0.2..127.0.0.9, got {shown}"


@dataclass(frozen=True, slots=True)
class AddressRange:
    """The addresses from `first` to `last`, both included and of the same family."""

    first: Address
    last: Address

    def __len__(self) -> int:
        return int(self.last) - int(self.first) + 1

    def __iter__(self) -> Iterator[Address]:
        return (self.first + index for index in range(len(self)))


def address_range(text: str) -> AddressRange:
    """One entry of the list. Raises PydanticCustomError."""
    first, dots, last = text.partition("..")
    try:
        found = AddressRange(ip_address(first.strip()), ip_address((last if dots else first).strip()))
    except ValueError:
        raise PydanticCustomError("source_address", _EXPECTED, {"shown": shown(text)}) from None
    if found.first.version != found.last.version:
        raise PydanticCustomError(
            "source_address",
            "expected a range within IPv4 or within IPv6, got {shown}",
            {"shown": shown(text)},
        )
    if int(found.first) > int(found.last):
        raise PydanticCustomError(
            "source_address",
            "{shown}: the range ends before it begins: exchange its addresses",
            {"shown": shown(text)},
        )
    if int(found.last) - int(found.first) >= MAX_SOURCE_ADDRESSES:
        raise PydanticCustomError(
            "source_address",
            "{shown}: a range has at most {most} addresses",
            {"shown": shown(text), "most": f"{MAX_SOURCE_ADDRESSES:,}"},
        )
    for address in found:
        if why := _unusable(address):
            raise PydanticCustomError(
                "source_address", "{address} {why}", {"address": str(address), "why": why}
            )
    return found


def _unusable(address: Address) -> str | None:
    """Why no host can connect from the address; None if a host may have it."""
    if address.is_unspecified:
        return "is not the address of a host: omit source_addresses to let the kernel select one"
    if address.is_multicast or address == IPv4Address("255.255.255.255"):
        return "is an address of a group of hosts: a connection cannot come from it"
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return f"is an IPv4 address in the form of IPv6: write {address.ipv4_mapped}"
    if isinstance(address, IPv6Address) and (address.is_link_local or address.scope_id is not None):
        return "needs an interface (a link-local address), which is not supported: use a global address"
    return None


def _entry(text: str) -> str:
    address_range(text)
    return text


def _entries(value: object) -> object:
    return value if value is None or isinstance(value, list | dict) else [value]


SourceAddresses = Annotated[
    list[Annotated[PlainText, AfterValidator(_entry)]],
    Field(min_length=1),
    BeforeValidator(_entries),
    ShortForm({"type": "string", "examples": ["127.0.0.2..127.0.0.9"]}),
]
"""Addresses and ranges of addresses, or a single one."""


def source_settings(entries: Sequence[str] | None, at: KeyPath, context: Context) -> dict[str, Json]:
    """The key of the settings, with each address on its own; empty without addresses."""
    if entries is None:
        return {}
    found: dict[Address, None] = {}
    for index, text in enumerate(entries):
        for address in address_range(text):
            if address in found:
                context.wrong((*at, KEY, index), f"{address} is in the list twice: remove one of them")
                break
            found[address] = None
    if len(found) > MAX_SOURCE_ADDRESSES:
        context.wrong((*at, KEY), f"expected at most {MAX_SOURCE_ADDRESSES:,} addresses, got {len(found):,}")
    return {KEY: [str(address) for address in found]}


def source_addresses_of(settings: Mapping[str, Any]) -> tuple[Address, ...]:
    return tuple(map(ip_address, settings.get(KEY, ())))


def check_source_families(settings: Mapping[str, Any], target: Target, at: KeyPath, context: Context) -> None:
    """Reports addresses of a family that the target does not have, and addresses of the target of a family that
    the list does not have. The families of names and services are known only in the run: the engine checks them.
    `at`: path of the driver's section."""
    sources = source_addresses_of(settings)
    if not sources:
        return
    peers = _peers(settings, target)
    families = {source.version for source in sources}
    for peer in peers:
        if peer is not None and peer.version not in families:
            context.wrong(
                (*at, KEY),
                f"{peer} is an IPv{peer.version} address, and the list contains none: "
                f"add IPv{peer.version} addresses",
            )
            return
    if not peers or None in peers:
        return
    used = {peer.version for peer in peers if peer is not None}
    for source in sources:
        if source.version not in used:
            context.wrong(
                (*at, KEY),
                f"{source} is an IPv{source.version} address, and no connection goes to an "
                f"IPv{source.version} address: remove it from the list",
            )
            return


def peer_address(url: object) -> Address | None:
    """The address in a URL; None if it contains a name, or is a secret or a service."""
    try:
        return ip_address(urlsplit(url).hostname or "") if isinstance(url, str) else None
    except ValueError:
        return None


def _peers(settings: Mapping[str, Any], target: Target) -> list[Address | None]:
    """The peers of the connections: the proxies, or without proxies the endpoints."""
    proxies: Sequence[object] = target.proxies or settings.get("proxies", ())
    return [peer_address(peer) for peer in proxies or [endpoint.url for endpoint in target.endpoints]]
