"""The examples that replay: file systems that are made for each run, and an analysis of particle physics."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Lab, missing

TOOLS = {"ext4": "mkfs.ext4", "xfs": "mkfs.xfs", "btrfs": "mkfs.btrfs", "fuse": "fuse2fs"}
KINDS = ["tmpfs", *TOOLS]


def may_mount(kind: str, directory: Path) -> None:
    """Leaves the test with the reason where this host mounts nothing, or has no program that makes the file system."""
    if os.geteuid() != 0:
        missing("the right to mount", "run the tests as root")
    place = directory / "probe"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "probe", place], check=False, capture_output=True, text=True
    )
    if mounted.returncode != 0:
        missing("the right to mount", f"this host does not allow it: {mounted.stderr.strip()}")
    subprocess.run(["umount", place], check=True)
    if kind in TOOLS and shutil.which(TOOLS[kind]) is None:
        missing(TOOLS[kind], "install it: scripts/system-packages")
    if kind == "fuse" and not Path("/dev/fuse").exists():
        missing("/dev/fuse", "load the kernel's module fuse")
    if kind not in ("tmpfs", "fuse") and not Path("/dev/loop-control").exists():
        missing("/dev/loop-control", "load the kernel's module loop")


@pytest.mark.parametrize("kind", ["tmpfs", *(pytest.param(kind, marks=pytest.mark.long) for kind in TOOLS)])
def test_two_jobs_on_a_file_system_of_their_own(lab: Lab, kind: str) -> None:
    may_mount(kind, lab.directory)
    place = lab.directory / "place"
    done = lab.run(
        *("run", ROOT / "examples" / "filesystems.yaml", "--json", "--set", f"vars.place={place}"),
        *(
            "--set",
            f"factors.file_system={{{kind}: {{vars.kind: {kind}}}}}",
            "--set",
            "factors.jobs.levels=[2]",
        ),
        *(
            "--set",
            "design.repetitions=1",
            "--set",
            "validity.steal=100%",
            "--set",
            "validity.gaps=100%",
            "--set",
            "validity.lateness_floor=10s",
        ),
    )
    assert done.code == 0, done.err + done.out
    runs = done.json["runs"]
    assert [(run["counts"]["succeeded"], run["counts"]["failed"]) for run in runs] == [(2, 0), (2, 0)]
    assert not place.exists(), "image, mount and directory are gone"
    assert str(place) not in Path("/proc/self/mounts").read_text()


@pytest.mark.long
def test_the_analysis_is_made_recorded_shown_and_replayed(lab: Lab) -> None:
    if importlib.util.find_spec("uproot") is None:
        missing("uproot", "pip install uproot")
    if shutil.which("strace") is None:
        missing("strace", "install it: scripts/system-packages")
    hep, events = ROOT / "examples" / "hep", lab.directory / "events.root"
    subprocess.run([sys.executable, hep / "write.py", events], check=True)
    done = lab.run(
        *("trace", "record", "-o", "read.trace", "--"),
        *(sys.executable, hep / "read.py", events, lab.directory / "histogram.txt"),
    )
    assert done.code == 0, done.err
    [file] = lab.run("trace", "show", "read.trace", "--file", "events.root", "--json").json["files"]
    assert file["unique_read_bytes"] < 0.2 * events.stat().st_size, "3 of 25 branches"
    assert file["useless_seeks"] > 0.5 * file["seeks"], "it looks where it stands"
    lab.file(f"/\n!{lab.directory}\n", "others")
    done = lab.run(
        *("run", ROOT / "examples" / "hep.yaml", "--json", "--set", "factors.jobs.levels=[2]"),
        *("--set", f"workload.replay.trace={lab.directory / 'read.trace'}"),
        *("--set", f"workload.replay.ignore={lab.directory / 'others'}"),
        *("--set", f"workload.replay.root={lab.directory / 'jobs'}/{{tester}}"),
        *(
            "--set",
            "design.repetitions=1",
            "--set",
            "validity.steal=100%",
            "--set",
            "validity.gaps=100%",
            "--set",
            "validity.lateness_floor=10s",
        ),
    )
    assert done.code == 0, done.err + done.out
    for run in done.json["runs"]:
        assert (run["counts"]["succeeded"], run["counts"]["failed"]) == (2, 0)
    assert not (lab.directory / "jobs").exists(), "what was made is gone"
