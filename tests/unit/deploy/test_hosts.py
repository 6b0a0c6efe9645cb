"""Scripts for hosts and the meaning of their answers, without a host."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from plimsoll import __version__
from plimsoll.cli.setup.hosts import lines
from plimsoll.deploy.binary import elf_facts, find_engine
from plimsoll.deploy.hosts import Agent, HostBackend, ReadyHost, agents_on, kinds, remote
from plimsoll.deploy.hosts.calls import Calls, CommandResult
from plimsoll.deploy.hosts.check import CheckedHost, shortcomings, with_deviations
from plimsoll.deploy.hosts.kinds import BACKENDS, hosts_of_kind
from plimsoll.deploy.network import lab_sink
from plimsoll.deploy.talk import FORMAT, EngineTalk
from plimsoll.errors import BadInput, EngineError, UserInterrupt
from plimsoll.plan.model.hosts import Gram, Host, HostKind, Hosts, Join, Requirement, Slurm

FACTS: Mapping[str, Any] = {
    "hostname": "h",
    "cores": 2,
    "memory_bytes": 8_000_000_000,
    "kernel": "6.1.0",
    "architecture": "x86_64",
    "limits": {"open_files": 1024, "processes": 4096, "local_ports": 28232},
    "engine": __version__,
    "rtt_ns": {"min": 400_000, "median": 500_000},
    "clock": {"offset_ns": -1_500_000, "bound_ns": 200_000, "same": False},
    "baseline": None,
}


def no_interrupt() -> None:
    """No interrupt."""


def test_scripts_contain_no_characters_that_a_login_shell_interprets() -> None:
    item = remote.Item("file-ab/x.sh", 3)
    for text in (
        remote.inspection_script("~/.cache/plimsoll", "engine-ab", ["file-ab/x.sh"]),
        remote.copy_script("/srv/x", item, "version"),
        remote.cleanup_script("~/.cache/plimsoll", "abc", keep_engine=False, discard=False),
        remote.cleanup_script("/srv/x", None, keep_engine=True, discard=True),
    ):
        assert text.startswith("exec sh -c '") and text.endswith("'")
        assert not set(text[len("exec sh -c '") : -1]) & set("'!\n")
        inner = text[len("exec sh -c '") : -1]
        assert subprocess.run(["sh", "-n", "-c", inner], capture_output=True, check=False).returncode == 0
    assert remote.file_name("ab", "-a b'c;$(id).sh") == "file-ab/a_b_c___id_.sh"
    assert remote.file_name("ab", "--") == "file-ab/file"


def test_answers_are_distinguished_from_the_output_of_a_login() -> None:
    out = "Welcome!\nplimsoll\nplimsollx uname Bad\n  plimsoll uname Linux x86_64\r\nplimsoll file a\nplimsoll file b\n"
    assert remote.parse_answers(out)["uname"] == ["Linux x86_64"]
    assert remote.parse_answers(out)["file"] == ["a", "b"]
    assert remote.parse_answers("\0\xff" * 1000) == {}


_ended = CommandResult


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (_ended(None, "", "", "no answer within 5 s"), "it does not answer: no answer within 5 s"),
        (_ended(255, "", "ssh: Could not resolve hostname x: unknown\n"), "there is no host of this name"),
        (_ended(255, "", "me@x: Permission denied (publickey).\n"), "it refuses the login (me@x: Permission"),
        (_ended(255, "", "No ED25519 host key is known for x and you have requested\nHost key verification failed.\n"),
         "its host key is not known"),
        (_ended(255, "", "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\n"),
         "its host key differs from the known one"),
        (_ended(255, "", "kex_exchange_identification: Connection closed by remote host\n"), "it cannot be reached"),
        (_ended(255, "", ""), "ssh ended with exit status 255"),
        (_ended(1, "", "cat: write error: No space left on device\n"), "cat: write error: No space left on device"),
        (_ended(1, "", "mkdir: Permission denied\n"), "mkdir: Permission denied"),
    ],
)  # fmt: skip
def test_each_failure_is_reported_with_its_reason(result: CommandResult, reason: str) -> None:
    assert remote.failure_reason(result).startswith(reason)
    assert "\n" not in remote.failure_reason(result)


def test_time_and_output_of_a_command_are_limited() -> None:
    calls = Calls(no_interrupt)
    assert calls.run(["sh", "-c", "echo out; echo err >&2; exit 3"], 20.0) == CommandResult(
        3, "out\n", "err\n"
    )
    assert calls.run(["sh", "-c", "sleep 60 & wait"], 0.2).trouble == "no answer within 0.2 s"
    assert "output is longer than" in calls.run(["yes"], 20.0).trouble
    assert calls.run(["sh", "-c", "exec >&- 2>&-; sleep 60"], 0.3).trouble == "no end within 0.3 s"
    with pytest.raises(FileNotFoundError):
        calls.run(["/no/such/program"], 1.0)


def test_an_interrupt_ends_the_running_commands_and_starts_no_others(tmp_path: Path) -> None:
    since = time.monotonic()

    def stop() -> None:
        if time.monotonic() - since > 0.3:
            raise UserInterrupt("stopped")

    calls = Calls(stop)

    def work(number: int) -> CommandResult:
        return calls.run(["sh", "-c", f"sleep 60; echo > {tmp_path}/{number}"], 90.0)

    with pytest.raises(UserInterrupt):
        calls.run_all(range(200), work)
    assert calls.run(["true"], 5.0).trouble == "interrupted"
    assert list(tmp_path.iterdir()) == []


def test_an_error_is_raised_and_results_are_in_the_order_of_the_items() -> None:
    assert Calls(no_interrupt).run_all([3, 1, 2], lambda number: number * 10) == [30, 10, 20]
    assert Calls(no_interrupt).run_all([], lambda number: number) == []
    with pytest.raises(ZeroDivisionError):
        Calls(no_interrupt).run_all([1, 0], lambda number: 1 // number)


def test_agents_are_created_only_on_hosts_that_are_ready() -> None:
    ready = [
        ReadyHost(Host("a", "a", "s", 2)),
        ReadyHost(Host("b", "b", "s"), "dead"),
        ReadyHost(Host("c", "c", "t")),
    ]
    start = {name: {"kind": "local"} for name in ("a.1", "a.2", "c")}
    agents = agents_on(ready, start)
    assert [(agent.name, agent.host, agent.site) for agent in agents] == [
        ("a.1", "a", "s"),
        ("c", "c", "t"),
        ("a.2", "a", "s"),
    ]
    assert agents[0].to_json() == {
        "name": "a.1",
        "host": "a",
        "site": "s",
        "role": "testers",
        "start": {"kind": "local"},
        "watch": [],
        "files": {},
        "limits": {},
    }
    copied = ReadyHost(Host("a", "a", "s"), files={"/x": "/there/x"})
    assert agents_on([copied], {"a": {"kind": "local"}})[0].to_json()["files"] == {"/x": "/there/x"}


def test_agents_of_this_host_need_no_preparation_or_cleanup() -> None:
    local = hosts_of_kind(
        Hosts(agents=2, hosts=(Host("local", "", "local", 2),)), Path("/e"), "t", no_interrupt
    )
    assert [agent.name for agent in local.agents(local.prepare())] == ["local.1", "local.2"]
    checked = local.agents_by_host(local.prepare())
    assert {host: [agent.name for agent in agents] for host, agents in checked.items()} == {
        "local": ["local.1"]
    }
    assert (local.door, local.restart(["local"]), local.expected_agents()) == (None, None, [])
    assert all(cleaned_host.is_clean for cleaned_host in local.clean())


def test_every_kind_of_hosts_has_a_backend() -> None:
    assert set(BACKENDS) == set(get_args(HostKind))


@pytest.mark.parametrize("kind", [kind for kind in get_args(HostKind) if kind != "local"])
def test_the_plan_accepts_commands_for_the_backends_that_run_them(
    kind: HostKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = SimpleNamespace(name="t", ssh_config="/t/ssh")
    monkeypatch.setattr(kinds, "_require_entered_testbed", lambda spec, file: bed)
    wan = str(Path(__file__).parents[3] / "examples" / "testbeds" / "wan.yaml")
    hosts = Hosts(
        kind=kind,
        slurm=Slurm(1),
        join=Join(1),
        dask="tcp://scheduler:1",
        gram=Gram("ce:2119", 1),
        testbed=wan if kind == "testbed" else None,
        controller="10.0.0.1",
    )
    backend = hosts_of_kind(hosts, Path("/e"), "t", no_interrupt)
    assert hosts.runs_commands == (type(backend).run_command is not HostBackend.run_command)


def test_hosts_of_a_testbed_are_available_only_within_it() -> None:
    wan = Path(__file__).parents[3] / "examples" / "testbeds" / "wan.yaml"
    with pytest.raises(BadInput, match=r"hosts\.kind: this process does not run on the host lab"):
        hosts_of_kind(Hosts(kind="testbed", testbed=str(wan)), Path("/e"), "t", no_interrupt)


def test_requirements_that_a_host_does_not_satisfy_are_listed() -> None:
    required = (
        Requirement("cores", ">=", 4.0, ">=4"),
        Requirement("memory", ">=", 4e9, ">=4GB"),
        Requirement("rtt", "<", 300_000.0, "<300us"),
        Requirement("clock_bound", "<", 1e6, "<1ms"),
    )
    assert shortcomings(FACTS, required, "aarch64") == [
        "its architecture is x86_64; required is aarch64",
        "its number of cores is 2; required is >=4",
        "its round-trip time is 0.4 ms; required is <300us",
    ]
    unknown = {**FACTS, "clock": {"same": False}, "rtt_ns": None}
    assert shortcomings(unknown, required[2:], None) == [
        "its round-trip time is not known; required is <300us",
        "its clock bound is not known; required is <1ms",
    ]
    assert shortcomings({**FACTS, "clock": {"same": True}}, required[3:], "x86_64") == []


def measured(name: str, reason: str = "", link: float | None = None, **figures: float | None) -> CheckedHost:
    return CheckedHost(Host(name, name, "s", link_bytes_s=link), {**FACTS, "baseline": figures}, reason)


def test_hosts_that_deviate_from_the_median_get_a_remark() -> None:
    checked = with_deviations(
        [
            measured("a", cpu_per_s=1e6, disk_write_bytes_s=100e6),
            measured("b", cpu_per_s=1.099e6, disk_write_bytes_s=50e6),
            measured("c", cpu_per_s=1e6, disk_write_bytes_s=None),
            measured("out", "too small", cpu_per_s=1e3),
            CheckedHost(Host("dead", "dead", "s"), None, "no answer"),
        ]
    )
    assert [checked_host.remarks for checked_host in checked] == [
        ("disk writes: 100 MB/s, 33% above the median of 75 MB/s",),
        ("disk writes: 50 MB/s, 33% below the median of 75 MB/s",),
        (),
        ("CPU: 0.001 M/s, 100% below the median of 1 M/s",),
        (),
    ]
    declared = with_deviations(
        [
            measured("a", link=1.25e9, network_bytes_s=3e8, cpu_per_s=1.0),
            measured("b", network_bytes_s=1.25e9),
        ]
    )
    assert [checked_host.remarks for checked_host in declared] == [(), ()]


def test_the_table_contains_the_facts_of_each_host() -> None:
    table = lines(
        Hosts(kind="ssh"),
        [CheckedHost(Host("a", "a", "s"), FACTS), CheckedHost(Host("b", "b", "s"), None, "dead")],
        2,
        baseline=False,
    )
    assert " ".join(table[1].split()) == "a s 2 8 GB 6.1.0 x86_64 1024 28232 0.400 ms -1.500 ms ± 0.200 ms"
    assert table[2:] == [
        "b     s     no answer",
        "b: left out: dead",
        "1 of 2 hosts can be used, at least 2 are required",
    ]


def engine(path: Path, script: str) -> Path:
    """A script that is started as an engine, and is faulty."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


HELLO = f'echo \'{{"type":"hello","format":"{FORMAT}","version":"{__version__}"}}\''


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 4", r"ended \(4\)"),
        ("echo broken >&2; exit 4", "broken"),
        ("echo rubbish; exec sleep 60", "printed a line that is not an event"),
        (
            'echo \'{"type":"hello","format":"other/1"}\'; exec sleep 60',
            "does not use the protocol plimsoll.engine/1",
        ),
        (HELLO.replace(__version__, "9.9.9") + "; exec sleep 60", r"the engine at .* has version 9\.9\.9"),
        (
            f'{HELLO}; read x; echo \'{{"type":"refused","error":"no"}}\'; exec sleep 60',
            "the engine rejects the command: no",
        ),
        (f"{HELLO}; read x; exec sleep 60", "did not answer before the timeout"),
        (f"{HELLO}; read x; yes | tr -d '\\n'", "printed a line that is not an event"),
    ],
)
def test_a_faulty_engine_is_reported_and_ended(tmp_path: Path, script: str, message: str) -> None:
    timeout_s = 0.5 if "timeout" in message else 60.0
    with pytest.raises(EngineError, match=message), EngineTalk(engine(tmp_path / "engine", script)) as talk:
        list(talk.ask({"type": "check"}, "checked", timeout_s))
    left = subprocess.run(["pgrep", "-f", str(tmp_path / "engine")], capture_output=True, check=False)
    assert left.stdout == b""


def test_events_are_yielded_up_to_the_last_type(tmp_path: Path) -> None:
    events = '{"type":"host","name":"a"}\\n{"type":"checked"}\\n'
    path = engine(tmp_path / "engine", f"{HELLO}; read x; printf '{events}'; read x")
    with EngineTalk(path) as talk:
        assert list(talk.ask({"type": "check"}, "checked", 20.0)) == [{"type": "host", "name": "a"}]


def test_a_sink_discards_and_sends(tmp_path: Path) -> None:
    with lab_sink(find_engine(), tmp_path / "work", "127.0.0.1", None) as address:
        host, _, port = address.rpartition(":")
        for first, rest in ((b"T", bytes(4_000_000)), (b"S", b"")):
            with socket.create_connection((host, int(port)), timeout=20) as connection:
                connection.sendall(first + rest)
                if first == b"S":
                    assert len(connection.recv(1000)) > 0
    assert not list((tmp_path / "work").rglob("*")), "its log is removed"


def test_a_sink_uses_the_ports_of_the_file(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(BadInput, match=r"hosts\.controller\.ports.*cannot listen on 127\.0\.0\.1"),
            lab_sink(find_engine(), tmp_path / "work", "127.0.0.1", (port, port)),
        ):
            pass


def test_facts_of_a_program_are_read_from_its_header(tmp_path: Path) -> None:
    assert elf_facts(find_engine()).architecture in ("x86_64", "aarch64")
    for content in (b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01" + bytes(70), b"\x7fELF\x02\x01" + b"\xff" * 70):
        (tmp_path / "x").write_bytes(content)
        try:
            assert elf_facts(tmp_path / "x").architecture.startswith("machine")
        except EngineError as error:
            assert str(tmp_path / "x") in str(error)
    with pytest.raises(EngineError, match="cannot be read"):
        elf_facts(tmp_path / "none")


def test_an_agent_can_have_the_role_watch() -> None:
    document = Agent(
        "db", "db", "s", {"kind": "joined"}, "watch", ({"name": "postgres", "process": "postgres"},)
    ).to_json()
    assert document["role"] == "watch" and document["watch"] == [{"name": "postgres", "process": "postgres"}]
