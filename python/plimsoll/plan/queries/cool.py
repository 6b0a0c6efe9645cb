"""The queries of a client of a COOL conditions database: the dictionary, the attributes and the nodes at the beginning
of its session, then the tags and channels of its folders, then intervals of validity (IOVs) until the end of the run.

The queries are those of COOL's RelationalObjectTable (its COALESCE form), without Oracle's hints, with inline payload.
The tables are those of the data set `cool` (data/cool.rs of crate `services`): names in capitals, because MariaDB's
table names are case-sensitive; folders /F0001, /F0002, ...; channels from 0; IOVs of 1000 units from 0, without a gap;
payload columns P_1, P_2, ...

Every moment has its own number, so that two requests are rarely equal, as with real clients. `repeat` is the share of
repeated requests; with `times`, there are only so many moments. A query for a whole folder covers all moments, so all
queries for a folder are equal. A query for all channels has no condition for the channel, as in COOL.
"""

from __future__ import annotations

import random
from typing import Final

from plimsoll.plan.model.cell import Generator
from plimsoll.plan.queries.query import Dialect, Query, QuerySet, dictionary, in_turn
from plimsoll.plan.queries.sections import CoolWork

REPEATED: Final = 20
"""Number of different queries from which repeated queries are drawn."""
SPAN: Final = 10
"""Number of channels, or of intervals, of a request `by-range`."""
FIRST_TAG: Final = 1
"""The tag that `by-tag` reads without `tag`."""
END_OF_TIME: Final = 2**63 - 1
INTERVAL: Final = 1000
"""Length of an IOV."""
_FULL_COLUMN: Final = 255
_MAX_COLUMNS: Final = 16
"""Without `columns`, the payload has columns of _FULL_COLUMN bytes, and at most this many."""
_COLUMNS: Final = (
    *("OBJECT_ID", "CHANNEL_ID", "IOV_SINCE", "IOV_UNTIL", "USER_TAG_ID"),
    *("SYS_INSTIME", "LASTMOD_DATE", "ORIGINAL_ID", "NEW_HEAD_ID"),
)
_NODE: Final = (
    *("NODE_ID", "NODE_PARENTID", "NODE_NAME", "NODE_FULLPATH", "NODE_DESCRIPTION", "NODE_ISLEAF"),
    *("NODE_SCHEMA_VERSION", "NODE_INSTIME", "LASTMOD_DATE", "FOLDER_PAYLOADSPEC", "FOLDER_PAYLOAD_INLINE"),
    *("FOLDER_VERSIONING", "FOLDER_IOVTABLENAME", "FOLDER_TAGTABLENAME", "FOLDER_IOV2TAGTABLENAME"),
    "FOLDER_CHANNELTABLENAME",
)


def cool_queries(raw: CoolWork, dialect: Dialect) -> QuerySet:
    """The queries of a workload, with the generators of their values."""
    values: dict[str, Generator] = {}
    fresh = _iov_query(raw, "{_folder}", "{_channel}", "0" if raw.access == "whole-folder" else "{_time}")
    if raw.mix == "many-folders":
        values["_folder"] = _random_folder(raw.folders)
    else:
        fresh = fresh.replace("{_folder}", _folder(1))
    if raw.mix == "one-channel-many-iovs":
        fresh = fresh.replace("{_channel}", "0")
    else:
        values["_channel"] = Generator("uniform", low=0, high=_channels(raw) - 1)
    values["_time"] = _time_points(raw)
    queries = _session_queries(raw, dialect, values) if raw.session else []
    if raw.repeat < 1:
        queries.append(Query("iov", fresh, 1 - raw.repeat))
    if raw.repeat > 0:
        values["_again"] = Generator("list", items=_repeated(raw), order="random")
        queries.append(Query("iov again", "{_again}", raw.repeat))
    used = {
        name: generator
        for name, generator in values.items()
        if any(f"{{{name}}}" in query.text for query in queries)
    }
    return QuerySet(tuple(queries), used)


def _folder(number: int) -> str:
    return f"{number:04d}"


def _random_folder(folders: int) -> Generator:
    return Generator("list", items=in_turn(folders, 4).items, order="random")


def _table(raw: CoolWork, name: str, folder: str | None = None) -> str:
    own = f"F{folder}_{name}" if folder is not None else name
    return f"{raw.prefix}_{own}" if raw.prefix else own


def _range(raw: CoolWork) -> tuple[int, int]:
    """Number of channels and number of intervals of one request."""
    if raw.access != "by-range":
        return 1, 1
    if raw.mix == "one-channel-many-iovs":
        return 1, min(SPAN, raw.iovs)
    return min(SPAN, raw.channels), 1


def _channels(raw: CoolWork) -> int:
    """Number of channels at which a request can begin."""
    return raw.channels - _range(raw)[0] + 1


def _moments(raw: CoolWork) -> int:
    """Number of moments at which a request can begin."""
    return (raw.iovs - _range(raw)[1] + 1) * INTERVAL


def _time_points(raw: CoolWork) -> Generator:
    """The moments of requests, at random: all, or `times` of them at equal distances."""
    moments = _moments(raw)
    if raw.times is None or raw.times >= moments:
        return Generator("uniform", low=0, high=moments - 1)
    points = tuple(str(number * moments // raw.times) for number in range(raw.times))
    return Generator("list", items=points, order="random")


def _session_queries(raw: CoolWork, dialect: Dialect, values: dict[str, Generator]) -> list[Query]:
    """The queries at the beginning of a session. A query of a folder is sent once for each folder."""
    many = raw.mix == "many-folders"
    times, folder = (raw.folders, "{_each}") if many else (1, _folder(1))
    if many:
        values["_each"] = in_turn(raw.folders, 4)
    queries = [(f"dictionary-{number}", text, 1) for number, text in enumerate(_dictionary(raw, dialect), 1)]
    attributes = f"SELECT DB_ATTRIBUTE_NAME, DB_ATTRIBUTE_VALUE FROM {_table(raw, 'DB_ATTRIBUTES')}"
    queries.append(("attributes", attributes, 1))
    node = f"SELECT {', '.join(_NODE)} FROM {_table(raw, 'NODES')} WHERE NODE_FULLPATH='/F{folder}'"
    queries.append(("nodes", node, times))
    if raw.versioning == "multi":
        tags = "SELECT NODE_ID, TAG_ID, TAG_NAME, TAG_LOCK_STATUS, TAG_DESCRIPTION, SYS_INSTIME"
        queries.append(("global tags", f"{tags} FROM {_table(raw, 'TAGS')} ORDER BY NODE_ID, TAG_ID", 1))
        pairs = "SELECT PARENT_NODEID, PARENT_TAGID, CHILD_NODEID, CHILD_TAGID, SYS_INSTIME"
        queries.append(("tag relations", f"{pairs} FROM {_table(raw, 'TAG2TAG')}", 1))
        own = "SELECT TAG_ID, TAG_NAME, TAG_DESCRIPTION, SYS_INSTIME"
        queries.append(("tags", f"{own} FROM {_table(raw, 'TAGS', folder)} ORDER BY TAG_ID", times))
    channels = "SELECT CHANNEL_ID, LAST_OBJECT_ID, HAS_NEW_DATA, CHANNEL_NAME, DESCRIPTION"
    queries.append(
        ("channels", f"{channels} FROM {_table(raw, 'CHANNELS', folder)} ORDER BY CHANNEL_ID", times)
    )
    return [Query(name, text, 0.0, first) for name, text, first in queries]


def _dictionary(raw: CoolWork, dialect: Dialect) -> tuple[str, ...]:
    return dictionary(dialect, f"{raw.prefix}_" if raw.prefix else "")


def payload_columns(raw: CoolWork) -> int:
    """Number of columns of the payload: `columns`, otherwise as many of 255 bytes as necessary, at most 16."""
    return raw.columns or min(-(-raw.payload // _FULL_COLUMN), _MAX_COLUMNS)


def _iov_query(raw: CoolWork, folder: str, channel: str, time: str) -> str:
    """A query for IOVs of channels at a moment, or in a range of time."""
    channels, intervals = _range(raw)
    if raw.access == "whole-folder":
        until = str(END_OF_TIME)
    else:
        until = time if intervals == 1 else f"{time}+{(intervals - 1) * INTERVAL}"
    tag = _tag(raw)
    iovs = _table(raw, "IOVS" if tag is None else "IOV2TAG", folder)
    shown = "COOL_I3" if tag is None else "COOL_I4"
    payload = [f"P_{number}" for number in range(1, payload_columns(raw) + 1)]
    columns = [f"{shown}.{name}" for name in (*_COLUMNS, *payload)]
    tables = [f"{_table(raw, 'CHANNELS', folder)} COOL_C2", f"{iovs} COOL_I3"]
    last = f"SELECT MAX(COOL_I1.IOV_SINCE) FROM {iovs} COOL_I1 WHERE {_version(raw, 'COOL_I1')}"
    last += f"COOL_I1.CHANNEL_ID=COOL_C2.CHANNEL_ID AND COOL_I1.IOV_SINCE<={time}"
    where = [
        *([] if raw.access in ("all-channels", "whole-folder") else [_channel_condition(channel, channels)]),
        f"{_version(raw, 'COOL_I3')}COOL_I3.CHANNEL_ID=COOL_C2.CHANNEL_ID",
        f"COOL_I3.IOV_SINCE>=COALESCE(({last}),{time})",
        f"COOL_I3.IOV_SINCE<={until}",
        f"COOL_I3.IOV_UNTIL>{time}",
    ]
    if tag is not None:
        tables.append(f"{_table(raw, 'IOVS', folder)} COOL_I4")
        where.append("COOL_I4.OBJECT_ID=COOL_I3.OBJECT_ID")
    return (
        f"SELECT {', '.join(columns)} FROM {', '.join(tables)} WHERE {' AND '.join(where)} "
        "ORDER BY COOL_I3.CHANNEL_ID, COOL_I3.IOV_SINCE"
    )


def _tag(raw: CoolWork) -> int | None:
    """The tag whose versions are read; None: the newest versions, or the only ones."""
    return FIRST_TAG if raw.access == "by-tag" and raw.tag is None else raw.tag


def _version(raw: CoolWork, table: str) -> str:
    """The condition for the versions: those of a tag, the newest, or the only ones."""
    if (tag := _tag(raw)) is not None:
        return f"{table}.TAG_ID={tag} AND "
    if raw.versioning == "multi":
        return f"{table}.USER_TAG_ID=0 AND {table}.NEW_HEAD_ID=0 AND "
    return ""


def _channel_condition(channel: str, count: int) -> str:
    if count == 1:
        return f"COOL_C2.CHANNEL_ID={channel}"
    return f"COOL_C2.CHANNEL_ID>={channel} AND COOL_C2.CHANNEL_ID<={channel}+{count - 1}"


def _repeated(raw: CoolWork) -> tuple[str, ...]:
    """The queries that are repeated. They are the same for the same workload."""
    draw = random.Random(repr(raw))
    times = _time_points(raw).items
    queries = []
    for _ in range(REPEATED):
        folder = draw.randint(1, raw.folders) if raw.mix == "many-folders" else 1
        channel = 0 if raw.mix == "one-channel-many-iovs" else draw.randrange(_channels(raw))
        time = draw.choice(times) if times else str(draw.randrange(_moments(raw)))
        queries.append(_iov_query(raw, _folder(folder), str(channel), time))
    return tuple(queries)
