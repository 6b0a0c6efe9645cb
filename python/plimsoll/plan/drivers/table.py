"""The drivers, each from its own file; the only list of them in the lab.

`settings` apply to all requests of a workload, `request` to one operation. Both are JSON, with the keys of the
experiment file. Quantities are in bytes and nanoseconds, file names are absolute. The engine reads of each driver:

null      settings: nothing. request: nothing.
tcp       settings: connection. request: send, expect{kind: line | close | bytes, count}.
http      settings: connection, tls{ca_file, ca_dir, cert, key, verify, proxy: run | tester | null}, token_file,
          proxies, keep_body, metrics as pairs of a name and a field of the response's header.
          request: method, path, headers as pairs, body, body_file, expect{status, contains, regex},
          resend_non_idempotent.
broker    settings: connection. request: vo, group and cpus as texts, runtime_ms.
ldap      settings: connection, bind{kind: anonymous | simple | external, dn, password}, start_tls,
          tls as of http, or null.
          request: base, scope, filter, attributes, size_limit, time_limit_s, page_size, expect_entries.
catalogue settings: connection, data{entries, directory, replicas, seed}, keys{kind: uniform | single | zipf, s},
          round_trips, transactions, subject, verify, tls as of http, or null.
          request: operation, by, bulk, page.
ftp       settings: connection, login{user, password}.
          request: path, transfer: download | upload, size, part{offset, length}, mode: stream | extended, streams,
          verify: adler32 | md5, expect_bytes.
sql       settings: connection, password, tls as of http, or null. request: query, version{object, column, written}.
frontier  settings: id, connection, http, proxies, choose, order, failover, failover_to_server, load_balance,
          connect_timeout_ns, read_timeout_ns, uncached, chatter{requests, queries, refresh, ttl}.
          request: queries (one payload each), zip, ttl, refresh, freshkey, version{object, column, written}.
exec      settings: mode, env, cwd, files. request: command, stdin, bytes{kind: none | fixed | regex | json}.
replay    settings: trace, root, timing, scale, order, map and ignore (the texts), copies{private, shared,
          write_shared}, prepare, compressibility, clean, read_maps, allow_root, per_call. request: nothing.

All keys are always present. A missing key of the file is null, or an empty list. An empty `expect.status` accepts any
status below 400.
"""

from __future__ import annotations

from typing import Final

from plimsoll.plan.drivers.broker import BROKER
from plimsoll.plan.drivers.catalogue import CATALOGUE
from plimsoll.plan.drivers.driver import Driver
from plimsoll.plan.drivers.exec import EXEC
from plimsoll.plan.drivers.frontier import FRONTIER
from plimsoll.plan.drivers.ftp import FTP
from plimsoll.plan.drivers.http import HTTP
from plimsoll.plan.drivers.ldap import LDAP
from plimsoll.plan.drivers.null import NULL
from plimsoll.plan.drivers.replay import REPLAY
from plimsoll.plan.drivers.sql import SQL
from plimsoll.plan.drivers.tcp import TCP

DRIVERS: Final[dict[str, Driver]] = {
    "broker": BROKER,
    "catalogue": CATALOGUE,
    "exec": EXEC,
    "frontier": FRONTIER,
    "ftp": FTP,
    "http": HTTP,
    "ldap": LDAP,
    "null": NULL,
    "replay": REPLAY,
    "sql": SQL,
    "tcp": TCP,
}
