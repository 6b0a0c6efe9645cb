"""Derives an error, a warning, or nothing from the outcome of a visit. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from plimsoll.drive.probe.visit import Answer, Failure, VisitResult
from plimsoll.drive.probe.wanted import ProgramVisit, Visit
from plimsoll.plan.source.secret import HIDDEN, is_credential_name


@dataclass(frozen=True, slots=True)
class Options:
    """The options with which the user can resolve a problem. Their names differ between an
    experiment file and the command line."""

    trust: str
    credentials: str


IN_FILE: Final = Options(
    "give its certificate authority with http.tls.ca_file or http.tls.ca_dir, or http.tls.verify: false to "
    "accept any certificate",
    "http.headers or http.token_file",
)
IN_URL_MODE: Final = Options("give --insecure to accept any certificate", "-H")


@dataclass(frozen=True, slots=True)
class Judgement:
    """A line for the user. `fatal`: the experiment does not start."""

    fatal: bool
    text: str


def judge_visit(result: VisitResult, options: Options) -> Judgement | None:
    """None if the target answers as expected."""
    visit, outcome = result.visit, result.outcome
    if outcome is None:
        return None
    if isinstance(visit, ProgramVisit):
        cause = outcome.cause if isinstance(outcome, Failure) else ""
        text = f"the program {visit.program} cannot be started: {cause}; install it, or correct `command`"
        return _unreachable(text, visit.excuse)
    if isinstance(outcome, Failure):
        return _judge_failure(visit, outcome, options)
    remark = _remark(visit, outcome, options)
    return None if remark is None else Judgement(False, remark)


def _unreachable(text: str, excuse: str) -> Judgement:
    if excuse:
        return Judgement(False, f"{text} (the experiment continues: {excuse})")
    return Judgement(True, f"{text} (--no-probe starts anyway)")


def _judge_failure(visit: Visit, failure: Failure, options: Options) -> Judgement:
    peer = visit.shown
    if visit.proxy is not None:
        peer += f" through the proxy {visit.proxy.shown}"
    match failure.kind:
        case "name":
            host = (visit.proxy or visit.address).host
            why = f"the name {host} cannot be resolved ({failure.cause}): check its spelling, or give the address"
        case "connect":
            why = f"no connection: {failure.cause}; check the address, and that the service runs"
        case "certificate":
            why = f"the certificate of the server is not trusted: {failure.cause}; {options.trust}"
        case "handshake":
            why = f"the TLS handshake failed: {failure.cause}; check that this port uses TLS"
        case "tls-pair":
            why = "the key of http.tls does not match the certificate: give the key of this certificate"
        case "tls-files":
            return Judgement(False, f"{peer}: the files of http.tls cannot be read: {failure.cause}")
        case "proxy":
            return Judgement(False, f"{peer}: the proxy cannot connect: {failure.cause}")
        case _:
            name = visit.request.name if visit.request else "the request"
            return Judgement(False, f"{peer}: {name} got no answer: {failure.cause}")
    return _unreachable(f"{peer}: {why}", visit.excuse)


def _remark(visit: Visit, answer: Answer, options: Options) -> str | None:
    """The text for an answer that the user should know; None for a status that the file expects."""
    request = visit.request
    if request is None or answer.status in request.expected:
        return None
    status = f"{answer.status} {answer.reason}".strip()
    head = f"{visit.shown}: {request.name} is answered with {status}"
    if 300 <= answer.status < 400:
        location = f", Location: {_without_credentials(answer.location)}" if answer.location else ""
        counted_as = "failure" if request.expected else "success"
        return f"{head}{location}. Redirects are not followed: this answer is measured and counts as a {counted_as}"
    if answer.status in (401, 403):
        return f"{head}. It counts as a failure: give credentials with {options.credentials}"
    if answer.status == 429:
        return f"{head}. It counts as a failure: the service limits the rate of requests"
    if answer.status >= 400 or request.expected:
        return f"{head}. It counts as a failure"
    if answer.empty:
        return f"{head} and an empty body. It counts as a success: check that this is the URL to measure"
    return None


def _without_credentials(location: str) -> str:
    """The location without credentials. A redirect often repeats the query, which may contain a password."""
    try:
        url = urlsplit(location)
        pairs = parse_qsl(url.query, keep_blank_values=True)
    except ValueError:
        return HIDDEN
    if "@" in url.netloc:
        url = url._replace(netloc=f"{HIDDEN}@{url.netloc.rpartition('@')[2]}")
    if any(is_credential_name(name) for name, _ in pairs):
        url = url._replace(query=HIDDEN)
    return url.geturl()
