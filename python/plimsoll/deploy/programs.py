"""Finds the servers that are installed on a host, and names the package that installs a missing one."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final

from plimsoll.errors import ServiceError

VARIABLE = "PLIMSOLL_PROGRAMS"
"""Environment: directories that are searched instead of PATH and the usual directories, for a server that a
user has built."""
USUAL = ("/usr/local/sbin", "/usr/sbin", "/usr/local/bin", "/usr/bin", "/sbin", "/bin")
"""Servers are in sbin directories, which the PATH of many users does not contain."""
POSTGRES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
"""The directories in which Debian and Red Hat install several versions."""
VERSION_S = 20.0
"""The time that a program may take to print its version."""


class ProgramSearch(ABC):
    """The programs of a host. `host`: its name; empty for this host."""

    host = ""

    @property
    @abstractmethod
    def override(self) -> str | None:
        """The value of PLIMSOLL_PROGRAMS there; None if it is not set."""

    @property
    @abstractmethod
    def path(self) -> str:
        """The value of PATH there."""

    @abstractmethod
    def are_programs(self, paths: Sequence[PurePath]) -> list[bool]:
        """Whether each of these paths is an executable file."""

    @abstractmethod
    def matching(self, pattern: str) -> list[PurePath]:
        """The existing paths that match a pattern with `*` in one of its parts, sorted."""

    @abstractmethod
    def resolve(self, path: PurePath) -> PurePath:
        """The path without symbolic links."""

    @abstractmethod
    def output(
        self, command: Sequence[str | PurePath], timeout_s: float = VERSION_S
    ) -> tuple[int | None, str]:
        """Exit status and output (stdout and stderr) of a program. The status is None if the program does not
        start or does not end within the timeout."""

    def directories(self) -> list[str]:
        """The directories in which programs are searched, in order."""
        if self.override is not None:
            return [part for part in self.override.split(os.pathsep) if part]
        return [*(part for part in self.path.split(os.pathsep) if part), *USUAL]


class LocalPrograms(ProgramSearch):
    """The programs of this host."""

    @property
    def override(self) -> str | None:
        """See `ProgramSearch`."""
        return os.environ.get(VARIABLE)

    @property
    def path(self) -> str:
        """See `ProgramSearch`."""
        return os.environ.get("PATH", "")

    def are_programs(self, paths: Sequence[PurePath]) -> list[bool]:
        """See `ProgramSearch`."""
        return [Path(path).is_file() and os.access(path, os.X_OK) for path in paths]

    def matching(self, pattern: str) -> list[PurePath]:
        """See `ProgramSearch`."""
        return sorted(Path("/").glob(pattern[1:]))

    def resolve(self, path: PurePath) -> PurePath:
        """See `ProgramSearch`."""
        return Path(path).resolve()

    def output(
        self, command: Sequence[str | PurePath], timeout_s: float = VERSION_S
    ) -> tuple[int | None, str]:
        """See `ProgramSearch`."""
        try:
            result = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None, ""
        return result.returncode, result.stdout.decode("utf-8", "replace")


HERE: Final = LocalPrograms()


def find(names: Sequence[str]) -> Path | None:
    """The path of the first of these names that is installed on this host, or None."""
    path = find_on(HERE, names)
    return None if path is None else Path(path)


def find_on(search: ProgramSearch, names: Sequence[str]) -> PurePath | None:
    """The path of the first of these names that is installed on a host, or None."""
    candidates = [PurePath(directory) / name for name in names for directory in search.directories()]
    for path, is_program in zip(candidates, search.are_programs(candidates), strict=True):
        if is_program:
            return path
    return None


def require(
    service: str, program: str, names: Sequence[str], package: str, search: ProgramSearch = HERE
) -> PurePath:
    """The path of the first of these names that is installed. Raises ServiceError with the Debian package to
    install."""
    path = find_on(search, names)
    if path is None:
        raise not_installed(service, program, package, search)
    return path


def not_installed(service: str, program: str, package: str, search: ProgramSearch = HERE) -> ServiceError:
    """The error for a server that is not installed."""
    return ServiceError(f"service {service}: {missing_text(program, package, search)}")


def missing_text(program: str, package: str, search: ProgramSearch = HERE) -> str:
    """A text that names a missing program, its host, and the Debian package that installs it."""
    place = f" on {search.host}" if search.host else ""
    searched = f" (searched in {VARIABLE}={search.override!r})" if search.override is not None else ""
    return f"{program} was not found{place}{searched}: apt-get install {package}"


def require_package(service: str, module: str, distribution: str) -> None:
    """Raises ServiceError if the Python package that connects to a server is missing. It is called before the
    server starts."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ServiceError(
            f"service {service}: the Python package {module} is missing ({error}): pip install '{distribution}'"
        ) from error


def postgres_directory(service: str, version: str, search: ProgramSearch = HERE) -> PurePath:
    """The directory of `postgres` and `initdb`, of the major version `version`; "auto": the newest. Raises
    ServiceError."""
    directories = _postgres_installed(search)
    versions = (
        sorted(directories)
        if version == "auto"
        else [installed for installed in directories if str(installed) == version]
    )
    if versions:
        return directories[versions[-1]]
    if directories and version != "auto":
        present = ", ".join(str(installed) for installed in sorted(directories))
        place = f" on {search.host}" if search.host else ""
        raise ServiceError(
            f"service {service}: no PostgreSQL {version} server was found{place}, only {present}: "
            f"apt-get install postgresql-{version}"
        )
    package = "postgresql" + ("" if version == "auto" else f"-{version}")
    raise not_installed(service, "PostgreSQL server", package, search)


def _postgres_installed(search: ProgramSearch) -> dict[int, PurePath]:
    directories = [PurePath(directory) for directory in search.directories()]
    if search.override is None:
        directories += [path for pattern in POSTGRES for path in search.matching(pattern)]
    servers = [directory / "postgres" for directory in directories]
    installed = zip(servers, search.are_programs(servers), strict=True)
    resolved = dict.fromkeys(search.resolve(server).parent for server, is_program in installed if is_program)
    by_version: dict[int, PurePath] = {}
    has_initdb = search.are_programs([directory / "initdb" for directory in resolved])
    for directory, is_complete in zip(resolved, has_initdb, strict=True):
        if is_complete:
            major = re.search(r"\) (\d+)", version_of([directory / "postgres", "--version"], search))
            if major:
                by_version.setdefault(int(major[1]), directory)
    return by_version


def version_of(command: Sequence[str | PurePath], search: ProgramSearch = HERE) -> str:
    """The version that a program prints on stdout or stderr; empty if it prints nothing."""
    return search.output(command)[1].strip()


def version_number(text: str) -> str:
    """The first version number in the output of a program; empty if there is none."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    return match[0] if match else ""
