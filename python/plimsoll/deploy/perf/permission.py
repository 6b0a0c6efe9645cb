"""Whether perf can take samples on a host."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from plimsoll.deploy.programs import ProgramSearch, find_on, missing_text
from plimsoll.plan.model.cell import Config

PROGRAM: Final = "perf"
PACKAGE: Final = "linux-perf"
"""The package of Debian."""
PARANOID: Final = "/proc/sys/kernel/perf_event_paranoid"
OWN_PROCESSES: Final = 2
"""The greatest value of kernel.perf_event_paranoid with which users can take samples of their own processes."""
MAX_MESSAGE: Final = 200


def perf_problem(search: ProgramSearch) -> str:
    """Why perf cannot take samples on a host, and what to do; empty if it can. It is tried, since a kernel, an account
    or a container may not allow it."""
    perf = find_on(search, [PROGRAM])
    if perf is None:
        return missing_text(PROGRAM, PACKAGE, search)
    code, text = search.output(
        [perf, "record", "-q", "-e", "cpu-clock", "-g", "-o", "/dev/null", "--", "true"]
    )
    if code == 0:
        return ""
    level = search.output(["cat", PARANOID])[1].strip()
    place = f" of {search.host}" if search.host else ""
    if re.fullmatch(r"\d+", level) and int(level) > OWN_PROCESSES:
        return (
            f"the kernel{place} does not allow perf, because kernel.perf_event_paranoid is {level}: "
            f"sysctl -w kernel.perf_event_paranoid={OWN_PROCESSES}"
        )
    reason = "it took too long" if code is None else last_message(text.encode())
    return f"perf fails{f' on {search.host}' if search.host else ''}: {reason}"


def profiled_hosts(configs: Iterable[Config]) -> dict[str | None, Config]:
    """The hosts whose services perf samples (None: this host), with a configuration that uses it."""
    found: dict[str | None, Config] = {}
    for config in configs:
        for service in config.services:
            if service.perf:
                found.setdefault(service.host, config)
    return found


def last_message(text: bytes) -> str:
    """The last line of a program's messages, shortened."""
    lines = [line.strip() for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:MAX_MESSAGE] if lines else "it printed no reason"
