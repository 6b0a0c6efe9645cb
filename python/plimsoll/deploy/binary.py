"""Finds the binary of the engine.

A wheel contains both the lab and the engine, so an installed engine is next to the command `plimsoll`. In a
checkout, the engine is where `make engine` writes it. That engine is linked statically, so the same file runs
on this host and on every host to which it is copied. The output of cargo is searched after it.
`PLIMSOLL_ENGINE` overrides all of these, for example for a build under test.

The engine that was installed with these modules is searched first, for every scheme of pip (`--target`,
`--user`, `--prefix`). The engines of the interpreter and of the search path follow, since they may belong to
another installation.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plimsoll import __version__
from plimsoll.errors import EngineError

NAME = "plimsoll-engine"
MACHINES: Final = {62: "x86_64", 183: "aarch64", 243: "riscv64", 21: "ppc64le", 22: "s390x"}
"""Maps the machine number of the ELF header to the output of `uname -m`."""
_INTERPRETER: Final = 3


def find_engine() -> Path:
    """The absolute path of the engine's binary. Raises EngineError with all paths that were searched."""
    override = os.environ.get("PLIMSOLL_ENGINE")
    if override:
        path = Path(override)
        if not os.access(path, os.X_OK):
            raise EngineError(f"PLIMSOLL_ENGINE is {override!r}, which is not an executable file")
        return path.resolve()
    candidates = _candidates(Path(__file__).resolve().parents[2])
    in_path = shutil.which(NAME)
    if in_path:
        candidates.append(Path(in_path))
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return candidate.resolve()
    searched = "\n".join(f"  {path}" for path in candidates)
    raise EngineError(
        f"the engine ({NAME}) was not found. Searched:\n{searched}\n"
        "In a checkout, build it with `make engine`; otherwise set PLIMSOLL_ENGINE to its path."
    )


def _candidates(site: Path) -> list[Path]:
    """Paths at which an engine may be, best first, for a package in the directory `site`."""
    candidates = []
    if (site.parent / "Cargo.toml").is_file():
        candidates += [site.parent / "target" / kind / NAME for kind in ("engine", "release")]
    scripts, modules = (Path(sysconfig.get_path(key)) for key in ("scripts", "purelib"))
    candidates.append(site / "bin" / NAME)
    # In every scheme of pip except --target, the relative path from modules to commands is the same. The step is
    # only valid if the directory has the name of the modules' directory.
    if site.name == modules.name:
        candidates.append(Path(os.path.normpath(site / os.path.relpath(scripts, modules) / NAME)))
    return list(dict.fromkeys([*candidates, scripts / NAME]))


def engine_version(path: Path) -> str:
    """The version that the binary at `path` prints. Raises EngineError if it does not run, or is not the
    engine."""
    try:
        result = subprocess.run([path, "version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{path} does not run: {error}") from error
    if result.returncode != 0:
        raise EngineError(
            f"`{path} version` failed with exit status {result.returncode}: {result.stderr.strip()[:500]}"
        )
    try:
        return str(json.loads(result.stdout)["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise EngineError(
            f"{path} is not the Plimsoll engine: it printed {result.stdout.strip()[:100]!r}"
        ) from error


def require_same_version(version: str, path: Path | str) -> None:
    """Raises EngineError if lab and engine have different versions."""
    if version != __version__:
        raise EngineError(
            f"the lab has version {__version__}, and the engine at {path} has version {version}: install "
            f"both from one release"
        )


@dataclass(frozen=True, slots=True)
class ElfFacts:
    """The hosts for which a program is built. `architecture`: as printed by `uname -m`. `static`: whether it
    needs no shared libraries."""

    architecture: str
    static: bool


def elf_facts(path: Path) -> ElfFacts:
    """Reads the ELF header of a program (64 bits, little-endian). Raises EngineError if the file has no such
    header."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
            if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
                raise EngineError(f"{path} is not a program for 64-bit Linux")
            machine = struct.unpack_from("<H", head, 18)[0]
            start, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
            file.seek(start)
            table = file.read(size * count)
        kinds = [struct.unpack_from("<I", table, at)[0] for at in range(0, size * count, size)]
    except (OSError, struct.error, ValueError) as error:
        raise EngineError(f"{path} cannot be read: {error}") from error
    return ElfFacts(MACHINES.get(machine, f"machine {machine}"), _INTERPRETER not in kinds)
