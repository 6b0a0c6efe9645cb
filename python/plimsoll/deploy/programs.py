"""Finds the servers that are installed on this host, and names the package that installs a missing one."""

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
"""Environment: directories that are searched instead of PATH and the usual directories, for a server that a
user has built."""
USUAL = ("/usr/local/sbin", "/usr/sbin", "/usr/local/bin", "/usr/bin", "/sbin", "/bin")
"""Servers are in sbin directories, which the PATH of many users does not contain."""
POSTGRES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
"""The directories in which Debian and Red Hat install several versions."""


def search_directories() -> list[str]:
    """The directories in which programs are searched, in order."""
    override = os.environ.get(VARIABLE)
    if override is not None:
        return [part for part in override.split(os.pathsep) if part]
    return [*(part for part in os.environ.get("PATH", "").split(os.pathsep) if part), *USUAL]


def find(names: Sequence[str]) -> Path | None:
    """The path of the first of these names that is installed, or None."""
    search_path = os.pathsep.join(search_directories())
    for name in names:
        path = shutil.which(name, path=search_path)
        if path:
            return Path(path)
    return None


def require(service: str, program: str, names: Sequence[str], package: str) -> Path:
    """The path of the first of these names that is installed. Raises ServiceError with the Debian package to
    install."""
    path = find(names)
    if path is None:
        raise not_installed(service, program, package)
    return path


def not_installed(service: str, program: str, package: str) -> ServiceError:
    """The error for a server that is not installed."""
    searched = f" (searched in {VARIABLE}={os.environ[VARIABLE]!r})" if VARIABLE in os.environ else ""
    return ServiceError(f"service {service}: {program} was not found{searched}: apt-get install {package}")


def require_package(service: str, module: str, distribution: str) -> None:
    """Raises ServiceError if the Python package that connects to a server is missing. It is called before the
    server starts."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ServiceError(
            f"service {service}: the Python package {module} is missing ({error}): pip install '{distribution}'"
        ) from error


def postgres_directory(service: str, version: str) -> Path:
    """The directory of `postgres` and `initdb`, of the major version `version`; "auto": the newest. Raises
    ServiceError."""
    directories = _postgres_installed()
    versions = (
        sorted(directories)
        if version == "auto"
        else [installed for installed in directories if str(installed) == version]
    )
    if versions:
        return directories[versions[-1]]
    if directories and version != "auto":
        present = ", ".join(str(installed) for installed in sorted(directories))
        raise ServiceError(
            f"service {service}: no PostgreSQL {version} server was found, only {present}: "
            f"apt-get install postgresql-{version}"
        )
    raise not_installed(
        service, "PostgreSQL server", "postgresql" + ("" if version == "auto" else f"-{version}")
    )


def _postgres_installed() -> dict[int, Path]:
    directories = [Path(directory) for directory in search_directories()]
    if VARIABLE not in os.environ:
        directories += [path for pattern in POSTGRES for path in sorted(Path("/").glob(pattern[1:]))]
    by_version: dict[int, Path] = {}
    for directory in directories:
        server = directory / "postgres"
        if os.access(server, os.X_OK) and (server.resolve().parent / "initdb").exists():
            major = re.search(r"\) (\d+)", version_of([server, "--version"]))
            if major:
                by_version.setdefault(int(major[1]), server.resolve().parent)
    return by_version


def version_of(command: Sequence[str | Path]) -> str:
    """The version that a program prints on stdout or stderr; empty if it prints nothing."""
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.decode("utf-8", "replace").strip()


def version_number(text: str) -> str:
    """The first version number in the output of a program; empty if there is none."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    return match[0] if match else ""
