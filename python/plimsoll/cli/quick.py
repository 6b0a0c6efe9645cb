"""`plimsoll URL -c 50 -z 30s -q 1000`: one URL, without an experiment file, in the letters of oha and hey."""

from __future__ import annotations

import argparse
import datetime
import io
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from plimsoll.cli.outcome import conclude
from plimsoll.cli.run import execute
from plimsoll.drive.directory import ResultsDirectory
from plimsoll.errors import BadInput
from plimsoll.plan import make_plan, parse_experiment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """oha's letters."""
    parser.usage = (
        "plimsoll URL [-c N] [-z TIME | -n N] [-q RATE] [-m METHOD] [-H 'Name: value'] [-d BODY] [--json]"
    )
    parser.add_argument("url", help="http:// or https://")
    parser.add_argument(
        "-c", type=int, default=50, metavar="N", help="connections; with -q: slots for them (50)"
    )
    parser.add_argument(
        "-n", type=int, metavar="N", help="number of requests (default: 200 where -z is not given)"
    )
    parser.add_argument("-z", metavar="TIME", help="duration, such as 30s")
    parser.add_argument(
        "-q",
        type=float,
        metavar="RATE",
        help="requests per second over all, whatever the target does (open load)",
    )
    parser.add_argument("-m", default="GET", metavar="METHOD", help="HTTP method (GET)")
    parser.add_argument(
        "-H", action="append", default=[], metavar="HEADER", help='"Name: value" (may be repeated)'
    )
    parser.add_argument("-d", metavar="BODY", help="request body")
    parser.add_argument("-t", default="20s", metavar="TIME", help="time-out of a request (20s)")
    parser.add_argument("--insecure", action="store_true", help="do not check the server's certificate")
    parser.add_argument("--disable-keepalive", action="store_true", help="a connection for every request")
    parser.add_argument("--json", action="store_true", help="the analysis as JSON")
    parser.add_argument(
        "--out", type=Path, metavar="PARENT", help="keep the results there (default: they are removed)"
    )


def main(args: argparse.Namespace) -> int:
    """Runs it as an experiment of one run."""
    stream = io.StringIO()
    YAML().dump(document(args), stream)
    experiment = parse_experiment(stream.getvalue(), "the command line", Path.cwd(), (), os.environ)
    plan = make_plan(experiment, secrets.randbits(32))
    now = datetime.datetime.now(datetime.UTC)
    if args.out is not None:
        return _run(plan, ResultsDirectory.create(args.out, experiment.name, now), args, kept=True)
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as parent:
        return _run(plan, ResultsDirectory.create(Path(parent), experiment.name, now), args, kept=False)


def _run(plan: Any, directory: ResultsDirectory, args: argparse.Namespace, *, kept: bool) -> int:
    outcome = execute(plan, directory, frozenset(), quiet=args.json, kept=kept)
    return conclude(outcome, quiet=False, as_json=args.json, files=kept)


def document(args: argparse.Namespace) -> dict[str, Any]:
    """The experiment file that these letters stand for."""
    if args.n is not None and args.z is not None:
        raise BadInput("give -n or -z, not both")
    http: dict[str, Any] = {"method": args.m}
    if args.H:
        http["headers"] = dict(_header(text) for text in args.H)
    if args.d is not None:
        http["body"] = args.d
    if args.disable_keepalive:
        http["connection"] = "per-request"
    if args.insecure:
        http["tls"] = {"verify": False}
    load: dict[str, Any] = {"testers": args.c, "think": "0s"}
    if args.q is not None:
        load = {"rate": f"{args.q:f}/s", "arrivals": "even", "in_flight": args.c}
    end: dict[str, Any] = (
        {"until": {"transactions": args.n or 200}} if args.z is None else {"duration": args.z}
    )
    return {
        "plimsoll": 1,
        "name": "quick",
        "question": f"How does {args.url} take {args.c} connections?",
        "workload": {"driver": "http", "target": args.url, "timeout": args.t, "http": http},
        "load": load,
        "run": {"warmup": "0s", **end},
    }


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise BadInput(f'-H {text!r}: a header is written "Name: value"')
    return name.strip(), value.strip()
