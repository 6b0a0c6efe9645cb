"""Visits targets: name lookup, TCP, TLS, one request. Every wait has a limit.

It uses the standard library instead of the engine: it only has to determine whether the target answers, and
with what.
"""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from plimsoll.drive.probe.wanted import Address, AnyVisit, HttpRequest, ProgramVisit, Tls, Visit

LIMIT_S: Final = 5.0
"""The time for one endpoint."""
MAX_PARALLEL: Final = 64
AUTHORITIES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""The files in which distributions store public certificate authorities. The engine uses the same."""
Trouble = Literal[
    "name", "connect", "certificate", "handshake", "tls-files", "tls-pair", "proxy", "silent", "program"
]


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed visit. `cause`: the text of the system."""

    kind: Trouble
    cause: str


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to the request. `empty`: whether its body is empty, if it may have one."""

    status: int
    reason: str
    location: str
    empty: bool


VisitOutcome = Failure | Answer | None
Addresses = Sequence[tuple[socket.AddressFamily, Any]]


@dataclass(frozen=True, slots=True)
class VisitResult:
    """The outcome of a visit. None: it was connected, and there was no request to send."""

    visit: AnyVisit
    outcome: VisitOutcome


def visit_all(visits: Sequence[AnyVisit]) -> list[VisitResult]:
    """Visits all targets, many at a time. The results are in their order."""
    results: list[VisitResult] = []
    for start in range(0, len(visits), MAX_PARALLEL):
        visitors = [_Visitor(visit) for visit in visits[start : start + MAX_PARALLEL]]
        for visitor in visitors:
            visitor.start()
        results += [VisitResult(visitor.visit, visitor.result()) for visitor in visitors]
    return results


class _Visitor(threading.Thread):
    """A thread, as name lookup has no timeout. It is abandoned if the lookup takes too long."""

    def __init__(self, visit: AnyVisit) -> None:
        super().__init__(daemon=True)
        self.visit = visit
        self._deadline = time.monotonic() + LIMIT_S
        self._found: list[VisitOutcome] = []
        self._looked_up = False

    def run(self) -> None:
        if isinstance(self.visit, ProgramVisit):
            self._found.append(_check_program(self.visit))
            return
        addresses = _look_up(self.visit.proxy or self.visit.address)
        self._looked_up = True
        if isinstance(addresses, Failure):
            self._found.append(addresses)
        else:
            self._found.append(_visit(self.visit, addresses, self._deadline))

    def result(self) -> VisitOutcome:
        """Waits for the outcome, at most until its deadline."""
        self.join(max(0.0, self._deadline + 0.2 - time.monotonic()))
        if self._found:
            return self._found[0]
        # After the lookup every single wait has a limit, so only a target that answers byte by byte takes longer.
        return Failure("silent" if self._looked_up else "name", _error_text(TimeoutError()))


def _check_program(visit: ProgramVisit) -> Failure | None:
    """Searches the program as execvp does: a word with a slash is a path, relative to the working directory
    of the program."""
    if "/" not in visit.program:
        path = os.environ.get("PATH", os.defpath) if visit.path is None else visit.path
        if shutil.which(visit.program, path=path) is not None:
            return None
        return Failure("program", "not found in PATH")
    program = Path(visit.cwd or ".") / visit.program
    if not program.exists():
        return Failure("program", "no such file")
    return None if os.access(program, os.X_OK) and program.is_file() else Failure("program", "not executable")


def _visit(visit: Visit, addresses: Addresses, until: float) -> VisitOutcome:
    connection = _connect(addresses, until)
    if isinstance(connection, Failure):
        return connection
    with connection:
        if visit.is_tunnel and (refused := _open_tunnel(connection, visit.address, until)) is not None:
            return refused
        if visit.tls is None:
            return None if visit.request is None else _send_request(connection, visit.request, until)
        secured = _start_tls(connection, visit.tls, visit.address.host, until)
        if isinstance(secured, Failure):
            return secured
        with secured:
            return None if visit.request is None else _send_request(secured, visit.request, until)


def _remaining(until: float) -> float:
    """The remaining time in s; never 0, since a socket with a timeout of 0 does not wait."""
    return max(0.01, until - time.monotonic())


def _look_up(peer: Address) -> Addresses | Failure:
    try:
        entries = socket.getaddrinfo(peer.host, peer.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return Failure("name", _error_text(error))
    return [(family, address) for family, _, _, _, address in entries]


def _connect(addresses: Addresses, until: float) -> socket.socket | Failure:
    """Connects to the first address that accepts, as the drivers do."""
    last: OSError = OSError("the name has no address")
    for number, (family, address) in enumerate(addresses):
        connection: socket.socket | None = None
        try:
            connection = socket.socket(family, socket.SOCK_STREAM)
            connection.settimeout(_remaining(until) / (len(addresses) - number))
            connection.connect(address)
            return connection
        except OSError as error:
            if connection is not None:
                connection.close()
            last = error
    return Failure("connect", _error_text(last))


def _open_tunnel(connection: socket.socket, address: Address, until: float) -> Failure | None:
    head = f"CONNECT {address.shown} HTTP/1.1\r\nHost: {address.shown}\r\n\r\n"
    connection.settimeout(_remaining(until))
    try:
        connection.sendall(head.encode("ascii", "replace"))
        answer = http.client.HTTPResponse(connection, method="CONNECT")
        answer.begin()
    except (OSError, http.client.HTTPException) as error:
        return Failure("proxy", _error_text(error))
    return None if answer.status // 100 == 2 else Failure("proxy", f"{answer.status} {answer.reason}")


def _context(tls: Tls) -> ssl.SSLContext:
    """A context that trusts the same certificates as the driver. Raises OSError if the files cannot be
    used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key, password="")  # a key with a password must not ask for it
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    # The engine accepts every certificate of these files as an authority, also one that another authority signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if tls.ca_file is not None:
        context.load_verify_locations(cafile=tls.ca_file)
    if tls.ca_dir is not None:
        for file in Path(tls.ca_dir).iterdir():
            try:
                context.load_verify_locations(cafile=str(file))
            except OSError:
                continue  # the directory may also contain policies and lists of revoked certificates
    if tls.ca_file is None and tls.ca_dir is None:
        for name in AUTHORITIES:
            if Path(name).exists():
                context.load_verify_locations(cafile=name)
                break
    return context


def _start_tls(connection: socket.socket, tls: Tls, host: str, until: float) -> ssl.SSLSocket | Failure:
    try:
        context = _context(tls)
    except OSError as error:
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            return Failure("tls-pair", _error_text(error))
        return Failure("tls-files", _error_text(error))
    connection.settimeout(_remaining(until))
    try:
        return context.wrap_socket(connection, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        return Failure("certificate", error.verify_message.rstrip("."))
    except (OSError, ValueError) as error:
        return Failure("handshake", _error_text(error))


def _send_request(connection: socket.socket, request: HttpRequest, until: float) -> VisitOutcome:
    headers = list(request.headers)
    connection.settimeout(_remaining(until))
    try:
        if request.token_file is not None:
            token = Path(request.token_file).read_text(encoding="utf-8").strip()
            headers.append(("Authorization", f"Bearer {token}"))
        lines = [f"{name}: {_one_line(text)}\r\n" for name, text in headers]
        head = f"{request.method} {_escaped(request.target)} HTTP/1.1\r\n{''.join(lines)}\r\n"
        connection.sendall(head.encode())
        answer = http.client.HTTPResponse(connection, method=request.method)
        answer.begin()
        has_body = answer.status // 100 == 2 and request.method != "HEAD"
        empty = has_body and not answer.read(1)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return Failure("silent", _error_text(error))
    return Answer(answer.status, answer.reason, answer.getheader("Location") or "", empty)


def _one_line(text: str) -> str:
    return text.translate({10: " ", 13: " ", 0: " "})


def _escaped(target: str) -> str:
    """Escapes bytes that would break the request line, as the driver does."""
    return "".join(
        chr(byte) if 0x20 < byte < 0x7F else f"%{byte:02X}"
        for byte in target.encode("utf-8", "surrogateescape")
    )


def _error_text(error: Exception) -> str:
    """The system's text for an error, without its number."""
    if isinstance(error, TimeoutError):
        return f"no answer within {LIMIT_S:g} s"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    if isinstance(error, http.client.RemoteDisconnected):
        return "the connection was closed without an answer"
    if isinstance(error, http.client.HTTPException):
        return "the answer is not HTTP"
    text = error.strerror if isinstance(error, OSError) else None
    return text or str(error) or type(error).__name__
