"""`plimsoll trace` as a user calls it: real programs below strace, logs that others made, and what is said of both."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plimsoll.deploy.binary import find_engine
from tests.conftest import Lab, missing

OPTIONS = ("-f", "-ttt", "-T", "-y", "-q", "-s", "0", "-a", "1")
"""Of strace, as the documents tell those to call it who have no Plimsoll."""
READER = """
import os
with open("data.bin", "wb") as file:
    file.write(bytes(1_000_000))
fd = os.open("data.bin", os.O_RDONLY)
for round in range(5):
    os.lseek(fd, 0, os.SEEK_SET)
    for at in range(100):
        os.lseek(fd, at * 10_000, os.SEEK_SET)
        os.lseek(fd, at * 10_000, os.SEEK_SET)
        os.read(fd, 512)
os.close(fd)
os.stat("data.bin")
try:
    os.stat("not-there")
except FileNotFoundError:
    pass
"""
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "a\nb\x1b[2J",
    "tur\u202etxt.exe",
    "\udcff\udcfe",
    "'\"& \\x41",
)


@pytest.fixture(autouse=True)
def strace() -> None:
    """strace is here, and may trace."""
    if shutil.which("strace") is None:
        missing("strace", "install the package strace")
    if (
        subprocess.run(["strace", "-o", "/dev/null", "true"], check=False, capture_output=True).returncode
        != 0
    ):
        missing("the right to trace", "allow ptrace in this container")


@pytest.fixture
def reader(lab: Lab) -> Iterator[Path]:
    """A trace of a program with bad habits."""
    script = lab.file(READER, "reader.py")
    done = lab.run("trace", "record", "-o", "job.trace", "--", sys.executable, "-I", script)
    assert done.code == 0, done.err
    assert re.search(r"job.trace: [\d,]+ calls in .* show it with", done.err)
    assert done.out == ""
    yield lab.directory / "job.trace"


def file_of(profile: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in profile["files"] if each["path"].endswith(f"/{name}"))
    return found


def test_what_a_program_does_is_recorded_and_told(lab: Lab, reader: Path) -> None:
    profile = lab.run("trace", "show", reader, "--json").json
    assert profile["format"] == "plimsoll.profile/1"
    for key in ("totals", "processes", "unparsed", "blind_spots", "findings"):
        assert key in profile
    data = file_of(profile, "data.bin")
    assert (data["opens"], data["reads"], data["read_bytes"]) == (2, 500, 256_000)
    assert (data["writes"], data["write_bytes"]) == (1, 1_000_000)
    assert data["unique_read_bytes"] == 51_200
    assert data["useless_seeks"] >= 500
    assert profile["source"]["status"] == 0
    assert profile["source"]["calibration"]["call_ns"][0] > 0
    assert profile["time"]["wall"]["corrected_s"] < profile["time"]["wall"]["recorded_s"]
    assert profile["unparsed"]["odd_lines"] == 0
    text = lab.run("trace", "show", reader, COLUMNS="100").out
    assert max(map(len, text.splitlines())) <= 100
    assert "reader.py" in text.splitlines()[0] + text.splitlines()[1]
    assert text.index("Files") < text.index("Calls")
    for each in profile["findings"]:
        assert each["text"] in " ".join(text.partition("Files")[0].split()).replace("! ", "")


def test_only_what_is_asked_for_is_shown(lab: Lab, reader: Path) -> None:
    some = lab.run("trace", "show", reader, "--file", r"data\.bin$", "--json").json
    assert [Path(each["path"]).name for each in some["files"]] == ["data.bin"]
    none = lab.run("trace", "show", reader, "--from", "1h", "--json").json
    assert (none["files"], none["totals"]["calls"], none["chosen"]["from_s"]) == ([], 0, 3600.0)
    paths = lab.run("trace", "show", reader, "--paths").out.splitlines()
    assert str(lab.directory / "data.bin") in paths
    assert len(paths) == len(set(paths))
    for words, said in (
        (("--file", "("), "regex"),
        (("--from", "10"), "has no unit"),
        (("--from", "2s", "--to", "1s"), "must be before --to"),
        (("--from", "1s", "--to", "1s"), "must be before --to"),
    ):
        done = lab.run("trace", "show", reader, *words)
        assert done.code == 2
        assert said in done.err
    # The engine, which others may call too, refuses an empty span by itself.
    profile = [str(find_engine()), "trace", "profile", str(reader), "--from", "1", "--to", "1"]
    direct = subprocess.run(profile, capture_output=True, text=True, check=False)
    assert direct.returncode != 0 and "--from is not before --to" in direct.stderr


def test_the_page_has_every_request(lab: Lab, reader: Path) -> None:
    done = lab.run("trace", "show", reader, "--html", "job.html")
    assert (done.code, done.out) == (0, "")
    text = (lab.directory / "job.html").read_text(encoding="utf-8")
    found = re.search(r'id="plimsoll-data">(.*?)</script>', text)
    assert found is not None
    page = json.loads(found[1])
    place = next(at for at, each in enumerate(page["files"]) if each["path"].endswith("/data.bin"))
    rows = page["pictures"][str(place)]["rows"]
    assert len(rows["t"]) == 501
    assert rows["o"][1:101] == [at * 10_000 for at in range(100)]
    assert set(rows["r"]) == {512, 1_000_000}
    assert set(map(str, rows["k"])) <= set(page["threads"])


def test_figures_are_files(lab: Lab, reader: Path) -> None:
    done = lab.run(
        "trace", "show", reader, "--file", r"data\.bin$", "--figures", "figures", "--format", "svg"
    )
    assert done.code == 0, done.err
    names = sorted(path.name.split("-")[0] for path in (lab.directory / "figures").iterdir())
    assert names == ["duration", "files.svg", "pattern", "run.svg", "size", "speed"]


def test_the_exit_status_and_the_output_are_those_of_the_program(lab: Lab) -> None:
    command = ("sh", "-c", "echo out; echo err >&2; exit 3")
    done = lab.run("trace", "record", "--uncalibrated", "-o", "job.trace", "--", *command)
    assert (done.code, done.out) == (3, "out\n")
    assert done.err.startswith("err\n")
    text = lab.run("trace", "show", "job.trace").out
    assert "exit status 3" in text
    assert "the cost of tracing is unknown" in text


def test_strace_and_its_program_share_a_core_where_that_is_asked_for(lab: Lab) -> None:
    script = "import os; print(os.sched_getaffinity(0))"
    all_cores = os.sched_getaffinity(0)
    words = ("trace", "record", "-o", "job.trace", "--one-core", "--", sys.executable, "-I", "-c", script)
    done = lab.run(*words)
    assert (done.code, done.out) == (0, f"{{{max(all_cores)}}}\n"), done.err
    profile = json.loads(lab.run("trace", "show", "job.trace", "--json").out)
    assert "--one-core" in profile["source"]["options"]
    middle, low, high = profile["time"]["traced_call_s"]
    assert 0 < low <= middle <= high
    lab.run("trace", "show", "job.trace", "--html", "job.html")
    assert "In this run it was about" in (lab.directory / "job.html").read_text()
    # Whoever is attached to keeps the cores that it has, and preload wakes nobody.
    for other in (("-p", str(os.getpid())), ("--source", "preload", "--", "true")):
        refused = lab.run("trace", "record", "-o", "x.trace", "--one-core", *other)
        assert refused.code == 2 and "--one-core needs --source strace" in refused.err, refused


def test_names_that_would_harm_are_shown_and_stay_text(lab: Lab) -> None:
    place = lab.directory / "names"
    place.mkdir()
    for name in HOSTILE:
        (place / name.replace("/", "\u2215")).write_bytes(b"x" * 100)
    done = lab.run(
        "trace", "record", "--uncalibrated", "-o", "job.trace", "--", "sh", "-c", "cat names/* >/dev/null"
    )
    assert done.code == 0, done.err
    done = lab.run("trace", "show", "job.trace", "--html", "job.html")
    assert done.code == 0, done.err
    text = (lab.directory / "job.html").read_text(encoding="utf-8")
    assert "<img" not in text
    assert not re.search("[\x1b\u202e]", text)
    paths = lab.run("trace", "show", "job.trace", "--paths").out
    for name in (r"a\x0ab\x1b[2J", r"tur\xe2\x80\xaetxt.exe", r"\xff\xfe", r"""'"& \x5cx41"""):
        assert f"/names/{name}\n" in paths


def test_a_process_that_runs_is_attached_to_and_goes_on(lab: Lab) -> None:
    script = "import time\nfor at in range(600):\n    open('/etc/hostname').read()\n    time.sleep(0.05)\n"
    with subprocess.Popen([sys.executable, "-c", script], cwd=lab.directory) as process:
        done = lab.run(
            "trace", "record", "--uncalibrated", "-p", str(process.pid), "--for", "1s", "-o", "job.trace"
        )
        assert done.code == 0, done.err
        assert process.poll() is None
        process.kill()
    profile = lab.run("trace", "show", "job.trace", "--json").json
    assert profile["source"]["attached"] is True
    assert file_of(profile, "hostname")["reads"] > 0


def test_a_call_that_goes_on_has_lasted_as_long_as_the_recording(lab: Lab) -> None:
    program = "import time\nwhile 'TracerPid:\\t0' in open('/proc/self/status').read(): pass\ntime.sleep(60)"
    process = subprocess.Popen([sys.executable, "-I", "-c", program])
    try:
        done = lab.run(
            "trace", "record", "--uncalibrated", "-p", str(process.pid), "--for", "1.5s", "-o", "job.trace"
        )
        assert done.code == 0, done.err
    finally:
        process.kill()
        process.wait()
    profile = lab.run("trace", "show", "job.trace", "--json").json
    wall, elapsed = profile["time"]["wall"]["recorded_s"], profile["source"]["elapsed_s"]
    sleeps = [each for each in profile["calls"] if each["name"] == "clock_nanosleep"]
    # It has no end of its own, and had lasted for no time at all.
    assert sleeps and sleeps[0]["time"]["recorded_s"] > 0 and wall <= elapsed, sleeps


def test_what_an_interrupted_program_did_is_kept(lab: Lab) -> None:
    script = "import time\nopen('begun', 'w').close()\ntime.sleep(60)\n"
    process = lab.start(
        "trace", "record", "--uncalibrated", "-o", "job.trace", "--", sys.executable, "-c", script
    )
    while not (lab.directory / "begun").exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it
    process.communicate(timeout=30)
    assert process.returncode not in (0, None)
    profile = lab.run("trace", "show", "job.trace", "--json").json
    assert file_of(profile, "begun")["opens"] == 1


def test_what_a_killed_recorder_has_left_becomes_a_trace(lab: Lab) -> None:
    script = """
import os, threading, time
def work(name):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT)
    for number in range(50):
        os.pwrite(fd, bytes(100), number * 100)
    open(name + ".begun", "w").close()
    while not os.path.exists("go on"):
        time.sleep(0.02)
    os.pwrite(fd, bytes(100), 5000)
threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
open("over", "w").close()
"""
    words = ("trace", "record", "--uncalibrated", "--source", "preload", "--force", "-o", "job.trace", "--")
    process = lab.start(*words, sys.executable, "-c", script)
    names = [lab.directory / f"{name}.begun" for name in ("one", "two")]
    wait_until(lambda: all(name.exists() for name in names))
    [place] = lab.directory.glob(".job.trace.*")
    os.kill(int(place.name.rpartition(".")[2]), signal.SIGKILL)
    process.wait(timeout=30)  # its output is still the program's
    early = lab.run("trace", "import", place.name, "-o", "early.trace")
    assert early.code == 0 and "is still recorded" in early.err, early.err
    lab.file("", "go on")
    wait_until((lab.directory / "over").exists)
    process.communicate(timeout=30)
    done = lab.run("trace", "import", place.name)
    assert done.code == 0 and "still" not in done.err, done.err
    for trace, writes in (("early.trace", 50), ("job.trace", 51)):
        profile = lab.run("trace", "show", trace, "--json").json
        assert [file_of(profile, name)["writes"] for name in ("one", "two")] == [writes, writes]
    assert profile["source"]["command"][-2:] == ["-c", script]
    again = lab.run(*words, "true")
    assert again.code == 0 and f"trace import {place}" in again.err, again.err
    assert place.exists(), "nobody has asked to remove it"


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_log_that_ends_in_the_middle_of_a_line_is_no_error(lab: Lab) -> None:
    lab.file("7 close(3) = 0\n" * 5 + '7 openat(AT_FDCWD, "/etc/pas', "cut.log")
    done = lab.run("trace", "import", "cut.log")
    assert done.code == 0 and "1 line cut off at the end of a log" in done.err and "/etc/pas" in done.err, (
        done.err
    )
    shown = lab.run("trace", "show", "cut.trace")
    assert shown.code == 0 and "last line of the log was cut" in shown.out, shown.out


def test_an_import_that_is_killed_leaves_nothing(lab: Lab) -> None:
    lines = "".join(f'7 openat(AT_FDCWD, "/{os.urandom(1_000).hex()}", O_RDONLY) = 3\n' for _ in range(1_000))
    lab.file(lines, "job.log")
    # The kernel ends whoever writes more than 64 kB, without a word to it.
    limited = ("sh", "-c", 'ulimit -f 64; exec "$0" trace import -o job.trace job.log', find_engine())
    done = subprocess.run(limited, cwd=lab.directory, check=False, capture_output=True)
    assert done.returncode == -signal.SIGXFSZ, done.stderr
    assert [each.name for each in lab.directory.iterdir()] == ["job.log"]


def test_of_a_packed_log_that_was_cut_there_is_what_stands_before(lab: Lab) -> None:
    stamps = (f"{1_700_000_000 + second}.{second * 7919 % 1_000_000:06}" for second in range(20_000))
    lines = "".join(f"7 {stamp} close(9) = -1 EBADF (Bad file descriptor)\n" for stamp in stamps)
    packed = gzip.compress(lines.encode())
    (lab.directory / "cut.log.gz").write_bytes(packed[: len(packed) // 2])
    done = lab.run("trace", "import", "cut.log.gz")
    assert done.code == 0, done.err
    assert "cut.log.gz: " in done.err and "The trace contains the part before this point" in done.err, (
        done.err
    )
    calls = lab.run("trace", "show", "cut.trace", "--json").json["totals"]["calls"]
    assert 2_000 < calls < 20_000


def test_a_log_that_others_made_is_imported(lab: Lab) -> None:
    lab.file("hello\n", "in.txt")
    subprocess.run(["strace", *OPTIONS, "-o", "job.log", "cat", "in.txt"], cwd=lab.directory, check=True)
    done = lab.run("trace", "import", "job.log")
    assert done.code == 0, done.err
    profile = lab.run("trace", "show", "job.trace", "--json").json
    assert file_of(profile, "in.txt")["read_bytes"] == 6
    assert profile["source"]["calibration"] is None
    again = lab.run("trace", "import", "job.log")
    assert again.code == 2
    assert "job.trace: the file exists" in again.err
    assert lab.run("trace", "import", "job.log", "-o", "job.trace").code == 0


def test_nothing_is_written_over_what_is_read(lab: Lab) -> None:
    log = lab.file('7 openat(AT_FDCWD, "/etc/hosts", O_RDONLY) = 3\n', "job.strace")
    assert lab.run("trace", "import", log).code == 0
    trace = lab.directory / "job.trace"
    (lab.directory / "link").symlink_to(trace)
    (lab.directory / "hard").hardlink_to(trace)
    before = log.read_bytes(), trace.read_bytes()
    for words in (
        ("export", trace, "--to", "csv", "-o", trace),
        ("export", "link", "--to", "csv", "-o", "hard"),
        ("export", "hard", "--to", "dxt", "-o", "link"),
        ("import", log, "-o", log),
        ("import", "hard", "-o", "link"),
        ("import", trace),
        ("show", trace, "--html", "hard"),
    ):
        done = lab.run("trace", *words)
        assert done.code == 2 and "are the same file" in done.err, (words, done)
    done = lab.run("trace", "record", "--uncalibrated", "-o", trace, "--", "true")
    assert done.code == 2 and "job.trace: the file exists" in done.err and "--force" in done.err, done.err
    assert (log.read_bytes(), trace.read_bytes()) == before
    assert (lab.directory / "link").is_symlink() and (lab.directory / "hard").samefile(trace)
    assert lab.run("trace", "record", "--uncalibrated", "--force", "-o", trace, "--", "true").code == 0
    assert trace.read_bytes() != before[1]


@pytest.mark.parametrize("source", ["strace", "preload"])
def test_a_file_is_found_under_every_name_that_it_had(lab: Lab, source: str) -> None:
    program = """
import os
os.mkdir("parts")
with open("parts/.data.part", "wb") as file:
    file.write(bytes(5_000))
os.rename("parts/.data.part", "parts/data.bin")
os.link("parts/data.bin", "same.bin")
os.rename("parts", "whole")
open("whole/data.bin", "rb").read()
"""
    words = ("trace", "record", "--uncalibrated", "--source", source, "-o", "job.trace", "--")
    assert lab.run(*words, sys.executable, "-I", lab.file(program, "program.py")).code == 0
    names = ["whole/data.bin", "parts/.data.part", "parts/data.bin", "same.bin"]
    for name in names:
        pattern = f"/{name}$".replace(".", "[.]")
        profile = lab.run("trace", "show", "job.trace", "--json", "--file", pattern).json
        (found,) = profile["files"]
        assert found["path"].endswith("/whole/data.bin"), name
        assert (found["write_bytes"], found["read_bytes"]) == (5_000, 5_000)
    paths = lab.run("trace", "show", "job.trace", "--paths").out.splitlines()
    assert {f"{lab.directory}/{name}" for name in names} <= set(paths) and len(paths) == len(set(paths))
    # Without --file it may be missing: the files with the longest time in calls come first.
    shown = lab.run("trace", "show", "job.trace", "--file", "/whole/data[.]bin$", COLUMNS="200").out
    assert "/whole/data.bin (+3 names)" in shown and ".data.part" not in shown


def test_too_many_lines_that_are_not_understood_change_the_exit_code(lab: Lab) -> None:
    line = '4711 1795000000.000001 openat(AT_FDCWD, "/etc/hosts", O_RDONLY) = 3 <0.000010>\n'
    lab.file(line * 200 + "what is this\n", "good.log")
    lab.file(line * 20 + "what is this\n", "bad.log")
    assert lab.run("trace", "import", "good.log").code == 0
    assert lab.run("trace", "show", "good.trace").code == 0
    done = lab.run("trace", "import", "bad.log")
    assert done.code == 97
    assert "1 of 21 lines not understood" in done.err
    assert "what is this" in done.err
    done = lab.run("trace", "show", "bad.trace")
    assert done.code == 97
    assert "1 of 21 lines were not understood" in done.out
    assert "> what is this" in done.out


def test_two_traces_are_compared(lab: Lab, reader: Path) -> None:
    lab.file(READER.replace("range(5)", "range(2)"), "better.py")
    command = (sys.executable, "-I", "better.py")
    assert lab.run("trace", "record", "--uncalibrated", "-o", "better.trace", "--", *command).code == 0
    text = lab.run("trace", "compare", reader, "better.trace", COLUMNS="100").out
    assert max(map(len, text.splitlines())) <= 100
    assert re.search(r"lseek +[\d,]+ +[\d,]+ +0\.4", text)
    assert "data.bin" in text.partition("Files that differ")[2]


def test_a_trace_is_exported(lab: Lab, reader: Path) -> None:
    done = lab.run("trace", "export", reader, "--to", "csv")
    assert (done.code, done.out) == (0, f"{reader.with_suffix('.csv')}\n")
    assert "data.bin" in reader.with_suffix(".csv").read_text(encoding="utf-8")
    assert lab.run("trace", "export", "none.trace", "--to", "fio", "-o", "x").code == 1


def test_what_is_no_trace_is_refused_in_words(lab: Lab) -> None:
    lab.file("nothing\n", "text")
    for words, said in (
        (("show", "none.trace"), "none.trace"),
        (("show", "text"), "text"),
        (("import", "text"), "is not a log of strace"),
        (("record", "-o", "x.trace"), "give either a program"),
        (("record", "-o", "x.trace", "-p", "1", "--", "true"), "give either a program"),
        (("record", "-o", "x.trace", "--", "/not/there"), "there is no program /not/there"),
        (("record", "-o", "x.trace", "--", "nocmd"), "there is no program nocmd"),
        (("record", "-o", "x.trace", "--source", "preload", "--", "./nocmd"), "there is no program ./nocmd"),
        (("record", "-o", "x.trace", "--for", "0s", "--", "true"), "a duration greater than 0"),
        (("export", "x.trace", "--to", "csv", "--root", "copy"), "--root is valid only with --to fio"),
    ):
        done = lab.run("trace", *words)
        assert done.code in (1, 2, 127), (words, done)
        assert said in done.err
        assert not (lab.directory / "x.trace").exists() or "/not/there" in words
