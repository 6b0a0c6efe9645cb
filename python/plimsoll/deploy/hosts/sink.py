"""A TCP server on this host that discards all data: the remote end of a network measurement."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Final

from plimsoll.errors import BadInput, Problem

PIECE: Final = 1 << 20
SILENCE_S: Final = 10.0
"""A connection without data is closed after this time."""
MAX_CONNECTIONS: Final = 256
"""The maximum number of connections at the same time."""


@contextlib.contextmanager
def sink(address: str, ports: tuple[int, int] | None) -> Iterator[str]:
    """Accepts connections at an address of this host inside the `with` block; yields "ADDRESS:PORT", in
    numbers. `ports`: the first and the last port that may be used. Raises BadInput if none of them is free,
    or if the address does not belong to this host."""
    listener = _listen(address, ports)
    listener.settimeout(0.2)
    over = threading.Event()
    places = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def drain(connection: socket.socket) -> None:
        buffer = bytearray(PIECE)
        with connection, contextlib.suppress(OSError):
            connection.settimeout(SILENCE_S)
            while not over.is_set() and connection.recv_into(buffer):
                pass
        places.release()

    def accept() -> None:
        while not over.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:  # no file descriptor is free: try again later
                over.wait(0.1)
                continue
            if places.acquire(blocking=False):
                threading.Thread(target=drain, args=(connection,), daemon=True).start()
            else:
                connection.close()

    worker = threading.Thread(target=accept, name="sink", daemon=True)
    worker.start()
    host, port = listener.getsockname()[:2]
    try:
        yield f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    finally:
        over.set()
        worker.join()
        listener.close()


def _listen(address: str, ports: tuple[int, int] | None) -> socket.socket:
    why = ""
    try:
        resolved = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise BadInput([Problem(f"{address}: {error.strerror}", "hosts.controller.address")]) from error
    for port in range(ports[0], ports[1] + 1) if ports else (0,):
        listener = socket.socket(resolved[0], socket.SOCK_STREAM)
        try:
            listener.bind((resolved[4][0], port))
            listener.listen(MAX_CONNECTIONS)
        except OSError as error:
            listener.close()
            why = error.strerror or str(error)
            continue
        return listener
    raise BadInput([Problem(f"cannot listen on {address}: {why}", "hosts.controller")])
