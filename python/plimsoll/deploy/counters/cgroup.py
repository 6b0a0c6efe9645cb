"""Reads CPU, memory and disks of a control group of this host, of version 1 or 2, and finds the group of a container.

Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{cpuacct,memory,blkio-controller}.rst of Linux.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.programs import find
from plimsoll.plan.model.cell import WatchedGroup

ENGINES: Final = ("docker", "podman")
TIMEOUT_S: Final = 5.0
LOOKUP_INTERVAL_S: Final = 5.0
"""Minimum time between two lookups of a container that is not running."""
NO_LIMIT: Final = 1 << 60
"""Version 1 writes a number near 2^63 for a group without a limit of memory."""
_V1: Final = {"cpuacct": "cpuacct", "cpu": "cpu", "memory": "memory", "blkio": "blkio"}


@dataclass(frozen=True, slots=True)
class Group:
    """The directories of a group by controller; with version 2 there is one, of the name `unified`."""

    directories: Mapping[str, Path]

    def text(self, controller: str, name: str) -> str | None:
        """A file of a controller; None if the kernel does not have it. Raises OSError if the group has ended."""
        directory = self.directories.get(controller)
        if directory is None:
            return None
        try:
            return (directory / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            if not directory.is_dir():
                raise FileNotFoundError(2, "the control group has ended") from None
            return None


class GroupReader:
    """The reader of one group. The group of a container is looked up again after a failure: a container that was
    started again has another one."""

    unmatched: tuple[str, ...] = ()

    def __init__(self, watched: WatchedGroup) -> None:
        self._watched = watched
        self._group: Group | None = None
        self._failed: tuple[float, str] | None = None
        self.version = ""

    def read(self) -> Reading:
        """Takes one reading. Raises OSError or ValueError."""
        try:
            if self._group is None:
                self._group = self._find()
            return group_reading(self._group)
        except Exception:
            self._group = None
            raise

    def close(self) -> None:
        """Does nothing: no file is kept open."""

    def _find(self) -> Group:
        if not self._watched.container:
            return group_at(self._watched.group)
        # `docker inspect` uses processor time of the host that is measured.
        if self._failed is not None and time.monotonic() < self._failed[0] + LOOKUP_INTERVAL_S:
            raise ValueError(self._failed[1])
        try:
            return group_of_process(main_process(self._watched.container))
        except (OSError, ValueError) as error:
            self._failed = time.monotonic(), str(error)
            raise


def group_reading(group: Group) -> Reading:
    """Seconds, bytes and counts of a group. Raises OSError or ValueError."""
    unified = "unified" in group.directories
    counters, gauges = _unified(group) if unified else _separate(group)
    if "cpu" not in counters and "memory.used" not in gauges:
        raise ValueError("the control group has no files of the controllers cpu and memory")
    return Reading(counters, gauges)


def _unified(group: Group) -> tuple[dict[str, float], dict[str, float]]:
    cpu, memory = _pairs(group.text("unified", "cpu.stat")), _pairs(group.text("unified", "memory.stat"))
    counters = {
        name: cpu[key] / 1e6
        for name, key in (
            ("cpu", "usage_usec"), ("cpu.user", "user_usec"), ("cpu.system", "system_usec"),
            ("cpu.throttled", "throttled_usec"),
        )
        if key in cpu
    }  # fmt: skip
    totals = {"rbytes": 0.0, "wbytes": 0.0}
    devices = group.text("unified", "io.stat")
    for key, value in re.findall(r"\b(rbytes|wbytes)=(\d+)", devices or ""):
        totals[key] += float(value)
    if devices is not None:
        counters |= {"disk.read": totals["rbytes"], "disk.write": totals["wbytes"]}
    events = _pairs(group.text("unified", "memory.events"))
    counters |= {"oom_kills": events["oom_kill"]} if "oom_kill" in events else {}
    gauges = _memory(memory, "anon", "shmem", "file", group.text("unified", "memory.current"))
    limit = (group.text("unified", "memory.max") or "max").strip()
    quota, period = [*(group.text("unified", "cpu.max") or "max 100000").split(), "100000"][:2]
    gauges |= {"memory.limit": float(limit)} if limit.isdigit() else {}
    gauges |= {"cpu.limit": float(quota) / float(period)} if quota.isdigit() else {}
    return counters, gauges


def _separate(group: Group) -> tuple[dict[str, float], dict[str, float]]:
    counters: dict[str, float] = {}
    usage = group.text("cpuacct", "cpuacct.usage")
    if usage is not None:
        counters["cpu"] = int(usage) / 1e9
    ticks = float(os.sysconf("SC_CLK_TCK"))
    for key, value in _pairs(group.text("cpuacct", "cpuacct.stat")).items():
        counters[f"cpu.{key}"] = value / ticks
    throttled = _pairs(group.text("cpu", "cpu.stat")).get("throttled_time")
    counters |= {} if throttled is None else {"cpu.throttled": throttled / 1e9}
    counters |= _disks_of_v1(group)
    kills = _pairs(group.text("memory", "memory.oom_control")).get("oom_kill")
    counters |= {} if kills is None else {"oom_kills": kills}
    memory = _pairs(group.text("memory", "memory.stat"))
    gauges = _memory(
        memory, "total_rss", "total_shmem", "total_cache", group.text("memory", "memory.usage_in_bytes")
    )
    limit = memory.get("hierarchical_memory_limit", float(NO_LIMIT))
    gauges |= {"memory.limit": limit} if limit < NO_LIMIT else {}
    quota = group.text("cpu", "cpu.cfs_quota_us")
    period = group.text("cpu", "cpu.cfs_period_us")
    if quota is not None and period is not None and int(quota) > 0:
        gauges["cpu.limit"] = int(quota) / int(period)
    return counters, gauges


def _disks_of_v1(group: Group) -> dict[str, float]:
    for name in ("blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes"):
        text = group.text("blkio", name)
        if text is not None:
            totals = {"Read": 0.0, "Write": 0.0}
            for key, value in re.findall(r"^\d+:\d+ (Read|Write) (\d+)$", text, re.MULTILINE):
                totals[key] += float(value)
            return {"disk.read": totals["Read"], "disk.write": totals["Write"]}
    return {}


def _memory(
    stat: Mapping[str, float], anonymous: str, shared: str, cache: str, total: str | None
) -> dict[str, float]:
    """`memory.used`: anonymous and shared memory. The rest of the page cache can be reclaimed, and is left out."""
    gauges = {}
    if anonymous in stat:
        gauges["memory.used"] = stat[anonymous] + stat.get(shared, 0.0)
    if cache in stat:
        gauges["memory.cache"] = max(0.0, stat[cache] - stat.get(shared, 0.0))
    if total is not None:
        gauges["memory.total"] = float(total)
    return gauges


def _pairs(text: str | None) -> dict[str, float]:
    """Lines of a name and a number."""
    return {
        words[0]: float(words[1])
        for line in (text or "").splitlines()
        if len(words := line.split()) == 2 and words[1].isdigit()
    }


def group_at(path: str, mounts: Path = Path("/proc/self/mounts")) -> Group:
    """The group with this path. Raises ValueError if no hierarchy has it."""
    return _group(dict.fromkeys([*_V1, "unified"], path), mounts)


def group_of_process(pid: int, proc: Path = Path("/proc")) -> Group:
    """The group of a process. Raises OSError or ValueError."""
    paths = {}
    for line in (proc / str(pid) / "cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(",") if controllers else ["unified"]:
            paths[controller] = path
    return _group(paths, proc / "self" / "mounts")


def _group(paths: Mapping[str, str], mounts: Path) -> Group:
    """The directories that exist. A hierarchy of version 2 without the controllers cpu and memory, as in a hybrid
    setup, is not used."""
    found = {}
    for controller, root in _hierarchies(mounts):
        path = paths.get(controller)
        directory = root / path.lstrip("/") if path is not None else None
        if directory is not None and directory.is_dir():
            found[controller] = directory
    unified = found.pop("unified", None)
    if unified is not None and (unified / "memory.current").exists():
        return Group({"unified": unified})
    if not {"cpuacct", "memory"} & set(found):
        shown = next(
            iter(dict.fromkeys(path for name, path in paths.items() if name in _V1 or name == "unified")), ""
        )
        raise ValueError(
            f"there is no control group {shown} with the controllers cpu and memory on this host"
        )
    return Group(found)


def _hierarchies(mounts: Path) -> Iterator[tuple[str, Path]]:
    """Controllers and where they are mounted; `unified` is version 2."""
    for line in mounts.read_text(encoding="utf-8").splitlines():
        _, place, kind, options = line.split()[:4]
        if kind == "cgroup2":
            yield "unified", Path(place)
        elif kind == "cgroup":
            for controller in _V1.keys() & set(options.split(",")):
                yield controller, Path(place)


def main_process(container: str) -> int:
    """The process id of a running container. Raises ValueError."""
    reasons = []
    for engine in ENGINES:
        program = find([engine])
        if program is None:
            continue
        command = [str(program), "inspect", "--type", "container", "--format", "{{.State.Pid}}", container]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            reasons.append(f"{engine}: {error}")
            continue
        text = done.stdout.strip()
        if done.returncode == 0 and text.isdigit() and int(text) > 0:
            return int(text)
        error_lines = done.stderr.strip().splitlines()
        reasons.append(
            f"{engine}: the container is not running"
            if done.returncode == 0
            else f"{engine}: {error_lines[-1] if error_lines else f'exit code {done.returncode}'}"
        )
    if not reasons:
        raise ValueError(
            f"the container {container} cannot be found: neither docker nor podman is installed here"
        )
    raise ValueError(f"the container {container} cannot be found ({'; '.join(reasons)})")
