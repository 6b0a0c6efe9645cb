"""What the preload recorder does not see, and says so; and what it calls files in other roots."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.conftest import Lab, missing

RINGS = """
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
/* As the headers of both libraries have it, which need not be installed. */
struct sqe { uint8_t opcode, flags; uint16_t ioprio; int32_t fd; uint64_t off, addr; uint32_t len; char rest[36]; };
struct iocb {
    void *data; uint32_t key, rw; uint16_t opcode; int16_t prio; int32_t fd;
    uint64_t buf, nbytes, offset; char rest[16];
};
int io_uring_queue_init(unsigned, void *, unsigned);
int io_uring_submit(void *), io_uring_submit_and_wait(void *, unsigned);
void io_uring_queue_exit(void *);
struct sqe *io_uring_get_sqe(void *);
int io_setup(int, void **), io_submit(void *, long, struct iocb **), io_getevents(void *, long, long, void *, void *);
static char data[65536], ring[4096], done[4096];
int main(int argc, char **argv) {
    int fd = open("data.bin", O_RDONLY);
    if (!strcmp(argv[1], "uring")) {
        if (io_uring_queue_init(8, ring, 0)) return 3;
        for (int turn = 0; turn < 5; turn++) {
            struct sqe *one = io_uring_get_sqe(ring);
            memset(one, 0, sizeof *one);
            one->opcode = 22, one->fd = fd, one->addr = (uintptr_t)data, one->len = sizeof data;
            if ((turn ? io_uring_submit_and_wait(ring, 1) : io_uring_submit(ring)) != 1) return 4;
        }
        io_uring_queue_exit(ring);
        return 0;
    }
    void *context = 0;
    struct iocb one = {0}, *list[1] = {&one};
    one.fd = fd, one.buf = (uintptr_t)data, one.nbytes = sizeof data;
    if (io_setup(8, &context)) return 5;
    for (int turn = 0; turn < 5; turn++)
        if (io_submit(context, 1, list) != 1 || io_getevents(context, 1, 1, done, 0) != 1) return 6;
    one.fd = -1;
    return io_submit(context, 1, list) == -9 ? 0 : 7;
}
"""


PLUGIN = """
import ctypes, sys
words = (ctypes.c_char_p * 3)(b"rings", sys.argv[2].encode(), None)
sys.exit(ctypes.CDLL("./librings.so").run(2, words))
"""


@pytest.mark.parametrize("how", ["uring", "aio"])
def test_libraries_that_a_part_of_a_program_has_loaded_work_as_ever(lab: Lab, how: str) -> None:
    (lab.directory / "data.bin").write_bytes(bytes(100_000))
    lab.file(RINGS, "rings.c")
    libraries = ("-l:liburing.so.2", "-l:libaio.so.1")
    build = ("cc", "-shared", "-fPIC", "-Dmain=run", "-o", "librings.so", "rings.c", *libraries)
    if shutil.which("cc") is None or subprocess.run(build, cwd=lab.directory, check=False).returncode:
        missing("liburing and libaio", "install liburing2, libaio1 and gcc")
    command = (sys.executable, "-I", lab.file(PLUGIN, "plugin.py"), "rings", how)
    if subprocess.run(command, cwd=lab.directory, check=False).returncode == 3:
        missing("io_uring", "sysctl kernel.io_uring_disabled=0")
    words = ("trace", "record", "--uncalibrated", "--source", "preload", "-o", "job.trace", "--")
    done = lab.run(*words, *command)
    assert done.code == 0, done.err
    spots = {
        each["kind"]: each for each in lab.run("trace", "show", "job.trace", "--json").json["blind_spots"]
    }
    assert spots["io-uring"]["count"] == 5


@pytest.mark.parametrize("how", ["uring", "aio", "syscall"])
def test_preload_says_what_it_cannot_see(lab: Lab, how: str) -> None:
    (lab.directory / "data.bin").write_bytes(bytes(100_000))
    if how == "syscall":
        program = "import ctypes; libc = ctypes.CDLL(None); assert libc.syscall(425, 8, bytes(120)) > 2"
        command: tuple[str, ...] = (sys.executable, "-I", "-c", program)
    else:
        lab.file(RINGS, "rings.c")
        build = ("cc", "-o", "rings", "rings.c", "-l:liburing.so.2", "-l:libaio.so.1")
        if shutil.which("cc") is None or subprocess.run(build, cwd=lab.directory, check=False).returncode:
            missing("liburing and libaio", "install liburing2, libaio1 and gcc")
        command = ("./rings", how)
        if subprocess.run(command, cwd=lab.directory, check=False).returncode == 3:
            missing("io_uring", "sysctl kernel.io_uring_disabled=0")
    words = ("trace", "record", "--uncalibrated", "--source", "preload", "-o", "job.trace", "--")
    done = lab.run(*words, *command)
    assert done.code == 0, done.err
    spots = {
        each["kind"]: each for each in lab.run("trace", "show", "job.trace", "--json").json["blind_spots"]
    }
    assert spots["io-uring"]["count"] == (1 if how == "syscall" else 5)
    assert "are not in the trace" in spots["io-uring"]["text"]
    text = " ".join(lab.run("trace", "show", "job.trace").out.split())
    assert "No findings" not in text
    assert "calls that do not go through libc's functions are not recorded by preload" in text


def test_preload_says_of_every_program_what_it_cannot_see(lab: Lab) -> None:
    words = (
        "trace",
        "record",
        "--uncalibrated",
        "--source",
        "preload",
        "-o",
        "job.trace",
        "--",
        "cat",
        "/etc/passwd",
    )
    assert lab.run(*words).code == 0
    kinds = [each["kind"] for each in lab.run("trace", "show", "job.trace", "--json").json["blind_spots"]]
    assert "past-libc" in kinds and "io-uring" not in kinds


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot(2) is root's")
def test_names_behind_a_chroot_are_those_of_the_host(lab: Lab) -> None:
    (lab.directory / "jail" / "x").mkdir(parents=True)
    (lab.directory / "jail" / "x" / "inside").write_bytes(bytes(4_000))
    read = "open('/x/inside', 'rb').read(); open('x/inside', 'rb').read()"
    program = f"import os; os.chroot('jail'); os.chdir('/'); {read}"
    words = ("trace", "record", "--uncalibrated", "--source", "preload", "-o", "job.trace", "--")
    assert lab.run(*words, sys.executable, "-I", "-c", program).code == 0
    profile = lab.run("trace", "show", "job.trace", "--json").json
    inside = [each for each in profile["files"] if each["path"].endswith("/x/inside")]
    assert [(each["path"], each["read_bytes"]) for each in inside] == [
        (f"{lab.directory}/jail/x/inside", 8_000)
    ]
