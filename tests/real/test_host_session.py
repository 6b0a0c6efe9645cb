"""A conversation with `plimsoll-engine host`, here without ssh: files, programs, processes, and their end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath

import pytest

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.process import Program
from plimsoll.deploy.programs import find_on
from plimsoll.deploy.service_hosts.remote import RemoteServiceHost
from plimsoll.deploy.service_hosts.session import HostError, HostSession
from plimsoll.errors import ServiceError
from tests.conftest import descendants_in


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RemoteServiceHost]:
    engine, directory = find_engine(), tmp_path / "spool-x" / ".services"
    session = HostSession("there", [str(engine), "host", "--directory", str(directory), "--silence", "30"])
    yield RemoteServiceHost(session, engine, directory, ["192.0.2.1"])
    session.close(20.0)
    assert not descendants_in(tmp_path)


def until(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_files_are_written_read_listed_and_removed(host: RemoteServiceHost) -> None:
    directory, remark = host.create_workplace("db", None)
    assert (directory.name, remark) == ("db-1", "")
    file = directory / "secret"
    host.write(file, "äöü\n", mode=0o600)
    host.write(file, "more\n", append=True)
    assert host.read(file) == "äöü\nmore\n".encode()
    assert host.read(file, 7, 4) == b"more"
    assert (Path(file).stat().st_mode & 0o777, host.size(file)) == (0o600, 12)
    assert host.names_in(directory) == ["secret"]
    host.remove(directory, directory / "missing")
    assert host.owner_of(directory) is None and host.size(file) == 0 and host.names_in(directory) == []
    with pytest.raises(FileNotFoundError):
        host.read(file)
    with pytest.raises(ServiceError, match=r"there: "):
        host.write(PurePath("/proc/none/x"), "")


def test_a_long_file_arrives_complete(host: RemoteServiceHost) -> None:
    directory, _ = host.create_workplace("db", None)
    data = os.urandom(9_000_000)
    Path(directory / "log").write_bytes(data)
    assert host.read(directory / "log") == data


def test_programs_ports_and_accounts_of_the_host(host: RemoteServiceHost) -> None:
    shell = find_on(host.programs, ["no-such-program", "sh"])
    assert shell is not None and shell.name == "sh"
    assert host.programs.output([shell, "-c", "echo a; echo b >&2; exit 3"]) == (3, "a\nb\n")
    assert host.programs.output([shell, "-c", "sleep 60"], 0.2)[0] is None
    assert host.programs.output(["/no/such/program"]) == (None, "")
    assert 0 < host.free_port() < 65_536
    with pytest.raises(ServiceError, match=r"services cannot listen on 198\.51\.100\.1 of there"):
        host.free_port(address="198.51.100.1")
    assert host.own_account().uid == os.geteuid()
    assert host.lab_addresses[-1] == "192.0.2.1"


def test_a_process_is_bound_signalled_and_stopped(host: RemoteServiceHost) -> None:
    directory, _ = host.create_workplace("web", None)
    core = min(os.sched_getaffinity(0))
    script = "read line; echo $line $NAME; cat /proc/self/status | grep Cpus_allowed_list; exec sleep 300"
    process = host.start(
        Program(
            "web",
            ["sh", "-c", script],
            directory / "log",
            cpus=[core],
            environment={"NAME": "value"},
            first_line="hello",
            grace_s=2.0,
        )
    )
    until("its output", lambda: b"Cpus_allowed_list" in host.read(directory / "log"))
    assert host.read(directory / "log").decode().splitlines() == [
        "hello value",
        f"Cpus_allowed_list:\t{core}",
    ]
    assert not process.has_ended() and Path(f"/proc/{process.pid}").exists()
    process.send_signal(signal.SIGINT, 20.0)
    assert process.has_ended()
    assert "service web on there was killed by signal 2; the end of its log (there:" in process.end_message()
    process.stop()
    with pytest.raises(ServiceError, match="core 1022 does not exist on there"):
        host.start(Program("web", ["true"], directory / "log", cpus=[1022]))


def test_processes_end_with_the_session_however_it_ends(host: RemoteServiceHost) -> None:
    directory, _ = host.create_workplace("web", None)
    process = host.start(Program("web", ["sh", "-c", "sleep 301 & exec sleep 302"], directory / "log"))
    until("the processes", lambda: len(list(Path(f"/proc/{process.pid}/task").glob("*/children"))) > 0)
    host.session._process.kill()
    until("the end of the connection", process.has_ended)
    assert "the connection to its host there has ended" in process.end_message()
    until("the end of the processes", lambda: not Path(f"/proc/{process.pid}").exists())
    with pytest.raises(HostError, match="the connection to there has ended"):
        host.session.call("ping")


def test_a_lab_that_is_silent_ends_the_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plimsoll.deploy.service_hosts.session.HEARTBEAT_S", 3600.0)
    argv = [str(find_engine()), "host", "--directory", str(tmp_path / "s"), "--silence", "1"]
    session = HostSession("there", argv)
    try:
        until("the end", lambda: session.has_ended)
        assert "the lab was silent for 1 s" in session.end_reason()
    finally:
        session.close(5.0)
