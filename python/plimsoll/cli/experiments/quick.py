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

from plimsoll.cli.experiments.run import execute
from plimsoll.cli.results.outcome import conclude
from plimsoll.drive.directory import ResultsDirectory
from plimsoll.drive.probe import IN_URL_MODE, probe
from plimsoll.errors import BadInput, Problem
from plimsoll.plan import make_plan, parse_experiment
from plimsoll.plan.source.expand import expand
from plimsoll.plan.source.secret import HIDDEN, MIN_LENGTH, is_credential_name

_SCHEME: Final = re.compile(r"(Basic|Bearer|Digest|DPoP|Negotiate|OAuth|Token) +(?=\S)", re.IGNORECASE)
"""Authentication schemes, which precede the credential in a header and are not secret."""


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
"""Key of the experiment document -> option of the command line."""
ELSEWHERE: Final = {
    "-o": "--json prints the analysis as JSON; --out DIR keeps the results for plimsoll export DIR --to csv",
    "-T": "use a header: -H 'Content-Type: text/plain'",
    "-A": "use a header: -H 'Accept: text/html'",
    "-a": "use a header, -H 'Authorization: Basic ...', or the URL: http://user:password@host/",
    "-D": 'use -d "$(cat FILE)", or an experiment file with http.body_file',
    "-x": "a proxy needs an experiment file with targets.NAME.proxies",
    "-h2": "HTTP/2 is not supported",
    "--http2": "HTTP/2 is not supported",
    "--no-tui": "leave it out; Plimsoll prints plain lines when the output is not a terminal",
}
"""Options of oha and hey that Plimsoll does not have -> the alternative."""


def check_words(words: Sequence[str]) -> None:
    """Raises BadInput for options that other tools have and Plimsoll does not."""
    for word in words:
        name = word.partition("=")[0]
        if name in ELSEWHERE:
            raise BadInput(f"{name} is not an option: {ELSEWHERE[name]}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options, which have the names of those of oha."""
    parser.usage = (
        "plimsoll URL [-c N] [-z TIME | -n N] [-q RATE] [-m METHOD] [-H 'Name: value'] [-d BODY] [--json]"
    )
    parser.add_argument("url", help="URL to load: http://... or https://...")
    parser.add_argument(
        "-c",
        type=int,
        default=50,
        metavar="N",
        help="number of connections; with -q: their maximum number (default: 50)",
    )
    parser.add_argument("-n", type=int, metavar="N", help="number of requests (default without -z: 200)")
    parser.add_argument("-z", metavar="TIME", help="duration, such as 30s")
    parser.add_argument(
        "-q",
        type=float,
        metavar="RATE",
        help="total requests per second, independent of the response time (open load)",
    )
    add_request_arguments(parser)


def add_request_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of a request, and of the results."""
    parser.add_argument("-m", default="GET", metavar="METHOD", help="HTTP method (default: GET)")
    parser.add_argument(
        "-H", action="append", default=[], metavar="HEADER", help='"Name: value" (may be repeated)'
    )
    parser.add_argument("-d", metavar="BODY", help="request body")
    parser.add_argument("-t", default="20s", metavar="TIME", help="timeout of a request (default: 20s)")
    parser.add_argument("--insecure", action="store_true", help="do not verify the server's certificate")
    parser.add_argument(
        "--disable-keepalive", action="store_true", help="open a new connection for each request"
    )
    parser.add_argument(
        "--no-probe", action="store_true", help="do not test the target before the measurement"
    )
    parser.add_argument("--json", action="store_true", help="print the analysis as JSON")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="PARENT",
        help="keep the results in a new directory below PARENT (default: delete them)",
    )


def main(args: argparse.Namespace) -> int:
    """Runs an experiment of one run for the URL."""
    options = StoredOptions(os.environ)
    return run_document(document(args, options), options, args, OPTIONS)


def run_document(
    tree: Mapping[str, Any], options: StoredOptions, args: argparse.Namespace, names: Mapping[str, str]
) -> int:
    """Runs an experiment document. `names`: key of the document -> option of the command line."""
    stream = io.StringIO()
    YAML().dump(dict(tree), stream)
    try:
        experiment = parse_experiment(stream.getvalue(), "the command line", Path.cwd(), (), options.environ)
    except BadInput as error:
        raise BadInput([_of_option(problem, names) for problem in error.problems]) from None
    plan = make_plan(replace(experiment, instead=options.instead), secrets.randbits(32))
    if not args.no_probe:
        probe([run.config for run in plan.runs], experiment.redactor, IN_URL_MODE)
    now = datetime.datetime.now(datetime.UTC)
    if args.out is not None:
        return _run(plan, ResultsDirectory.create(args.out, experiment.name, now), args, kept=True)
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as parent:
        return _run(plan, ResultsDirectory.create(Path(parent), experiment.name, now), args, kept=False)


def _of_option(problem: Problem, names: Mapping[str, str]) -> Problem:
    """The problem with the name of the option in place of the key of the document."""
    option = names.get(problem.path)
    return problem if option is None else replace(problem, path=option, file="", line=None)


def _run(plan: Any, directory: ResultsDirectory, args: argparse.Namespace, *, kept: bool) -> int:
    outcome = execute(plan, directory, frozenset(), quiet=args.json, kept=kept)
    return conclude(outcome, quiet=False, as_json=args.json, files=kept)


class StoredOptions:
    """The options without their secrets. Credentials and the request body become variables of the environment.

    `environ`: the environment of the process, with the values for which the file has `${env:NAME}`; `instead`: word of
    the command line -> what is stored in its place. The file contains no secret; to run it again, set the variables.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = dict(environ)
        self.instead: dict[str, str] = {}
        self._named: set[str] = set()

    def store(self, name: str, value: str) -> str:
        """Stores the value as a variable and returns the placeholder for it."""
        expanded = expand({"value": value}, self.environ)
        if expanded.wrong:
            raise BadInput(f"{name}: {expanded.wrong[0][1]}")
        name = variable = "PLIMSOLL_" + re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")
        while variable in self._named:
            variable = f"{name}_{len(self._named)}"
        self._named.add(variable)
        self.environ[variable] = str(expanded.tree["value"])
        return f"${{env:{variable}}}"

    def store_secret(self, name: str, value: str) -> str | dict[str, str]:
        """Stores a value that must also be redacted in every text. A value that is too short to be distinguished from
        ordinary text is not redacted, but is also not in any file."""
        kind = match[0] if (match := _SCHEME.match(value)) else ""
        rest = value.removeprefix(kind)
        placeholder = kind + self.store(name, rest)
        return {"secret": placeholder} if len(rest) >= MIN_LENGTH else placeholder

    def parse_header(self, text: str) -> tuple[str, str | dict[str, str]]:
        """Name and value of `-H`."""
        name, colon, value = text.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not name:
            raise BadInput(f'-H {text!r}: expected a header of the form "Name: value"')
        if not is_credential_name(name) or not value:
            return name, value
        self.instead[text] = f"{name}: {HIDDEN}"
        return name, self.store_secret(name, value)

    def parse_url(self, text: str) -> tuple[str, str, dict[str, Any]]:
        """Returns the URL without secrets, the target, and keys of `http`. User and password become a header; a query
        that contains a credential becomes a path."""
        try:
            parts = urlsplit(text)
        except ValueError:
            return text, text, {}  # the check of the targets reports the error
        user, at, host = parts.netloc.rpartition("@")
        target, http = parts._replace(netloc=host, fragment=""), dict[str, Any]()
        shown = target
        if at:
            name, _, password = user.partition(":")
            login = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
            http["headers"] = {"Authorization": self.store_secret("Authorization", f"Basic {login}")}
        if any(is_credential_name(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
            http["path"] = self.store_secret("path", f"{parts.path or '/'}?{parts.query}")
            target = target._replace(path="", query="")
            shown = shown._replace(query=HIDDEN)
        if not http:
            return text, text, {}
        self.instead[text] = shown.geturl()
        return shown.geturl(), target.geturl(), http


def document(args: argparse.Namespace, options: StoredOptions) -> dict[str, Any]:
    """The experiment document for these options."""
    if args.n is not None and args.z is not None:
        raise BadInput("give -n or -z, not both")
    shown, target, url_keys = options.parse_url(args.url)
    headers = dict(options.parse_header(text) for text in args.H)
    if not any(name.lower() == "authorization" for name in headers):
        headers = {
            **url_keys.get("headers", {}),
            **headers,
        }  # -H has precedence over the URL
    http: dict[str, Any] = {"method": args.m, **url_keys}
    if headers:
        http["headers"] = headers
    if args.d:
        http["body"] = options.store("body", args.d)
        options.instead[args.d] = HIDDEN
    if args.disable_keepalive:
        http["connection"] = "per-request"
    if args.insecure:
        http["tls"] = {"verify": False}
    workload: dict[str, Any] = {"driver": "http", "target": target, "timeout": args.t, "http": http}
    if args.z is None:
        workload["on_error"] = "continue"  # otherwise each request of -n to a closed port takes a second
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
