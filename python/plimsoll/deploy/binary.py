"""Where the engine is.

One wheel carries both halves, so an installed engine lies beside the `plimsoll` command; in a checkout it lies where
`make engine` puts it: linked statically, so that the same file runs here and on every host that it is copied to. What
cargo builds by itself comes after it. `PLIMSOLL_ENGINE` overrides all (a build under test, a site's own).

The engine that came with these very modules comes first, wherever they were installed (`--target`, `--user`,
`--prefix`), and only then that of the interpreter and of the search path, which may be another installation's.
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
"""Numbers of the ELF header to what `uname -m` says."""
_INTERPRETER: Final = 3


def find_engine() -> Path:
    """Absolute path of the engine's binary.

    Raises EngineError naming every place that was looked at.
    """
    override = os.environ.get("PLIMSOLL_ENGINE")
    if override:
        path = Path(override)
        if not os.access(path, os.X_OK):
            raise EngineError(f"PLIMSOLL_ENGINE is {override!r}, which is not an executable file")
        return path.resolve()
    places = _places(Path(__file__).resolve().parents[2])
    found = shutil.which(NAME)
    if found:
        places.append(Path(found))
    for place in places:
        if os.access(place, os.X_OK):
            return place.resolve()
    looked = "\n".join(f"  {place}" for place in places)
    raise EngineError(
        f"the engine ({NAME}) was not found. Searched:\n{looked}\n"
        "In a checkout, build it with `make engine`; otherwise set PLIMSOLL_ENGINE to its path."
    )


def _places(site: Path) -> list[Path]:
    """Where an engine may lie, best first, for a package in `site`."""
    places = []
    if (site.parent / "Cargo.toml").is_file():
        places += [site.parent / "target" / kind / NAME for kind in ("engine", "release")]
    scripts, modules = (Path(sysconfig.get_path(what)) for what in ("scripts", "purelib"))
    places.append(site / "bin" / NAME)
    # Every scheme of pip but --target has its commands as far from its modules. Elsewhere the step leads anywhere.
    if site.name == modules.name:
        places.append(Path(os.path.normpath(site / os.path.relpath(scripts, modules) / NAME)))
    return list(dict.fromkeys([*places, scripts / NAME]))


def engine_version(path: Path) -> str:
    """What the binary at `path` says of itself; raises EngineError if it does not run."""
    try:
        done = subprocess.run([path, "version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{path} does not run: {error}") from error
    if done.returncode != 0:
        raise EngineError(
            f"`{path} version` failed with exit status {done.returncode}: {done.stderr.strip()[:500]}"
        )
    try:
        return str(json.loads(done.stdout)["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise EngineError(
            f"{path} is not the Plimsoll engine: it printed {done.stdout.strip()[:100]!r}"
        ) from error


def require_same_version(found: str, path: Path | str) -> None:
    """Raises EngineError unless lab and engine carry one version."""
    if found != __version__:
        raise EngineError(
            f"the lab has version {__version__}, and the engine at {path} has version {found}: install "
            f"both from one release"
        )


@dataclass(frozen=True, slots=True)
class ElfFacts:
    """For which hosts a program is: `architecture` as `uname -m` says it; `static`: it needs no libraries of theirs."""

    architecture: str
    static: bool


def elf_facts(path: Path) -> ElfFacts:
    """Of a program, by its header (ELF-64, little-endian, as all that we build for). Raises EngineError where it is
    none."""
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
