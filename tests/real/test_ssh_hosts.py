"""Hosts over a real ssh: made ready side by side, each failure told in a line, and left as they were."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from plimsoll.deploy.binary import elf_facts, find_engine
from plimsoll.deploy.hosts import HostBackend, ReadyHost
from plimsoll.deploy.hosts import ssh as ssh_hosts
from plimsoll.deploy.hosts.check import CheckedHost, check
from plimsoll.deploy.hosts.ssh import SshHosts
from plimsoll.errors import UserInterrupt
from plimsoll.plan.model.hosts import Host, Hosts, Ssh
from tests.conftest import Lab, descendants_in, missing
from tests.real.sshd import Sshd, running_sshd

TOKEN = "abc123"


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with running_sshd(tmp_path / "sshd") as found:
        yield found
    assert not descendants_in(tmp_path)


def hosts_of(sshd: Sshd, *names: str, **more: object) -> Hosts:
    """Hosts that are all this one."""
    told: dict[str, object] = {"ssh": Ssh(str(sshd.aliases(*names)), ("-o", "ConnectTimeout=2"))}
    return Hosts(kind="ssh", hosts=tuple(Host(name, name, "s") for name in names), **{**told, **more})  # type: ignore[arg-type]


def kind_of(hosts: Hosts, token: str = TOKEN, engine: Path | None = None) -> SshHosts:
    return SshHosts(hosts, engine or find_engine(), token)


def only(ready: Sequence[ReadyHost]) -> ReadyHost:
    [one] = ready
    return one


def ours(sshd: Sshd) -> list[str]:
    """What lies on the host below the directory of its own that we were given."""
    return sorted(str(path.relative_to(sshd.home)) for path in sshd.home.rglob("*") if path.is_file())


def test_engine_and_files_are_copied_once_and_agents_are_calls_of_ssh(sshd: Sshd, tmp_path: Path) -> None:
    program, data = tmp_path / "client program.sh", tmp_path / "data.csv"
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o755)
    data.write_text("1,2\n")
    kind = kind_of(hosts_of(sshd, "h1", "h2", directory="~/cache/plimsoll"))
    first = kind.prepare([program, data])
    assert [one.reason for one in first] == ["", ""]
    assert first[0].architecture == os.uname().machine
    copied = first[0].files[str(program)]
    assert subprocess.run([copied], capture_output=True, check=True).stdout == b"here\n"
    assert Path(copied).name == "client_program.sh"
    assert Path(first[0].files[str(data)]).read_text() == "1,2\n"
    assert len(ours(sshd)) == 3
    assert Path(first[0].engine).stat().st_mode & 0o777 == 0o700
    before = Path(first[0].engine).stat().st_ino
    assert kind.prepare([program, data]) == first
    assert Path(first[0].engine).stat().st_ino == before
    agents = kind.agents(first)
    assert [agent.name for agent in agents] == ["h1", "h2"]
    argv = agents[0].start["argv"]
    spool = f"{first[0].directory}/spool-{TOKEN}/h1"
    assert argv[0] == "ssh" and argv[-2:] == ["h1", f"exec {first[0].engine} attach --directory {spool}"]
    assert not any("BatchMode=no" in word or "StrictHostKeyChecking=no" in word for word in argv)
    assert [one.is_clean for one in kind.clean(everything=True)] == [True, True]
    assert ours(sshd) == [] and not (sshd.home / "cache" / "plimsoll").exists()


def test_a_damaged_engine_is_copied_anew(sshd: Sshd) -> None:
    kind = kind_of(hosts_of(sshd, "h1"))
    engine = Path(only(kind.prepare()).engine)
    whole = engine.read_bytes()
    engine.unlink()
    engine.write_bytes(whole[: len(whole) // 2])
    engine.chmod(0o700)
    assert only(kind.prepare()).reason == ""
    assert engine.read_bytes() == whole


@pytest.mark.long
def test_one_dead_host_of_ten_delays_and_spoils_nothing(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = hosts_of(sshd, *(f"h{number}" for number in range(9)))
        dead = Host("dead", "127.0.0.1", "s", port=silent.getsockname()[1])
        kind = kind_of(Hosts(kind="ssh", hosts=(dead, *hosts.hosts), ssh=hosts.ssh))
        ready = kind.prepare()
    assert ready[0].reason.startswith("it does not answer (Connection ")
    assert [one.reason for one in ready[1:]] == [""] * 9
    assert [agent.name for agent in kind.agents(ready)] == [f"h{number}" for number in range(9)]
    assert all(one.is_clean for one in kind.clean(everything=True)[1:])


def test_who_does_not_let_us_in_is_told_by_its_reason(sshd: Sshd) -> None:
    known = (sshd.directory / "known_hosts").read_text()
    hosts = hosts_of(sshd, "h1")

    def reason(*options: str, host: Host = hosts.hosts[0], accept: bool = False) -> str:
        told = Ssh(hosts.ssh.config, options, accept)
        return only(kind_of(Hosts(kind="ssh", hosts=(host,), ssh=told)).prepare()).reason

    nobody = Host("h1", "nobody-there.invalid", "s")
    closed = Host("h1", "127.0.0.1", "s", port=1)
    assert reason(host=nobody).startswith("there is no host of this name (ssh: Could not resolve")
    assert reason(host=closed).startswith("it cannot be reached (ssh: connect to host 127.0.0.1 port 1:")
    assert reason("-o", "IdentityFile=/dev/null", "-F", "/dev/null", "-p", str(sshd.port), "-o",
                  f"UserKnownHostsFile={sshd.directory}/known_hosts", "-o", "HostName=127.0.0.1", "-o",
                  "IdentityAgent=none").startswith("it refuses the login (")  # fmt: skip
    (sshd.directory / "known_hosts").write_text("")
    assert reason().startswith("its host key is not known: log in once by hand")
    assert reason(accept=True) == ""
    assert reason() == "", "it was written down when it was accepted"
    other = (sshd.directory / "id.pub").read_text().split()[1]
    (sshd.directory / "known_hosts").write_text(known.replace(known.split()[-1], other))
    assert reason().startswith("its host key differs from the known one: another machine")
    assert reason(accept=True).startswith("its host key differs from the known one"), (
        "accepting is for hosts that are new"
    )


def test_architecture_and_version_that_do_not_fit(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = os.uname().machine
    foreign = tmp_path / "engine"
    image = bytearray(find_engine().read_bytes())
    struct.pack_into("<H", image, 18, 22)
    foreign.write_bytes(image)
    said = only(kind_of(hosts_of(sshd, "h1"), engine=foreign).prepare()).reason
    assert said == f"its architecture is {machine}; the engine is built for s390x"
    said = only(kind_of(hosts_of(sshd, "h1", architecture="aarch65")).prepare()).reason
    assert said == f"its architecture is {machine}; required is aarch65"
    assert ours(sshd) == [], "nothing was copied"
    monkeypatch.setattr(ssh_hosts, "__version__", "9.9.9")
    said = only(kind_of(hosts_of(sshd, "h1")).prepare()).reason
    assert (
        said.startswith("the engine on the host has version 0.") and "the lab has 9.9.9: install both" in said
    )


def test_a_directory_that_cannot_be_made(sshd: Sshd) -> None:
    (sshd.home / "file").write_text("")
    said = only(kind_of(hosts_of(sshd, "h1", directory="~/file/plimsoll")).prepare()).reason
    assert said == "~/file/plimsoll is not writable on the host (Not a directory): set another `directory`"


@contextmanager
def mounted(place: Path, options: str) -> Iterator[None]:
    """A small file system."""
    if os.geteuid() != 0:
        missing("the right to mount", "run as root")
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False
    )
    if done.returncode != 0:
        missing("the right to mount", done.stderr.decode().strip())
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("size=1m", "the engine cannot be copied to {place}/p: cat: write error: No space left on device"),
        ("ro", "{place}/p is not writable on the host (Read-only file system): set another `directory`"),
        ("noexec", "the engine does not run on the host (sh: 1: {place}/p/engine-"),
    ],
)
def test_full_and_forbidden_file_systems(sshd: Sshd, tmp_path: Path, options: str, said: str) -> None:
    place = tmp_path / "small"
    with mounted(place, options):
        reason = only(kind_of(hosts_of(sshd, "h1", directory=f"{place}/p")).prepare()).reason
        assert reason.startswith(said.format(place=place))
        if options == "noexec":
            assert reason.endswith("mounted noexec: set another `directory`")
        assert list(place.rglob("part-*")) == []


SHELLS = [
    shell for shell in ("bash", "dash", "busybox sh", "tcsh", "fish", "zsh") if shutil.which(shell.split()[0])
]


@pytest.mark.parametrize("shell", SHELLS)
def test_any_login_shell_and_what_it_prints(tmp_path: Path, shell: str) -> None:
    program = " ".join([str(shutil.which(shell.split()[0])), *shell.split()[1:]])
    noisy = (
        f'ForceCommand echo "plimsollx welcome"; echo hello >&2; exec {program} -c "$SSH_ORIGINAL_COMMAND"'
    )
    with running_sshd(tmp_path / "sshd", noisy) as sshd:
        kind = kind_of(hosts_of(sshd, "h1"))
        assert only(kind.prepare([Path(__file__)])).reason == ""
        assert [one.is_clean for one in kind.clean(everything=True)] == [True]
        assert ours(sshd) == []


def test_a_host_that_prints_for_ever_is_left(tmp_path: Path) -> None:
    with running_sshd(tmp_path / "sshd", "ForceCommand yes") as sshd:
        said = only(kind_of(hosts_of(sshd, "h1")).prepare()).reason
        assert said == "it does not answer: its output is longer than 1,000,000 bytes"


def test_an_interrupt_ends_every_call(tmp_path: Path) -> None:
    with running_sshd(tmp_path / "sshd", "ForceCommand sleep 300") as sshd:
        since = time.monotonic()

        def interrupted() -> None:
            if time.monotonic() - since > 1:
                raise UserInterrupt("stopped")

        kind = SshHosts(hosts_of(sshd, "h1", "h2"), find_engine(), TOKEN, interrupted)
        with pytest.raises(UserInterrupt):
            kind.prepare()
        assert time.monotonic() - since < ssh_hosts.CONNECT_S
        left = [words for words in descendants_in(tmp_path) if words.startswith("ssh ")]
        assert left == []


@contextmanager
def agent_like(ready: ReadyHost, token: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the engine on that host, with a spool of this experiment."""
    spool = f"{ready.directory}/spool-{token}/h1"
    Path(spool).mkdir(parents=True)
    process = subprocess.Popen(
        [ready.engine, "guard", "--", "sh", "-c", "sleep 300; :", spool],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 10
    while (
        not Path(f"/proc/{process.pid}/exe").resolve().name.startswith("engine-")
        and time.monotonic() < deadline
    ):
        time.sleep(0.01)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def test_cleaning_ends_our_agents_and_leaves_those_of_others(sshd: Sshd) -> None:
    hosts = hosts_of(sshd, "h1", keep="nothing")
    kind, other = kind_of(hosts), kind_of(hosts, "other")
    ready = only(kind.prepare())
    with agent_like(ready, TOKEN) as mine, agent_like(ready, "other") as theirs:
        os.kill(mine.pid, signal.SIGSTOP)  # so that the polite way does not do
        [cleaned] = kind.clean()
        assert mine.wait(5) == -signal.SIGKILL and theirs.poll() is None
        assert cleaned.is_clean and cleaned.kept == (ready.engine,), "it is in use"
        assert not Path(f"{ready.directory}/spool-{TOKEN}").exists()
        [cleaned] = other.clean()
        assert theirs.wait(5) is not None
        assert cleaned.is_clean and cleaned.kept == ()
    assert not Path(ready.directory).exists()


def test_an_engine_that_another_host_with_the_same_home_may_run_is_kept(sshd: Sshd) -> None:
    kind = kind_of(hosts_of(sshd, "h1", keep="nothing"))
    ready = only(kind.prepare())
    theirs = Path(ready.directory) / "spool-other"  # no process of it is on this host
    theirs.mkdir()
    [cleaned] = kind.clean()
    assert cleaned.is_clean and cleaned.kept_descriptions == [f"{ready.engine} (in use by others)"]
    assert Path(ready.engine).exists()
    theirs.rmdir()
    [cleaned] = kind.clean()
    assert cleaned.is_clean and not cleaned.kept and not Path(ready.directory).exists()


def test_what_was_measured_is_kept_until_it_is_discarded(sshd: Sshd) -> None:
    kind = kind_of(hosts_of(sshd, "h1"))
    ready = only(kind.prepare())
    spool = Path(ready.directory) / f"spool-{TOKEN}"
    (spool / "h1").mkdir(parents=True)
    (spool / "h1" / "h1-000.arrow").write_bytes(b"segment")
    for everything in (False, True):
        [cleaned] = kind.clean(everything=everything)
        assert cleaned.kept == (str(spool),) and cleaned.is_clean
    assert (spool / "h1" / "h1-000.arrow").read_bytes() == b"segment"
    [cleaned] = kind.clean(everything=True, discard=True)
    assert cleaned.kept == () and cleaned.is_clean and not spool.exists()


def test_a_host_that_cannot_be_looked_at_is_not_proven_clean(sshd: Sshd) -> None:
    hosts = hosts_of(sshd, "h1")
    kind: HostBackend = kind_of(
        Hosts(kind="ssh", hosts=(Host("h1", "127.0.0.1", "s", port=1),), ssh=hosts.ssh)
    )
    [cleaned] = kind.clean()
    assert not cleaned.is_clean and cleaned.reason.startswith("it cannot be reached")


HOSTS_FILE = """\
hosts: 1
kind: ssh
sites: {{far: [h1, h2, {{host: dead, port: 1}}]}}
at_least: {at_least}
require: {require}
ssh: {{config: {config}}}
controller: {{address: 127.0.0.1}}
directory: ~/plimsoll/hosts
"""


@pytest.fixture
def attaching() -> Path:
    """An engine that can be attached to, which hosts need."""
    engine = find_engine()
    if subprocess.run([engine, "attach", "--help"], capture_output=True, check=False).returncode != 0:
        missing(f"an engine with `attach` ({engine} has none)", "make engine")
    return engine


def test_hosts_are_checked_by_their_agents(attaching: Path, sshd: Sshd) -> None:
    hosts = hosts_of(sshd, "h1", "h2")
    kind = kind_of(hosts)
    found: list[CheckedHost] = check(kind, hosts, attaching, baseline=True)
    assert [one.reason for one in found] == ["", ""]
    for one in found:
        assert one.facts is not None
        assert one.facts["cores"] >= 1 and one.facts["architecture"] == elf_facts(attaching).architecture
        assert one.facts["rtt_ns"]["min"] > 0 and one.facts["clock"]["bound_ns"] >= 0
        assert one.facts["baseline"]["cpu_per_s"] > 0
    assert all(one.is_clean and not one.kept for one in kind.clean(everything=True))
    assert ours(sshd) == []


@pytest.mark.long
def test_the_verb_says_who_is_left_out_and_why(attaching: Path, lab: Lab, sshd: Sshd) -> None:
    config = sshd.aliases("h1", "h2")
    text = HOSTS_FILE.format(at_least=2, require="{cores: '>=1'}", config=config)
    done = lab.run("hosts", "check", lab.file(text, "hosts.yaml"))
    assert done.code == 0, done.err
    assert (
        "dead: left out: it cannot be reached" in done.out or "dead: left out: there is no host" in done.out
    )
    assert done.out.endswith("2 of 3 hosts can be used, at least 2 are required\n")
    text = HOSTS_FILE.format(at_least=2, require="{cores: '>=1000'}", config=config)
    done = lab.run("hosts", "check", lab.file(text, "hosts.yaml"), "--json")
    assert done.code == 1, done.err
    [told] = done.json["checks"]
    assert not told["enough"]
    assert told["hosts"][0]["reason"].endswith("required is >=1000") and told["hosts"][0]["answers"]
    done = lab.run("hosts", "clean", lab.file(text, "hosts.yaml"))
    assert done.code == 1, "nobody could look at the dead one"
    assert (
        "h1: clean: no process or file of Plimsoll is left" in done.out
        and "dead: could not be checked" in done.out
    )
    assert ours(sshd) == []
