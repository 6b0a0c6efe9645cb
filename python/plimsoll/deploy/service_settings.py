"""From a resolved service to the configuration that `plimsoll-engine serve` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plimsoll.errors import ServiceError
from plimsoll.plan.model import Service

NS_PER_S = 1e9


def engine_settings(service: Service, addresses: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The JSON of one of our services. `addresses`: URLs of the services that run already."""
    told = dict(service.settings)
    match service.kind:
        case "frontier":
            return {
                "database": _database(service, addresses),
                "connections": told["connections"],
                "threads": told["threads"],
                "ages": {name: int(ns // NS_PER_S) for name, ns in told["ages"].items()},
                "server_name": told["server_name"],
                "keepalive_s": told["keepalive"] / NS_PER_S,
            }
        case "delay":
            stall = told["stall"]
            return {
                "http": told["http"],
                "servers": told["servers"],
                "service": _law(told["time"]),
                "seed": told["seed"],
                "fail": told["fail"],
                "stall": stall and {"at_s": stall["at"] / NS_PER_S, "for_s": stall["for"] / NS_PER_S},
            }
        case "null":
            return {"reply": told["reply"] or None}
        case _:
            return told


def _database(service: Service, addresses: Mapping[str, Sequence[str]]) -> str:
    name = str(service.settings["database"])
    if name not in service.needs:
        return name
    urls = addresses.get(name)
    if not urls:
        raise ServiceError(f"service {service.name}: its database {name} was not started")
    return urls[0].removeprefix("sqlite:")


def _law(time: Mapping[str, Any]) -> dict[str, Any]:
    """`time` is the section as written, quantities in ns: exactly one of its keys is not None."""
    if time["exponential"] is not None:
        return {"law": "exponential", "mean_s": time["exponential"] / NS_PER_S}
    if time["uniform"] is not None:
        low, high = time["uniform"]["low"], time["uniform"]["high"]
        return {"law": "uniform", "from_s": low / NS_PER_S, "to_s": high / NS_PER_S}
    return {"law": "fixed", "s": time["fixed"] / NS_PER_S}
