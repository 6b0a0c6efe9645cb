"""The files of a Rucio server: its configuration, that of gunicorn, and the program that creates its tables."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from plimsoll.deploy.counters.logs.rucio import FORMAT
from plimsoll.plan.drivers.catalogue import ACCOUNT, PASSWORD, SCOPE, USER

SCHEMA: Final = "rucio"
"""The schema of its tables. The data set of the same database is in the schema public."""
ELEMENTS: Final = 20
"""The number of storage elements: the maximum number of replicas of a data set of kind `catalogue`."""
KEEP_ALIVE_S: Final = 300
"""How long gunicorn keeps an idle connection. Its own default is 2 s, which ends the sessions of testers that think."""
READY: Final = "The worker is ready"

ALEMBIC: Final = """\
[alembic]
script_location = rucio.db.sqla:migrate_repo
sqlalchemy.url = {database}
version_table_schema = rucio
[loggers]
keys = root
[handlers]
keys = stderr
[formatters]
keys = plain
[logger_root]
level = WARNING
handlers = stderr
[handler_stderr]
class = StreamHandler
args = (sys.stderr,)
formatter = plain
[formatter_plain]
format = %(levelname)s %(message)s
"""
PERMISSION: Final = f"""\
def has_permission(issuer, action, kwargs, *, session):
    # None: the generic policy decides. It lets only daemons delete replicas.
    return True if action == "delete_replicas" and issuer.external == "{ACCOUNT}" else None
"""


def rucio_config(directory: PurePath, database: str, *, threads: int) -> str:
    """The configuration of Rucio. Each worker has a connection to the database for each of its threads.

    It does not contain `multi_vo`: any value of it, also False, makes Rucio create another account than root."""
    return f"""\
[common]
logdir = {directory}
loglevel = WARNING
[database]
default = {database}
schema = {SCHEMA}
pool_size = {threads}
max_overflow = {threads}
pool_recycle = 3600
pool_reset_on_return = rollback
[bootstrap]
userpass_identity = {USER}
userpass_pwd = {PASSWORD}
userpass_email = none
[policy]
package = plimsoll_policy
permission = generic
schema = generic
lfn2pfn_algorithm_default = identity
[alembic]
cfg = {directory}/alembic.ini
"""


def gunicorn_config(
    address: str,
    access_log: PurePath,
    *,
    workers: int,
    threads: int,
    certificate: tuple[PurePath, PurePath] | None = None,
) -> str:
    """The configuration of gunicorn. Its class of workers `sync` closes every connection after one request.
    `certificate`: the files of certificate and key; None: without TLS."""
    tls = "" if certificate is None else f'certfile = "{certificate[0]}"\nkeyfile = "{certificate[1]}"\n'
    return f"""\
bind = "{address}"
workers = {workers}
worker_class = "gthread"
threads = {threads}
keepalive = {KEEP_ALIVE_S}
accesslog = "{access_log}"
access_log_format = "{FORMAT}"
control_socket_disable = True
{tls}

def post_worker_init(worker):
    worker.log.info("{READY}")
"""


_SELECTION: Final = """
    FROM cns_file_metadata e
    JOIN cns_file_metadata d ON e.parent_fileid = d.fileid
    JOIN cns_file_metadata p ON d.parent_fileid = p.fileid AND p.name = 'data'
"""
"""The entries `e` of the directories `d` below /grid/data."""
_NOW: Final = "now() AT TIME ZONE 'utc', now() AT TIME ZONE 'utc'"
_STATEMENTS: Final = (
    f"""
    INSERT INTO rucio.dids
        (scope, name, account, did_type, availability, is_open, length, bytes, created_at, updated_at)
    SELECT '{SCOPE}', 'grid/data/' || d.name, '{ACCOUNT}', 'D', 'A', true, count(*), sum(e.filesize), {_NOW}
    {_SELECTION} GROUP BY d.name
    """,
    f"""
    INSERT INTO rucio.dids (scope, name, account, did_type, availability, bytes, adler32, guid, created_at, updated_at)
    SELECT '{SCOPE}', 'grid/data/' || d.name || '/' || e.name, '{ACCOUNT}', 'F', 'A', e.filesize, e.csumvalue,
        CAST(e.guid AS uuid), {_NOW} {_SELECTION}
    """,
    f"""
    INSERT INTO rucio.contents
        (scope, name, child_scope, child_name, did_type, child_type, bytes, adler32, guid, created_at, updated_at)
    SELECT '{SCOPE}', 'grid/data/' || d.name, '{SCOPE}', 'grid/data/' || d.name || '/' || e.name, 'D', 'F',
        e.filesize, e.csumvalue, CAST(e.guid AS uuid), {_NOW} {_SELECTION}
    """,
    f"""
    INSERT INTO rucio.replicas (rse_id, scope, name, bytes, adler32, state, lock_cnt, created_at, updated_at)
    SELECT s.id, '{SCOPE}', 'grid/data/' || d.name || '/' || e.name, e.filesize, e.csumvalue, 'A', 0, {_NOW}
    {_SELECTION} JOIN cns_file_replica r ON r.fileid = e.fileid
    JOIN rucio.rses s ON s.rse = upper(split_part(r.host, '.', 1))
    """,
)
"""Register the entries of a data set as Rucio stores them: a directory is a data set of Rucio."""

PREPARE: Final = f"""\
from sqlalchemy import text

from rucio.common.constants import DEFAULT_VO
from rucio.common.types import InternalAccount, InternalScope
from rucio.core.rse import add_protocol, add_rse
from rucio.core.scope import add_scope
from rucio.db.sqla.session import get_engine, get_session
from rucio.db.sqla.util import build_database, create_base_vo, create_root_account

ALL = {{"read": 1, "write": 1, "delete": 1}}
BETWEEN = {{"third_party_copy_read": 1, "third_party_copy_write": 1}}


def protocol(number):
    return {{
        "scheme": "davs",
        "hostname": f"se{{number:02}}.example.org",
        "port": 443,
        "prefix": "/data/",
        "impl": "rucio.rse.protocols.gfal.Default",
        "domains": {{"lan": ALL, "wan": ALL | BETWEEN}},
    }}


with get_engine().begin() as connection:
    # An earlier start of the service may have used the same database.
    connection.execute(text("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"))
build_database()
create_base_vo()
create_root_account()
with get_session()() as session, session.begin():
    account = InternalAccount("{ACCOUNT}", vo=DEFAULT_VO)
    add_scope(InternalScope("{SCOPE}", vo=DEFAULT_VO), account, session=session)
    for number in range(1, {ELEMENTS + 1}):
        add_protocol(add_rse(f"SE{{number:02}}", session=session), protocol(number), session=session)
with get_engine().begin() as connection:
    if connection.scalar(text("SELECT to_regclass('cns_file_metadata')")) is not None:
        for statement in {_STATEMENTS!r}:
            connection.execute(text(statement))
"""
"""Runs with the Python of the environment."""
