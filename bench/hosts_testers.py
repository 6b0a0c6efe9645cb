"""Very many testers at once: how late they are, and what they cost. See `hosts.py`."""

from __future__ import annotations

from typing import Any, Final

from hosts_parts import Watch, conditions, cpu_s, run, workplace

from plimsoll.deploy.testbed import up
from plimsoll.plan.hosts.testbed import parse_testbed

HOSTS: Final = 20
TESTERS_A_HOST: Final = 500
CONNECTED: Final = 100_000
SERVICES: Final = 8
"""A process has 20,000 descriptors here, and an address 28,232 ports towards each service. Linux takes every other port
first; once those 14,116 are taken it looks through all of them for each connection, which takes milliseconds."""
AGENTS: Final = 8


def ten_thousand(quick: bool) -> None:
    """Emulated hosts with an agent each, over ssh; every tester asks once a second."""
    hosts, seconds = (4, 5) if quick else (HOSTS, 60)
    number = hosts * TESTERS_A_HOST
    file = f"testbed: 1\nname: bench\nlab: here\nsites: {{here: {{hosts: {hosts}}}}}\nlan: {{rtt: 0.3ms}}\n"
    with workplace() as place, conditions() as took, up(parse_testbed(file, "bench.yaml")) as bed:
        document = {
            "name": "ten-thousand",
            "services": {"web": {"kind": "echo", "body": "1kB"}},
            "workload": {"driver": "http", "target": "web", "timeout": "10s"},
            "load": {"testers": number, "every": "1s"},
            "run": {"warmup": "5s", "duration": f"{seconds}s"},
            "cpus": {"mode": "none"},
            "hosts": {
                "kind": "ssh",
                "hosts": [host.name for host in bed.hosts if host.name != "lab"],
                "ssh": {"config": str(bed.ssh_config)},
                "controller": {"address": bed.lab_address},
                "directory": str(place / "spool"),
            },
        }
        with Watch(place) as watch:
            found = run(document, place, bed.enter_argv())
        status = bed.status()
        network = cpu_s(status["middle"])
    rows = account(found, watch)
    rows["emulated network: CPU; frames that were late, missed"] = (
        f"{network / found['counts']['started'] * 1e6:.0f} us a request; "
        f"{status['late']} of {status['released']:,}, {status['missed']}"
    )
    show(f"{hosts} emulated hosts, {number:,} testers, one request a second each", rows, took)


def hundred_thousand(quick: bool) -> None:
    """Testers that mostly wait: connected, and a request every 100 s."""
    number, period, seconds = (4_000, 5, 5) if quick else (CONNECTED, 100, 100)
    names = [f"web{index}" for index in range(SERVICES)]
    document = {
        "name": "hundred-thousand",
        "services": {name: {"kind": "echo", "body": "1kB"} for name in names},
        "targets": {"all": {"endpoints": names, "choose": "per-tester"}},
        "workload": {"driver": "http", "target": "all", "timeout": "10s"},
        "load": {"testers": number, "every": f"{period}s"},
        # All are connected after the first period.
        "run": {"warmup": f"{period}s", "duration": f"{seconds}s"},
        "cpus": {"mode": "none"},
        "hosts": {"kind": "local", "agents": AGENTS},
    }
    with workplace() as place, conditions() as took, Watch(place) as watch:
        found = run(document, place)
    title = (
        f"{AGENTS} agents, {SERVICES} services, {number:,} connected testers, a request every {period} s each"
    )
    show(title, account(found, watch), took)


def account(found: dict[str, Any], watch: Watch) -> dict[str, str]:
    """How late testers were, and what all of it cost."""
    counts, late, response = found["counts"], found["lateness_ms"], found["response_ms"]
    number, requests = len(found["testers"]), counts["started"]
    agents, services = watch.together("agent"), watch.together("serve")
    cpu = {role: watch.cpu_s(role) for role in ("agent", "serve", "control")}
    each = {role: seconds / requests * 1e6 for role, seconds in cpu.items()}
    return {
        "requests/s in the window": f"{found['throughput_per_s']:,.0f}",
        "errors, missed slots, lost records": f"{counts['failed']}, {counts['missed']}, {counts['lost_records']}",
        "lateness p50, p99, max": f"{late['p50']:.2f}, {late['p99']:.2f}, {late['max']:.1f} ms",
        "response time p50, p99": f"{response['p50']:.2f}, {response['p99']:.2f} ms",
        "CPU of agents, of services": f"{each['agent']:.0f}, {each['serve']:.0f} us a request",
        "CPU of the controller": f"{cpu['control']:.1f} s in all",
        "memory of all agents": f"{agents / 1e6:,.0f} MB: {agents / number:,.0f} B a tester",
        "memory of all services": f"{services / 1e6:,.0f} MB: {services / number:,.0f} B a connection",
        "memory of the controller": f"{watch.largest('control') / 1e6:.1f} MB",
    }


def show(title: str, rows: dict[str, str], took: list[str]) -> None:
    """A table of two columns, and how busy the machine was."""
    print(f"| {title} | |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value} |")
    print(f"\n{took[0]}\n", flush=True)
