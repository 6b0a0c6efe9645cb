"""The files of a Rucio server, its counters, and the message about a missing one."""

from __future__ import annotations

import ast
import configparser
from pathlib import Path, PurePath

import pytest

from plimsoll.deploy.counters.logs.rucio import FORMAT, RucioCounts
from plimsoll.deploy.servers.needs import missing_programs
from plimsoll.deploy.servers.storage.rucio_files import (
    ALEMBIC,
    PERMISSION,
    PREPARE,
    gunicorn_config,
    rucio_config,
)

URL = "postgresql+psycopg://plimsoll@127.0.0.1:5432/plimsoll"


def test_the_configuration_names_the_database_and_the_files() -> None:
    config = configparser.ConfigParser()
    config.read_string(rucio_config(PurePath("/w"), URL, threads=7))
    assert config["database"]["default"] == URL
    assert config["database"]["pool_size"] == "7"
    assert config["alembic"]["cfg"] == "/w/alembic.ini"
    assert "multi_vo" not in config["common"], "any value creates another account"
    alembic = configparser.RawConfigParser()
    alembic.read_string(ALEMBIC.format(database=URL))
    assert alembic["alembic"]["sqlalchemy.url"] == URL


def test_the_programs_are_python() -> None:
    server = gunicorn_config("[::1]:80", PurePath("/w/access.log"), workers=2, threads=3)
    for text in (server, PREPARE, PERMISSION):
        ast.parse(text)
    assert 'bind = "[::1]:80"\nworkers = 2\n' in server
    assert f'accesslog = "/w/access.log"\naccess_log_format = "{FORMAT}"\n' in server


def test_requests_for_tokens_are_counted_apart() -> None:
    counts = RucioCounts()
    for line in (
        b"GET /auth/userpass 200 0",
        b"POST /replicas/list 200 439",
        b"DELETE /replicas 404 97",
        b"POST /replicas 201",
        b"[2026-11-29 00:46:36 +0000] [1] [INFO] Booting worker with pid: 2",
    ):
        counts.add(line)
    assert counts.reading().counters == {"requests": 2, "logins": 1, "failed": 1, "bytes_sent": 536}


def test_a_missing_rucio_is_reported_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (text,) = missing_programs({"rucio"})
    place = tmp_path / "plimsoll" / "rucio"
    assert f"python3 -m venv {place} && {place}/bin/pip install 'rucio[postgresql]' gunicorn" in text
