"""Finding the engine, binding to cores, readiness: messages for faults before a run."""

from __future__ import annotations

import http.server
import os
import socket
import sys
import sysconfig
import threading
from pathlib import Path

import pytest

from plimsoll.deploy.binary import _candidates, engine_version, find_engine, require_same_version
from plimsoll.deploy.environment import host_facts
from plimsoll.deploy.ports import LOOPBACK, free_port
from plimsoll.deploy.servers.command import _check
from plimsoll.errors import EngineError


def test_an_override_that_is_not_a_program_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PLIMSOLL_ENGINE", str(tmp_path / "nothing"))
    with pytest.raises(EngineError, match="not an executable file"):
        find_engine()


def test_the_engine_of_the_same_installation_comes_first(tmp_path: Path) -> None:
    modules = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    assert _candidates(tmp_path / modules)[1] == tmp_path / "bin" / "plimsoll-engine", (
        "with --user and --prefix"
    )
    assert _candidates(tmp_path / "any")[0] == tmp_path / "any" / "bin" / "plimsoll-engine", "with --target"
    assert tmp_path / "bin" / "plimsoll-engine" not in _candidates(tmp_path / "a" / "b" / "c"), (
        "no directory of pip"
    )
    (tmp_path / "Cargo.toml").touch()
    assert _candidates(tmp_path / "python")[0] == tmp_path / "target" / "engine" / "plimsoll-engine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/sh\nexit 3\n", "failed with exit status 3"),
        ("#!/bin/sh\necho hello\n", "not the Plimsoll engine"),
        ('#!/bin/sh\necho "[]"\n', "not the Plimsoll engine"),
        ("#!/no/such/interpreter\n", "does not run"),
    ],
)
def test_another_program_is_not_accepted_as_the_engine(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "engine"
    path.write_text(text)
    path.chmod(0o755)
    with pytest.raises(EngineError, match=message):
        engine_version(path)


def test_lab_and_engine_must_be_of_one_release() -> None:
    with pytest.raises(EngineError, match="install both from one release"):
        require_same_version("99.0", "/somewhere")


def test_readiness_is_checked_by_tcp_by_log_and_by_http(tmp_path: Path) -> None:
    log = tmp_path / "log"
    port = free_port()
    assert not _check({"tcp": True}, LOOPBACK, port, log.read_bytes)()
    with socket.create_server(("127.0.0.1", port)):
        assert _check({"tcp": True}, LOOPBACK, port, log.read_bytes)()
    by_log = _check({"log": "ready on [0-9]+"}, LOOPBACK, port, log.read_bytes)
    assert not by_log()
    log.write_text("starting\nready on 80\n")
    assert by_log()
    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        assert _check({"http": "/good"}, LOOPBACK, server.server_port, log.read_bytes)()
        assert not _check({"http": "/bad"}, LOOPBACK, server.server_port, log.read_bytes)()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/good" else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_facts_of_this_host_are_plain_values_without_the_boot_command_line() -> None:
    facts = host_facts("1.2.3")
    assert facts["versions"]["plimsoll"] == "1.2.3"
    assert facts["cpu"]["usable"] == sorted(os.sched_getaffinity(0))
    assert facts["limits"]["local_ports"] > 0
    assert "boot_command_line" not in facts["host"], "it may contain secrets of the machine"
