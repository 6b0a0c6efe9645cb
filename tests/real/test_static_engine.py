"""The engine as it is copied to other hosts: linked statically, on kernels from 4.18, and names are looked up."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from plimsoll.deploy.binary import elf_facts, find_engine
from tests.conftest import Lab, missing

OLD_KERNEL = """\
#!{python}
# Runs a program as a kernel of 4.18 would: system calls that were added since then (from number 424 on x86-64; there is
# none from 335 to 423) are answered with ENOSYS.
import ctypes, os, struct, sys

LOAD, JUMP_IF_LESS, RETURN = 0x20, 0x35, 0x06
program = b"".join(
    struct.pack("=HBBI", *step)
    for step in (
        (LOAD, 0, 0, 0),
        (JUMP_IF_LESS, 0, 1, 335),
        (RETURN, 0, 0, 0x00050000 | 38),
        (RETURN, 0, 0, 0x7FFF0000),
    )
)
steps = ctypes.create_string_buffer(program)
filter = struct.pack("=HxxxxxxQ", 4, ctypes.addressof(steps))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_char_p(filter), 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv({engine!r}, [{engine!r}, *sys.argv[1:]])
"""


EXPERIMENT = """\
plimsoll: 1
services:
  web:
    kind: command
    command: [{engine}, serve, echo, --listen, "{{address}}:{{port}}"]
    url: "http://localhost:{{port}}"
workload: {{driver: http, target: web}}
load: {{testers: 2, think: 5ms}}
design: {{seed: 1}}
run: {{duration: 700ms}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}}
"""


@pytest.fixture
def engine() -> Path:
    """The engine that `make engine` built."""
    found = find_engine()
    if not elf_facts(found).static:
        missing(f"a static engine ({found} is not)", "make engine")
    return found


def test_it_needs_no_library(engine: Path) -> None:
    assert elf_facts(engine).architecture == platform.machine()
    listed = subprocess.run(
        [engine, "version"], env={"LD_LIBRARY_PATH": "/nowhere"}, capture_output=True, check=True
    )
    assert b"version" in listed.stdout


def test_a_name_is_looked_up_without_a_library_of_the_host(engine: Path, lab: Lab) -> None:
    done = lab.run("run", lab.file(EXPERIMENT.format(engine=engine)), "--json", PLIMSOLL_ENGINE=str(engine))
    assert done.code == 0, done.err
    assert done.json["runs"][0]["counts"]["succeeded"] > 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86-64")
def test_it_works_with_the_system_calls_of_the_oldest_kernel(engine: Path, lab: Lab) -> None:
    old = lab.file(OLD_KERNEL.format(python=sys.executable, engine=str(engine)), "engine-on-old-kernel")
    old.chmod(0o755)
    trial = [sys.executable, "-c", "import os, subprocess; os.pidfd_open(os.getpid())"]
    probe = OLD_KERNEL.format(python=sys.executable, engine=sys.executable)
    refused = subprocess.run(
        [sys.executable, "-c", probe.partition("\n")[2], *trial[1:]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Function not implemented" in refused.stderr, "the filter must refuse what is newer"
    done = lab.run("run", lab.file(EXPERIMENT.format(engine=old)), "--json", PLIMSOLL_ENGINE=str(old))
    assert done.code == 0, done.err
    assert done.json["runs"][0]["counts"]["succeeded"] > 0
