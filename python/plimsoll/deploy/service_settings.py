"""From a resolved service to the configuration that `plimsoll-engine serve` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from plimsoll.errors import ServiceError
from plimsoll.plan.model import Service
from plimsoll.plan.source.secret import HIDDEN, Secret, revealed

NS_PER_S = 1e9
NS_PER_MS = 1e6
HOURS: Final = ("long_hour", "short_hour")
AS_THEY_ARE: Final = (
    *("connections", "threads", "server_name", "stale_if_error", "expire_empty_like_errors"),
    *("last_modified_table", "files", "key_file", "cert_file"),
)
SECONDS: Final = ("keepalive", "query_timeout", "max_acquire", "max_execute")
"""Durations of the gateway, whose names end in `_s` there."""


def engine_settings(
    service: Service, addresses: Mapping[str, Sequence[str]], proxies: Sequence[str] = ()
) -> dict[str, Any]:
    """The JSON of a service of Plimsoll. `addresses`: URLs of the services that already run;
    `proxies`: of the caches that a gateway notifies of changes."""
    told = dict(service.settings)
    match service.kind:
        case "frontier":
            return {"database": _database(service, addresses), **_gateway(told, proxies)}
        case "delay":
            stall = told["stall"]
            return {
                "http": told["http"],
                "servers": told["servers"],
                "service": _law(told["time"]),
                "seed": told["seed"],
                "fail": told["fail"],
                "body": told["body"],
                "stall": stall and {"at_s": stall["at"] / NS_PER_S, "for_s": stall["for"] / NS_PER_S},
            }
        case "null":
            return {"reply": told["reply"] or None}
        case _:
            return told


def _gateway(told: Mapping[str, Any], proxies: Sequence[str]) -> dict[str, Any]:
    ages = {name: value for name, value in told["ages"].items() if value is not None}
    settings = {
        "ages": {name: value if name in HOURS else int(value // NS_PER_S) for name, value in ages.items()},
        "validate_last_modified_s": int(told["validate_last_modified"] // NS_PER_S),
        **{name: told[name] for name in AS_THEY_ARE},
        **{f"{name}_s": told[name] / NS_PER_S for name in SECONDS},
    }
    if told["invalidation"]:
        settings["invalidation"] = _invalidation(told["invalidation"], proxies)
    return settings


def _invalidation(told: Mapping[str, Any], proxies: Sequence[str]) -> dict[str, Any]:
    settings = {
        "caches": [{"proxy": proxy} for proxy in proxies],
        "triggers": told["triggers"],
        "again_ms": round(told["again"] / NS_PER_MS),
        "most_keys": told["most_keys"],
    }
    if told["settle"] is not None:
        settings["settle_ms"] = round(told["settle"] / NS_PER_MS)
    every = told["on"]["every"]
    if every is not None:
        settings |= {"on": "every", "every_s": every / NS_PER_S}
    return settings


def shown_settings(service: Service, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same as it may be stored."""
    secret = isinstance(service.settings.get("database"), Secret)
    return {**settings, "database": HIDDEN} if secret else dict(settings)


def _database(service: Service, addresses: Mapping[str, Sequence[str]]) -> str:
    name = str(revealed(service.settings["database"]))
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
