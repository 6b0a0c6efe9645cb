"""What was found at a target, as an error, a warning, or nothing. Pure."""

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


def judged(seen: VisitResult, options: Options) -> Judgement | None:
    """None where the target answers as it should."""
    wanted, found = seen.wanted, seen.found
    if found is None:
        return None
    if isinstance(wanted, ProgramVisit):
        cause = found.cause if isinstance(found, Failure) else ""
        text = f"the program {wanted.program} cannot be started: {cause}; install it, or correct `command`"
        return _down(text, wanted.excuse)
    if isinstance(found, Failure):
        return _failed(wanted, found, options)
    remark = _remark(wanted, found, options)
    return None if remark is None else Judgement(False, remark)


def _down(text: str, excuse: str) -> Judgement:
    if excuse:
        return Judgement(False, f"{text} (the experiment continues: {excuse})")
    return Judgement(True, f"{text} (--no-probe starts anyway)")


def _failed(wanted: Visit, found: Failure, options: Options) -> Judgement:
    peer = wanted.shown
    if wanted.proxy is not None:
        peer += f" through the proxy {wanted.proxy.shown}"
    match found.kind:
        case "name":
            host = (wanted.proxy or wanted.address).host
            why = (
                f"the name {host} cannot be resolved ({found.cause}): check its spelling, or give the address"
            )
        case "connect":
            why = f"no connection: {found.cause}; check the address, and that the service runs"
        case "certificate":
            why = f"the certificate of the server is not trusted: {found.cause}; {options.trust}"
        case "handshake":
            why = f"the TLS handshake failed: {found.cause}; check that this port uses TLS"
        case "tls-pair":
            why = "the key of http.tls does not match the certificate: give the key of this certificate"
        case "tls-files":
            return Judgement(False, f"{peer}: the files of http.tls cannot be read: {found.cause}")
        case "proxy":
            return Judgement(False, f"{peer}: the proxy cannot connect: {found.cause}")
        case _:
            name = wanted.request.name if wanted.request else "the request"
            return Judgement(False, f"{peer}: {name} got no answer: {found.cause}")
    return _down(f"{peer}: {why}", wanted.excuse)


def _remark(wanted: Visit, found: Answer, options: Options) -> str | None:
    """What the user should know about an answer. A status that the file expects needs no word."""
    request = wanted.request
    if request is None or found.status in request.expected:
        return None
    status = f"{found.status} {found.reason}".strip()
    head = f"{wanted.shown}: {request.name} is answered with {status}"
    if 300 <= found.status < 400:
        place = f", Location: {_without_credentials(found.location)}" if found.location else ""
        what = "failure" if request.expected else "success"
        return f"{head}{place}. Redirects are not followed: this answer is measured and counts as a {what}"
    if found.status in (401, 403):
        return f"{head}. It counts as a failure: give credentials with {options.credentials}"
    if found.status == 429:
        return f"{head}. It counts as a failure: the service limits the rate of requests"
    if found.status >= 400 or request.expected:
        return f"{head}. It counts as a failure"
    if found.empty:
        return f"{head} and an empty body. It counts as a success: check that this is the URL to measure"
    return None


def _without_credentials(location: str) -> str:
    """A redirect often repeats the query, in which there may be a password."""
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
