"""Files that only their owner can read: tokens, and what is submitted together with them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from plimsoll.errors import BadInput


def private_directory(path: Path) -> Path:
    """Creates a directory, with its parents, that only its owner can read. An existing one is not
    changed, since other programs may use it. Raises BadInput if it cannot be created, belongs to
    another user, or if other users can write to it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
        if status.st_uid != os.geteuid():
            raise BadInput(f"{path} belongs to another user: remove it, or use another directory")
        if status.st_mode & 0o022:
            raise BadInput(
                f"other users can write to {path}: run `chmod go-w` on it, or use another directory"
            )
    except OSError as error:
        raise BadInput(f"{path} cannot be created: {error.strerror}") from error
    return path


def write_private(path: Path, text: str, mode: int = 0o600) -> Path:
    """Replaces a file. It is never readable by others, and a reader finds either all of it or none.
    Raises BadInput."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
        with os.fdopen(
            os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8"
        ) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
    return path
