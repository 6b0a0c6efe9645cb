"""`plimsoll doctor`: limits of this host that distort measurements, and the commands that fix them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from plimsoll.deploy.binary import engine_version, find_engine
from plimsoll.deploy.decoding import DecodingCheck, check_url, decoding_checks, read_decoding
from plimsoll.deploy.environment import host_facts, read
from plimsoll.deploy.perf.permission import perf_problem
from plimsoll.deploy.programs import HERE
from plimsoll.deploy.servers.needs import NEEDS, missing_programs
from plimsoll.errors import EngineError, ExitCode

FILES_WANTED = 65_536
PORTS_WANTED = 20_000
GOOD_CLOCKS = ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `spoils` (the effect) and `mend` (the fix) are empty when it is good."""

    what: str
    value: str
    verdict: Literal["good", "mind", "bad"]
    spoils: str = ""
    mend: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--database", metavar="URL",
        help="check also whether a gateway with `detection: logical-decoding` can read the changes of this PostgreSQL "
        "database; the password comes from PGPASSWORD or ~/.pgpass",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def main(args: argparse.Namespace) -> int:
    """Prints the findings; returns 1 if at least one is bad. Raises BadInput, and ServiceError if the database does
    not answer."""
    database: list[Finding] = []
    if args.database is not None:
        check_url(args.database)
        database = [_decoding(check) for check in decoding_checks(read_decoding(args.database))]
    try:
        binary = find_engine()
        version = engine_version(binary)
        engine = Finding("engine", f"{version} at {binary}", "good")
    except EngineError as error:
        version = "none"
        engine = Finding("engine", str(error), "bad", "no experiment can run", "make engine")
    facts = host_facts(version)
    findings = [
        engine,
        *examine(facts, steal_ticks(read("/proc/stat") or "")),
        _servers(missing_programs(NEEDS)),
        _perf(perf_problem(HERE)),
        *database,
    ]
    if args.json:
        print(
            json.dumps(
                {"format": "plimsoll.doctor/1", "findings": [asdict(finding) for finding in findings]},
                indent=1,
            )
        )
    else:
        _print(findings)
    return int(ExitCode.ERROR if any(finding.verdict == "bad" for finding in findings) else ExitCode.PASSED)


def steal_ticks(proc_stat: str) -> float:
    """Share of all processor time since boot that the hypervisor assigned to other guests, 0 to 1."""
    ticks = [int(word) for word in proc_stat.split("\n", 1)[0].split()[1:9]]
    total = sum(ticks)
    return ticks[7] / total if len(ticks) == 8 and total > 0 else 0.0


def examine(facts: dict[str, Any], steal: float) -> Iterator[Finding]:
    """A finding for each limit. `facts`: from `host_facts`; `steal`: from `steal_ticks`."""
    yield _open_files(facts["limits"])
    yield _ports(facts["limits"]["local_ports"])
    yield _frequency(str(facts["cpu"]["frequency_policy"]))
    yield _clock(facts["clock_source"])
    yield _cores(len(facts["cpu"]["usable"]))
    yield _steal(steal)
    backlog = int(facts["network_settings"].get("net.core.somaxconn", 4096))
    yield Finding(
        "net.core.somaxconn",
        str(backlog),
        "good" if backlog >= 1024 else "mind",
        *(() if backlog >= 1024 else ("the kernel, not the service, refuses connections when many arrive at once",
                                      "sysctl -w net.core.somaxconn=4096")),
    )  # fmt: skip


def _open_files(limits: dict[str, Any]) -> Finding:
    soft, hard = limits["open_files"], limits["open_files_hard"]
    unlimited = soft < 0
    if unlimited or soft >= FILES_WANTED:
        return Finding("open files", "unlimited" if unlimited else str(soft), "good")
    mend = f"ulimit -n {FILES_WANTED}" if hard < 0 or hard >= FILES_WANTED else (
        f"as root: echo '* hard nofile {FILES_WANTED}' > /etc/security/limits.d/plimsoll.conf, then log in again"
    )  # fmt: skip
    return Finding(
        "open files",
        str(soft),
        "bad" if soft < 1024 else "mind",
        f"with more than about {max(soft - 100, 0)} concurrent connections the tester fails, not the target",
        mend,
    )


def _ports(count: int) -> Finding:
    if count >= PORTS_WANTED:
        return Finding("local ports", str(count), "good")
    return Finding(
        "local ports",
        str(count),
        "mind",
        f"with one connection per request, more than about {count // 60}/s to one address use up all ports "
        "(each is blocked for 60 s)",
        'sysctl -w net.ipv4.ip_local_port_range="1024 65535"',
    )


def _frequency(policy: str) -> Finding:
    if policy in ("powersave", "ondemand", "conservative", "schedutil"):
        return Finding(
            "CPU frequency policy",
            policy,
            "mind",
            "the CPU clock is lower under light load, so response times fall as load rises",
            "cpupower frequency-set -g performance",
        )
    return Finding("CPU frequency policy", policy, "good")


def _clock(source: str | None) -> Finding:
    if source in GOOD_CLOCKS:
        return Finding("clock source", str(source), "good")
    return Finding(
        "clock source",
        str(source),
        "mind",
        "each time stamp needs a system call of about 1 µs, which slows the testers",
        "as root, if available_clocksource in the same directory lists tsc: "
        "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
    )


def _cores(usable: int) -> Finding:
    if usable >= 2:
        return Finding("usable cores", str(usable), "good")
    return Finding(
        "usable cores",
        str(usable),
        "mind",
        "a service on this host and its testers compete for one core, which changes the response times",
        "add a second core, or run the service on another host",
    )


def _steal(share: float) -> Finding:
    text = f"{share:.2%} of processor time since boot"
    if share < 0.01:
        return Finding("steal", text, "good")
    return Finding(
        "steal", text, "mind", "other guests of the hypervisor use processor time, so repetitions vary more",
        "use a dedicated machine, or more repetitions",
    )  # fmt: skip


def _servers(missing: list[str]) -> Finding:
    """Programs of the distribution for services on this host. `plimsoll hosts check` reports those of other hosts."""
    if not missing:
        return Finding("servers", "those of all kinds of services are installed", "good")
    texts, commands = zip(*(text.split(": ", 1) for text in missing), strict=True)
    packages = dict.fromkeys(
        package for command in commands for package in command.removeprefix("apt-get install ").split()
    )
    return Finding(
        "servers",
        "; ".join(dict.fromkeys(texts)),
        "mind",
        "services of these kinds cannot run on this host",
        f"apt-get install {' '.join(packages)}",
    )


def _decoding(check: DecodingCheck) -> Finding:
    """A check of the database of `--database`."""
    verdict: Literal["mind", "bad"] = "bad" if check.is_fatal else "mind"
    return Finding(check.what, check.value, verdict if check.effect else "good", check.effect, check.fix)


def _perf(problem: str) -> Finding:
    """Whether flame graphs of services on this host are possible."""
    if not problem:
        return Finding("perf", "takes samples", "good")
    what, _, command = problem.rpartition(": ")
    return Finding("perf", what, "mind", "no flame graphs of services (`perf: true`)", command)


def _print(findings: list[Finding]) -> None:
    marks = {"good": "ok  ", "mind": "warn", "bad": "BAD "}
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        print(f"{marks[finding.verdict]}  {finding.what:<{width}}  {finding.value}")
        if finding.spoils:
            print(f"      {'':<{width}}  effect: {finding.spoils}")
            print(f"      {'':<{width}}  fix:    {finding.mend}")
    sys.stdout.flush()
