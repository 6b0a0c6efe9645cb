"""The disk of one host is filled by somebody else while its agent measures."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from plimsoll.deploy.binary import find_engine
from tests.conftest import Lab, missing
from tests.real.emulated import VALIDITY, agents, events, measuring, summary, wait_for
from tests.real.sshd import Sshd, running_sshd

ROOM = 8_000_000
"""Beside the engine: what the agent may write before the disk is filled."""


@contextlib.contextmanager
def small_disk(at: Path) -> Iterator[Path]:
    """A disk with a little room beside the engine, gone afterwards."""
    size = find_engine().stat().st_size + ROOM
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(at)]
    if os.geteuid() != 0 or subprocess.run(words, check=False, capture_output=True).returncode:
        missing("the right to mount a small disk", "be root")
    try:
        yield at
    finally:
        # What still has a file there would be an agent that outlives its experiment.
        subprocess.run(["umount", at], check=True)


def fill(disk: Path) -> None:
    """To the last byte."""
    with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 65536):
            pass
    with (disk / "filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x"):
            pass


@pytest.fixture
def hosts(lab: Lab, tmp_path: Path) -> Iterator[tuple[Sshd, Sshd]]:
    """One whose home is a small disk, and one with room."""
    with running_sshd(tmp_path / "one") as one, running_sshd(tmp_path / "two") as two, small_disk(one.home):
        yield one, two


def test_a_full_disk_is_told_and_what_was_measured_before_is_kept(lab: Lab, hosts: tuple[Sshd, Sshd]) -> None:
    narrow, wide = hosts
    config = lab.directory / "ssh_config"
    config.write_text(narrow.aliases("narrow").read_text() + wide.aliases("wide").read_text())
    told = {
        "kind": "ssh",
        "hosts": ["narrow", "wide"],
        "ssh": {"config": str(config)},
        "controller": {"address": "127.0.0.1"},
    }
    file = lab.file(f"""
plimsoll: 1
name: full
services: {{web: {{kind: echo}}}}
workload: {{driver: http, target: web}}
load: {{testers: 8, think: 2ms}}
run: {{duration: 9s}}
validity: {VALIDITY}
hosts: {json.dumps(told)}
""")
    process = lab.start("run", file, "--quiet")
    run = measuring(lab, 3)
    fill(narrow.home)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 97, err
    books = summary(run)
    # Told when it happened, by name, and again in the books.
    told_at = [event["t_s"] for event in events(run, "not-recorded") if "agent narrow" in event["text"]]
    assert told_at and 2 < told_at[0] < 9, events(run)
    assert not books["balanced"]
    assert all("agent narrow: " in text or "are not on disk" in text for text in books["damage"]), books[
        "damage"
    ]
    assert any("No space left" in text for text in books["damage"])
    # Testers went on, and every transaction is on disk or counted as lost.
    by_name = {one["name"]: one for one in books["agents"]}
    assert not by_name["narrow"]["lost"] and not by_name["wide"]["lost"]
    counters = {name: one["books"]["counters"] for name, one in by_name.items()}
    gone = counters["narrow"]["lost_records"]
    assert 0 < gone < counters["narrow"]["started"], "what was measured before is kept"
    assert counters["wide"]["lost_records"] == 0
    assert books["rows"]["counters"]["started"] == books["counters"]["started"] - gone
    agents_of_rows = pq.read_table(run / "transactions.parquet", columns=["agent"])["agent"].to_pylist()
    assert agents_of_rows.count("narrow") == counters["narrow"]["started"] - gone
    assert agents_of_rows.count("wide") == counters["wide"]["started"]
    wait_for("the agents' end", lambda: not agents(narrow.home) + agents(wide.home))
