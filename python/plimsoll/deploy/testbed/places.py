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
"""The maximum length of the path of a Unix socket, in bytes."""
_TIMEOUT_S: Final = 15.0
_MAX_ANSWER: Final = 64 * 2**20


def testbeds_directory() -> Path:
    """The directory of this user's testbeds: below XDG_RUNTIME_DIR, or /tmp/plimsoll-UID if that is not set
    or does not exist, as after a logout. Only the user can enter it. Raises ServiceError if it is not
    private."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    parent = (
        Path(runtime) / "plimsoll"
        if runtime and Path(runtime).is_dir()
        else Path(f"/tmp/plimsoll-{os.getuid()}")
    )
    for directory in (parent, parent / "testbed"):
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        status = directory.lstat()
        # In /tmp, another user could have created it or a link with its name.
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise ServiceError(
                f"{directory} is not a private directory of this user: remove it, or set XDG_RUNTIME_DIR"
            )
    return parent / "testbed"


def testbed_directory(name: str) -> Path:
    """The directory of one testbed. Raises ServiceError if the path of its socket would be too long."""
    directory = testbeds_directory() / name
    if len(os.fsencode(directory / SOCKET)) > _MAX_SOCKET:
        raise ServiceError(
            f"the socket path {directory / SOCKET} is longer than {_MAX_SOCKET} bytes: set XDG_RUNTIME_DIR "
            f"to a shorter path"
        )
    return directory


@contextlib.contextmanager
def exclusive_start() -> Iterator[None]:
    """Within the `with` block, no other process starts a testbed. The lock is on the directory itself and
    leaves no file."""
    directory = os.open(testbeds_directory(), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def request(directory: Path, message: dict[str, Any]) -> dict[str, Any]:
    """Sends a message to a testbed and returns its answer. Raises ServiceError if there is no answer, or if
    it is an error."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_TIMEOUT_S)
        try:
            client.connect(os.fspath(directory / SOCKET))
            client.sendall(json.dumps(message).encode() + b"\n")
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


def is_answering(directory: Path) -> bool:
    """Whether a testbed listens in this directory."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_TIMEOUT_S)
        try:
            client.connect(os.fspath(directory / SOCKET))
        except OSError:
            return False
    return True
