"""Programs that people use, recorded and replayed elsewhere: every result is the recorded one, and so are the files."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from tests.conftest import Lab, missing

PARTS = 8
MAKEFILE = """
parts := $(patsubst in/%.txt,out/%.txt,$(wildcard in/*.txt))
sum: $(parts)
\tcat $^ | sort -n -u >$@.part
\tmv $@.part $@
\tln -s $@ latest
out/%.txt: in/%.txt | out
\tcp $< $@.copy
\tsort -n $@.copy >$@.sorted && wc -l <$@.sorted >>$@.sorted
\tmv $@.sorted $@
\trm $@.copy
out:
\tmkdir $@
"""
WRITE = """
import sys
import numpy as np
import uproot
random = np.random.default_rng(1)
with uproot.recreate(sys.argv[1], compression=uproot.ZLIB(1)) as file:
    tree = file.mktree("Events", {f"b{number}": "float32" for number in range(40)})
    for _ in range(5):
        tree.extend({f"b{number}": random.normal(size=5000).astype("f4") for number in range(40)})
"""
READ = """
import sys
import uproot
with uproot.open(sys.argv[1]) as file:
    for chunk in file["Events"].iterate(["b1", "b7", "b30"], step_size=5000, library="np"):
        print(len(chunk["b1"]))
"""
DATABASE = """
import sqlite3
base = sqlite3.connect("base.db", isolation_level=None)
base.execute("create table readings (id integer primary key, value blob)")
for part in range(20):
    base.execute("begin")
    base.executemany("insert into readings (value) values (?)", [(bytes(500),) for _ in range(50)])
    base.execute("commit" if part % 4 else "rollback")
base.execute("delete from readings where id % 3 = 0")
base.execute("vacuum")
print(base.execute("select count(*) from readings").fetchone())
"""
THREADS = """
import os, threading
shared = os.open("shared", os.O_RDWR | os.O_CREAT, 0o644)
def work(number):
    own = os.open(f"own-{number}", os.O_RDWR | os.O_CREAT, 0o644)
    for part in range(40):
        os.pwrite(shared, bytes(1000), (part * 4 + number) * 1000)
        os.write(own, os.pread(shared, 700, (part * 4 + number) * 1000))
    os.close(own)
    os.rename(f"own-{number}", f"done-{number}")
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
os.ftruncate(shared, 100_000)
"""
NAMELESS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
def nameless():
    fd = os.open(".", os.O_RDWR | os.O_TMPFILE, 0o644)
    os.write(fd, bytes(5000))
    return fd
for number in range(20):
    one, two = nameless(), nameless()
    os.link(f"/proc/self/fd/{one}", f"one-{number}", src_dir_fd=here)
    if libc.linkat(two, b"", -100, b"two-%d" % number, 0x1000) != 0:
        os.link(f"/proc/{os.getpid()}/fd/{two}", f"two-{number}", src_dir_fd=here)
    os.close(one), os.close(two)
    os.rename(f"two-{number}", f"three-{number}")
    assert os.path.getsize(f"one-{number}") == os.path.getsize(f"three-{number}") == 5000
"""
DOTS = """
import os
def call(what, *words):
    try:
        what(*words)
    except OSError:
        pass
for number in range(10):
    d, none, link = f"d-{number}", f"none-{number}", f"link-{number}"
    os.makedirs(f"{d}/inner")
    os.symlink(f"{d}/inner", link)
    open(f"{d}/file", "w").write("x")
    for before in (none, f"{d}/file", link, d):
        for path in (f"{before}/..", f"{before}/../{d}", f"{before}/../file", f"{before}/../{d}/file"):
            call(os.stat, path)
            call(os.open, path, os.O_RDONLY)
            call(os.open, path + "-new", os.O_WRONLY | os.O_CREAT)
    call(os.mkdir, f"{none}/../made")
    os.mkdir(none)
    call(os.rename, f"{none}/../{d}/file", f"{none}/../moved-{number}")
"""
PROGRAMS = {
    "nameless": f"cat >nameless.py <<'END'\n{NAMELESS}\nEND\n{sys.executable} nameless.py",
    "dots": f"cat >dots.py <<'END'\n{DOTS}\nEND\n{sys.executable} dots.py",
    "sqlite": f"cat >base.py <<'END'\n{DATABASE}\nEND\n{sys.executable} base.py",
    "threads": f"cat >threads.py <<'END'\n{THREADS}\nEND\n{sys.executable} threads.py",
    "tar": "mkdir from to; for one in 1 2 3 4 5 6 7 8; do seq 3000 >from/$one; ln -s $one from/link-$one; done; "
    "tar cf all.tar from; tar xf all.tar -C to; rm -r from",
    "git": "git init -q first; cd first; for one in 1 2 3 4 5; do seq $one 2000 >$one; done; "
    "git add .; git -c user.name=one -c user.email=one@example.org commit -qm all; cd ..; git clone -q first second",
}
"""Each in a shell of its own, in an empty directory."""
TRACED = ("strace", "-f", "-ttt", "-T", "-q", "-s0", "-a1", "-y", "-e", "trace=file,desc,process")
"""As those record who have no Plimsoll, and no filter for what the replay needs."""


def needs(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            missing(program, f"install the package {program}")


def tree(directory: Path) -> dict[str, Any]:
    """Names, types and sizes; targets of links."""
    found: dict[str, Any] = {}
    for path in sorted(directory.rglob("*")):
        about = path.lstat()
        is_plain = path.is_file() and not path.is_symlink()
        target = str(path.readlink()) if path.is_symlink() else None
        found[str(path.relative_to(directory))] = (oct(about.st_mode), about.st_size if is_plain else target)
    return found


def replayed(lab: Lab, trace: Path, root: Path, *options: str) -> dict[str, Any]:
    root.mkdir()
    replay: Sequence[str | Path] = ("replay", trace, "--root", root, "--allow-root", *options)
    prepared = lab.run(*replay, "--prepare")
    assert prepared.code == 0, prepared.out + prepared.err
    done = lab.run(*replay, "--timing", "afap", "--json")
    answer: dict[str, Any] = json.loads(done.out)["replayed"]
    return answer


def in_turn(programs: Iterable[str]) -> list[ParameterSet]:
    """Every program from every recorder; `make test` takes one recorder for each, in turn."""
    return [
        pytest.param(program, source, marks=() if (number + turn) % 2 == 0 else pytest.mark.long)
        for number, program in enumerate(programs)
        for turn, source in enumerate(("strace", "preload"))
    ]


@pytest.mark.parametrize(("program", "source"), in_turn(PROGRAMS))
def test_what_a_program_did_is_done_elsewhere(lab: Lab, tmp_path: Path, program: str, source: str) -> None:
    needs("strace", "git", "tar")
    place = tmp_path / "place"
    place.mkdir()
    trace = tmp_path / "job.trace"
    record = ("trace", "record", "--uncalibrated", "--source", source, "-o", trace)
    script = f"cd {place}; export HOME={place}; {PROGRAMS[program]}"
    done = lab.run(*record, "--", "sh", "-ec", script)
    assert done.code == 0, done.out + done.err
    answer = replayed(lab, trace, tmp_path / "root")
    assert (answer["mismatches"], answer["lost"]) == ([], 0), answer
    # Run by root, tar and sqlite give files their owners, which a replay never does.
    owners = "what belongs to the system is not changed"
    assert {refusal["why"] for refusal in answer["refusals"]} <= {owners} and answer["performed"] > 50
    assert tree(tmp_path / "root" / str(place).lstrip("/")) == tree(place)


@pytest.mark.parametrize("source", [pytest.param("strace", marks=pytest.mark.long), "preload"])
def test_make_with_four_jobs_at_once(lab: Lab, tmp_path: Path, source: str) -> None:
    needs("make", "strace")
    place = tmp_path / "project"
    (place / "in").mkdir(parents=True)
    (place / "Makefile").write_text(MAKEFILE)
    for part in range(PARTS):
        numbers = range(part * 500, part * 500 + 2000)
        (place / "in" / f"{part}.txt").write_text("".join(f"{number * 7919 % 6007}\n" for number in numbers))
    trace = tmp_path / "make.trace"
    record = ("trace", "record", "--uncalibrated", "--source", source, "-o", trace)
    done = lab.run(*record, "--", "make", "-s", "-j4", "-C", place)
    assert done.code == 0, done.out + done.err
    profile = lab.run("trace", "show", trace, "--json").json
    assert (profile["unparsed"]["odd_lines"], profile["unparsed"]["cut_lines"]) == (0, 0)
    assert len(profile["processes"]) > 4 * PARTS, "cp, sort, wc, mv, rm and the shells"
    answer = replayed(lab, trace, tmp_path / "root")
    assert answer["is_faithful"], answer
    mirrored = tmp_path / "root" / str(place).lstrip("/")
    assert tree(mirrored) == tree(place)


@pytest.mark.long
def test_uproot_as_its_own_users_record_it(lab: Lab, tmp_path: Path) -> None:
    if importlib.util.find_spec("uproot") is None:
        missing("uproot", "pip install uproot")
    needs("strace")
    events, log = tmp_path / "events.root", tmp_path / "read.log"
    subprocess.run([sys.executable, "-c", WRITE, events], check=True)
    read = (sys.executable, "-c", READ, events)
    said = subprocess.run([*TRACED, "-o", log, *read], check=True, capture_output=True, text=True)
    assert said.stdout.split() == ["5000"] * 5
    done = lab.run("trace", "import", log)
    assert done.code == 0 and "not understood" not in done.err, done.err
    profile = lab.run("trace", "show", tmp_path / "read.trace", "--json").json
    found = profile["unparsed"]
    assert [found[kind] for kind in ("odd_lines", "cut_lines", "unknown_calls", "halves", "endless")] == [
        0
    ] * 5
    [file] = [each for each in profile["files"] if each["path"] == str(events)]
    assert 0 < file["unique_read_bytes"] < 0.5 * events.stat().st_size, "3 of 40 branches"
    lab.file(f"/\n!{events}\n", "others")
    options = ("--ignore", str(lab.directory / "others"))
    answer = replayed(lab, tmp_path / "read.trace", tmp_path / "root", *options)
    assert answer["is_faithful"], answer
    assert answer["read_bytes"] == file["read_bytes"]
