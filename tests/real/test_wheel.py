"""The wheel: both halves in one file, all that an installation needs. Built and installed without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from plimsoll.deploy.binary import elf_facts
from tests.conftest import ROOT, Lab, missing

ENGINE = Path("target/engine/plimsoll-engine")
SOURCES = (
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
    "Cargo.toml",
    "Cargo.lock",
    "crates",
    "python",
)

EXPERIMENT = """\
plimsoll: 1
services: {web: {kind: echo, body: 1kB}}
workload: {driver: http, target: web}
load: {testers: 2, think: 5ms}
design: {seed: 1}
run: {duration: 500ms}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%}
"""


def pip(*words: str | Path, where: Path) -> subprocess.CompletedProcess[str]:
    """Runs it where nothing of this checkout is in sight."""
    return subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--isolated", *map(str, words)],
        cwd=where,
        env={"PATH": "/usr/bin:/bin", "HOME": str(where), "TMPDIR": str(where)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def build(tree: Path) -> subprocess.CompletedProcess[str]:
    """`make wheel`, but for what make sets up."""
    return pip("wheel", "--no-index", "--no-build-isolation", "--no-deps", "-w", "dist", ".", where=tree)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a wheel is made of, so that this checkout keeps nothing of the build."""
    if not (ROOT / ENGINE).is_file():
        missing(f"the static engine ({ENGINE})", "make engine")
    tree = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, tree / name, ignore=unwanted)
        else:
            shutil.copy2(ROOT / name, tree)
    (tree / ENGINE).parent.mkdir(parents=True)
    shutil.copy(ROOT / ENGINE, tree / ENGINE)  # newer than its sources, whatever was edited here
    return tree


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    """The built one."""
    done = build(tree)
    assert done.returncode == 0, done.stderr
    (made,) = (tree / "dist").glob("*.whl")
    return made


@pytest.mark.long
def test_it_carries_the_engine_and_says_for_which_hosts(wheel: Path) -> None:
    facts = elf_facts(ROOT / ENGINE)
    system = "manylinux_2_28" if facts.static else "linux"
    assert wheel.name.endswith(f"-py3-none-{system}_{facts.architecture}.whl")
    with zipfile.ZipFile(wheel) as held:
        (name,) = (one for one in held.namelist() if one.endswith("/plimsoll-engine"))
        assert name.endswith(".data/scripts/plimsoll-engine")
        assert held.read(name) == (ROOT / ENGINE).read_bytes()
        assert not [one for one in held.namelist() if not one.startswith(("plimsoll/", "plimsoll_lab-"))]


@pytest.mark.long
def test_an_installed_one_finds_its_own_engine_and_measures(wheel: Path, lab: Lab, tmp_path: Path) -> None:
    place = tmp_path / "installed"
    done = pip("install", "--no-deps", "--no-index", "--target", place, wheel, where=tmp_path)
    assert done.returncode == 0, done.stderr
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(place), "PLIMSOLL_ENGINE": ""}
    said = subprocess.run([place / "bin" / "plimsoll-engine", "version"], capture_output=True, check=True)
    assert b'"version"' in said.stdout

    looked = lab.run("doctor", "--json", **env)
    engine = next(one for one in looked.json["findings"] if one["what"] == "engine")
    assert engine["value"].endswith(f" at {place / 'bin' / 'plimsoll-engine'}")

    measured = lab.run("run", lab.file(EXPERIMENT), "--json", **env)
    assert measured.code == 0, measured.err
    assert measured.json["runs"][0]["counts"]["succeeded"] > 0


@pytest.mark.long
def test_one_is_not_built_around_an_engine_that_is_missing_or_old(tree: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(tree, tmp_path / "tree", ignore=shutil.ignore_patterns("dist", "build", "target"))
    without = build(copy)
    assert without.returncode != 0
    assert "build it first with `make engine`" in without.stdout + without.stderr

    (copy / ENGINE).parent.mkdir(parents=True)
    shutil.copy2(tree / ENGINE, copy / ENGINE)
    edited = copy / "crates" / "model" / "src" / "lib.rs"
    os.utime(edited, (2e9, 2e9))
    old = build(copy)
    assert old.returncode != 0
    assert "is older than crates/model/src/lib.rs: build it anew" in old.stdout + old.stderr
    assert not (copy / "dist").exists() or not list((copy / "dist").iterdir())
