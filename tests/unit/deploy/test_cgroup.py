"""The files of control groups of both versions, as Linux 6 writes them, and the groups of containers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plimsoll.deploy.counters.cgroup import (
    Group,
    GroupReader,
    group_at,
    group_of_process,
    group_reading,
    main_process,
)
from plimsoll.plan.model.cell import WatchedGroup

V2 = {
    "cpu.stat": "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnr_throttled 3\nthrottled_usec 250000\n",
    "cpu.max": "150000 100000\n",
    "memory.current": "9000000\n",
    "memory.max": "max\n",
    "memory.stat": "anon 4000000\nfile 3000000\nshmem 1000000\n",
    "memory.events": "low 0\noom 1\noom_kill 1\n",
    "io.stat": "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2\n8:16 rbytes=4096 wbytes=0 rios=1 wios=0\n",
}
V1 = {
    "cpuacct": {"cpuacct.usage": "2500000000\n", "cpuacct.stat": "user 200\nsystem 50\n"},
    "cpu": {
        "cpu.stat": "nr_throttled 3\nthrottled_time 250000000\n",
        "cpu.cfs_quota_us": "150000\n",
        "cpu.cfs_period_us": "100000\n",
    },
    "memory": {
        "memory.usage_in_bytes": "9000000\n",
        "memory.stat": "rss 1\nhierarchical_memory_limit 9223372036854771712\ntotal_cache 3000000\n"
        "total_rss 4000000\ntotal_shmem 1000000\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    },
    "blkio": {
        "blkio.throttle.io_service_bytes": "8:0 Read 1\nTotal 1\n",
        "blkio.throttle.io_service_bytes_recursive": "8:0 Read 8192\n8:0 Write 8192\n8:0 Total 16384\nTotal 16384\n",
    },
}


def write(directory: Path, files: dict[str, str]) -> Path:
    directory.mkdir(parents=True)
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


def test_both_versions_have_the_same_names(tmp_path: Path) -> None:
    unified = group_reading(Group({"unified": write(tmp_path / "v2", V2)}))
    separate = group_reading(Group({name: write(tmp_path / name, files) for name, files in V1.items()}))
    assert unified == separate
    assert dict(unified.counters) == {
        "cpu": 2.5, "cpu.user": 2.0, "cpu.system": 0.5, "cpu.throttled": 0.25,
        "disk.read": 8192, "disk.write": 8192, "oom_kills": 1,
    }  # fmt: skip
    assert dict(unified.gauges) == {
        "memory.used": 5_000_000, "memory.cache": 2_000_000, "memory.total": 9_000_000, "cpu.limit": 1.5,
    }  # fmt: skip


def test_limits_and_missing_files(tmp_path: Path) -> None:
    place = write(tmp_path / "v2", V2 | {"memory.max": "12000000\n", "cpu.max": "max 100000\n"})
    gauges = group_reading(Group({"unified": place})).gauges
    assert gauges["memory.limit"] == 12_000_000 and "cpu.limit" not in gauges
    for name in V2:
        (place / name).unlink()
    with pytest.raises(ValueError, match="no files of the controllers cpu and memory"):
        group_reading(Group({"unified": place}))
    place.rmdir()
    with pytest.raises(OSError, match="the control group has ended"):
        group_reading(Group({"unified": place}))


def test_the_directories_of_a_hybrid_setup_and_of_version_2(tmp_path: Path) -> None:
    for name, files in V1.items():
        write(tmp_path / name / "a" / "b", files)
    (tmp_path / "unified" / "a" / "b").mkdir(parents=True)
    mounts = tmp_path / "mounts"
    lines = [f"cgroup {tmp_path}/{name} cgroup rw,relatime,{name} 0 0" for name in V1]
    mounts.write_text(
        "\n".join([*lines, f"cgroup2 {tmp_path}/unified cgroup2 rw 0 0", "tmpfs /x tmpfs rw 0 0"]) + "\n"
    )
    assert set(group_at("/a/b", mounts).directories) == set(V1)
    with pytest.raises(ValueError, match="there is no control group /a/c with the controllers"):
        group_at("/a/c", mounts)
    (tmp_path / "unified" / "a" / "b" / "memory.current").write_text("1\n")
    assert group_at("/a/b", mounts).directories == {"unified": tmp_path / "unified" / "a" / "b"}


def test_the_group_of_a_process(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "7").mkdir()
    (proc / "self" / "mounts").write_text(
        f"c {tmp_path}/m cgroup rw,memory 0 0\nc {tmp_path}/c cgroup rw,cpu,cpuacct 0 0\n"
    )
    (proc / "7" / "cgroup").write_text("4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n")
    for name in ("m", "c"):
        (tmp_path / name / "docker" / "abc").mkdir(parents=True)
    directories = group_of_process(7, proc).directories
    assert directories["memory"] == tmp_path / "m" / "docker" / "abc"
    assert directories["cpuacct"] == directories["cpu"] == tmp_path / "c" / "docker" / "abc"


def engine(directory: Path, name: str, script: str) -> None:
    """A program in place of Docker or Podman: neither has a daemon on the machine of the tests."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_container_is_found_by_its_main_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    engine(tmp_path / "bin", "docker", "echo 'Error: No such container: web' >&2; exit 1")
    engine(tmp_path / "bin", "podman", f'test "$6" = web && echo {os.getpid()}')
    assert main_process("web") == os.getpid()
    with pytest.raises(ValueError) as caught:
        main_process("other")
    assert str(caught.value) == (
        "the container other cannot be found (docker: Error: No such container: web; podman: exit code 1)"
    )
    engine(tmp_path / "bin", "podman", "echo 0")
    reader = GroupReader(WatchedGroup("w", "", "web", 10**9))
    with pytest.raises(ValueError, match="podman: the container is not running"):
        reader.read()
    engine(tmp_path / "bin", "podman", f"echo {os.getpid()}")
    with pytest.raises(ValueError, match="podman: the container is not running"):
        reader.read()  # it is not looked up at every reading


def test_a_host_without_container_engines_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plimsoll.deploy.counters.cgroup.find", lambda names: None)
    with pytest.raises(ValueError, match="neither docker nor podman is installed here"):
        main_process("web")
