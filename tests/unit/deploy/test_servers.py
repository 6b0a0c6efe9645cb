"""Configurations that Plimsoll writes for servers, and pages of servers that it reads."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plimsoll.deploy import account as accounts
from plimsoll.deploy.account import Account
from plimsoll.deploy.counters import nginx as nginx_counters
from plimsoll.deploy.counters import squid as squid_counters
from plimsoll.deploy.ports import LOOPBACK, CachePorts, PortBook
from plimsoll.deploy.programs import VARIABLE, postgres_directory, require, version_number
from plimsoll.deploy.servers import mariadb, nginx, postgres, squid
from plimsoll.deploy.service_hosts.local import LocalServiceHost
from plimsoll.deploy.workplace import Workplace
from plimsoll.errors import ServiceError

OWN, ONE, OTHER = (CachePorts(f"127.0.0.{n}", 1000 * n, 1000 * n + 1, 1000 * n + 2) for n in (3, 4, 5))


def squid_settings(**more: Any) -> dict[str, Any]:
    """Settings of a Squid."""
    cache = {"memory": 64_000_000, "object_in_memory": 1_000_000, "disk": 0, "largest": 100_000_000}
    return {
        "origin": None,
        "parents": [],
        "siblings": [],
        "workers": 1,
        "cache": cache,
        "collapsed_forwarding": False,
        "refresh": "refresh_pattern . 1 20% 60",
        "log": True,
        "settings": [],
        **more,
    }


def squid_conf(settings: dict[str, Any], origin: str | None = None) -> list[str]:
    peers = squid.peer_lines(settings, LOOPBACK, OWN, origin, {"one": ONE, "other": OTHER})
    return squid.configuration("my_cache", settings, Path("/p"), LOOPBACK, OWN, peers, 4096).splitlines()


def test_a_forward_proxy_has_one_port_and_no_peers() -> None:
    lines = squid_conf(squid_settings())
    assert "http_port 127.0.0.1:3000" in lines
    assert not [line for line in lines if "accel" in line or "cache_peer" in line]
    assert "icp_port 0" in lines
    assert "cache_mem 64000000 bytes" in lines
    assert "visible_hostname my-cache-3000.plimsoll" in lines
    assert "access_log stdio:/p/access.log !manager" in lines
    assert not [line for line in lines if line.startswith("cache_dir")]
    assert "access_log none" in squid_conf(squid_settings(log=False))


def test_the_site_of_a_reverse_proxy_is_its_origin_so_that_keys_agree() -> None:
    lines = squid_conf(squid_settings(origin="web"), "http://127.0.0.1:8000")
    assert "http_port 127.0.0.1:3001 accel defaultsite=127.0.0.1:8000 no-vhost" in lines
    assert "cache_peer 127.0.0.1 parent 8000 0 no-query no-digest originserver name=origin" in lines
    assert "never_direct allow all" not in lines


def test_parents_replace_the_origin_and_siblings_are_queried() -> None:
    below = squid_conf(squid_settings(origin="web", parents=["one", "other"]), "http://127.0.0.1:8000")
    assert "cache_peer 127.0.0.1 parent 4000 0 no-query no-digest round-robin name=one" in below
    assert "never_direct allow all" in below
    assert not [line for line in below if "originserver" in line]
    beside = squid_conf(squid_settings(origin="web", siblings=["one"]), "http://127.0.0.1:8000")
    assert "cache_peer 127.0.0.4 sibling 4000 4002 no-digest proxy-only name=one" in beside
    assert {"http_port 127.0.0.3:3000", "icp_port 3002", "udp_incoming_address 127.0.0.3"} <= set(beside)


def test_disk_workers_and_lines_of_the_file_are_in_the_configuration() -> None:
    cache = {**squid_settings()["cache"], "disk": 10_000_000}
    assert "cache_dir aufs /p/disk 10 16 16" in squid_conf(squid_settings(cache=cache))
    assert "cache_dir rock /p/disk 10" in squid_conf(squid_settings(cache=cache, workers=2))
    lines = squid_conf(squid_settings(settings=["via off"], collapsed_forwarding=True))
    assert lines[-1] == "via off"
    assert "collapsed_forwarding on" in lines


def test_nginx_is_configured_as_a_proxy_or_as_a_server_of_files() -> None:
    settings = {"origin": "web", "root": None, "workers": 2, "settings": ["sendfile off;", "gzip on;"]}
    text = nginx.configuration(
        settings,
        Path("/p"),
        "127.0.0.1:80",
        nginx.Status("127.0.0.1:81"),
        ["http://127.0.0.1:8000", "http://127.0.0.1:8001"],
        4096,
    )
    assert "upstream origin { server 127.0.0.1:8000; server 127.0.0.1:8001; keepalive 64; }" in text
    assert text.count("sendfile") == 1, "the line of the file replaces the default"
    assert "listen 127.0.0.1:81; access_log off; location / { stub_status; }" in text
    assert "worker_connections 4096" in text
    files = nginx.configuration(
        {**settings, "origin": None, "root": "/srv/x y"},
        Path("/p"),
        "127.0.0.1:80",
        nginx.Status("127.0.0.1:81"),
        (),
        99_999,
    )
    assert 'root "/srv/x y";' in files
    assert "upstream" not in files


def test_databases_are_configured_with_the_settings_of_the_file() -> None:
    text = postgres.configuration(
        LOOPBACK, 5432, {"shared_buffers": "256MB", "search_path": "it's"}, statements=True
    )
    assert "shared_preload_libraries = 'pg_stat_statements'" in text
    assert "search_path = 'it''s'" in text
    overridden = postgres.configuration(
        LOOPBACK, 1, {"shared_preload_libraries": "auto_explain"}, statements=True
    )
    assert overridden.count("shared_preload_libraries") == 1
    assert "auto_explain" in overridden
    assert "fsync" not in text, "the server's default applies"
    assert "wal_level" not in text
    decoded = postgres.configuration(
        LOOPBACK, 1, {"max_slot_wal_keep_size": "64MB"}, statements=False, decoded=True
    )
    assert "wal_level = 'logical'" in decoded
    assert "max_slot_wal_keep_size = '64MB'" in decoded, "the file has precedence"
    assert 'host "events" "me" 127.0.0.1/32 trust' in postgres.access("me", "events", LOOPBACK, others=False)
    options = mariadb.configuration(
        Path("/p"), LOOPBACK, 3306, {"innodb_buffer_pool_size": "256M"}
    ).splitlines()
    assert options[0] == "[mariadbd]"
    assert {"bind_address = 127.0.0.1", "port = 3306", "innodb_buffer_pool_size = 256M"} <= set(options)
    assert "CREATE DATABASE IF NOT EXISTS `events`;\n" in mariadb.first_statements("events", LOOPBACK)
    assert "REPLICATION" not in mariadb.first_statements("events", LOOPBACK)
    assert "REPLICATION SLAVE" in mariadb.first_statements("events", LOOPBACK, followed=True)
    assert not [line for line in options if line.startswith(("log_bin", "server_id"))]
    logged = mariadb.configuration(Path("/p"), LOOPBACK, 3306, {}, log=True).splitlines()
    assert {"log_bin = log", "binlog_format = ROW", "server_id = 1"} <= set(logged)


COUNTERS = """sample_time = 1795296026.489413 (Sat, 21 Nov 2026 21:20:26 GMT)
client_http.requests = 4
client_http.hits = 1
cd.times_used = 0
cpu_time = 0.032184
wall_time = 1.5
"""
INFO = (
    "\tNumber of clients accessing cache:\t2\n"
    "\tStorage Mem size:\t224 KB\n"
    "\tMean Object Size:\t1.50 KB\n"
    "\tNumber of file desc currently in use:   20\n"
    "\t   104 StoreEntries\n"
    "\t   103 StoreEntries with MemObjects\n"
)


def test_pages_of_the_cache_manager_are_parsed() -> None:
    values = squid_counters.counters(COUNTERS)
    assert values == {"client_http.requests": 4.0, "client_http.hits": 1.0, "cpu_time": 0.032184}
    assert squid_counters.gauges(INFO) == {
        "memory_kbytes": 224.0,
        "mean_object_kbytes": 1.5,
        "file_descriptors": 20.0,
        "objects": 104.0,
    }


def test_the_page_of_stub_status_is_parsed_without_own_requests() -> None:
    page = "Active connections: 3 \nserver accepts handled requests\n 12 12 105 \nReading: 0 Writing: 2 Waiting: 1 \n"
    values = nginx_counters.reading(page, own_requests=5)
    assert values.counters == {"accepted": 11, "handled": 11, "requests": 100}
    assert values.gauges == {"active": 2, "reading": 0, "writing": 1, "waiting": 1}
    with pytest.raises(ValueError, match="not that of stub_status"):
        nginx_counters.reading("<html>", 0)


def test_ports_of_a_cache_do_not_change() -> None:
    book = PortBook()
    first = book.ports_of("a")
    assert book.ports_of("a") == first
    assert book.ports_of("b").address != first.address


def test_missing_servers_are_reported_with_their_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(
        ServiceError, match=r"service db: PostgreSQL server was not found .* install postgresql$"
    ):
        postgres_directory("db", "auto")
    with pytest.raises(ServiceError, match=r"service c: Squid was not found .* install squid$"):
        require("c", "Squid", ("squid",), "squid")
    for name, text in (("postgres", "postgres (PostgreSQL) 14.2"), ("initdb", "")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{text}'\n")
        (tmp_path / name).chmod(0o755)
    assert postgres_directory("db", "14") == tmp_path
    with pytest.raises(
        ServiceError, match="no PostgreSQL 15 server was found, only 14: apt-get install postgresql-15"
    ):
        postgres_directory("db", "15")
    assert version_number("nginx version: nginx/1.22.1") == "1.22.1"


def test_servers_get_their_own_account_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    other = Account("nobody", 65534, 65534, change=True).command(["/bin/prog"], {"HOME": "/p"})
    assert other[1] == "-i"
    assert other[-2:] == ["--", "/bin/prog"]
    assert {"--reuid=65534", "--regid=65534", "--clear-groups", "HOME=/p"} <= set(map(str, other))
    assert not [part for part in other if "hunter2" in str(part)]
    unchanged = Account("me", 1000, 1000, change=False).command(["/bin/prog"], {})
    assert not [part for part in unchanged if "setpriv" in str(part)]


def test_root_without_an_unprivileged_account_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr(accounts, "pwd", SimpleNamespace(getpwnam=unknown))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ServiceError, match="no account `nobody`"):
        accounts.account()


def test_a_server_works_in_a_directory_that_its_account_may_enter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The test does not need root: the modes of the directories determine the result."""
    tmp_path.chmod(0o700)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    stranger = Account("stranger", 54321, 54321, change=True)
    assert not stranger.may_enter(tmp_path)
    assert Account("me", 54321, 54321, change=False).may_enter(tmp_path)
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    monkeypatch.setattr("plimsoll.deploy.workplace.ELSEWHERE", str(elsewhere))
    workplace = Workplace(tmp_path / "results" / ".work")
    with pytest.raises(ServiceError, match="servers run as stranger, which cannot enter any of"):
        workplace.directory_for("db", stranger)
    monkeypatch.setattr(Account, "may_enter", lambda self, path: elsewhere in (path, *path.parents))
    directory, remark = workplace.directory_for("db", stranger)
    assert elsewhere in directory.parents
    assert "stranger cannot enter" in remark
    monkeypatch.setattr(Account, "may_enter", lambda self, path: True)
    below = 107 - len(str(tmp_path / "results" / ".work" / "db-9"))
    assert workplace.directory_for("db", stranger, below)[1] == ""
    directory, remark = workplace.directory_for("db", stranger, below + 1)
    assert elsewhere in directory.parents
    assert "the path of its sockets would be longer than 107 characters" in remark
    workplace.remove()
    assert list(elsewhere.iterdir()) == []


def test_segments_that_a_control_segment_lists_are_found_in_any_layout(tmp_path: Path) -> None:
    for name in ("PostgreSQL.7", "PostgreSQL.4000000001", "PostgreSQL.5", "other.9"):
        (tmp_path / name).write_text("")
    control = tmp_path / "PostgreSQL.7"
    control.write_bytes(struct.pack("=IIIIQ", 0x9A503D32, 1, 64, 4_000_000_001, 12) + b"x")
    host = LocalServiceHost(tmp_path / "engine", tmp_path / "work")
    assert [path.name for path in postgres._listed_segments(host, control)] == ["PostgreSQL.4000000001"]
    assert postgres._listed_segments(host, tmp_path / "gone") == []


def test_directories_of_a_killed_experiment_are_not_used_again(tmp_path: Path) -> None:
    killed, resumed = Workplace(tmp_path / ".work"), Workplace(tmp_path / ".work")
    left = killed.directory("web")
    assert resumed.directory("web") != left
    resumed.remove()
    assert not left.exists()
