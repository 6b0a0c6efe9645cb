"""Resolves `services:`. Each kind resolves its own section (`plan/services`)."""

from __future__ import annotations

from plimsoll.plan.limits import too_high
from plimsoll.plan.model import cell as model
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.services.section import COMMON_KEYS, Services, ServiceSection, kind_of, plain
from plimsoll.plan.source.document import KeyPath


def resolve_service(
    name: str, section: ServiceSection, services: Services, context: ResolveContext
) -> model.Service:
    """One service. `services`: all sections of the file, whose names the section may contain."""
    at: KeyPath = ("services", name)
    resolved = section.resolve(name, services, context)
    settings = {
        info.alias or key: getattr(section, key)
        for key, info in type(section).model_fields.items()
        if key not in COMMON_KEYS
    }
    if section.cpus is not None and not section.cpus:
        context.wrong((*at, "cpus"), "the list is empty: leave the key out, or list at least one core")
    limits = section.limits.resolve()
    if not section.starts_process and limits.to_json():
        context.wrong(
            (*at, "limits"), "a file has no processes that could be limited: limit the service that reads it"
        )
    elif reason := too_high(limits, None if section.cpus is None else len(set(section.cpus))):
        context.wrong((*at, "limits", "cpu"), reason)
    if section.perf and not section.starts_process:
        message = "a file has no processes that perf could sample: use it for the service that reads the file"
        context.wrong((*at, "perf"), message)
    return model.Service(
        name=name,
        kind=kind_of(type(section)),
        fresh=resolved.fresh or section.fresh,
        cpus=None if section.cpus is None else tuple(section.cpus),
        ready_timeout_ns=section.ready_timeout,
        needs=resolved.needs,
        settings=plain({**settings, **resolved.settings}),
        scheme=section.scheme(),
        database_kind=section.database_kind,
        starts_process=section.starts_process,
        limits=limits,
        perf=section.perf,
    )
