"""Runs commands whose hosts are those of a testbed on the testbed's host `lab`.

There are two processes. The outer process starts the testbed, starts itself again inside it, forwards every
signal, and stops the testbed however the inner process ended. If the outer process is killed, the inner one
ends as after Ctrl-C and stops the testbed itself. Rejected: the outer process enters the testbed itself. No
process would then remain to clean up.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import Final, Self

from plimsoll.deploy.testbed import places
from plimsoll.deploy.testbed.standing import HERE, Testbed, find, up
from plimsoll.errors import BadInput, ExitCode, PlimsollError
from plimsoll.plan.hosts.testbed import LAB, TestbedSpec, load_testbed
from plimsoll.plan.hosts.testbed_hosts import mixture_problem
from plimsoll.plan.model.hosts import Hosts

_LEASH: Final = "PLIMSOLL_TESTBED_LEASH"
"""Environment of the inner process: the descriptor of a pipe that closes when the outer process ends."""
_OUTER: Final = "PLIMSOLL_TESTBED_OUTER"
"""Environment of the inner process: the process id of the outer one."""
_FORWARDED: Final = {
    signal.SIGINT: signal.SIGINT,
    signal.SIGTERM: signal.SIGTERM,
    signal.SIGHUP: signal.SIGTERM,  # the terminal is closed, so a clean end is all that remains
}


def run_on_lab(hosts: Iterable[Hosts], words: Sequence[str]) -> int | None:
    """Runs `plimsoll WORDS` on the host `lab` of the testbed to which the hosts belong, and returns its exit
    code. Returns None if the caller must run the command itself: the hosts belong to no testbed, or this
    process already runs on that host.

    A testbed that is already up stays up. One that is started for this command is stopped. Raises BadInput if
    the hosts belong to several testbeds, or if this process runs in another testbed. Raises ServiceError if
    the testbed does not start.
    """
    spec = only_testbed(hosts)
    if spec is None:
        return None
    bed = entered_testbed(spec)
    if bed is None:
        return _run_inside(spec, words)
    _follow_outer_process(bed)
    return None


def only_testbed(hosts: Iterable[Hosts]) -> TestbedSpec | None:
    """The testbed to which the hosts belong; None if they belong to none. Raises BadInput if one command
    cannot reach all hosts."""
    sections = list(hosts)
    if problem := mixture_problem(sections):
        raise BadInput(problem)
    file = next((section.testbed for section in sections if section.testbed is not None), None)
    return None if file is None else load_testbed(file)


def entered_testbed(spec: TestbedSpec) -> Testbed | None:
    """The testbed of this file if this process runs on its host `lab`; None if it runs in no testbed. Raises
    BadInput if it runs in another testbed or on another host."""
    name, _, host = os.environ.get(HERE, "").partition("/")
    if not name:
        return None
    if (name, host) != (spec.name, LAB):
        raise BadInput(
            f"this process runs on the host {host} of the testbed {name}, but the command must run on the "
            f"host {LAB} of {spec.name}: start it outside the testbed"
        )
    bed = find(name)
    if bed.fingerprint != spec.fingerprint():
        raise BadInput(f"this process runs in the testbed {name}, which was created from another file")
    return bed


def outer_process() -> int | None:
    """The id of the process that stops the testbed after this one; None if there is none."""
    outer = os.environ.get(_OUTER, "")
    return int(outer) if outer.isdecimal() else None


def _run_inside(spec: TestbedSpec, words: Sequence[str]) -> int:
    with _SignalForwarder() as forwarder, _testbed_in_use(spec) as (bed, kept_open):
        forwarder.check()
        read_end, write_end = os.pipe()
        # The pipe closes when this process ends; no data is written to it.
        with os.fdopen(write_end, "wb"):
            process = subprocess.Popen(
                [*bed.enter_argv(), sys.executable, "-m", "plimsoll.cli.main", *words],
                env={**os.environ, _LEASH: str(read_end), _OUTER: str(os.getpid())},
                pass_fds=(read_end, *kept_open),
                # Otherwise a signal of the terminal would reach it twice: directly, and forwarded.
                start_new_session=True,
            )
            os.close(read_end)
            forwarder.forward_to(process)
            code = process.wait()
    if code >= 0:
        return code
    if forwarder.received:
        return int(ExitCode.INTERRUPTED)
    name = signal.Signals(-code).name
    print(f"plimsoll: the process on the host {LAB} of {spec.name} was killed by {name}", file=sys.stderr)
    return int(ExitCode.ERROR)


@contextlib.contextmanager
def _testbed_in_use(spec: TestbedSpec) -> Iterator[tuple[Testbed, tuple[int, ...]]]:
    """The testbed while a command uses it, and the descriptors that the command must keep open during this
    time."""
    bed = up(spec)
    if bed.reused and not bed.mark.exists():
        yield bed, ()
        return
    lock = _lock(bed)
    try:
        yield bed, (lock,)
    finally:
        take_down(bed)
        os.close(lock)


def _lock(bed: Testbed) -> int:
    """Marks a testbed as owned by one command, which holds the lock on the mark. A mark without a
    lock was left by a killed command: this command then owns the testbed."""
    lock = os.open(bed.mark, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise BadInput(
            f"another command started the testbed {bed.name} and will stop it: wait until it ends, or run "
            f"`plimsoll testbed up` before both commands"
        ) from None
    return lock


def take_down(bed: Testbed) -> None:
    """Stops a testbed that was started for a command, unless a user asked to keep it."""
    if bed.mark.exists() and places.is_answering(bed.directory):
        bed.down()


class _SignalForwarder:
    """Forwards signals to a command. Signals that arrive before the command runs are kept for it. None of
    them ends this process."""

    def __init__(self) -> None:
        self.received: list[signal.Signals] = []
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._handle) for number in _FORWARDED}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises KeyboardInterrupt if a signal has arrived."""
        if self.received:
            raise KeyboardInterrupt

    def forward_to(self, process: subprocess.Popen[bytes]) -> None:
        """Forwards the signals that have arrived, and all further ones, to this process."""
        waiting = list(self.received)
        self._process = process
        for number in waiting:
            process.send_signal(number)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        forwarded = _FORWARDED[signal.Signals(number)]
        self.received.append(forwarded)
        if self._process is not None:
            self._process.send_signal(forwarded)


def _follow_outer_process(bed: Testbed) -> None:
    """From now on, the end of the outer process is a request to stop, and the testbed is stopped when this
    process ends."""
    leash = os.environ.pop(_LEASH, None)
    if leash is None:
        return  # a user started it here: `plimsoll testbed exec lab -- plimsoll run ...`
    descriptor = int(leash)
    os.set_inheritable(descriptor, False)
    alone = threading.Event()

    def watch() -> None:
        os.read(descriptor, 1)
        alone.set()
        os.kill(os.getpid(), signal.SIGTERM)

    def last() -> None:
        if alone.is_set():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # stopping the testbed also ends this process
            with contextlib.suppress(PlimsollError):
                take_down(bed)

    # By default, SIGTERM ends this process before `last` runs. An experiment installs its own handler.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    atexit.register(last)
    threading.Thread(target=watch, name="outer process", daemon=True).start()
