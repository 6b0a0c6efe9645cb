"""The directories of the testbeds of this user, and requests to a testbed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from plimsoll.errors import ServiceError

SOCKET: Final = "control"
_MAX_SOCKET: Final = 107
"""Bytes of a path that a Unix socket can have."""
_TIMEOUT_S: Final = 15.0
_MAX_ANSWER: Final = 64 * 2**20


def base() -> Path:
    """The directory of this user's testbeds: below XDG_RUNTIME_DIR, or /tmp/plimsoll-UID where that is not set, or does
    not exist, as after a logout. Only the user can enter it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    place = (
        Path(runtime) / "plimsoll"
        if runtime and Path(runtime).is_dir()
        else Path(f"/tmp/plimsoll-{os.getuid()}")
    )
    for directory in (place, place / "testbed"):
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        found = directory.lstat()
        # In /tmp anybody could have made it first, or put a link there.
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise ServiceError(
                f"{directory} is not a private directory of this user: remove it, or set XDG_RUNTIME_DIR"
            )
    return place / "testbed"


def place(name: str) -> Path:
    """The directory of one testbed. Raises ServiceError where its socket's path would be too long."""
    directory = base() / name
    if len(os.fsencode(directory / SOCKET)) > _MAX_SOCKET:
        raise ServiceError(
            f"the socket path {directory / SOCKET} is longer than {_MAX_SOCKET} bytes: set XDG_RUNTIME_DIR "
            f"to a shorter path"
        )
    return directory


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One at a time brings a testbed up. The lock is on the directory itself and leaves no file."""
    directory = os.open(base(), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def ask(directory: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Sends a request to a testbed and returns its answer. Raises ServiceError if there is no
    answer, or if it is an error."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_TIMEOUT_S)
        try:
            client.connect(os.fspath(directory / SOCKET))
            client.sendall(json.dumps(request).encode() + b"\n")
            text = b""
            while len(text) < _MAX_ANSWER and (part := client.recv(1 << 16)):
                text += part
        except OSError as error:
            raise ServiceError(
                f"the testbed {directory.name} does not answer ({error.strerror or error}): it was killed or hangs"
            ) from error
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise ServiceError(f"the testbed {directory.name} returned an answer that is not JSON") from error
    if not isinstance(answer, dict) or "error" in answer:
        raise ServiceError(
            f"the testbed {directory.name}: {answer.get('error') if isinstance(answer, dict) else answer}"
        )
    return answer


def answers(directory: Path) -> bool:
    """Whether a testbed listens there."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_TIMEOUT_S)
        try:
            client.connect(os.fspath(directory / SOCKET))
        except OSError:
            return False
    return True
