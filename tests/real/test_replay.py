"""`plimsoll replay` as a user has it: a program is recorded, its files are made elsewhere, and it is done there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Lab

PROGRAM = """
import os, threading
os.chdir(os.path.dirname(os.path.abspath(__file__)))
os.makedirs('made/deep')
with open('input') as there:
    lines = there.read().splitlines()
def work(k):
    fd = os.open(f'made/{k}', os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
    for line in lines:
        os.write(fd, line.encode() * 50)
    os.pread(fd, 10, 5); os.fsync(fd); os.close(fd)
    os.rename(f'made/{k}', f'made/deep/{k}.done')
threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
[one.start() for one in threads]; [one.join() for one in threads]
os.symlink('deep/0.done', 'made/link'); os.unlink('made/deep/1.done')
try:
    open('not there')
except FileNotFoundError:
    pass
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the program has run; its trace lies beside."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "program.py").write_text(PROGRAM)
    (place / "input").write_text("one\ntwo\nthree\n" * 20)
    return place


def recorded(lab: Lab, place: Path, source: str) -> Path:
    trace = place.parent / "job.trace"
    program = (sys.executable, place / "program.py")
    done = lab.run("trace", "record", "--source", source, "-o", trace, "--", *program)
    assert done.code == 0, done.out + done.err
    return trace


def tree(directory: Path) -> dict[str, Any]:
    """Names, types and sizes."""
    found: dict[str, Any] = {}
    for path in sorted(directory.rglob("*")):
        about = path.lstat()
        size = about.st_size if path.is_file() and not path.is_symlink() else None
        found[str(path.relative_to(directory))] = (oct(about.st_mode), size)
    return found


@pytest.mark.parametrize("source", ["strace", "preload"])
def test_what_was_recorded_is_done_again(lab: Lab, place: Path, tmp_path: Path, source: str) -> None:
    trace = recorded(lab, place, source)
    root = tmp_path / "root"
    root.mkdir()
    replay = ("replay", trace, "--root", root, "--allow-root")
    lacking = lab.run(*replay, "--check")
    assert lacking.code == 99 and "missing (directory)" in lacking.out, lacking.out + lacking.err
    assert list(root.iterdir()) == [], "a check changes nothing"
    prepared = lab.run(*replay, "--prepare")
    assert prepared.code == 0 and "Prepared: " in prepared.out, prepared.out + prepared.err
    assert lab.run(*replay, "--check").out.startswith("Nothing is missing")
    done = lab.run(*replay, "--timing", "afap", "--json")
    answer = json.loads(done.out)["replayed"]
    assert answer["mismatches"] == [] and answer["refusals"] == [] and answer["waits"]["let_go"] == 0
    assert done.code == (0 if answer["is_faithful"] else 99)
    mirrored = root / str(place).lstrip("/")
    assert tree(mirrored / "made") == tree(place / "made")
    assert answer["by_call"]["rename"]["count"] == 3
    again = lab.run(*replay, "--prepare", "--run", "--clean")
    assert again.code in (0, 99) and "Removed " in again.out, again.out + again.err
    assert list(root.iterdir()) == [], "nothing of it is left"


@pytest.mark.parametrize("options", [(), ("--source", "preload")])
def test_what_the_program_took_without_tracing_is_what_show_says(
    lab: Lab, tmp_path: Path, options: tuple[str, ...]
) -> None:
    script = "for one in 1 2 3; do seq 500 | sort -n >out-$one; sleep 0.02; x=$(cat out-$one | wc -l); done"
    program = ("sh", "-c", f"cd {tmp_path}; {script}")
    trace = tmp_path / "job.trace"
    assert lab.run("trace", "record", *options, "-o", trace, "--", *program).code == 0
    root = tmp_path / "root"
    root.mkdir()
    replay = ("replay", trace, "--root", root, "--allow-root")
    assert lab.run(*replay, "--prepare").code == 0
    answer = json.loads(lab.run(*replay, "--json").out)["replayed"]
    shown = lab.run("trace", "show", trace, "--json").json["time"]["wall"]
    found = [answer["untraced_s"][end] for end in ("low_s", "middle_s", "high_s")]
    assert found == pytest.approx([shown[end] for end in ("low_s", "corrected_s", "high_s")], rel=1e-6)
    assert found[0] <= found[1] <= found[2] and answer["planned_s"] > 0


def test_what_is_missing_is_told_and_not_hidden(lab: Lab, place: Path, tmp_path: Path) -> None:
    trace = recorded(lab, place, "strace")
    root = tmp_path / "root"
    root.mkdir()
    done = lab.run("replay", trace, "--root", root, "--allow-root", "--timing", "afap")
    assert done.code == 99 and "differs: " in done.out
    cleaned = lab.run("replay", trace, "--root", root, "--clean")
    assert cleaned.out.startswith("Nothing to remove: --prepare was not used here"), cleaned.out
    mirrored = root / str(place).lstrip("/") / "made"
    (mirrored / "old").mkdir(parents=True)
    (mirrored / "old" / "file").touch()
    forced = lab.run("replay", trace, "--root", root, "--allow-root", "--prepare", "--force")
    assert ", 3 removed, " in forced.out and not (mirrored / "old").exists(), forced.out
    nowhere = lab.run("replay", trace, "--root", tmp_path / "none", "--allow-root")
    assert nowhere.code == 2 and "not a directory" in nowhere.err
    scaled = lab.run("replay", trace, "--root", root, "--scale", "-1")
    assert scaled.code == 2 and "--scale -1: expected a finite number" in scaled.err
    odd = lab.run("replay", trace, "--root", root, "--compressible", "40")
    assert odd.code == 2 and "from 0% to 100%" in odd.err
