"""`plimsoll hosts check FILE` and `plimsoll hosts clean FILE`: print facts of the hosts of a file; remove the processes
and files of Plimsoll from them."""

from __future__ import annotations

import argparse
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from plimsoll.deploy.binary import engine_version, find_engine, require_same_version
from plimsoll.deploy.hosts import CleanedHost, HostBackend
from plimsoll.deploy.hosts.check import FIGURES, CheckedHost, check
from plimsoll.deploy.hosts.kinds import hosts_of_kind
from plimsoll.deploy.hosts.limited import with_proofs
from plimsoll.deploy.service_hosts.pool import with_service_remarks
from plimsoll.deploy.testbed.inside import run_on_lab
from plimsoll.errors import ExitCode
from plimsoll.plan.hosts.spread import fewest, usable_words
from plimsoll.plan.load_hosts import load_all_hosts
from plimsoll.plan.model.hosts import Hosts
from plimsoll.plan.source.units import about_size
from plimsoll.printable import printable

FORMAT = "plimsoll.hosts/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the two commands and their file."""
    verbs = parser.add_subparsers(dest="does", required=True, metavar="check|clean")
    for name, text in (
        ("check", "show for each host whether it answers, its hardware and limits, and why it is left out"),
        ("clean", "end the processes of Plimsoll on the hosts, remove its files, and verify both"),
    ):
        own = verbs.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        own.add_argument("file", type=Path, help="experiment file or hosts file")
        own.add_argument(
            "--set", action="append", default=[], metavar="PATH=VALUE", help="change a value of the file"
        )
        own.add_argument("--json", action="store_true", help="print the result as JSON")
        if name == "check":
            own.add_argument(
                "--baseline", action="store_true", help="also measure CPU, disk and network of each host"
            )
        else:
            own.add_argument(
                "--discard", action="store_true", help="also remove measurements that have not been fetched"
            )


def main(args: argparse.Namespace) -> int:
    """Returns 1 if fewer hosts answer than the experiment needs, or if a process or file is left on a host."""
    engine = find_engine()
    require_same_version(engine_version(engine), engine)
    hosts_of = load_all_hosts(args.file, args.set)
    if (lab_code := run_on_lab([*hosts_of.testers, *hosts_of.services], args.words)) is not None:
        return lab_code
    all_hosts = (*hosts_of.testers, *hosts_of.services, *hosts_of.watched)
    backends = [(hosts, _kind(hosts, engine)) for hosts in all_hosts]
    if args.does == "clean":
        return _clean(
            [host for _, kind in backends for host in kind.clean(everything=True, discard=args.discard)], args
        )
    code = ExitCode.PASSED
    checks: list[dict[str, Any]] = []
    for hosts, kind in backends:
        try:
            ready = kind.prepare()
            network = args.baseline or hosts.baseline
            checked = check(kind, hosts, engine, ready=ready, baseline=args.baseline, network=network)
            if hosts in hosts_of.testers:
                checked = with_proofs(kind, ready, checked, hosts_of.tester_limits, {})
            if hosts in hosts_of.services:
                checked = with_service_remarks(
                    kind, ready, checked, hosts_of.kinds, hosts_of.limits, hosts_of.perf
                )
        finally:
            kind.clean()
        needed = fewest(hosts)
        enough = sum(checked_host.taken for checked_host in checked) >= needed
        if hosts in hosts_of.watched:
            must = [checked_host for checked_host in checked if checked_host.host.name in hosts_of.required]
            needed, enough = len(must), all(checked_host.taken for checked_host in must)
            checked = [replace(checked_host, role="watch") for checked_host in checked]
        code = code if enough else ExitCode.ERROR
        if hosts in hosts_of.services:
            checked = [replace(checked_host, role="services") for checked_host in checked]
        checks.append(
            {
                "enough": enough,
                "at_least": needed,
                "hosts": [checked_host.to_json() for checked_host in checked],
            }
        )
        if not args.json:
            print("\n".join(map(printable, lines(hosts, checked, needed, baseline=args.baseline))))
    if args.json:
        print(json.dumps({"format": FORMAT, "checks": checks}, indent=1))
    return int(code)


def _kind(hosts: Hosts, engine: Path) -> HostBackend:
    return hosts_of_kind(hosts, engine, f"check{secrets.token_hex(4)}", lambda: None)


def lines(hosts: Hosts, checked: Sequence[CheckedHost], needed: int, *, baseline: bool) -> list[str]:
    """The table of hosts as lines of text, followed by the remarks about single hosts."""
    head = ["host", "site", "cores", "memory", "kernel", "architecture", "files", "ports", "rtt", "clock"]
    rows = [[*head, *(words for words, _ in FIGURES.values())] if baseline else head]
    for checked_host in checked:
        rows.append(
            [checked_host.host.name, checked_host.host.site, *_cells(checked_host.facts, baseline=baseline)]
        )
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(len(rows[0]))]
    text_lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]
    text_lines += [
        f"{checked_host.host.name}: left out: {checked_host.reason}"
        for checked_host in checked
        if checked_host.reason
    ]
    text_lines += [
        f"{checked_host.host.name}: {remark}" for checked_host in checked for remark in checked_host.remarks
    ]
    taken = sum(checked_host.taken for checked_host in checked)
    roles = {checked_host.role for checked_host in checked}
    use = "watched" if "watch" in roles else "used for services" if "services" in roles else "used"
    text_lines.append(usable_words(hosts, taken, len(checked), needed, use=use))
    return text_lines


def _cells(facts: Mapping[str, Any] | None, *, baseline: bool) -> list[str]:
    if facts is None:
        return ["no answer"]
    limits = facts.get("limits") or {}
    rtt = (facts.get("rtt_ns") or {}).get("min")
    cells = [
        str(facts.get("cores", "")),
        about_size(float(facts.get("memory_bytes") or 0)),
        str(facts.get("kernel", "")),
        str(facts.get("architecture", "")),
        str(limits.get("open_files", "")),
        str(limits.get("local_ports", "")),
        "" if rtt is None else f"{rtt / 1e6:.3f} ms",
        _clock(facts.get("clock") or {}),
    ]
    measured = facts.get("baseline") or {}
    figures = [
        show(float(measured[name])) if measured.get(name) else "-" for name, (_, show) in FIGURES.items()
    ]
    return cells + (figures if baseline else [])


def _clock(clock: Mapping[str, Any]) -> str:
    if clock.get("same"):
        return "the same"
    if clock.get("offset_ns") is None:
        return "unknown"
    return f"{clock['offset_ns'] / 1e6:+.3f} ms ± {clock['bound_ns'] / 1e6:.3f} ms"


def _clean(cleaned: Sequence[CleanedHost], args: argparse.Namespace) -> int:
    proven = all(cleaned_host.is_clean for cleaned_host in cleaned)
    if args.json:
        shown = [
            {
                "name": cleaned_host.host.name,
                "clean": cleaned_host.is_clean,
                "kept": cleaned_host.kept,
                "left": cleaned_host.left,
                "reason": cleaned_host.reason,
            }
            for cleaned_host in cleaned
        ]
        print(json.dumps({"format": FORMAT, "hosts": shown}, indent=1))
    else:
        for cleaned_host in cleaned:
            kept = [f"kept {item}" for item in cleaned_host.kept_descriptions]
            left = [f"LEFT {item}" for item in cleaned_host.left]
            unknown = [f"could not be checked: {cleaned_host.reason}"] if cleaned_host.reason else []
            texts = [*left, *unknown, *kept] or ["clean: no process or file of Plimsoll is left"]
            print("\n".join(printable(f"{cleaned_host.host.name}: {text}") for text in texts))
    return int(ExitCode.PASSED if proven else ExitCode.ERROR)
