"""The drivers' sections of a workload, turned into what the engine's drivers read: settings and operations.

`settings` hold for all requests of a workload, `request` for one operation. Both are plain JSON, with the
keys of the experiment file; quantities are in bytes and nanoseconds, file names absolute. What each driver
gets:

null      settings: nothing. request: nothing.
tcp       settings: connection. request: send, expect{kind: line | close | bytes, count}.
http      settings: connection, tls{ca_file, ca_dir, cert, key, verify}, token_file, proxies, keep_body.
          request: method, path, headers as pairs, body, body_file, expect{status, contains, regex},
          resend_non_idempotent.
sql       settings: connection, password, tls as of http, or null. request: query, version{object, column, written}.
frontier  settings: id, connection, http, proxies, choose, order, failover, failover_to_server, load_balance,
          connect_timeout_ns, read_timeout_ns, uncached, chatter{requests, queries}.
          request: queries (one payload each), zip, ttl, refresh, freshkey, version{object, column, written}.
exec      settings: mode, env, cwd, files. request: command, stdin, bytes{kind: none | fixed | regex | json}.
replay    settings: trace, root, timing, scale, order, map and ignore (the texts), copies{private, shared,
          write_shared}, prepare, compressibility, clean, read_maps, allow_root, per_call. request: nothing.

Every key is always there; one that was not given is null, or empty where it is a list. `expect.status` empty means: any
below 400.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from pydantic import ValidationError

from plimsoll.plan.database_url import SCHEMES as DATABASES
from plimsoll.plan.database_url import password
from plimsoll.plan.fields import Raw
from plimsoll.plan.model import Generator, Json, Operation
from plimsoll.plan.paths import nearest
from plimsoll.plan.queries import Made, Query, log_queries
from plimsoll.plan.raw_drivers import (
    SECTIONS,
    SHARED_KEYS,
    ExecSection,
    FrontierSection,
    HttpSection,
    MixEntry,
    SqlSection,
    TcpSection,
    Tls,
)
from plimsoll.plan.replay_section import replay_requests, replay_settings
from plimsoll.plan.request_log import RequestLog
from plimsoll.plan.secret import HIDDEN, Secret
from plimsoll.plan.source import KeyPath

Requests = list[tuple[str, dict[str, Json]]]
"""Default name and request of each operation."""


class Where(Protocol):
    """What the functions here need of the one who resolves: problems are reported to it, files found by
    it."""

    def wrong(self, path: KeyPath, message: str, near: str | None = None) -> None:
        """Reports a problem."""

    def invalid(self, error: ValidationError, tree: Any, model: type[Raw], path: KeyPath) -> None:
        """Reports the problems of a section that is checked apart."""

    def file(self, name: str, path: KeyPath) -> str:
        """Absolute name of a file that must exist; reports it where it does not."""

    def beside(self, name: str) -> str:
        """Absolute name of what may not exist."""

    def as_written(self, path: KeyPath, value: str) -> str:
        """The value, or what stands for it in the file where it came from the environment: names are stored."""

    def request_log(self, name: str, path: KeyPath) -> RequestLog | None:
        """The Frontier requests of a log; reports what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Driver:
    """How a driver's section is read.

    `schemes`: of the URLs it can be sent to; empty: it needs no target. `asking`: the request for a query that the lab
    has made, of a driver that asks queries.
    """

    schemes: tuple[str, ...]
    settings: Callable[[Any, KeyPath, Where], dict[str, Json]]
    requests: Callable[[Any, KeyPath, Where], Requests]
    asking: Callable[[Any, Query], dict[str, Json]] | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """What a workload asks. `values`: generators that its queries need; `at_ns`: times of a log to replay; `remarks`:
    for people."""

    settings: dict[str, Json] = field(default_factory=dict)
    operations: tuple[Operation, ...] = ()
    values: Mapping[str, Generator] = field(default_factory=dict)
    at_ns: tuple[int, ...] | None = None
    remarks: tuple[str, ...] = ()


Found = list[tuple[str, float, int, dict[str, Json]]]
"""Name, weight, `first` and request of each operation."""


def read_section(
    driver: str,
    section: Mapping[str, Any],
    mix: list[MixEntry] | None,
    at: KeyPath,
    where: Where,
    made: Mapping[int | None, Made] | None = None,
) -> Section:
    """Settings and operations of a workload. `section`: the driver's section as plain data; `at`: the
    workload's path; `made`: queries in place of those of the section (None), and of entries of `mix` by their index."""
    here = (*at, driver)
    kind = DRIVERS[driver]
    parsed = _parse(driver, section, here, section, where)
    if parsed is None:
        return Section()
    settings = kind.settings(parsed, here, where)
    given = made or {}
    if mix is not None:
        if section.get("from_log") is not None:
            where.wrong((*here, "from_log"), "give mix or from_log, not both: each says what is asked")
        found: Found = []
        for index, entry in enumerate(mix):
            found += _entry(driver, section, entry, (*at, "mix", index), where, given.get(index))
        if found and all(weight == 0 for _, weight, _, _ in found):
            where.wrong(
                (*at, "mix"), "one of the weights must be above 0: what is asked after the first ones?"
            )
        values = {name: one for asked in given.values() for name, one in asked.values.items()}
        return Section(settings, _named(found), values)
    asked = given.get(None) or _from_log(parsed, here, where)
    if asked is not None and kind.asking is not None:
        _alone(parsed, asked, here, where)
        found = [(one.name, one.weight, one.first, kind.asking(parsed, one)) for one in asked.queries]
        return Section(settings, _named(found), asked.values, asked.at_ns, asked.remarks)
    requests = kind.requests(parsed, here, where)
    return Section(settings, _named([(name, 1.0 / len(requests), 0, request) for name, request in requests]))


def _alone(section: Any, made: Made, at: KeyPath, where: Where) -> None:
    """A version is that of one query, not of a batch."""
    if getattr(section, "batch", 1) > 1 and any(query.version is not None for query in made.queries):
        where.wrong((*at, "batch"), "with versions each query is a request of its own: give batch: 1")


def _from_log(section: Any, at: KeyPath, where: Where) -> Made | None:
    """The queries of the log that a section names."""
    raw = getattr(section, "from_log", None)
    if raw is None:
        return None
    if section.queries:
        where.wrong((*at, "from_log"), "give queries or from_log, not both")
    path = (*at, "from_log", "file")
    log = where.request_log(raw.file, path)
    return Made(()) if log is None else log_queries(raw, log, where.as_written(path, raw.file))


def _entry(
    driver: str,
    section: Mapping[str, Any],
    entry: MixEntry,
    at: KeyPath,
    where: Where,
    made: Made | None,
) -> Found:
    """The operations of one entry of `mix`: the section with the keys of the entry in place of its own. `made`: queries
    in place of those of both."""
    own = dict(entry.__pydantic_extra__ or {})
    shared = sorted(SHARED_KEYS[driver] & set(own))
    if shared:
        where.wrong(
            (*at, shared[0]), f"{shared[0]} holds for all requests of a workload: give it in `{driver}`"
        )
        return []
    known = _request_keys(driver)
    for key in sorted(set(own) - known):
        near = nearest(key, known)
        where.wrong(
            (*at, key),
            "unknown key" if near else f"unknown key; known here: {', '.join(sorted(known))}",
            near,
        )
    if set(own) - known:
        return []
    merged = {**section, **own}
    if driver == "http":  # a path of the entry stands for all paths of the section, and the other way round
        for one, other in (
            ("path", "paths"),
            ("paths", "path"),
            ("body", "body_file"),
            ("body_file", "body"),
        ):
            if one in own and other not in own:
                merged.pop(other, None)
    parsed = _parse(driver, merged, at, own, where)
    if parsed is None:
        return []
    kind = DRIVERS[driver]
    if made is not None and kind.asking is not None:
        _alone(parsed, made, at, where)
        requests = [(one.name, kind.asking(parsed, one)) for one in made.queries]
    elif entry.table is not None:
        return []  # what is wrong with it was told
    else:
        requests = kind.requests(parsed, at, where)
    weight = entry.weight / len(requests) if requests else 0.0
    if entry.name is None:
        return [(name, weight, entry.first, request) for name, request in requests]
    several = len(requests) > 1
    return [
        (f"{entry.name}-{number}" if several else entry.name, weight, entry.first, request)
        for number, (_, request) in enumerate(requests, 1)
    ]


def _request_keys(driver: str) -> set[str]:
    """What an entry of `mix` may hold."""
    keys = {info.alias or name for name, info in SECTIONS[driver].model_fields.items()}
    return (keys - SHARED_KEYS[driver]) | set(MixEntry.model_fields)


def _parse(driver: str, data: Mapping[str, Any], at: KeyPath, tree: Any, where: Where) -> Raw | None:
    try:
        return SECTIONS[driver].model_validate(dict(data))
    except ValidationError as error:
        where.invalid(error, tree, SECTIONS[driver], at)
        return None


def _named(found: Found) -> tuple[Operation, ...]:
    """Operations with names of their own: a second "GET /" becomes "GET / (2)"."""
    seen: dict[str, int] = {}
    operations = []
    for name, weight, first, request in found:
        seen[name] = seen.get(name, 0) + 1
        own = name if seen[name] == 1 else f"{name} ({seen[name]})"
        operations.append(Operation(own, weight, request, first))
    return tuple(operations)


def _shown(text: str | Secret, longest: int = 60) -> str:
    if isinstance(text, Secret):
        return HIDDEN
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def _regex(pattern: str | None, path: KeyPath, where: Where, groups: bool = False) -> None:
    """The engine's expressions are a part of these: what is no expression here is none there."""
    if pattern is None:
        return
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        where.wrong(path, f'"{_shown(pattern)}" is not a regular expression: {error}')
        return
    if groups and compiled.groups < 1:
        where.wrong(path, 'the expression needs a group around the number, such as "([0-9]+) bytes"')


def _nothing(section: Any, at: KeyPath, where: Where) -> dict[str, Json]:
    return {}


def _null_requests(section: Any, at: KeyPath, where: Where) -> Requests:
    return [("null", {})]


def _tcp_settings(section: TcpSection, at: KeyPath, where: Where) -> dict[str, Json]:
    return {"connection": section.connection}


def _tcp_requests(section: TcpSection, at: KeyPath, where: Where) -> Requests:
    expect: dict[str, Json] = {"kind": "close" if section.expect_close else "line"}
    if section.expect_bytes is not None:
        expect = {"kind": "bytes", "count": section.expect_bytes}
    return [("exchange", {"send": section.send, "expect": expect})]


def _http_settings(section: HttpSection, at: KeyPath, where: Where) -> dict[str, Json]:
    token = None if section.token_file is None else where.file(section.token_file, (*at, "token_file"))
    return {
        "connection": section.connection,
        "tls": _tls(section.tls, (*at, "tls"), where),
        "token_file": token,
        "proxies": [] if section.proxy is None else [proxy(section.proxy, (*at, "proxy"), where)],
        "keep_body": False,  # the engine keeps it where an expectation looks into it
    }


def _tls(tls: Tls, at: KeyPath, where: Where) -> dict[str, Json]:
    names = {
        key: where.file(name, (*at, key)) if name is not None else None
        for key, name in (
            ("ca_file", tls.ca_file),
            ("ca_dir", tls.ca_dir),
            ("cert", tls.cert),
            ("key", tls.key),
        )
    }
    return {**names, "verify": tls.verify}


def proxy(address: str | Secret, at: KeyPath, where: Where) -> str | Secret:
    """A proxy's URL, which must not hold a password: no driver would use it, and where it is plain it is stored."""
    text = address.reveal() if isinstance(address, Secret) else address
    if text.startswith("https:"):
        where.wrong(at, "a proxy is spoken to over http://: a URL of https: is not supported")
    if "@" in text:
        where.wrong(
            at, "a proxy's URL holds a user or a password: give a Proxy-Authorization header with a secret"
        )
    return address


def _http_requests(section: HttpSection, at: KeyPath, where: Where) -> Requests:
    _regex(section.expect.body_regex, (*at, "expect", "body_regex"), where)
    common = {
        "method": section.method,
        "headers": [[name, value] for name, value in section.headers.items()],
        "body": section.body,
        "body_file": None if section.body_file is None else where.file(section.body_file, (*at, "body_file")),
        "expect": {
            "status": list(section.expect.status or []),
            "contains": section.expect.body_contains,
            "regex": section.expect.body_regex,
        },
        "resend_non_idempotent": section.resend_non_idempotent,
    }
    requests: Requests = []
    listed = section.paths is not None
    for index, path in enumerate(section.paths or [section.path]):
        here: KeyPath = (*at, "paths", index) if listed else (*at, "path")
        plain = HIDDEN if isinstance(path, Secret) else where.as_written(here, path).split("?", 1)[0]
        if isinstance(path, str) and not path.startswith(("/", "{")):
            where.wrong(here, f'"{_shown(path)}" is not a path: it begins with /; the host belongs to target')
        requests.append((f"{section.method} {_shown(plain)}", {**common, "path": path}))
    return requests


def _sql_settings(section: SqlSection, at: KeyPath, where: Where) -> dict[str, Json]:
    found = password(section.password, (*at, "password"), where)
    tls = None if section.tls is None else _tls(section.tls, (*at, "tls"), where)
    return {"connection": section.connection, "password": found, "tls": tls}


def _sql_asking(section: SqlSection, query: Query) -> dict[str, Json]:
    return {"query": query.text, "version": _version(query)}


def _version(query: Query) -> Json:
    return None if query.version is None else query.version.told()


def _sql_requests(section: SqlSection, at: KeyPath, where: Where) -> Requests:
    queries = _queries(section.queries, at, where)
    return [(name, _sql_asking(section, Query(name, text))) for name, text in queries]


def _queries(queries: list[str], at: KeyPath, where: Where) -> list[tuple[str, str]]:
    if not queries:
        where.wrong((*at, "queries"), "there is none: give at least one query")
    named = [
        ("query" if len(queries) == 1 else f"query-{number}", query)
        for number, query in enumerate(queries, 1)
    ]
    for index, query in enumerate(queries):
        if not query.strip():
            where.wrong((*at, "queries", index), "the query is empty")
    return named


def _frontier_settings(section: FrontierSection, at: KeyPath, where: Where) -> dict[str, Json]:
    for index, query in enumerate(section.chatter_queries or []):
        if not query.strip():
            where.wrong((*at, "chatter_queries", index), "the query is empty")
    return {
        "id": section.id,
        "connection": section.connection,
        "http": section.http,
        "proxies": [] if section.proxy is None else [proxy(section.proxy, (*at, "proxy"), where)],
        "choose": "per-request",  # the target says it, where it is known
        "order": "round-robin",
        "failover": section.failover,
        "failover_to_server": section.failover_to_server,
        "load_balance": section.load_balance,
        "connect_timeout_ns": section.connect_timeout,
        "read_timeout_ns": section.read_timeout,
        "uncached": section.uncached,
        "chatter": {"requests": section.chatter, "queries": list(section.chatter_queries or [])},
    }


def _frontier_asking(section: FrontierSection, query: Query) -> dict[str, Json]:
    # What a session begins with is asked once each, not in batches.
    count = section.batch if query.first == 0 else 1
    return _frontier_request(section, [query.text] * count, query)


def _frontier_request(
    section: FrontierSection, queries: list[str], query: Query | None = None
) -> dict[str, Json]:
    return {
        "queries": queries,
        "zip": section.zip,
        "ttl": section.ttl,
        "refresh": section.refresh,
        "freshkey": section.freshkey,
        "version": None if query is None else _version(query),
    }


def _frontier_requests(section: FrontierSection, at: KeyPath, where: Where) -> Requests:
    queries = _queries(section.queries, at, where)
    size = section.batch
    if size == 1 or len(queries) < 2:
        return [(name, _frontier_asking(section, Query(name, text))) for name, text in queries]
    # So many of the list in each request; the last takes from the beginning what it lacks.
    batches = [
        [queries[(start + offset) % len(queries)][1] for offset in range(size)]
        for start in range(0, len(queries), size)
    ]
    several = len(batches) > 1
    return [
        (f"batch-{number}" if several else "batch", _frontier_request(section, batch))
        for number, batch in enumerate(batches, 1)
    ]


def with_target(
    settings: dict[str, Json], choose: str, order: str, chatter: Sequence[str]
) -> dict[str, Json]:
    """Settings of `frontier` with what its target says; `chatter`: what is asked before a query where the file does
    not say it."""
    own = settings["chatter"]
    asked = {**own, "queries": own["queries"] or (list(chatter) if own["requests"] else [])}
    return {**settings, "choose": choose, "order": order, "chatter": asked}


def _exec_settings(section: ExecSection, at: KeyPath, where: Where) -> dict[str, Json]:
    cwd = None if section.cwd is None else where.file(section.cwd, (*at, "cwd"))
    files = [where.file(name, (*at, "files", index)) for index, name in enumerate(section.files)]
    for index, name in enumerate(files):
        if Path(name).is_dir():
            where.wrong((*at, "files", index), f"{name} is a directory: name the files in it")
    env = {name: _found(text, section, where) for name, text in section.env.items()}
    return {"mode": section.mode, "env": env, "cwd": cwd, "files": files}


def _found(word: str | Secret, section: ExecSection, where: Where) -> str | Secret:
    """A word of a command; one that is in `files` means that file, wherever the program runs."""
    return where.beside(word) if isinstance(word, str) and word in section.files else word


def _exec_requests(section: ExecSection, at: KeyPath, where: Where) -> Requests:
    if section.command is None:
        where.wrong(
            (*at, "command"), 'required key missing: the program and its arguments, for example ["true"]'
        )
        return []
    if section.mode == "long-lived" and section.stdin is not None:
        where.wrong(
            (*at, "stdin"), "a long-lived program is told on stdin when to go on: no other stdin can be given"
        )
    wanted: dict[str, Json] = {"kind": "none"}
    if section.bytes is not None and section.bytes.fixed is not None:
        wanted = {"kind": "fixed", "bytes": section.bytes.fixed}
    elif section.bytes is not None and section.bytes.regex is not None:
        _regex(section.bytes.regex, (*at, "bytes", "regex"), where, groups=True)
        wanted = {"kind": "regex", "pattern": section.bytes.regex}
    elif section.bytes is not None:
        wanted = {"kind": "json"}
    program = section.command[0]
    if isinstance(program, str):
        program = where.as_written((*at, "command", 0), program).rsplit("/", 1)[-1]
    command = [_found(word, section, where) for word in section.command]
    request = {"command": command, "stdin": section.stdin, "bytes": wanted}
    return [(_shown(program), request)]


DRIVERS: Final[dict[str, Driver]] = {
    "exec": Driver((), _exec_settings, _exec_requests),
    "frontier": Driver(("http", "https"), _frontier_settings, _frontier_requests, _frontier_asking),
    "http": Driver(("http", "https"), _http_settings, _http_requests),
    "null": Driver((), _nothing, _null_requests),
    "replay": Driver((), replay_settings, replay_requests),
    "sql": Driver(("sqlite", *DATABASES), _sql_settings, _sql_requests, _sql_asking),
    "tcp": Driver(("tcp",), _tcp_settings, _tcp_requests),
}
"""One row a driver; the keys are those of SECTIONS."""
