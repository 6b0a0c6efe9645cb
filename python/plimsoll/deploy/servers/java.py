"""Finds the Java and the Tomcat that are installed on a host."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

from plimsoll.deploy.programs import (
    HERE,
    ProgramSearch,
    find_on,
    not_installed,
    version_of,
)
from plimsoll.errors import ServiceError

HOMES: Final = "/usr/share/tomcat*/lib/catalina.jar"
"""A file of each Tomcat that Debian or Red Hat installs, several versions beside each other."""
RUNTIMES: Final = "/usr/lib/jvm/*/bin/java"
TOMCAT_PACKAGE: Final = "tomcat10-common"
JAVA_PACKAGE: Final = "default-jre-headless"
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
"""Java 8 calls itself 1.8."""


def tomcat_home(service: str, search: ProgramSearch = HERE) -> PurePath:
    """The directory of the newest Tomcat that is installed: the one with `bin/bootstrap.jar` and `lib/catalina.jar`.
    Raises ServiceError."""
    scripts = [PurePath(directory) / "catalina.sh" for directory in search.directories()]
    installed = zip(scripts, search.are_programs(scripts), strict=True)
    homes = [search.resolve(script).parent.parent for script, is_program in installed if is_program]
    if search.override is None:
        homes += [jar.parent.parent for jar in sorted(search.matching(HOMES), key=_number, reverse=True)]
    if not homes:
        raise not_installed(service, "Tomcat", TOMCAT_PACKAGE, search)
    return homes[0]


def java_program(service: str, wanted: str, search: ProgramSearch = HERE) -> PurePath:
    """The program `java`. `wanted`: "auto" (the first in the directories of programs), a major version, or the
    absolute path of a Java home. Raises ServiceError."""
    if wanted.startswith("/"):
        program = PurePath(wanted) / "bin" / "java"
        if not search.are_programs([program])[0]:
            raise ServiceError(f"service {service}: {program} is not a program: expected the home of a Java")
        return program
    first = find_on(search, ["java"])
    if wanted == "auto":
        if first is None:
            raise not_installed(service, "Java", JAVA_PACKAGE, search)
        return first
    others = search.matching(RUNTIMES) if search.override is None else []
    programs = dict.fromkeys(search.resolve(program) for program in [*filter(None, [first]), *others])
    for program in programs:
        version = _JAVA_VERSION.search(version_of([program, "-version"], search))
        if version is not None and version[1] == wanted:
            return program
    raise not_installed(service, f"Java {wanted}", f"openjdk-{wanted}-jre-headless", search)


def _number(jar: PurePath) -> int:
    """The major version in the name of the directory: 10 for /usr/share/tomcat10."""
    number = re.search(r"\d+", jar.parent.parent.name)
    return int(number[0]) if number else 0
