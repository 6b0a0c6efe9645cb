"""The rules of the house that no compiler enforces: who may import whom, and that documents point at what is there."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.conftest import ROOT

CRATES = (
    "model",
    "schedule",
    "clock",
    "wire",
    "record",
    "trace",
    "replay",
    "drive",
    "monitor",
    "services",
    "link",
    "agent",
    "controller",
    "wan",
    "preload",
    "engine",
)
"""A crate depends only on crates before it in this list (ARCHITECTURE.md)."""
SEPARATE = {("drive", "record"), ("services", "drive"), ("monitor", "drive"), ("record", "drive")}
"""Pairs that the design forbids whatever the order: drivers never record, services know no tester."""
PURE = {"model": (), "schedule": ("model",), "clock": (), "wire": (), "trace": ()}
"""What crates without I/O may depend on, of ours."""
RUNTIMES = ("tokio", "mio", "socket2")


def packages() -> dict[str, dict[str, list[str]]]:
    """Dependencies of each crate of ours: ordinary ones by name; development ones are left out."""
    done = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = {}
    for package in json.loads(done.stdout)["packages"]:
        names = [one["name"] for one in package["dependencies"] if one["kind"] is None]
        ours = [name.removeprefix("plimsoll-") for name in names if name.startswith("plimsoll-")]
        others = [name for name in names if not name.startswith("plimsoll-")]
        found[package["name"].removeprefix("plimsoll-")] = {"ours": ours, "others": others}
    return found


def test_crates_depend_only_on_crates_above_them() -> None:
    found = packages()
    assert set(CRATES) <= set(found)
    for name in CRATES:
        for other in found[name]["ours"]:
            assert CRATES.index(other) < CRATES.index(name), f"{name} must not depend on {other}"
            assert (name, other) not in SEPARATE, f"{name} must not depend on {other}"


def test_pure_crates_have_no_runtime() -> None:
    found = packages()
    for name, allowed in PURE.items():
        assert set(found[name]["ours"]) <= set(allowed)
        assert not set(found[name]["others"]) & set(RUNTIMES), f"{name} is pure"


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name
)
def test_documents_point_at_what_is_there(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name} points at {target}"
