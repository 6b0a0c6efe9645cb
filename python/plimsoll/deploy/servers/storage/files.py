"""Makes the files of a server on its host, with the account of the server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from plimsoll.deploy.process import Program
from plimsoll.deploy.programs import require
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site

BYTES_PER_S: Final = 20e6
"""The slowest disk to which files are written."""
FILE_S: Final = 0.1
"""The maximum time to start the programs that write a file."""
_SCRIPT: Final = """\
set -eu
directory=$1 count=$2 size=$3 key=$(printf %032x "$4") number=0 openssl=$5
while [ "$number" -lt "$count" ]; do
  "$openssl" enc -aes-128-ctr -K "$key" -iv "$(printf %016x%016x "$number" 0)" -in /dev/zero 2>/dev/null |
    head -c "$size" >"$directory/f$number"
  [ "$(wc -c <"$directory/f$number")" -eq "$size" ] || { echo "f$number is too short"; exit 1; }
  number=$((number + 1))
done
"""
"""AES in counter mode over zeros: bytes that follow from the seed and the number of the file, cannot be compressed, and
are made at 1 GB/s on every host. Rejected: a program of ours, which a host of services need not have."""


def require_openssl(running: RunningService) -> PurePath:
    """The path of openssl on the host of a service. Raises ServiceError."""
    return require(running.spec.name, "OpenSSL", ("openssl",), "openssl", running.host.programs)


def make_files(
    running: RunningService, site: Site, directory: PurePath, files: Mapping[str, Any] | None
) -> None:
    """Creates `directory` and writes the files f0, f1, ... to it. `files`: `FilesRaw` as plain data; None: no files.
    Raises ServiceError."""
    host = running.host
    host.make_directory(directory, 0o755, site.account)
    if files is None:
        return
    openssl = require_openssl(running)
    count, size = files["count"], files["size"]
    words: list[str | PurePath] = [
        "sh",
        "-c",
        _SCRIPT,
        "sh",
        directory,
        str(count),
        str(size),
        str(files["seed"]),
        openssl,
    ]
    host.run_to_end(
        Program(
            f"{running.spec.name} files",
            host.command_as(site.account, words, {"LC_ALL": "C"}),
            running.directory / "files.log",
        ),
        failure=f"service {running.spec.name}: the {count:,} files of {size:,} bytes could not be written",
        check_interrupt=site.check_interrupt,
        timeout_s=30 + count * FILE_S + count * size / BYTES_PER_S,
    )
