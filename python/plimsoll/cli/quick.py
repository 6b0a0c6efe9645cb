"""`plimsoll URL -c 50 -z 30s -q 1000`: one URL, without an experiment file, with the options of oha and hey."""

from __future__ import annotations

import argparse
import base64
import datetime
import io
import os
import re
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from ruamel.yaml import YAML

from plimsoll.cli.outcome import conclude
from plimsoll.cli.run import execute
from plimsoll.drive.directory import ResultsDirectory
from plimsoll.drive.probe import IN_URL_MODE, probe
from plimsoll.errors import BadInput, Problem
from plimsoll.plan import make_plan, parse_experiment
from plimsoll.plan.source.expand import expand
from plimsoll.plan.source.secret import HIDDEN, MIN_LENGTH, carries_credentials

_SCHEME: Final = re.compile(r"(Basic|Bearer|Digest|DPoP|Negotiate|OAuth|Token) +(?=\S)", re.IGNORECASE)
"""Kinds of credential that a header names before the credential itself; they are no part of the secret."""


OPTIONS: Final = {
    "load.testers": "-c",
    "load.in_flight": "-c",
    "load.rate": "-q",
    "run.duration": "-z",
    "run.until.transactions": "-n",
    "workload.timeout": "-t",
    "workload.http.method": "-m",
    "workload.target": "URL",
}
"""Keys of the document that the options stand for -> option."""
ELSEWHERE: Final = {
    "-o": "--json prints the analysis as JSON, --out DIR keeps all of it (plimsoll export DIR --to csv)",
    "-T": "give the content type as a header: -H 'Content-Type: text/plain'",
    "-A": "give it as a header: -H 'Accept: text/html'",
    "-a": "give it as a header, -H 'Authorization: Basic ...', or in the URL: http://user:password@host/",
    "-D": 'give the body itself: -d "$(cat FILE)", or use an experiment file with http.body_file',
    "-x": "a proxy needs an experiment file: targets.NAME.proxies",
    "-h2": "HTTP/2 is not supported",
    "--http2": "HTTP/2 is not supported",
    "--no-tui": "there is nothing to switch off: when output is not a terminal, plain lines are printed",
}
"""Options of oha and hey that Plimsoll does not have -> what to use."""


def check_words(words: Sequence[str]) -> None:
    """Raises BadInput for options that other tools have and Plimsoll does not."""
    for word in words:
        name = word.partition("=")[0]
        if name in ELSEWHERE:
            raise BadInput(f"{name} is not an option: {ELSEWHERE[name]}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of oha."""
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
    parser.add_argument(
        "--no-probe", action="store_true", help="do not look at the target before the measurement"
    )
    parser.add_argument("--json", action="store_true", help="the analysis as JSON")
    parser.add_argument(
        "--out", type=Path, metavar="PARENT", help="keep the results there (default: they are removed)"
    )


def main(args: argparse.Namespace) -> int:
    """Runs it as an experiment of one run."""
    kept = StoredOptions(os.environ)
    stream = io.StringIO()
    YAML().dump(document(args, kept), stream)
    try:
        experiment = parse_experiment(stream.getvalue(), "the command line", Path.cwd(), (), kept.environ)
    except BadInput as error:
        raise BadInput([_of_option(problem) for problem in error.problems]) from None
    plan = make_plan(replace(experiment, instead=kept.instead), secrets.randbits(32))
    if not args.no_probe:
        probe([run.config for run in plan.runs], experiment.redactor, IN_URL_MODE)
    now = datetime.datetime.now(datetime.UTC)
    if args.out is not None:
        return _run(plan, ResultsDirectory.create(args.out, experiment.name, now), args, kept=True)
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as parent:
        return _run(plan, ResultsDirectory.create(Path(parent), experiment.name, now), args, kept=False)


def _of_option(problem: Problem) -> Problem:
    """A problem of the document that the options stand for, as one of the option."""
    option = OPTIONS.get(problem.path)
    return problem if option is None else replace(problem, path=option, file="", line=None)


def _run(plan: Any, directory: ResultsDirectory, args: argparse.Namespace, *, kept: bool) -> int:
    outcome = execute(plan, directory, frozenset(), quiet=args.json, kept=kept)
    return conclude(outcome, quiet=False, as_json=args.json, files=kept)


class StoredOptions:
    """What may be kept of the letters: what lets somebody in, and what is sent, goes by the environment.

    `environ`: the process's own, with the values for which the file has `${env:NAME}`; `instead`: words of the
    command line, and what is stored of them. So the file can be read by anybody, and carried out again by whoever
    sets these variables.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = dict(environ)
        self.instead: dict[str, str] = {}
        self._named: set[str] = set()

    def away(self, name: str, value: str) -> str:
        """The place that stands for the value."""
        found = expand({"value": value}, self.environ)
        if found.wrong:
            raise BadInput(f"{name}: {found.wrong[0][1]}")
        name = variable = "PLIMSOLL_" + re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")
        while variable in self._named:
            variable = f"{name}_{len(self._named)}"
        self._named.add(variable)
        self.environ[variable] = str(found.tree["value"])
        return f"${{env:{variable}}}"

    def secret(self, name: str, value: str) -> str | dict[str, str]:
        """The same for a value that must not turn up in any text either. One that is too short to be told from
        ordinary text is kept out of the files at least."""
        kind = found[0] if (found := _SCHEME.match(value)) else ""
        rest = value.removeprefix(kind)
        place = kind + self.away(name, rest)
        return {"secret": place} if len(rest) >= MIN_LENGTH else place

    def header(self, text: str) -> tuple[str, str | dict[str, str]]:
        """Name and value of `-H`."""
        name, colon, value = text.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not name:
            raise BadInput(f'-H {text!r}: a header is written "Name: value"')
        if not carries_credentials(name) or not value:
            return name, value
        self.instead[text] = f"{name}: {HIDDEN}"
        return name, self.secret(name, value)

    def url(self, text: str) -> tuple[str, str, dict[str, Any]]:
        """A URL as it may be shown, as a target, and the keys of `http` that hold the rest: a user with a password
        is sent as a header, a query that names a credential as a path."""
        try:
            parts = urlsplit(text)
        except ValueError:
            return text, text, {}  # whoever checks targets says what is wrong with it
        user, at, place = parts.netloc.rpartition("@")
        target, found = parts._replace(netloc=place, fragment=""), dict[str, Any]()
        shown = target
        if at:
            name, _, password = user.partition(":")
            told = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
            found["headers"] = {"Authorization": self.secret("Authorization", f"Basic {told}")}
        if any(carries_credentials(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
            found["path"] = self.secret("path", f"{parts.path or '/'}?{parts.query}")
            target = target._replace(path="", query="")
            shown = shown._replace(query=HIDDEN)
        if not found:
            return text, text, {}
        self.instead[text] = shown.geturl()
        return shown.geturl(), target.geturl(), found


def document(args: argparse.Namespace, kept: StoredOptions) -> dict[str, Any]:
    """The experiment file that these options stand for."""
    if args.n is not None and args.z is not None:
        raise BadInput("give -n or -z, not both")
    shown, target, beside = kept.url(args.url)
    headers = dict(kept.header(text) for text in args.H)
    if not any(name.lower() == "authorization" for name in headers):
        headers = {
            **beside.get("headers", {}),
            **headers,
        }  # what is said outright goes before what the URL says
    http: dict[str, Any] = {"method": args.m, **beside}
    if headers:
        http["headers"] = headers
    if args.d:
        http["body"] = kept.away("body", args.d)
        kept.instead[args.d] = HIDDEN
    if args.disable_keepalive:
        http["connection"] = "per-request"
    if args.insecure:
        http["tls"] = {"verify": False}
    workload: dict[str, Any] = {"driver": "http", "target": target, "timeout": args.t, "http": http}
    if args.z is None:
        workload["on_error"] = "continue"  # a count of requests to a dead port would take a second for each
    load: dict[str, Any] = {"testers": args.c, "think": "0s"}
    if args.q is not None:
        load = {"rate": f"{args.q:f}/s", "arrivals": "even", "in_flight": args.c}
    end: dict[str, Any] = (
        {"until": {"transactions": args.n or 200}} if args.z is None else {"duration": args.z}
    )
    return {
        "plimsoll": 1,
        "name": "quick",
        "question": f"{shown} under {args.c} connections",
        "workload": workload,
        "load": load,
        "run": {"warmup": "0s", **end},
    }
