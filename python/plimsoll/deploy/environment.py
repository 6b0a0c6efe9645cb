"""Facts of this host for environment.json. Without them, a measurement cannot be compared with another
one."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

NETWORK_SETTINGS = (
    "net/core/somaxconn",
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/netdev_max_backlog",
    "net/core/default_qdisc",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv4/tcp_fin_timeout",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_notsent_lowat",
)
PACKAGES = ("numpy", "scipy", "pyarrow", "pydantic", "altair", "vl-convert-python")


def read(path: str | Path) -> str | None:
    """The stripped text of a small file, or None if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def host_facts(engine_version: str) -> dict[str, Any]:
    """Host, processor, kernel, clock, network settings, limits and versions, as values for JSON."""
    return {
        "host": {
            "name": socket.gethostname(),
            "system": _os_release(),
            "kernel": platform.release(),
            "architecture": platform.machine(),
            "virtualisation": _virtualisation(),
            "memory_bytes": _memory_bytes(),
        },
        "cpu": cpu_facts(),
        "clock_source": read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "network_settings": {
            name.replace("/", "."): value for name in NETWORK_SETTINGS if (value := read(f"/proc/sys/{name}"))
        },
        "limits": limits(),
        "versions": {
            "plimsoll": engine_version,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
    }


def cpu_facts() -> dict[str, Any]:
    """Model, cores that this process may use, frequency policy."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in (read("/proc/cpuinfo") or "").splitlines()
            if line.startswith("model name")
        ),
        platform.processor() or None,
    )
    governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return {
        "model": model,
        "cores": os.cpu_count(),
        "usable": sorted(os.sched_getaffinity(0)),
        "frequency_policy": governor or "not visible (a virtual machine, or fixed)",
        "turbo_off": read("/sys/devices/system/cpu/intel_pstate/no_turbo"),
        "mitigations": {
            path.name: read(path)
            for path in sorted(Path("/sys/devices/system/cpu/vulnerabilities").glob("*"))
        },
    }


def limits() -> dict[str, Any]:
    """The limits of this process that load can reach (soft values)."""
    ports = (read("/proc/sys/net/ipv4/ip_local_port_range") or "32768 60999").split()
    return {
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "open_files_hard": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0],
        "local_ports": int(ports[1]) - int(ports[0]) + 1,
    }


def _os_release() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _virtualisation() -> str:
    tool = shutil.which("systemd-detect-virt")
    if tool:
        try:
            result = subprocess.run([tool], capture_output=True, text=True, timeout=5, check=False)
            return result.stdout.strip() or "unknown"
        except (OSError, subprocess.TimeoutExpired):
            pass
    product = read("/sys/class/dmi/id/product_name")
    if product:
        return product
    flags = read("/proc/cpuinfo") or ""
    return "a virtual machine" if "hypervisor" in flags else "none seen"
