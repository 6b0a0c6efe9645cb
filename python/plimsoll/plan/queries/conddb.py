"""The queries of a client of a conditions database with the layout of CMS and CREST: the dictionary, the global tag
with its tags, and the groups of intervals of validity (IOVs) of every tag at the beginning of its session; then the
IOVs of groups, and payloads by their hash, until the end of the run.

The queries are those of CMS's CondDB, with the tables of the data set `conddb` (data/conddb.rs of crate `services`).
Its IOVs have 10 units from 0, and only a beginning. A group is the IOVs of `group` units. Clients read whole groups.
Queries for different times of one group are therefore equal, so that a cache can answer them.

The groups are computed by `%`. CMS uses CAST(SINCE/1000 AS INT)*1000, which rounds in Oracle and in MariaDB, and does
not in PostgreSQL and SQLite: the databases would return different groups.
"""

from __future__ import annotations

from hashlib import sha1
from typing import Final

from plimsoll.plan.model.cell import Generator
from plimsoll.plan.queries.query import Dialect, Query, QuerySet, dictionary, in_turn
from plimsoll.plan.queries.sections import CondDbWork

INTERVAL: Final = 10
"""Length of an IOV."""
SNAPSHOT: Final = "2020-01-01 00:00:00"
"""The time until which a global tag sees changes: `SNAPSHOT_TIME` of the data."""
_WIDTH: Final = 4
"""Minimum number of digits of the numbers of tags."""


def conddb_queries(raw: CondDbWork, dialect: Dialect) -> QuerySet:
    """The queries of a workload, with the generators of their values."""
    values: dict[str, Generator] = {}
    queries = _session_queries(raw, dialect, values) if raw.session else []
    if raw.by_hash < 1:
        values["_tag"] = _at_random(in_turn(raw.tags, _WIDTH).items)
        groups = -(-raw.iovs * INTERVAL // raw.group)
        values["_group"] = Generator("uniform", low=0, high=groups - 1)
        queries.append(Query("iovs", _group_query(raw), 1 - raw.by_hash))
    if raw.by_hash > 0:
        values["_hash"] = _at_random(_hashes(raw))
        queries.append(Query("payload", _payload_query(raw), raw.by_hash))
    return QuerySet(tuple(queries), values)


def payload_hash(seed: int, tag: int, payload: int) -> str:
    """The hash of a payload, 40 hexadecimal digits. `tag`: its number, from 1; `payload`: its number in the tag, from
    0."""
    return sha1(f"{seed}/{tag}/{payload}".encode(), usedforsecurity=False).hexdigest()


def _hashes(raw: CondDbWork) -> tuple[str, ...]:
    return tuple(
        payload_hash(raw.seed, tag, payload)
        for tag in range(1, raw.tags + 1)
        for payload in range(raw.payloads or raw.iovs)
    )


def _at_random(items: tuple[str, ...]) -> Generator:
    return Generator("list", items=items, order="random")


def _table(raw: CondDbWork, name: str) -> str:
    return f"{raw.prefix}_{name}" if raw.prefix else name


def _session_queries(raw: CondDbWork, dialect: Dialect, values: dict[str, Generator]) -> list[Query]:
    """The queries at the beginning of a session. A query of a tag is sent once for each tag."""
    prefix = f"{raw.prefix}_" if raw.prefix else ""
    queries = [
        (f"dictionary-{number}", text, 1) for number, text in enumerate(dictionary(dialect, prefix), 1)
    ]
    values["_global"] = _at_random(in_turn(raw.global_tags, _WIDTH).items)
    values["_each"] = in_turn(raw.tags, _WIDTH)
    queries += [
        (
            "global tag",
            f"SELECT G.VALIDITY, G.DESCRIPTION, G.RELEASE, G.SNAPSHOT_TIME FROM {_table(raw, 'GLOBAL_TAG')} G "
            "WHERE G.NAME='GT_{_global}'",
            1,
        ),
        (
            "global tag map",
            f"SELECT M.RECORD, M.LABEL, M.TAG_NAME FROM {_table(raw, 'GLOBAL_TAG_MAP')} M "
            "WHERE M.GLOBAL_TAG_NAME='GT_{_global}' ORDER BY M.RECORD, M.LABEL",
            1,
        ),
        (
            "tag",
            "SELECT T.TIME_TYPE, T.OBJECT_TYPE, T.SYNCHRONIZATION, T.END_OF_VALIDITY, T.DESCRIPTION, "
            f"T.LAST_VALIDATED_TIME FROM {_table(raw, 'TAG')} T WHERE T.NAME='Tag{{_each}}_v1'",
            raw.tags,
        ),
        (
            "iov groups",
            f"SELECT MIN(I.SINCE) FROM {_table(raw, 'IOV')} I WHERE I.TAG_NAME='Tag{{_each}}_v1' "
            f"AND I.INSERTION_TIME<='{SNAPSHOT}' GROUP BY I.SINCE-I.SINCE%{raw.group} "
            f"ORDER BY I.SINCE-I.SINCE%{raw.group}",
            raw.tags,
        ),
    ]
    return [Query(name, text, 0.0, first) for name, text, first in queries]


def _group_query(raw: CondDbWork) -> str:
    """The IOVs of a group, the newest first among those of the same time."""
    return (
        f"SELECT I.SINCE, I.PAYLOAD_HASH FROM {_table(raw, 'IOV')} I WHERE I.TAG_NAME='Tag{{_tag}}_v1' "
        f"AND I.SINCE>={{_group}}*{raw.group} AND I.SINCE<{{_group}}*{raw.group}+{raw.group} "
        f"AND I.INSERTION_TIME<='{SNAPSHOT}' ORDER BY I.SINCE, I.INSERTION_TIME DESC"
    )


def _payload_query(raw: CondDbWork) -> str:
    return f"SELECT P.DATA, P.STREAMER_INFO, P.OBJECT_TYPE FROM {_table(raw, 'PAYLOAD')} P WHERE P.HASH='{{_hash}}'"
