"""Resolves workloads, their targets and loads, and the length of a run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from plimsoll.plan.drivers.catalogue import check_protocols
from plimsoll.plan.drivers.common import proxy
from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.drivers.frontier import with_target
from plimsoll.plan.drivers.section import read_section
from plimsoll.plan.drivers.source_addresses import check_source_families
from plimsoll.plan.drivers.table import DRIVERS
from plimsoll.plan.model import cell as model
from plimsoll.plan.queries import database_url
from plimsoll.plan.queries.batches import apart
from plimsoll.plan.queries.query import dialect_of, dictionary
from plimsoll.plan.resolve.queries import made_queries
from plimsoll.plan.resolve.warnings import header_as_value
from plimsoll.plan.resolve.watch import resolve_watch
from plimsoll.plan.schema.experiment import RunRaw
from plimsoll.plan.schema.load import LoadRaw, OnErrorRaw, ValuesRaw, WorkloadRaw
from plimsoll.plan.schema.targets import TargetRaw
from plimsoll.plan.services.addresses import services_in
from plimsoll.plan.services.section import ServiceSection
from plimsoll.plan.services.secured import check_made_certificates
from plimsoll.plan.services.slapd import check_client_certificate
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Dist
from plimsoll.plan.source.near import nearest
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.source.units import NS, show_duration
from plimsoll.plan.tester_time import active_pieces, last_join_ns

IN_FLIGHT: Final = 100
"""Slots of an open load without `in_flight`."""
_VALUE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NAME_IN_TEXT: Final = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]*)\}(?!\})")
MAX_UNKNOWN: Final = 5
"""Names that `plan` warns of."""
_GIVEN_NAMES: Final = ("tester", "n", "endpoint", "now_us")
_NO_TIME: Final = model.FixedTime(0)


class FileContext(Context, Protocol):
    """A `Context` that can read lists of values."""

    def lines(self, name: str, path: KeyPath, largest: int = ...) -> tuple[str, ...]:
        """The lines of a text file."""


def resolve_workload(
    name: str,
    raw: WorkloadRaw,
    tree: Mapping[str, Any],
    at: KeyPath,
    services: Mapping[str, model.Service],
    sections: Mapping[str, ServiceSection],
    targets: Mapping[str, TargetRaw],
    numbers: Mapping[str, str],
    context: FileContext,
) -> tuple[model.Workload, tuple[int, ...] | None]:
    """One population, its load still to come, and the times of the log that it replays. `tree`: the whole file, filled
    in; `at`: where the workload stands in it; `sections`: of all services; `numbers`: of tables with versions."""
    written = tree
    for part in at:
        written = written[str(part)]
    section = written.get(raw.driver) or {}
    target = _target(raw, section, at, services, targets, context)
    made = made_queries(raw, section, target, tree, at, services, numbers, context)
    asked = read_section(raw.driver, section, raw.mix, at, context, made)
    settings, operations = asked.settings, asked.operations
    check_source_families(settings, target, (*at, raw.driver), context)
    if raw.driver == "sql":
        database_url.check_settings(settings, target, services, (*at, "sql"), context)
    if raw.driver == "catalogue":
        check_protocols(settings, operations, target, services, (*at, "catalogue"), context)
    if raw.driver == "ldap":
        check_client_certificate(settings, target, sections, (*at, "ldap"), context)
    if raw.driver == "http":
        check_made_certificates(target, sections, (*at, "target"), context)
    if raw.driver == "exec":
        _check_addresses(settings, operations, sections, (*at, "exec"), context)
    values = {key: _values(key, value, (*at, "values", key), context) for key, value in raw.values.items()}
    for key in set(values) & set(asked.values):
        context.wrong((*at, "values", key), f"the generated queries use the name {key}: choose another name")
    values |= asked.values
    if raw.driver == "frontier" and settings:
        settings = with_target(
            settings, target.choose, target.order, dictionary(dialect_of(target, services))
        )
        operations, values = apart(operations, values)
    known = {*_GIVEN_NAMES, *values}
    found = model.Workload(
        name=name,
        driver=raw.driver,
        target=target,
        timeout_ns=raw.timeout,
        on_error=_on_error(raw.on_error),
        settings=settings,
        operations=operations,
        values=values,
        load=model.ClosedLoad(1, _NO_TIME),
        remarks=asked.remarks,
        warnings=(
            *(() if section.get("from_log") else _unknown_names(name, operations, known)),
            *(
                text
                for key, value in raw.values.items()
                if value.file is not None
                for text in header_as_value(key, str(value.file), values[key].items)
            ),
        ),
    )
    return found, asked.at_ns


def _check_addresses(
    settings: Mapping[str, model.Json],
    operations: Sequence[model.Operation],
    sections: Mapping[str, ServiceSection],
    at: KeyPath,
    context: Context,
) -> None:
    """Reports addresses of services in texts of programs that cannot be filled in."""
    services_in(_texts(settings.get("env", {})), None, sections, (*at, "env"), context)
    for operation in operations:
        services_in(_texts(operation.request), None, sections, (*at, "command"), context)


def _unknown_names(
    workload: str, operations: Sequence[model.Operation], known: Collection[str]
) -> tuple[str, ...]:
    """Names in braces that are not defined: a misspelt value is sent as written. Requests of a log
    are not checked, since they were not written for Plimsoll."""
    found: dict[str, str] = {}
    for operation in operations:
        for name in _NAME_IN_TEXT.findall(" ".join(_texts(operation.request))):
            if name not in known:
                found.setdefault(name, operation.name)
    said = []
    for name, where in list(found.items())[:MAX_UNKNOWN]:
        near = nearest(name, known)
        hint = f"; did you mean {{{near}}}?" if near else f"; write {{{{{name}}}}} for literal braces"
        said.append(f"{workload}, {where}: {{{name}}} is not a defined value and is sent as written{hint}")
    return tuple(said)


def _texts(request: model.Json) -> Iterator[str]:
    match request:
        case str():
            yield request
        case Mapping():
            for value in request.values():
                yield from _texts(value)
        case list() | tuple():
            for value in request:
                yield from _texts(value)


def _target(
    raw: WorkloadRaw,
    section: Mapping[str, Any],
    at: KeyPath,
    services: Mapping[str, model.Service],
    targets: Mapping[str, TargetRaw],
    context: FileContext,
) -> model.Target:
    schemes = DRIVERS[raw.driver].schemes
    here = (*at, "target")
    if raw.driver == "sql" and section.get("database") is not None:
        if raw.target is not None:
            context.wrong(here, "give target or sql.database, not both")
        full = context.file(str(section["database"]), (*at, "sql", "database"))
        return model.Target("database", (model.Endpoint("database", f"sqlite:{full}", None),))
    if raw.target is None:
        if not schemes:
            return model.Target(raw.driver, (model.Endpoint(raw.driver, f"{raw.driver}:", None),))
        context.wrong(
            here, f"required key missing: the driver {raw.driver} needs a service, one of `targets`, or a URL"
        )
        return model.Target("", ())
    if isinstance(raw.target, Secret) or ":" in raw.target:
        endpoint = _endpoint(raw.target, None, here, schemes, services, context)
        return model.Target(endpoint.name, (endpoint,))
    if raw.target in services:
        endpoint = _endpoint(raw.target, None, here, schemes, services, context)
        return model.Target(raw.target, (endpoint,))
    if raw.target in targets:
        listed = targets[raw.target]
        place: KeyPath = ("targets", raw.target, "endpoints")
        endpoints = tuple(
            _endpoint(item.at, item.name, (*place, index), schemes, services, context)
            for index, item in enumerate(listed.endpoints)
        )
        if len({endpoint.name for endpoint in endpoints}) < len(endpoints):
            context.wrong(place, "two endpoints have the same name: give each a name of its own")
        return model.Target(
            raw.target,
            endpoints,
            listed.choose,
            listed.order,
            _proxies(raw.target, listed, services, context),
            *resolve_watch(raw.target, listed, context),
        )
    near = nearest(raw.target, [*services, *targets])
    context.wrong(here, f'"{raw.target}" is not a service, not one of `targets` and not a URL', near)
    return model.Target(raw.target, ())


def _proxies(
    name: str, listed: TargetRaw, services: Mapping[str, model.Service], context: FileContext
) -> tuple[str | Secret | model.Via, ...]:
    """Proxies by URL, and services of this file that are forward proxies."""
    found: list[str | Secret | model.Via] = []
    for index, one in enumerate(listed.proxies):
        at: KeyPath = ("targets", name, "proxies", index)
        if isinstance(one, Secret) or "://" in one:
            found.append(proxy(one, at, context))
        elif one not in services:
            context.wrong(at, f'"{one}" is not a service and not a URL', nearest(one, services))
        else:
            kind = services[one].kind
            if kind not in ("squid", "command"):
                context.wrong(at, f"{one} is a service of kind {kind}: expected one of kind squid")
            elif services[one].settings.get("origin") is not None:
                context.wrong(at, f"{one} has an origin, so it is a reverse proxy: use it as an endpoint")
            found.append(model.Via(one))
    return tuple(found)


def _endpoint(
    address: str | Secret,
    name: str | None,
    at: KeyPath,
    schemes: Sequence[str],
    services: Mapping[str, model.Service],
    context: FileContext,
) -> model.Endpoint:
    """One address of a target: the name of a service, or a URL without a password in it."""
    if isinstance(address, str) and address in services:
        scheme = services[address].scheme
        if schemes and scheme not in schemes:
            kind = services[address].kind
            context.wrong(
                at,
                f"{address} is a service of kind {kind}, which speaks {scheme}; "
                f"the driver needs {' or '.join(schemes)}",
            )
        if services[address].kind == "squid" and services[address].settings["origin"] is None:
            context.wrong(
                at,
                f"{address} is a forward proxy: give it an origin, or name it in `proxies` of one of `targets`",
            )
        return model.Endpoint(name or address, None, address)
    if database_url.is_database(address):
        return database_url.endpoint(address, name, at, schemes, context)
    if isinstance(address, Secret):
        context.wrong(at, "only the URL of a database can be a secret: use a header with a secret")
        return model.Endpoint(name or "", "", None)
    try:
        url = urlsplit(address)
        port = url.port
        inside = "@" in url.netloc
    except ValueError as error:
        inside = "@" in address  # http://me:pass/word@host/: the error would tell a part of the password
        if not inside:
            context.wrong(at, f'"{address}" is not a URL: {error}')
            return model.Endpoint(name or "", address, None)
        context.wrong(
            at, "the URL contains a user or a password, and URLs are stored: use a header with a secret"
        )
        return model.Endpoint(name or "", "", None)
    if inside:
        context.wrong(
            at, "the URL contains a user or a password, and URLs are stored: use a header with a secret"
        )
        return model.Endpoint(name or "", "", None)
    known = list(schemes) or [
        "ftp",
        "http",
        "https",
        "broker",
        "brokers",
        "catalogue",
        "catalogues",
        "soap",
        "soaps",
        "rucio",
        "rucios",
        "ldap",
        "ldaps",
        "tcp",
        "sqlite",
        *database_url.SCHEMES,
        "exec",
    ]
    if url.scheme not in known:
        context.wrong(
            at,
            f'"{address}" is not a service and not a URL with {" or ".join(f"{one}:" for one in known)}',
        )
    elif url.scheme != "sqlite" and not url.hostname and schemes:
        context.wrong(at, f'"{address}" has no host')
    elif url.scheme in ("broker", "brokers", "tcp") and port is None:
        context.wrong(at, f'"{address}" has no port')
    written = address
    if url.scheme == "sqlite" and not url.netloc:
        address = f"sqlite:{context.file(url.path, at)}"
    if name is None and context.as_written(at, written) != written:
        name = context.as_written(at, written)
    return model.Endpoint(name or url.netloc.rpartition("@")[2] or url.path or address, address, None)


def _on_error(raw: OnErrorRaw) -> model.OnError:
    if raw.backoff is not None:
        return model.OnError(
            "backoff",
            first_ns=raw.backoff.first,
            max_ns=max(raw.backoff.max, raw.backoff.first),
            when=raw.backoff.when,
        )
    if raw.stop_tester is not None:
        return model.OnError("stop-tester", after=raw.stop_tester.after)
    return model.OnError()


def _values(name: str, raw: ValuesRaw, at: KeyPath, context: FileContext) -> model.Generator:
    if not _VALUE_NAME.match(name) or name in _GIVEN_NAMES:
        context.wrong(
            at,
            f'"{name}" is not a valid value name: use letters, digits and _, and none of '
            f"{', '.join(_GIVEN_NAMES)}",
        )
    if raw.uniform is not None:
        return model.Generator("uniform", low=raw.uniform.low, high=raw.uniform.high)
    if raw.zipf is not None:
        return model.Generator("zipf", n=raw.zipf.n, s=float(raw.zipf.s))
    items = tuple(raw.list_) if raw.list_ is not None else context.lines(str(raw.file), (*at, "file"))
    if raw.order == "zipf":
        exponent = 1.0 if raw.s is None else float(raw.s)
        weights = tuple(rank**-exponent for rank in range(1, len(items) + 1))
        return model.Generator("weighted", items=items, weights=weights)
    return model.Generator("list", items=items, order="random" if raw.order == "random" else "round-robin")


def distribution(raw: Dist | None) -> model.Distribution:
    """A duration that may be drawn; None is no time at all."""
    if raw is None:
        return _NO_TIME
    if raw.exponential is not None:
        return model.ExponentialTime(raw.exponential)
    if raw.uniform is not None:
        return model.UniformTime(
            min(raw.uniform.low, raw.uniform.high), max(raw.uniform.low, raw.uniform.high)
        )
    return model.FixedTime(raw.fixed or 0)


def resolve_load(
    raw: LoadRaw, at: KeyPath, context: Context, recorded_ns: tuple[int, ...] | None = None
) -> model.Load:
    """When requests start, with its defaults. `recorded_ns`: times of the log that the workload replays."""
    think = distribution(raw.think)
    arrivals, in_flight = raw.arrivals or "poisson", raw.in_flight or IN_FLIGHT
    full = raw.when_full or "wait"
    if raw.replay is not None:
        if not recorded_ns:
            context.wrong(
                (*at, "replay"),
                "no times to replay: the section of the driver needs `from_log: {file: ..., as: replay}` "
                "with a log that has the start time of each request",
            )
        return model.RecordedLoad(recorded_ns or (0,), in_flight, full)
    if raw.rate is not None:
        return model.OpenLoad(raw.rate, arrivals, in_flight, full)
    slots = None if raw.every is None else model.SlotRule(raw.every, raw.late or "skip")
    if raw.ramp is not None:
        testers = raw.ramp.testers or raw.ramp.per_host or 1
        return model.RampLoad(testers, raw.ramp.every, raw.ramp.life, think, slots, raw.ramp.per_host)
    if raw.stages is not None:
        stages = tuple(
            model.Stage(
                stage.name or f"stage-{number}",
                stage.for_,
                stage.testers or stage.per_host,
                stage.rate,
                stage.per_host,
            )
            for number, stage in enumerate(raw.stages, 1)
        )
        if len({stage.name for stage in stages}) < len(stages):
            context.wrong((*at, "stages"), "two stages have the same name")
        return model.StagedLoad(stages, think, arrivals, in_flight, full, slots, raw.life)
    testers = raw.testers or raw.per_host or 1  # of several hosts `resolve_hosts` makes more
    if slots is not None:
        return model.PeriodicLoad(testers, slots.every_ns, slots.late, raw.per_host)
    return model.ClosedLoad(testers, think, raw.per_host)


def check_load(load: model.Load, at: KeyPath, context: Context) -> None:
    """Refuses stages in which no tester is active because the life of each has ended. Called when the number of testers
    is known, which depends on the hosts."""
    if not isinstance(load, model.StagedLoad) or load.life_ns is None:
        return
    active = {index for index, _, _, testers in active_pieces(load) if testers}
    for number, stage in enumerate(load.stages):
        if stage.rate is None and number not in active:
            context.wrong(
                (*at, "stages", number),
                f"no tester is active in {stage.name}: all of its testers joined earlier and have ended after their "
                f"life of {show_duration(load.life_ns)}; make life longer, or leave it out",
            )


def own_length_ns(load: model.Load) -> int | None:
    """How long a load lasts by itself: stages, and a ramp whose testers leave; None: as long as the run."""
    if isinstance(load, model.StagedLoad):
        return sum(stage.for_ns for stage in load.stages)
    if isinstance(load, model.RecordedLoad):
        return load.at_ns[-1] + NS["ms"]  # so that the last one is still started
    if isinstance(load, model.RampLoad) and load.life_ns is not None:
        return last_join_ns(load) + load.life_ns
    return None


def resolve_run(
    raw: RunRaw, loads: Sequence[tuple[model.Load, KeyPath]], context: Context
) -> model.RunSettings:
    """Length and end of a run, from `run:` and from loads that last for a time of their own."""
    at: KeyPath = ("run",)
    staged = [path for load, path in loads if isinstance(load, model.StagedLoad)]
    end = None if raw.duration is None else raw.warmup + raw.duration
    if raw.duration is not None and staged:
        context.wrong(
            (*at, "duration"),
            "the stages define the length of the run: leave this key out; warmup excludes the beginning of "
            "the stages",
        )
    if raw.duration == 0:
        context.wrong((*at, "duration"), "the duration must be longer than 0s")
    own = [length for load, _ in loads if (length := own_length_ns(load)) is not None]
    if end is None and own and (raw.until is None or staged):
        end = max(own)
        if raw.warmup >= end:
            context.wrong(
                (*at, "warmup"), f"the warm-up must be shorter than the run, which takes {show_duration(end)}"
            )
    if end is None and raw.until is None:
        ramped = any(isinstance(load, model.RampLoad) for load, _ in loads)
        context.wrong(
            at,
            "the run has no end: give duration (for example 30s) or until"
            + (", or a life to the testers of the ramp" if ramped else ""),
        )
    if (
        raw.until is not None
        and raw.until.each_tester is not None
        and _some_open([load for load, _ in loads])
    ):
        context.wrong(
            (*at, "until", "each_tester"),
            "an open load has no testers: use transactions or duration",
        )
    return model.RunSettings(
        warmup_ns=raw.warmup,
        end_ns=end,
        each_tester=raw.until.each_tester if raw.until else None,
        transactions=raw.until.transactions if raw.until else None,
        drain_ns=raw.drain,
        pause_ns=raw.pause,
        keep=raw.keep,
        spin_ns=raw.spin,
    )


def _some_open(loads: Sequence[model.Load]) -> bool:
    return any(
        isinstance(load, (model.OpenLoad, model.RecordedLoad))
        or (isinstance(load, model.StagedLoad) and any(stage.rate is not None for stage in load.stages))
        for load in loads
    )
