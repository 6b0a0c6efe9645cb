"""Resolves `services:` and `data:`: the dependencies of each service, and the settings that its
kind accepts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from plimsoll.plan import model
from plimsoll.plan.queries.database_url import SCHEMES, endpoint, is_database
from plimsoll.plan.queries.sql_text import MAX_BYTES, Dialect, SqlTextError, statements
from plimsoll.plan.resolve.context import ResolveContext, home_of
from plimsoll.plan.schema.experiment import ExperimentRaw
from plimsoll.plan.schema.servers import (
    CacheRaw,
    CommandService,
    MariadbService,
    NginxService,
    PostgresService,
    ServiceRaw,
    SquidService,
)
from plimsoll.plan.schema.services import (
    CoolData,
    DelayService,
    EchoService,
    FrontierService,
    InvalidationRaw,
    SqlData,
    SqliteService,
    TableData,
)
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Raw
from plimsoll.plan.source.near import nearest
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.source.units import NS, about_size

DATABASES: Final = ("sqlite", "postgres", "mariadb")
"""Kinds that hold tables."""
OBJECT_IN_MEMORY: Final = 1_000_000
"""Bytes of the largest object that a cache with a disk keeps in memory too, where the file does not say."""
_COMMON_KEYS: Final = frozenset({"kind", "fresh", "cpus", "ready_timeout"})
_PLACE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)\.(port|url)\}")
_TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OURS: Final = {
    "postgres": (
        *("port", "listen_addresses", "unix_socket_directories", "data_directory", "hba_file", "ident_file"),
        *("config_file", "external_pid_file", "logging_collector", "log_destination", "ssl"),
    ),
    "mariadb": (
        *("port", "bind_address", "socket", "datadir", "basedir", "tmpdir", "pid_file", "user", "init_file"),
        *("log_error", "skip_networking", "skip_name_resolve", "skip_grant_tables"),
    ),
}
"""Settings that the lab sets: with another address or log file the lab could not find the server.
"""


def resolve_service(
    name: str, raw: ServiceRaw, file: ExperimentRaw, context: ResolveContext
) -> model.Service:
    """One service. What it talks to becomes its `needs`; every name in it is followed."""
    at: KeyPath = ("services", name)
    settings = {
        info.alias or key: getattr(raw, key)
        for key, info in type(raw).model_fields.items()
        if key not in _COMMON_KEYS
    }
    needs: tuple[str, ...] = ()
    fresh = raw.fresh
    match raw:
        case FrontierService():
            needs, settings["database"] = _database(name, raw.database, file, context)
            _check_gateway(raw, file, at, context)
            for key in ("files", "key_file", "cert_file"):
                if (name_of := getattr(raw, key)) is not None:
                    settings[key] = context.file(name_of, (*at, key))
            if raw.invalidation is not None:
                caches = _caches(name, raw, raw.invalidation, file, context)
                settings["invalidation"] = {**_plain(raw.invalidation), "caches": caches}
        case SqliteService() if raw.file is not None:
            settings["file"] = context.file(raw.file, (*at, "file"))
        case CommandService():
            needs = _mentioned(name, raw, file, context)
            if raw.cwd is not None and "{" not in raw.cwd:
                settings["cwd"] = context.file(raw.cwd, (*at, "cwd"))
        case PostgresService() | MariadbService():
            _check_settings(raw.kind, raw.settings, (*at, "settings"), context)
            if isinstance(raw, MariadbService):
                settings["binary_log"] = _is_followed(name, file)
            if isinstance(raw, PostgresService) and raw.user == "postgres":
                context.wrong(
                    (*at, "user"), "postgres is the administrator of the server: choose another name"
                )
        case SquidService():
            needs, settings["origin"], settings["siblings"] = _peers(name, raw, file, context)
            settings["cache"] = {**_plain(raw.cache), "object_in_memory": _in_memory(raw.cache)}
            fresh = "run" if raw.cache.start == "cold" else fresh  # an empty cache is that of a new process
        case NginxService():
            needs = _before(name, raw.origin, (*at, "origin"), file, context)
            if raw.root is not None:
                settings["root"] = context.file(raw.root, (*at, "root"))
        case _:
            pass
    if raw.cpus is not None and not raw.cpus:
        context.wrong((*at, "cpus"), "the list is empty: leave the key out, or list at least one core")
    kind = str(getattr(raw, "kind"))  # noqa: B009 - every member of AnyService has it, their base has not
    cpus = None if raw.cpus is None else tuple(raw.cpus)
    return model.Service(name, kind, fresh, cpus, raw.ready_timeout, needs, _plain(settings))


def _in_memory(cache: CacheRaw) -> int:
    """The largest object in memory: where there is no disk, what memory does not take is not kept at all."""
    if cache.object_in_memory is not None:
        return cache.object_in_memory
    return min(cache.largest, cache.memory) if cache.disk == 0 else OBJECT_IN_MEMORY


def _plain(value: Any) -> Any:
    """Raw sections inside settings as plain data, quantities as numbers."""
    if isinstance(value, Raw):
        return {
            info.alias or key: _plain(getattr(value, key)) for key, info in type(value).model_fields.items()
        }
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _database(
    name: str, database: str | Secret, file: ExperimentRaw, context: ResolveContext
) -> tuple[tuple[str, ...], str | Secret]:
    """What a gateway reads: a service of this file (its name is needed), a database server that exists, by its URL, or
    an SQLite file that exists."""
    at: KeyPath = ("services", name, "database")
    if isinstance(database, Secret) or is_database(database):
        return (), endpoint(database, name, at, SCHEMES, context).url or ""
    if database in file.services:
        other = file.services[database]
        if other.kind not in DATABASES:
            context.wrong(
                at,
                f"{database} is a service of kind {other.kind}: expected one of kind {' or '.join(DATABASES)}",
            )
        _stands_above(name, database, file, at, context)
        return (database,), database
    full = context.directory / home_of(database)
    if not full.is_file():
        near = nearest(database, file.services)
        context.wrong(
            at,
            f'"{database}" is neither a service of this file nor a database file, nor a URL such as '
            "postgresql://USER@HOST/DATABASE",
            near,
        )
    return (), str(full)


def _kind_of_database(raw: FrontierService, file: ExperimentRaw) -> str:
    """postgres, mariadb, sqlite."""
    text = raw.database.reveal() if isinstance(raw.database, Secret) else raw.database
    if text in file.services:
        return file.services[text].kind
    scheme = text.partition("://")[0] if is_database(text) else ""
    return {"": "sqlite", "mysql": "mariadb", "mariadb": "mariadb"}.get(scheme, "postgres")


def _check_gateway(raw: FrontierService, file: ExperimentRaw, at: KeyPath, context: ResolveContext) -> None:
    for key in ("keepalive", "max_acquire", "query_timeout"):
        if getattr(raw, key) < NS["ms"]:
            context.wrong((*at, key), "expected at least 1ms")
    if raw.validate_last_modified % NS["s"]:
        context.wrong((*at, "validate_last_modified"), "expected whole seconds")
    if (
        raw.validate_last_modified
        and not raw.last_modified_table
        and _kind_of_database(raw, file) != "mariadb"
    ):
        context.wrong(
            (*at, "validate_last_modified"),
            "give `last_modified_table` too: this database does not record when its tables change",
        )


def _caches(
    name: str, raw: FrontierService, told: InvalidationRaw, file: ExperimentRaw, context: ResolveContext
) -> list[str]:
    """The caches that a gateway notifies of changes, nearest first: a child that is notified before
    its parent would fetch the old object again."""
    at: KeyPath = ("services", name, "invalidation")
    if told.on.every is not None and told.on.every < 10 * NS["ms"]:
        context.wrong((*at, "on", "every"), "expected at least 10ms")
    if told.on.every is None and _kind_of_database(raw, file) not in ("postgres", "mariadb"):
        context.wrong(
            (*at, "on"),
            "change detection needs PostgreSQL or MariaDB; `on: {every: 10s}` also works with SQLite",
        )
    found: dict[str, bool] = {}
    for index, one in enumerate(told.caches):
        here: KeyPath = (*at, "caches", index)
        other = file.services.get(one)
        if other is None:
            context.wrong(here, f"there is no service {one}", nearest(one, file.services))
        elif not isinstance(other, SquidService):
            context.wrong(here, f"{one} is a service of kind {other.kind}: expected one of kind squid")
        elif _origin(other, file) not in (name, None):
            context.wrong(here, f"{one} is not a proxy of {name}: its origin is {_origin(other, file)}")
        else:
            found[one] = bool(other.parents)
    return sorted(found, key=lambda one: found[one])


def _is_followed(name: str, file: ExperimentRaw) -> bool:
    """A gateway learns of this database's changes."""
    return any(
        isinstance(one, FrontierService)
        and one.database == name
        and one.invalidation is not None
        and one.invalidation.on.every is None
        for one in file.services.values()
    )


def _mentioned(
    name: str, raw: CommandService, file: ExperimentRaw, context: ResolveContext
) -> tuple[str, ...]:
    """Services whose address a command asks for by `{NAME.port}` or `{NAME.url}`."""
    at: KeyPath = ("services", name)
    texts = [*raw.command, *raw.env.values()]
    found: dict[str, None] = {}
    for text in texts:
        for match in _PLACE.finditer(text.reveal() if isinstance(text, Secret) else text):
            other = match[1]
            if other in file.services:
                _stands_above(name, other, file, (*at, "command"), context)
                found[other] = None
            else:
                context.wrong(
                    (*at, "command"),
                    f"{match[0]}: there is no service {other}",
                    nearest(other, file.services),
                )
    return tuple(found)


def _stands_above(name: str, other: str, file: ExperimentRaw, at: KeyPath, context: ResolveContext) -> None:
    order = list(file.services)
    if order.index(other) >= order.index(name):
        context.wrong(at, f"move {other} above {name}: services start in the order of the file")


def _check_settings(kind: str, settings: Mapping[str, str], at: KeyPath, context: ResolveContext) -> None:
    for key in settings:
        if key.lower().replace("-", "_") in _OURS[kind]:
            context.wrong((*at, key), "Plimsoll sets this: each service gets its own directory and address")


def _before(
    name: str, origin: str | None, at: KeyPath, file: ExperimentRaw, context: ResolveContext
) -> tuple[str, ...]:
    """The service behind a reverse proxy, if the proxy names one. It must use HTTP."""
    if origin is None:
        return ()
    other = file.services.get(origin)
    if other is None:
        context.wrong(at, f"there is no service {origin}", nearest(origin, file.services))
        return ()
    if not _speaks_http(other):
        context.wrong(at, f"{origin} is a service of kind {other.kind} that does not speak http")
    if isinstance(other, SquidService) and _origin(other, file) is None:
        context.wrong(at, f"{origin} is a forward proxy: name it in `parents`")
    _stands_above(name, origin, file, at, context)
    return (origin,)


def _speaks_http(service: ServiceRaw) -> bool:
    match service:
        case FrontierService() | SquidService() | NginxService():
            return True
        case EchoService() | DelayService():
            return service.http
        case CommandService():
            return service.url.startswith("http:")
        case _:
            return False


def _origin(raw: SquidService, file: ExperimentRaw) -> str | None:
    """The origin of a Squid: its own `origin`, otherwise that of its first parent that has one."""
    if raw.origin is not None:
        return raw.origin
    above = [one for name in raw.parents if isinstance(one := file.services.get(name), SquidService)]
    return next((one.origin for one in above if one.origin is not None), None)


def _peers(
    name: str, raw: SquidService, file: ExperimentRaw, context: ResolveContext
) -> tuple[tuple[str, ...], str | None, list[str]]:
    """What a Squid needs, its origin, and its siblings: it is enough that one of two names the other."""
    at: KeyPath = ("services", name)
    origin = _origin(raw, file)
    needs = list(_before(name, origin, (*at, "origin"), file, context))
    for key, others in (("parents", raw.parents), ("siblings", raw.siblings)):
        for index, other in enumerate(others):
            here: KeyPath = (*at, key, index)
            known = file.services.get(other)
            if known is None:
                context.wrong(here, f"there is no service {other}", nearest(other, file.services))
            elif not isinstance(known, SquidService):
                context.wrong(here, f"{other} is a service of kind {known.kind}: expected one of kind squid")
            elif other == name:
                context.wrong(here, f"{name} cannot be one of its own {key}")
            elif key == "parents":
                _stands_above(name, other, file, here, context)
                if known.parents:
                    context.wrong(here, f"{other} has parents itself: a cache tree has at most two levels")
                needs.append(other)
    siblings = [
        other
        for other, known in file.services.items()
        if other != name
        and isinstance(known, SquidService)
        and (other in raw.siblings or name in known.siblings)
    ]
    for other in set(siblings) & set(raw.parents):
        context.wrong((*at, "parents"), f"{other} is both a parent and a sibling of {name}")
    return tuple(dict.fromkeys([*needs, *siblings])), origin, siblings


def resolve_data(
    raw: ExperimentRaw, known: Mapping[str, model.Service], context: ResolveContext
) -> list[model.Data]:
    """The tables of `data:`, each with the service that it is written into."""
    found = []
    for name, data in raw.data.items():
        at: KeyPath = ("data", name)
        into = known.get(data.into)
        if into is None:
            context.wrong((*at, "into"), f"there is no service {data.into}", nearest(data.into, known))
        elif into.kind not in DATABASES or into.settings.get("file") is not None:
            context.wrong(
                (*at, "into"),
                f"tables can be written into a service of kind {', '.join(DATABASES[1:])} or sqlite "
                f"without `file`; "
                f"{data.into} is not one",
            )
        if isinstance(data, SqlData):
            found.append(_sql(name, data, None if into is None else into.kind, context))
            continue
        if isinstance(data, TableData) and not _TABLE.match(name):
            context.wrong(at, f'"{name}" is not a valid table name: use letters, digits and _')
        found.append(_data_set(name, data))
    return found


def _sql(name: str, raw: SqlData, kind: str | None, context: ResolveContext) -> model.Data:
    """The file is cut into statements once here, so that a quote that is not closed is found before anything starts."""
    at: KeyPath = ("data", name, "file")
    if kind == "sqlite":
        context.wrong(("data", name, "into"), "an SQL file can only be loaded into postgres or mariadb")
    path = Path(context.file(raw.file, at))
    size = 0
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            context.wrong(at, f"{raw.file} has {about_size(size)}: expected at most {about_size(MAX_BYTES)}")
        elif kind in ("postgres", "mariadb"):
            dialect: Dialect = "postgres" if kind == "postgres" else "mariadb"
            if sum(1 for _ in statements(path.read_bytes(), dialect)) == 0:
                context.wrong(at, f"{raw.file} contains no SQL statement")
    except SqlTextError as error:
        context.wrong(at, f"{raw.file}:{error.line}: {error}")
    except OSError as error:
        if path.exists():
            context.wrong(at, f"{raw.file} cannot be read: {error.strerror}")
    return model.Data(name, raw.into, "sql", {"file": str(path), "shown": raw.file}, size)


IOV_BYTES: Final = 160
"""Of a row of an IOV table beside its payload, keys and indexes included: an estimate."""


def _data_set(name: str, raw: TableData | CoolData) -> model.Data:
    settings: dict[str, Any] = {
        key: getattr(raw, key)
        for key in type(raw).model_fields
        if key not in ("into", "kind") and getattr(raw, key) not in (None, [])
    }
    settings["compressibility"] = raw.compressibility * 100
    if isinstance(raw, TableData):
        written = raw.tables * raw.rows * raw.row * raw.columns
        return model.Data(name, raw.into, "table", {"name": name, **settings}, written)
    intervals = raw.folders * raw.channels * raw.iovs
    versions = raw.tags if raw.versioning == "multi" else 0
    written = intervals * (raw.payload + IOV_BYTES * (1 + versions))
    return model.Data(name, raw.into, "cool", {"kind": "cool", **settings}, written)
