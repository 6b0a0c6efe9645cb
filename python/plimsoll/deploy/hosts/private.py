"""Files that their owner alone may read: tokens, and what is handed in with them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from plimsoll.errors import BadInput


def private_directory(path: Path) -> Path:
    """Makes a directory, with its parents, into which nobody else can look. One that is there stays as it is: others
    may have business in it. Raises BadInput where it cannot be made, is somebody else's, or where others can change
    what lies in it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
        if found.st_uid != os.geteuid():
            raise BadInput(f"{path} belongs to another user: remove it, or use another directory")
        if found.st_mode & 0o022:
            raise BadInput(
                f"other users can write to {path}: run `chmod go-w` on it, or use another directory"
            )
    except OSError as error:
        raise BadInput(f"{path} cannot be created: {error.strerror}") from error
    return path


def write_private(path: Path, text: str, mode: int = 0o600) -> Path:
    """Writes a file anew, never readable by others, not even for a moment; a reader finds all of it or none. Raises
    BadInput."""
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
