"""Where the servers of this host are, and which package brings one that is missing."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from plimsoll.errors import ServiceError

VARIABLE = "PLIMSOLL_PROGRAMS"
"""Directories to look into instead of those of PATH and the usual ones, for a server that was built by hand."""
USUAL = ("/usr/local/sbin", "/usr/sbin", "/usr/local/bin", "/usr/bin", "/sbin", "/bin")
"""Servers are below sbin, which is not in everybody's PATH."""
POSTGRES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
"""Where Debian and Red Hat keep several versions side by side."""


def places() -> list[str]:
    """Directories in which a program is looked for, in order."""
    told = os.environ.get(VARIABLE)
    if told is not None:
        return [part for part in told.split(os.pathsep) if part]
    return [*(part for part in os.environ.get("PATH", "").split(os.pathsep) if part), *USUAL]


def find(names: Sequence[str]) -> Path | None:
    """The first of several names for a program."""
    where = os.pathsep.join(places())
    for name in names:
        found = shutil.which(name, path=where)
        if found:
            return Path(found)
    return None


def require(service: str, what: str, names: Sequence[str], package: str) -> Path:
    """The same; raises ServiceError with the Debian package to install."""
    found = find(names)
    if found is None:
        raise missing(service, what, package)
    return found


def missing(service: str, what: str, package: str) -> ServiceError:
    """The error for a server that is not installed."""
    looked = f" (searched in {VARIABLE}={os.environ[VARIABLE]!r})" if VARIABLE in os.environ else ""
    return ServiceError(f"service {service}: {what} was not found{looked}: apt-get install {package}")


def require_package(service: str, module: str, distribution: str) -> None:
    """Raises ServiceError where a Python package that speaks to a server is not there, before the server is started."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ServiceError(
            f"service {service}: the Python package {module} is missing ({error}): pip install '{distribution}'"
        ) from error


def postgres_directory(service: str, version: str) -> Path:
    """The directory of `postgres` and `initdb`, of a major version or the newest. Raises ServiceError."""
    found = _postgres_installed()
    wanted = sorted(found) if version == "auto" else [one for one in found if str(one) == version]
    if wanted:
        return found[wanted[-1]]
    if found and version != "auto":
        have = ", ".join(str(one) for one in sorted(found))
        raise ServiceError(
            f"service {service}: no PostgreSQL {version} server was found, only {have}: "
            f"apt-get install postgresql-{version}"
        )
    raise missing(service, "PostgreSQL server", "postgresql" + ("" if version == "auto" else f"-{version}"))


def _postgres_installed() -> dict[int, Path]:
    directories = [Path(place) for place in places()]
    if VARIABLE not in os.environ:
        directories += [path for pattern in POSTGRES for path in sorted(Path("/").glob(pattern[1:]))]
    found: dict[int, Path] = {}
    for directory in directories:
        server = directory / "postgres"
        if os.access(server, os.X_OK) and (server.resolve().parent / "initdb").exists():
            major = re.search(r"\) (\d+)", version_of([server, "--version"]))
            if major:
                found.setdefault(int(major[1]), server.resolve().parent)
    return found


def version_of(command: Sequence[str | Path]) -> str:
    """The version that a program prints, on stdout or stderr; empty if it prints nothing."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()


def version_number(text: str) -> str:
    """The first thing that looks like a version in what a program says."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return found[0] if found else ""
