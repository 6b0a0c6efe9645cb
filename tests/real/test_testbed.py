"""Testbeds on this machine: real namespaces, real sshd, real ping and iperf3.

The ordinary tests ask for what holds on any machine, however busy. What is only true on an idle one has the marker
`long`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.testbed import Testbed, down, up
from plimsoll.errors import BadInput, ServiceError
from plimsoll.plan.hosts.testbed import TestbedSpec, document, parse_testbed
from plimsoll.plan.model.links import Link
from tests.conftest import Done, Lab, missing

SMALL = """
testbed: 1
name: small
lab: here
sites:
  here: {hosts: 1}
  near: {hosts: 1}
  far: {hosts: 1}
links:
  - {between: [here, near], rtt: 20ms}
  - {between: [here, far], rtt: 50ms, asymmetry: 10ms, jitter: 2ms}
"""
PAIR = """
testbed: 1
name: NAME
lab: a
sites: {a: {hosts: 0}, b: {hosts: 1}}
links: [{between: [a, b], LINK}]
SETTINGS
"""


PACKAGES = {"sshd": "openssh-server", "ping": "iputils-ping", "iperf3": "iperf3"}


def needs_testbeds(*programs: str) -> None:
    """What a testbed cannot do without, and what a test wants besides."""
    for program in ("sshd", *programs):
        if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin"):
            missing(program, f"apt-get install {PACKAGES[program]}")
    if subprocess.run(["unshare", "-n", "true"], check=False).returncode and (
        subprocess.run(["unshare", "-Un", "true"], check=False).returncode
    ):
        missing("the right to make network namespaces", "be root, or allow user namespaces")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where testbeds of a test stand; all are down at its end. The path of a socket is short, so not below tmp_path."""
    needs_testbeds("ping", "iperf3")
    directory = Path(tempfile.mkdtemp(prefix="tb-"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory))
    yield directory
    left = sorted(place.name for place in (directory / "plimsoll" / "testbed").glob("*"))
    for name in left:
        with contextlib.suppress(ServiceError, BadInput):
            down(name)
    shutil.rmtree(directory)
    assert not left, f"testbeds are left: {left}"


def spec(name: str, link: str, settings: str = "") -> TestbedSpec:
    """Two sites and a link."""
    text = PAIR.replace("NAME", name).replace("LINK", link).replace("SETTINGS", settings)
    return parse_testbed(text, "pair.yaml")


def run(testbed: Testbed, host: str, *command: str, timeout_s: float = 60) -> Done:
    """A command on a host."""
    done = subprocess.run(
        [*testbed.enter_argv(host), *command],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def ping(testbed: Testbed, source: str, to: str, count: int, interval_s: float) -> list[float]:
    """Round-trip times in ms of the pings that came back."""
    words = ("ping", "-n", "-c", str(count), "-i", str(interval_s), "-W", "2", testbed.host(to).address)
    done = run(testbed, source, *words, timeout_s=count * interval_s * 2 + 60)
    assert f"{count} packets transmitted" in done.out, done.err + done.out
    return [float(found) for found in re.findall(r"time=([\d.]+) ms", done.out)]


def precise_ping(testbed: Testbed, source: str, to: str, count: int) -> list[float]:
    """The same to the microsecond: of times above 100 ms ping shows whole ones only, except in its summary."""
    words = ("ping", "-n", "-q", "-c", "1", testbed.host(to).address)
    summaries = [run(testbed, source, *words).out for _ in range(count)]
    return [float(found) for text in summaries for found in re.findall(r"rtt \S+ = ([\d.]+)/", text)]


def links(testbed: Testbed) -> dict[tuple[str, str], dict[str, Any]]:
    """The links of the status by their ends."""
    return {(link["from"], link["to"]): link for link in testbed.status()["links"]}


def alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def inside(network: str) -> list[int]:
    """Processes in a network namespace, as /proc names it."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str((place / "ns" / "net").readlink()) == network:
                found.append(int(place.name))
    return found


def wait_for(condition: Any, timeout_s: float = 30) -> None:
    """Waits until it holds, and fails if it never does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


def test_up_exec_ssh_status_down(home: Path, lab: Lab) -> None:
    file = lab.file(SMALL, "small.yaml")
    done = lab.run("testbed", "up", file)
    assert done.code == 0, done.err
    assert "4 hosts" in done.out
    assert "was up already" in lab.run("testbed", "up", file).out
    done = lab.run(
        "testbed", "exec", "near-1", "--", "sh", "-c", 'hostname; pwd; echo "$MINE"; exit 7', MINE="x y"
    )
    assert (done.code, done.out.splitlines()) == (7, ["near-1", str(lab.directory), "x y"])
    config = home / "plimsoll" / "testbed" / "small" / "ssh_config"
    done = lab.run("testbed", "exec", "lab", "--", "ssh", "-F", config, "far-1", "hostname; exit 3")
    assert (done.code, done.out) == (3, "far-1\n"), done.err
    # The hosts know each other by name; the machine does not know them.
    (address, name) = lab.run("testbed", "exec", "near-1", "--", "getent", "hosts", "far-1").out.split()
    looked_up = lab.run("testbed", "exec", "lab", "--", "ssh", "-F", config, "near-1", "getent hosts far-1")
    assert looked_up.out.split() == [address, name] and name == "far-1"
    assert "far-1" not in Path("/etc/hosts").read_text(encoding="utf-8")
    (status,) = json.loads(lab.run("testbed", "status", "--json").out)
    assert address in {host["address"] for host in status["hosts"]}
    assert {host["name"] for host in status["hosts"]} == {"lab", "here-1", "near-1", "far-1"}
    assert status["congestion"]
    assert "small: up" in lab.run("testbed", "status", file).out
    wrong = lab.run("testbed", "exec", "nera-1", "--", "true")
    assert (wrong.code, "near-1" in wrong.err) == (2, True)
    # What runs inside ends too: in the foreground, in the background of a session, entered from outside.
    network = lab.run("testbed", "exec", "far-1", "--", "readlink", "/proc/self/ns/net").out.strip()
    words = ("testbed", "exec", "far-1", "--")
    assert lab.run(*words, "sh", "-c", "setsid sleep 600 >/dev/null 2>&1 &").code == 0
    back = "nohup setsid sleep 600 >/dev/null 2>&1 </dev/null & exit"
    assert lab.run("testbed", "exec", "lab", "--", "ssh", "-F", config, "far-1", back).code == 0
    with lab.start(*words, "sleep", "600") as stays:
        # It, an sshd and two sleeps: the count alone could be of an ssh session that is just ending.
        wait_for(lambda: stays.pid in inside(network) and len(inside(network)) >= 4)
        before = set(inside(network))
        done = lab.run("testbed", "down")
        assert (done.code, done.out) == (0, "small is down\n"), done.err
        assert stays.wait(10) == -signal.SIGTERM
    # Not that there is none at all: the next namespace has the number of one that has ended, and can be
    # that of another test.
    assert not before & set(inside(network))
    assert not alive(status["owner"]) and not alive(status["middle"])
    assert list((home / "plimsoll" / "testbed").iterdir()) == []
    assert lab.run("testbed", "down").code == 2


@pytest.mark.parametrize("word", [signal.SIGINT, signal.SIGTERM])
def test_up_and_wait(home: Path, lab: Lab, word: signal.Signals) -> None:
    # As for what a shell starts in the background.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        started = lab.start("testbed", "up", lab.file(SMALL), "--wait")
    finally:
        signal.signal(signal.SIGINT, before)
    with started as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline().startswith("small is up")
        (status,) = json.loads(lab.run("testbed", "status", "--json").out)
        waiting.send_signal(word)
        _, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, err) == (0, "")
    assert not alive(status["owner"])
    assert list((home / "plimsoll" / "testbed").iterdir()) == []


def test_an_up_that_is_interrupted_leaves_nothing(home: Path, lab: Lab) -> None:
    place = home / "plimsoll" / "testbed" / "small"
    with lab.start("testbed", "up", lab.file(SMALL)) as starting:
        wait_for(lambda: (place / "log" / "owner").exists() or starting.poll() is not None)
        os.killpg(starting.pid, signal.SIGKILL)  # the lab and the engine's starter
    # It ends by itself because its starter is gone, or it stood a moment before, and can be taken down.
    wait_for(lambda: not place.exists() or lab.run("testbed", "down", "small").code == 0)
    wait_for(lambda: not place.exists())


def test_delays_add_up_and_are_never_too_short(home: Path) -> None:
    with up(parse_testbed(SMALL, "small.yaml")) as testbed:
        # A frame is let go up to 40 us before its time on each link, which makes up for waking late.
        assert min(ping(testbed, "lab", "near-1", 20, 0.01)) > 19.9
        assert min(ping(testbed, "far-1", "here-1", 20, 0.01)) > 47.9  # 50 ms, jitter of 2 ms
        assert min(ping(testbed, "near-1", "far-1", 20, 0.01)) > 67.8  # through the lab's site
        assert len(ping(testbed, "lab", "here-1", 5, 0.01)) == 5
        found = links(testbed)
        assert found["here", "far"]["shape"]["delay_ns"] == 30_000_000
        assert found["far", "here"]["shape"]["delay_ns"] == 20_000_000
        assert found["near", "here"]["offered_packets"] == 40
        assert found["here", "far"]["offered_packets"] == 40


def test_loss_is_counted_to_the_packet(home: Path) -> None:
    count = 500
    with up(spec("lossy", "rtt: 2ms, loss: 20%")) as testbed:
        came_back = len(ping(testbed, "lab", "b-1", count, 0.004))
        there, back = links(testbed)["a", "b"], links(testbed)["b", "a"]
        assert there["offered_packets"] == count
        assert back["offered_packets"] == count - there["lost_packets"]
        assert there["lost_packets"] + back["lost_packets"] == count - came_back
        assert there["full_packets"] + there["cut_packets"] == 0
        status = testbed.status()
        assert (status["missed"], status["unsent"]) == (0, 0)


def test_a_rate_is_never_exceeded_and_every_byte_arrives(home: Path) -> None:
    size = 3_000_000
    with up(spec("thin", "rtt: 10ms, rate: {forward: 20Mbit/s, backward: 10Mbit/s}")) as testbed:
        address = testbed.host("b-1").address
        listen = f"import socket; s = socket.create_server(('{address}', 5000)); print('ready', flush=True)\n"
        listen += "c, _ = s.accept(); n = 0\nwhile d := c.recv(65536): n += len(d)\nprint(n)"
        send = f"import socket; c = socket.create_connection(('{address}', 5000)); c.sendall(bytes({size}))"
        server = subprocess.Popen(
            [*testbed.enter_argv("b-1"), "python3", "-c", listen], stdout=subprocess.PIPE, text=True
        )
        with server:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            start = time.monotonic()
            assert run(testbed, "lab", "python3", "-c", send).code == 0
            assert int(server.stdout.readline()) == size
            assert time.monotonic() - start > size * 8 / 20e6
        forward = links(testbed)["a", "b"]
        assert forward["passed_bytes"] > size
        # Frame by frame, none of the large ones of segmentation offload.
        assert forward["passed_bytes"] / forward["passed_packets"] <= 1514


def test_a_link_is_cut_and_mended(home: Path, lab: Lab) -> None:
    with up(spec("cut", "rtt: 2ms")) as testbed:
        assert len(ping(testbed, "lab", "b-1", 3, 0.01)) == 3
        assert lab.run("testbed", "link", "cut", "a", "b", "--down").code == 0
        assert ping(testbed, "lab", "b-1", 3, 0.01) == []
        assert links(testbed)["a", "b"]["cut_packets"] == 3
        assert "CUT" in lab.run("testbed", "status").out
        changes = ("--up", "--rtt", "30ms", "--asymmetry=-10ms", "--rate", "50Mbit/s")
        assert lab.run("testbed", "link", "cut", "a", "b", *changes).code == 0
        assert min(ping(testbed, "lab", "b-1", 3, 0.01)) > 29.9
        shape = links(testbed)["a", "b"]["shape"]
        assert (shape["delay_ns"], shape["rate_bit_s"], shape["down"]) == (10_000_000, 50_000_000, False)
        assert lab.run("testbed", "link", "cut", "a", "c", "--down").code == 2
        assert lab.run("testbed", "link", "cut", "a", "b", "--jitter", "40ms").code == 2
        with pytest.raises(ServiceError, match="a loss from 0 to 1, got 2"):
            testbed.change(Link("a-a", "a", "a", 0, loss=2.0).directions())


@pytest.mark.parametrize("who", ["owner", "middle"])
def test_a_kill_leaves_nothing(home: Path, who: str) -> None:
    testbed = up(spec("killed", "rtt: 2ms"))
    status = testbed.status()
    network = run(testbed, "b-1", "readlink", "/proc/self/ns/net").out.strip()
    stays = subprocess.Popen([*testbed.enter_argv("b-1"), "sh", "-c", "trap '' TERM; sleep 600"])
    wait_for(lambda: len(inside(network)) >= 3)
    os.kill(status[who], signal.SIGKILL)
    assert stays.wait(30) == -signal.SIGKILL  # it is deaf to the polite signal
    wait_for(lambda: not alive(status["owner"]) and not alive(status["middle"]))
    assert inside(network) == []
    assert not testbed.directory.exists()
    with pytest.raises(ServiceError, match="does not answer"):
        testbed.status()


def test_both_killed_at_once_is_found_and_mended(home: Path, lab: Lab) -> None:
    testbed = up(spec("gone", "rtt: 2ms"))
    status = testbed.status()
    network = run(testbed, "b-1", "readlink", "/proc/self/ns/net").out.strip()
    for who in ("owner", "middle"):  # stopped first, so that neither sees the other's end
        os.kill(status[who], signal.SIGSTOP)
    for who in ("owner", "middle"):
        os.kill(status[who], signal.SIGKILL)
    wait_for(lambda: not inside(network))
    assert lab.run("testbed", "status").out == "no testbed of yours is up on this machine\n"
    with up(spec("gone", "rtt: 3ms")) as again:
        assert not again.reused
    done = lab.run("testbed", "down", "gone")
    assert done.code == 2


def test_two_side_by_side_and_one_twice(home: Path, lab: Lab) -> None:
    one, other = spec("one", "rtt: 2ms"), spec("other", "rtt: 30ms")
    with up(one) as first, up(other) as second:
        assert min(ping(second, "lab", "b-1", 3, 0.01)) > 29.9
        with up(one) as again:
            assert again.reused
            assert again.directory == first.directory
        assert len(ping(first, "lab", "b-1", 3, 0.01)) == 3, "a reused one stays up"
        with pytest.raises(BadInput, match="another file"):
            up(spec("one", "rtt: 3ms"))
        several = lab.run("testbed", "exec", "lab", "--", "true")
        assert (several.code, "one, other" in several.err) == (2, True)
        assert lab.run("testbed", "exec", "lab", "--testbed", "other", "--", "true").code == 0


def test_strangers_at_the_control_socket(home: Path) -> None:
    with up(spec("asked", "rtt: 2ms")) as testbed:
        for request in (
            b"\n",
            b"\xff\xfe\n",
            b'{"ask": "enter", "host": "x"}\n',
            b'{"ask": "all"}\n',
            b"[" * 100_000,
        ):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(testbed.directory / "control"))
                client.settimeout(20)
                with contextlib.suppress(BrokenPipeError):
                    client.sendall(request)
                client.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):
                    answer = client.recv(65536)
                    assert not answer or "error" in json.loads(answer)
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(str(testbed.directory / "control"))
            assert len(ping(testbed, "lab", "b-1", 10, 0.01)) == 10
            assert testbed.status()["name"] == "asked"


def test_without_the_right_to_be_root(home: Path) -> None:
    """In a user namespace, as anybody. Where we are root, as nobody, who may log in nowhere: no ssh then."""
    if os.geteuid() != 0:
        pytest.skip("every other test of this file is without root here")
    shutil.chown(home, "nobody", "nogroup")
    engine = home / "plimsoll-engine"
    shutil.copy(find_engine(), engine)
    place = home / "t"
    (place / "log").mkdir(parents=True)
    for part in (place, place / "log"):
        shutil.chown(part, "nobody", "nogroup")
    config = {**document(spec("mine", "rtt: 10ms, rate: 50Mbit/s")), "directory": str(place), "daemon": None}
    nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]
    done = subprocess.run(
        [*nobody, engine, "testbed", "up", "--config", "-"],
        input=json.dumps(config),
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    if "user namespace" in done.stderr:
        missing("user namespaces without root", "allow them")
    assert done.returncode == 0, done.stderr
    address = config["hosts"][1]["address"]
    enter = [*nobody, str(engine), "testbed", "enter", str(place), "lab", "--"]
    pinged = subprocess.run(
        [*enter, "sh", "-c", f"id -un; hostname; getent hosts lab; ping -n -c 3 -i 0.2 {address}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=home,  # A directory that this user may enter.
    )
    assert pinged.returncode == 0, pinged.stderr
    user, name, looked_up = pinged.stdout.splitlines()[:3]
    assert (user, name, looked_up.split()) == ("nobody", "lab", [config["hosts"][0]["address"], "lab"])
    times = [float(found) for found in re.findall(r"time=([\d.]+) ms", pinged.stdout)]
    assert len(times) == 3 and min(times) > 9.9
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(place / "control"))
        client.sendall(b'{"ask": "status"}\n')
        with client.makefile() as answer:
            status = json.load(answer)
    assert status["rootless"] is True
    os.kill(status["owner"], signal.SIGTERM)
    wait_for(lambda: not alive(status["owner"]) and not alive(status["middle"]))
    assert not place.exists()


def test_refusals(home: Path, lab: Lab) -> None:
    done = lab.run("testbed", "up", lab.file(SMALL.replace("rtt: 20ms", "rtt: 20"), "x.yaml"))
    assert (done.code, "x.yaml:10: links.0.rtt" in done.err) == (2, True), done.err
    odd = lab.file(SMALL.replace("lab: here", "lab: here\ncongestion: nosuch"), "y.yaml")
    done = lab.run("testbed", "up", odd)
    assert (done.code, 'cannot set the congestion control "nosuch"' in done.err) == (1, True), done.err
    assert list((home / "plimsoll" / "testbed").iterdir()) == []
    assert lab.run("testbed", "up", "nowhere.yaml").code == 2
    assert lab.run("testbed", "exec", "lab", "--", "true").code == 2
    long = home / ("x" * 100)
    long.mkdir()
    done = lab.run("testbed", "up", lab.file(SMALL), XDG_RUNTIME_DIR=str(long))
    assert (done.code, "set XDG_RUNTIME_DIR" in done.err) == (1, True), done.err
    open_to_all = home / "open"
    (open_to_all / "plimsoll").mkdir(parents=True)
    (open_to_all / "plimsoll").chmod(0o777)
    done = lab.run("testbed", "up", lab.file(SMALL), XDG_RUNTIME_DIR=str(open_to_all))
    assert (done.code, "not a private directory" in done.err) == (1, True), done.err


# ---- the truth of the emulation: only on an idle machine -------------------------------------------------------------


def iperf(testbed: Testbed, seconds: int, congestion: str | None = None, skip: int = 0) -> float:
    """Mbit/s that arrived, payload of one TCP connection from lab to b-1, without the first `skip` seconds."""
    server = subprocess.Popen(
        [*testbed.enter_argv("b-1"), "iperf3", "-s", "-1", "-J"], stdout=subprocess.PIPE, text=True
    )
    time.sleep(0.5)
    words = ["iperf3", "-c", testbed.host("b-1").address, "-t", str(seconds), "-O", str(skip)]
    done = run(testbed, "lab", *words, *(["-C", congestion] if congestion else []), timeout_s=seconds + 90)
    assert done.code == 0, done.err + done.out
    out, _ = server.communicate(timeout=60)
    return float(json.loads(out)["end"]["sum_received"]["bits_per_second"]) / 1e6


@pytest.mark.parametrize(("asked_ms", "count"), [(0.3, 1000), (60.0, 200), (315.0, 100)])
@pytest.mark.long
@pytest.mark.timeout(600)
def test_truth_of_round_trips(home: Path, asked_ms: float, count: int) -> None:
    with up(spec("rtt", f"rtt: {asked_ms}ms")) as testbed:
        short = asked_ms < 1
        measure = partial(ping, interval_s=0.01) if short else precise_ping
        times = measure(testbed, "lab", "b-1", count)
        median = statistics.median(times)
        print(
            f"TRUTH rtt asked {asked_ms} ms: median {median:.3f}, 1 % {sorted(times)[count // 100]:.3f}, "
            f"99 % {sorted(times)[-max(1, count // 100)]:.3f}, max {max(times):.3f} ms, load {os.getloadavg()[0]:.1f}"
        )
        assert len(times) == count
        assert abs(median - asked_ms) < 0.3


@pytest.mark.parametrize("congestion", ["cubic", None])
@pytest.mark.parametrize("rate", [10, 100, 500])
@pytest.mark.long
@pytest.mark.timeout(600)
def test_truth_of_rates(home: Path, rate: int, congestion: str | None) -> None:
    with up(spec("rate", f"rtt: 0.3ms, rate: {rate}Mbit/s")) as testbed:
        reached = iperf(testbed, 10, congestion)
        used = congestion or testbed.status()["congestion"]
        print(
            f"TRUTH rate asked {rate} Mbit/s at 0.3 ms, {used}: {reached:.1f} Mbit/s, load {os.getloadavg()[0]:.1f}"
        )
        assert 0.9 * rate <= reached <= rate


@pytest.mark.parametrize("congestion", ["cubic", None])
@pytest.mark.parametrize("rate", [100, 500])
@pytest.mark.long
@pytest.mark.timeout(600)
def test_truth_of_a_long_fat_link(home: Path, rate: int, congestion: str | None) -> None:
    with up(spec("fat", f"rtt: 315ms, rate: {rate}Mbit/s")) as testbed:
        reached = iperf(testbed, 30, congestion, skip=30)
        used = congestion or testbed.status()["congestion"]
        print(
            f"TRUTH rate asked {rate} Mbit/s at 315 ms, {used}: {reached:.1f} Mbit/s, load {os.getloadavg()[0]:.1f}"
        )
        # Every 10 s BBR empties the link by itself, for 200 ms and a round trip (ProbeRTT, doi:10.1145/3009824).
        busy = (10 - 0.2 - 0.315) / 10 if used == "bbr" else 1.0
        assert 0.9 * busy * rate <= reached <= rate


@pytest.mark.parametrize("loss", [0.01, 0.05])
@pytest.mark.long
@pytest.mark.timeout(600)
def test_truth_of_loss(home: Path, loss: float) -> None:
    count = 4000
    with up(spec("loss", f"rtt: 1ms, loss: {loss * 100:g}%", "seed: 20")) as testbed:
        lost = count - len(ping(testbed, "lab", "b-1", count, 0.002))
        either = 1 - (1 - loss) ** 2
        low, high = binom.interval(0.999, count, either)
        print(
            f"TRUTH loss asked {loss:g} each way: {lost} of {count} pings, 99.9 % interval {low:g} to {high:g}"
        )
        assert low <= lost <= high
        assert links(testbed)["a", "b"]["full_packets"] == 0
