"""`plimsoll testbed up|down|exec|status|link`: emulated hosts and links on this machine."""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from plimsoll.cli.setup.quantity import quantity
from plimsoll.deploy import testbed as testbeds
from plimsoll.deploy.testbed import Testbed, places
from plimsoll.errors import BadInput, ExitCode
from plimsoll.plan.hosts.testbed import load_testbed
from plimsoll.plan.links import UNLIMITED, parse_bit_rate, parse_signed_duration, show_bit_rate
from plimsoll.plan.model.links import DirectedLink, Link
from plimsoll.plan.source import units

EXAMPLES = """examples:
  plimsoll testbed up examples/testbeds/wan.yaml
  plimsoll testbed exec lyon-1 -- ping -c 3 10.75.0.1
  plimsoll testbed exec lab -- plimsoll run experiment.yaml
  plimsoll testbed link wan cern lyon --down
  plimsoll testbed link wan cern lyon --up --loss 5%
  plimsoll testbed down
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares a verb for each command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    verbs = parser.add_subparsers(dest="what", required=True, metavar="VERB")
    up = verbs.add_parser("up", help="start a testbed in the background, unless an identical one is running")
    up.add_argument("file", type=Path, help="testbed file")
    up.add_argument("--wait", action="store_true", help="wait for Ctrl-C, then stop the testbed")
    down = verbs.add_parser("down", help="stop a testbed and all processes in it")
    down.add_argument("name", nargs="?", help="testbed name or file (default: the only running testbed)")
    enter = verbs.add_parser("exec", help="run a command on a host and return its exit status")
    enter.add_argument("host", help="name of a host; lab is the host for plimsoll itself and the services")
    enter.add_argument(
        "--testbed", metavar="NAME", help="testbed name or file (default: the only running testbed)"
    )
    enter.add_argument("command", nargs="+", metavar="CMD", help="after --: program and arguments")
    status = verbs.add_parser("status", help="show running testbeds and the traffic of their links")
    status.add_argument("name", nargs="?", help="testbed name or file (default: all)")
    status.add_argument("--json", action="store_true", help="print the status as JSON")
    link = verbs.add_parser(
        "link", help="change a link while it is in use; options not given keep their values"
    )
    link.add_argument("name", help="testbed name or file")
    link.add_argument("a", metavar="A", help="site at one end of the link")
    link.add_argument("b", metavar="B", help="site at the other end; forward is from A to B")
    cut = link.add_mutually_exclusive_group()
    cut.add_argument("--down", action="store_true", default=None, help="cut the link")
    cut.add_argument("--up", dest="down", action="store_false", help="restore the link")
    duration = quantity(units.parse_duration)
    link.add_argument("--rtt", metavar="DURATION", type=duration, help="round-trip time")
    link.add_argument(
        "--jitter", metavar="DURATION", type=duration, help="the round trip varies within ± this"
    )
    link.add_argument(
        "--asymmetry",
        metavar="DURATION",
        type=quantity(parse_signed_duration),
        help="forward delay - backward delay",
    )
    link.add_argument(
        "--rate", metavar="RATE|none", type=quantity(_rate), help="rate limit of each direction"
    )
    link.add_argument(
        "--loss", metavar="PERCENT", type=quantity(units.parse_fraction), help="share of frames that are lost"
    )
    link.add_argument(
        "--queue", metavar="SIZE", type=quantity(units.parse_size), help="size of the queue of each direction"
    )


def main(args: argparse.Namespace) -> int:
    """Runs the chosen verb."""
    verbs = {"up": _up, "down": _down, "exec": _exec, "status": _status, "link": _link}
    return verbs[args.what](args)


def _rate(text: str) -> int:
    return 0 if text == UNLIMITED else parse_bit_rate(text)


def _testbed_name(word: str | None) -> str | None:
    """The name of the testbed; reads it from the file if `word` is one."""
    if word is not None and ("/" in word or word.endswith((".yaml", ".yml", ".json"))):
        return load_testbed(word).name
    return word


def _up(args: argparse.Namespace) -> int:
    if not args.wait:
        _report_up(testbeds.up(load_testbed(args.file)))
        return int(ExitCode.PASSED)
    # SIGINT too: a shell starts background commands with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with testbeds.up(load_testbed(args.file)) as testbed:
        try:
            _report_up(testbed)
            while places.is_answering(testbed.directory):
                time.sleep(0.5)
        except KeyboardInterrupt:
            print("stopping the testbed")
    return int(ExitCode.PASSED)


def _report_up(testbed: Testbed) -> None:
    testbed.keep()
    print(f"{testbed.name} {'was up already' if testbed.reused else 'is up'}: {len(testbed.hosts)} hosts")
    print(f"  run a command:         plimsoll testbed exec {testbed.hosts[-1].name} -- hostname")
    print(f"  from the host lab:     ssh -F {testbed.ssh_config} {testbed.hosts[-1].name} hostname")
    print(f"  stop the testbed:      plimsoll testbed down {testbed.name}", flush=True)


def _down(args: argparse.Namespace) -> int:
    name = _testbed_name(args.name)
    testbed = testbeds.down(name)
    print(f"{testbed.name} is down" if testbed else f"{name} was not up; its remaining files are removed")
    return int(ExitCode.PASSED)


def _exec(args: argparse.Namespace) -> int:
    argv = testbeds.find(_testbed_name(args.testbed)).enter_argv(args.host)
    os.execv(argv[0], [*argv, *args.command])


def _status(args: argparse.Namespace) -> int:
    selected = [testbeds.find(_testbed_name(args.name))] if args.name else testbeds.running_testbeds()
    statuses = [(testbed, testbed.status()) for testbed in selected]
    if args.json:
        print(json.dumps([_document(testbed, status) for testbed, status in statuses], indent=2))
        return int(ExitCode.PASSED)
    if not statuses:
        print("no testbed of yours is up on this machine")
    for testbed, status in statuses:
        print(_text(testbed, status))
    return int(ExitCode.PASSED)


def _document(testbed: Testbed, status: dict[str, Any]) -> dict[str, Any]:
    hosts = [{"name": host.name, "site": host.site, "address": host.address} for host in testbed.hosts]
    return {
        "directory": str(testbed.directory),
        "ssh_config": str(testbed.ssh_config),
        "hosts": hosts,
        **status,
    }


def _text(testbed: Testbed, status: dict[str, Any]) -> str:
    how = "rootless" if status["rootless"] else "root"
    lines = [
        f"{testbed.name}: up ({how}, owner is process {status['owner']}), congestion control "
        f"{status['congestion']}, {testbed.directory}"
    ]
    lines += [f"  {host.name:<14} {host.address:<15} {host.site}" for host in testbed.hosts]
    lines += [
        _link_text(link) for link in status["links"] if link["offered_packets"] or link["from"] != link["to"]
    ]
    lines.append(
        f"  {status['released']:,} frames; {status['late']:,} more than 1 ms late, at most "
        f"{status['latest_us'] / 1000:g} ms late; {status['missed']:,} missed, {status['unsent']:,} not sent"
    )
    lines += [f"  note: {note}" for note in status["notes"]]
    return "\n".join(lines)


def _link_text(link: dict[str, Any]) -> str:
    shape = link["shape"]
    words = [f"{shape['delay_ns'] / 1e6:g} ms"]
    if shape["jitter_ns"]:
        words.append(f"± {shape['jitter_ns'] / 2e6:g} ms")
    if shape["rate_bit_s"]:
        words.append(f"{show_bit_rate(shape['rate_bit_s'])}, queue {units.show_size(shape['queue_bytes'])}")
    if shape["loss"]:
        words.append(f"loss {units.show_fraction(shape['loss'])}")
    if shape["down"]:
        words.append("CUT")
    traffic = (
        f"{link['passed_packets']:,} packets, {units.about_size(link['passed_bytes'])}; dropped: "
        f"{link['lost_packets']:,} lost, {link['full_packets']:,} queue full, {link['cut_packets']:,} cut"
    )
    return f"  {link['from']} > {link['to']}: {', '.join(words)}: {traffic}"


def _link(args: argparse.Namespace) -> int:
    testbed = testbeds.find(_testbed_name(args.name))
    shapes = {(link["from"], link["to"]): link["shape"] for link in testbed.status()["links"]}
    forward, backward = shapes.get((args.a, args.b)), shapes.get((args.b, args.a))
    if forward is None or backward is None or args.a == args.b:
        pairs = sorted({" ".join(sorted(pair)) for pair in shapes if pair[0] != pair[1]})
        raise BadInput(
            f"testbed {testbed.name} has no link between {args.a} and {args.b}; its links: {', '.join(pairs)}"
        )
    testbed.change(_changed(args, forward, backward))
    return int(ExitCode.PASSED)


def _changed(
    args: argparse.Namespace, forward: dict[str, Any], backward: dict[str, Any]
) -> tuple[DirectedLink, DirectedLink]:
    """Both directions with the values of the command line; the other values are unchanged."""

    def chosen(requested: Any, current: Any) -> Any:
        return current if requested is None else requested

    rtt = chosen(args.rtt, forward["delay_ns"] + backward["delay_ns"])
    asymmetry = chosen(args.asymmetry, forward["delay_ns"] - backward["delay_ns"])
    jitter = chosen(args.jitter, forward["jitter_ns"])
    if jitter > rtt - abs(asymmetry):
        raise BadInput(
            "the delay of one direction would be negative: jitter must be at most rtt - |asymmetry|"
        )
    queue = args.queue
    if queue is None and args.rate is None and args.rtt is None:
        queue = forward["queue_bytes"]
    link = Link(
        name=f"{args.a}-{args.b}",
        first=args.a,
        second=args.b,
        rtt_ns=rtt,
        jitter_ns=jitter,
        asymmetry_ns=asymmetry,
        forward_bit_s=chosen(args.rate, forward["rate_bit_s"]) or None,
        backward_bit_s=chosen(args.rate, backward["rate_bit_s"]) or None,
        loss=chosen(args.loss, forward["loss"]),
        queue_bytes=queue,
        down=chosen(args.down, forward["down"]),
    )
    return link.directions()
