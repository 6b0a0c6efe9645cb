"""Commands that are started from a process which has imported `plimsoll` already.

Importing it takes longer than most commands of the tests, and the tests start a thousand of them. One server per worker
of pytest imports everything once and forks a process for each command. The command has its own session, directory,
environment, files and arguments, and its interpreter ends as usual. With `PLIMSOLL_TEST_PRELOAD=0` every command starts
an interpreter; `make test-long` sets it.

Rejected: calling `main()` in the process of the test. It would share signals, threads and the working directory.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

MAX_REQUEST = 1 << 20
"""Bytes of a request: arguments and environment."""
AT_START = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC", "OPENBLAS", "TZ")
"""Variables with these prefixes are read when a process starts; a command that needs others needs an interpreter."""


def can_fork(env: Mapping[str, str]) -> bool:
    """Whether a command with this environment can come from the server."""
    names = {name for name in {*env, *os.environ} if name.startswith(AT_START)}
    return os.environ.get("PLIMSOLL_TEST_PRELOAD") != "0" and all(
        env.get(name) == os.environ.get(name) for name in names
    )


class Server:
    """The process that forks commands; it ends with the process that started it."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self.socket, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_REQUEST)
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd="/",
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()

    def fork(self, request: Mapping[str, Any], files: Sequence[int]) -> tuple[int, int]:
        """The process id of the command, and where its wait status will be read. `files`: its first three."""
        status, theirs = os.pipe()
        try:
            socket.send_fds(self.socket, [json.dumps(request).encode()], [*files, theirs])
        finally:
            os.close(theirs)
        answer = self.socket.recv(64)
        if not answer:
            os.close(status)
            raise RuntimeError("the server that forks commands has ended")
        return int(answer), status

    def close(self) -> None:
        self.socket.close()
        self.process.wait()


_server: list[Server] = []


def server() -> Server:
    """The server of this process, started at first use."""
    if not _server:
        _server.append(Server())
        atexit.register(_server[0].close)
    return _server[0]


class Command(subprocess.Popen[str]):
    """`subprocess.Popen` of a `plimsoll` command, forked by the server. `args`: the words behind `plimsoll`."""

    _status: int | None = None

    def _execute_child(self, *values: Any) -> None:
        given = inspect.signature(super()._execute_child).bind(*values).arguments  # type: ignore[misc]
        request = {name: given[name] for name in ("args", "env")}
        request |= {"cwd": str(given["cwd"]), "session": given["start_new_session"]}
        files = [
            default if given[name] == -1 else given[name]
            for name, default in (("p2cread", 0), ("c2pwrite", 1), ("errwrite", 2))
        ]
        self.pid, self._status = server().fork(request, files)
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[name] for name in pipes))  # type: ignore[attr-defined]

    def _try_wait(self, flags: int) -> tuple[int, int]:
        """As `os.waitpid`, which is for children only: ours is the server's."""
        if self._status is None or (flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]):
            return (0, 0)
        text = os.read(self._status, 32)
        os.close(self._status)
        self._status = None
        return (self.pid, int(text or b"9"))

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._status is not None:
            with self._waitpid_lock:  # type: ignore[attr-defined]
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode


def serve(descriptor: int) -> int:
    """The server: forks until its starter is gone. Gives the exit code; in a command, the command's."""
    _import_everything()
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    with socket.socket(fileno=descriptor) as starter:
        while True:
            ready = select.select([descriptor, wake], [], [])[0]
            if wake in ready:
                os.read(wake, 512)
                _report(running)
            if descriptor not in ready:
                continue
            text, files, *_ = socket.recv_fds(starter, MAX_REQUEST, 4)
            if not text:
                return 0
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (wake, waker, files[3], *running.values()):
                    os.close(each)
                break
            running[pid] = files[3]
            for each in files[:3]:
                os.close(each)
            starter.send(str(pid).encode())
    return _become(json.loads(text), files[:3])


def _report(running: dict[int, int]) -> None:
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with suppress(BrokenPipeError):
                os.write(running[pid], str(status).encode())
            os.close(running.pop(pid))


def _become(request: Mapping[str, Any], files: Sequence[int]) -> int:
    """The command, in the process that was forked for it."""
    if request["session"]:
        os.setsid()
    for number, each in enumerate(files):
        os.dup2(each, number)
        os.close(each)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["plimsoll", *request["args"]]
    from plimsoll.cli.main import main

    return main()


def _import_everything() -> None:
    """Modules that verbs import when they are called, too."""
    import importlib
    import pkgutil

    import plimsoll.cli

    for module in pkgutil.walk_packages(plimsoll.cli.__path__, "plimsoll.cli."):
        importlib.import_module(module.name)
    for name in ("plimsoll.report.html", "plimsoll.trace.html"):
        importlib.import_module(name)
    gc.freeze()


def _main() -> NoReturn:
    sys.path[0] = str(Path(__file__).resolve().parents[1] / "python")
    sys.exit(serve(int(sys.argv[1])))


if __name__ == "__main__":
    _main()
