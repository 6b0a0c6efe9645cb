"""Visits targets: name lookup, TCP, TLS, one request. Everything that waits has a limit.

It uses the standard library, not the engine: what matters here is whether the target answers at all, and with what.
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

from plimsoll.drive.probe.wanted import Address, HttpRequest, ProgramVisit, Tls, Visit, Wanted

LIMIT_S: Final = 5.0
"""For everything at one endpoint."""
AT_ONCE: Final = 64
AUTHORITIES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where distributions keep the authorities of the web: those of the engine."""
Trouble = Literal[
    "name", "connect", "certificate", "handshake", "tls-files", "tls-pair", "proxy", "silent", "program"
]


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong. `cause`: in the words of the system."""

    kind: Trouble
    cause: str


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to the request. `empty`: its body, where one could be there."""

    status: int
    reason: str
    location: str
    empty: bool


Found = Failure | Answer | None
Addresses = Sequence[tuple[socket.AddressFamily, Any]]


@dataclass(frozen=True, slots=True)
class VisitResult:
    """What a visit has found; None: a connection, and no request was to be sent."""

    wanted: Wanted
    found: Found


def look(wanted: Sequence[Wanted]) -> list[VisitResult]:
    """Visits all of them, many at a time; the results are in their order."""
    found: list[VisitResult] = []
    for start in range(0, len(wanted), AT_ONCE):
        visitors = [_Visitor(one) for one in wanted[start : start + AT_ONCE]]
        for one in visitors:
            one.start()
        found += [VisitResult(one.wanted, one.result()) for one in visitors]
    return found


class _Visitor(threading.Thread):
    """A thread, as the lookup of a name has no time-out. It is left behind where that takes too long."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(daemon=True)
        self.wanted = wanted
        self._until = time.monotonic() + LIMIT_S
        self._found: list[Found] = []
        self._looked_up = False

    def run(self) -> None:
        if isinstance(self.wanted, ProgramVisit):
            self._found.append(_program(self.wanted))
            return
        addresses = _looked_up(self.wanted.proxy or self.wanted.address)
        self._looked_up = True
        if isinstance(addresses, Failure):
            self._found.append(addresses)
        else:
            self._found.append(_visit(self.wanted, addresses, self._until))

    def result(self) -> Found:
        """Waits for it, until its time is over."""
        self.join(max(0.0, self._until + 0.2 - time.monotonic()))
        if self._found:
            return self._found[0]
        # After the lookup every single wait has a limit: a target that lasts longer sends its answer byte by byte.
        return Failure("silent" if self._looked_up else "name", _words(TimeoutError()))


def _program(wanted: ProgramVisit) -> Failure | None:
    """The way of execvp: a word with a slash is a path, seen from the working directory of the program."""
    if "/" not in wanted.program:
        path = os.environ.get("PATH", os.defpath) if wanted.path is None else wanted.path
        if shutil.which(wanted.program, path=path) is not None:
            return None
        return Failure("program", "not found in PATH")
    place = Path(wanted.cwd or ".") / wanted.program
    if not place.exists():
        return Failure("program", "no such file")
    return None if os.access(place, os.X_OK) and place.is_file() else Failure("program", "not executable")


def _visit(wanted: Visit, addresses: Addresses, until: float) -> Found:
    connection = _connected(addresses, until)
    if isinstance(connection, Failure):
        return connection
    with connection:
        if wanted.tunnel and (refused := _through(connection, wanted.address, until)) is not None:
            return refused
        if wanted.tls is None:
            return None if wanted.request is None else _asked(connection, wanted.request, until)
        secured = _secured(connection, wanted.tls, wanted.address.host, until)
        if isinstance(secured, Failure):
            return secured
        with secured:
            return None if wanted.request is None else _asked(secured, wanted.request, until)


def _left(until: float) -> float:
    """What remains; never 0, which would mean not to wait at all."""
    return max(0.01, until - time.monotonic())


def _looked_up(peer: Address) -> Addresses | Failure:
    try:
        found = socket.getaddrinfo(peer.host, peer.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return Failure("name", _words(error))
    return [(family, address) for family, _, _, _, address in found]


def _connected(addresses: Addresses, until: float) -> socket.socket | Failure:
    """To the first address that accepts, as the drivers do."""
    last: OSError = OSError("the name has no address")
    for number, (family, address) in enumerate(addresses):
        connection: socket.socket | None = None
        try:
            connection = socket.socket(family, socket.SOCK_STREAM)
            connection.settimeout(_left(until) / (len(addresses) - number))
            connection.connect(address)
            return connection
        except OSError as error:
            if connection is not None:
                connection.close()
            last = error
    return Failure("connect", _words(last))


def _through(connection: socket.socket, address: Address, until: float) -> Failure | None:
    head = f"CONNECT {address.shown} HTTP/1.1\r\nHost: {address.shown}\r\n\r\n"
    connection.settimeout(_left(until))
    try:
        connection.sendall(head.encode("ascii", "replace"))
        answer = http.client.HTTPResponse(connection, method="CONNECT")
        answer.begin()
    except (OSError, http.client.HTTPException) as error:
        return Failure("proxy", _words(error))
    return None if answer.status // 100 == 2 else Failure("proxy", f"{answer.status} {answer.reason}")


def _context(tls: Tls) -> ssl.SSLContext:
    """Trusts what the driver trusts. Raises OSError where the files cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key, password="")  # a key with a password must not ask for it
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    # The engine takes every certificate of these files as an authority, also one that another has signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if tls.ca_file is not None:
        context.load_verify_locations(cafile=tls.ca_file)
    if tls.ca_dir is not None:
        for file in Path(tls.ca_dir).iterdir():
            try:
                context.load_verify_locations(cafile=str(file))
            except OSError:
                continue  # policies and lists of revoked certificates are there, too
    if tls.ca_file is None and tls.ca_dir is None:
        for name in AUTHORITIES:
            if Path(name).exists():
                context.load_verify_locations(cafile=name)
                break
    return context


def _secured(connection: socket.socket, tls: Tls, host: str, until: float) -> ssl.SSLSocket | Failure:
    try:
        context = _context(tls)
    except OSError as error:
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            return Failure("tls-pair", _words(error))
        return Failure("tls-files", _words(error))
    connection.settimeout(_left(until))
    try:
        return context.wrap_socket(connection, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        return Failure("certificate", error.verify_message.rstrip("."))
    except (OSError, ValueError) as error:
        return Failure("handshake", _words(error))


def _asked(connection: socket.socket, request: HttpRequest, until: float) -> Found:
    headers = list(request.headers)
    connection.settimeout(_left(until))
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
        return Failure("silent", _words(error))
    return Answer(answer.status, answer.reason, answer.getheader("Location") or "", empty)


def _one_line(text: str) -> str:
    return text.translate({10: " ", 13: " ", 0: " "})


def _escaped(target: str) -> str:
    """The bytes that would break the request line, as the driver escapes them."""
    return "".join(
        chr(byte) if 0x20 < byte < 0x7F else f"%{byte:02X}"
        for byte in target.encode("utf-8", "surrogateescape")
    )


def _words(error: Exception) -> str:
    """The system's words for an error, without its number."""
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
