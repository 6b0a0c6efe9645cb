"""The wheel carries both halves: the lab, and the engine that `make engine` has linked statically.

All else stands in pyproject.toml. The engine goes among the wheel's scripts, so that an installation has it beside the
`plimsoll` command. It is not compiled here: that takes minutes, a Rust toolchain and the network, which `pip install`
should not need unasked; rejected was setuptools-rust, which would do so at every build. An editable installation
(`make setup`) carries no engine and needs none, as it finds the checkout's.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

from distutils.command.build_scripts import build_scripts  # isort: skip  (setuptools' own, there once it is imported)

ROOT = Path(__file__).resolve().parent
ENGINE = Path("target/engine/plimsoll-engine")

sys.path.insert(0, str(ROOT / "python"))
from plimsoll.deploy.binary import elf_facts  # noqa: E402  (needs the standard library only)


def engine_to_carry() -> Path:
    """Relative to here, as setuptools wants it; ends the build where there is none, or one that is older than what it
    is made of (the list of the Makefile)."""
    if not (ROOT / ENGINE).is_file():
        sys.exit(
            f"{ENGINE} is not there, and the wheel carries it: build it first with `make engine`, in a checkout"
        )
    built = (ROOT / ENGINE).stat().st_mtime
    sources = [
        found for what in ("Cargo.*", "crates/**/*.rs", "crates/**/Cargo.toml") for found in ROOT.glob(what)
    ]
    newer = [source for source in sources if source.stat().st_mtime > built]
    if newer:
        sys.exit(f"{ENGINE} is older than {newer[0].relative_to(ROOT)}: build it anew with `make engine`")
    return ENGINE


class BuildScripts(build_scripts):
    """Copies as they are what setuptools would take for text, to mend its first line."""

    def copy_scripts(self) -> tuple[list[str], list[str]]:
        self.mkpath(self.build_dir)
        made = [str(shutil.copy2(script, self.build_dir)) for script in self.scripts]
        return made, made


class Wheel(bdist_wheel):
    """For any Python 3 on the engine's architecture."""

    carried: Path | None = None

    def run(self) -> None:
        """Sets the script here and not in `setup`, so that only a real wheel has it and not an editable one."""
        self.carried = engine_to_carry()
        self.distribution.scripts = [str(self.carried)]
        # What an earlier build left is no part of this one: setuptools would carry modules that are gone.
        shutil.rmtree(self.get_finalized_command("build").build_base, ignore_errors=True)
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        """A static engine uses no library of the host. manylinux_2_28 then says no more than the age of its kernel:
        systems with that glibc have 4.18 or later, the oldest that is tested. A dynamic one promises nothing but this
        host."""
        if self.carried is None:
            return super().get_tag()
        facts = elf_facts(ROOT / self.carried)
        return "py3", "none", f"{'manylinux_2_28' if facts.static else 'linux'}_{facts.architecture}"


setup(cmdclass={"bdist_wheel": Wheel, "build_scripts": BuildScripts})
