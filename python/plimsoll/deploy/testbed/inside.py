"""Commands whose hosts are those of a testbed run on its host `lab`, from wherever they are called.

Two processes: the outer one brings the testbed up, starts itself again inside, hands every signal on, and takes the
testbed down, however the inner one ended. If the outer one is killed, the inner one notices, ends as after Ctrl-C, and
takes the testbed down itself. Rejected: entering the testbed with the outer process itself, which nobody would
outlive to clean up.
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
from plimsoll.plan.model_hosts import LOCAL, Hosts

_LEASH: Final = "PLIMSOLL_TESTBED_LEASH"
"""Environment of the inner process: the descriptor of a pipe that ends with the outer one."""
_OUTER: Final = "PLIMSOLL_TESTBED_OUTER"
"""Environment of the inner process: the id of the outer one."""
_HANDED_ON: Final = {
    signal.SIGINT: signal.SIGINT,
    signal.SIGTERM: signal.SIGTERM,
    signal.SIGHUP: signal.SIGTERM,  # nobody is left to look, so that a clean end is all there is to do
}


def on_lab(hosts: Iterable[Hosts], words: Sequence[str]) -> int | None:
    """Carries out `plimsoll WORDS` on the host `lab` of the testbed that these hosts are of, and gives its exit code;
    None where the caller is to go on: they are of no testbed, or this is that host.

    A testbed that is up already stays up, one that is brought up for this is taken down. Raises BadInput where the
    hosts are of several testbeds, or this process is in another one; ServiceError where it does not come up.
    """
    spec = only_testbed(hosts)
    if spec is None:
        return None
    bed = here(spec)
    if bed is None:
        return _inside(spec, words)
    _heed_the_outer_process(bed)
    return None


def only_testbed(hosts: Iterable[Hosts]) -> TestbedSpec | None:
    """The testbed that hosts are of, None where they are of none. Raises BadInput where one command cannot reach
    all."""
    kinds = {one.kind for one in hosts if one.elsewhere}
    files = {one.testbed for one in hosts if one.testbed is not None}
    if not files:
        return None
    if len(files) > 1:
        raise BadInput(
            f"the hosts belong to {len(files)} testbeds ({', '.join(sorted(files))}), and an experiment "
            f"can use only one: write one experiment for each"
        )
    if others := kinds - {"testbed"}:
        raise BadInput(
            f"hosts of kind testbed cannot be combined with {' and '.join(sorted(others))}: a testbed has "
            f"no network to the outside. Only {LOCAL} can be combined with it"
        )
    return load_testbed(files.pop())


def here(spec: TestbedSpec) -> Testbed | None:
    """The testbed of this file if this process is on its host `lab`, None where it is in no testbed. Raises BadInput
    where it is anywhere else."""
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
    """Id of the process that takes the testbed down after this one; None if there is none."""
    outer = os.environ.get(_OUTER, "")
    return int(outer) if outer.isdecimal() else None


def _inside(spec: TestbedSpec, words: Sequence[str]) -> int:
    with _Messenger() as messenger, _used(spec) as (bed, kept_open):
        messenger.check()
        ours, theirs = os.pipe()
        # It ends with this process: nothing is ever written.
        with os.fdopen(theirs, "wb"):
            process = subprocess.Popen(
                [*bed.enter_argv(), sys.executable, "-m", "plimsoll.cli.main", *words],
                env={**os.environ, _LEASH: str(ours), _OUTER: str(os.getpid())},
                pass_fds=(ours, *kept_open),
                # What a terminal sends would reach it twice: from there, and from us.
                start_new_session=True,
            )
            os.close(ours)
            messenger.recipient(process)
            code = process.wait()
    if code >= 0:
        return code
    if messenger.heard:
        return int(ExitCode.INTERRUPTED)
    name = signal.Signals(-code).name
    print(f"plimsoll: the process on the host {LAB} of {spec.name} was killed by {name}", file=sys.stderr)
    return int(ExitCode.ERROR)


@contextlib.contextmanager
def _used(spec: TestbedSpec) -> Iterator[tuple[Testbed, tuple[int, ...]]]:
    """The testbed while a command uses it, and the descriptors that the command must hold meanwhile."""
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
    """Takes down a testbed that was brought up for a command, unless a user asked to keep it."""
    if bed.mark.exists() and places.answers(bed.directory):
        bed.down()


class _Messenger:
    """Signals while a command runs elsewhere: those that come before it is there are kept for it, and none ends us."""

    def __init__(self) -> None:
        self.heard: list[signal.Signals] = []
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._hear) for number in _HANDED_ON}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises KeyboardInterrupt where one has come."""
        if self.heard:
            raise KeyboardInterrupt

    def recipient(self, process: subprocess.Popen[bytes]) -> None:
        """The command is there."""
        waiting = list(self.heard)
        self._process = process
        for number in waiting:
            process.send_signal(number)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        meant = _HANDED_ON[signal.Signals(number)]
        self.heard.append(meant)
        if self._process is not None:
            self._process.send_signal(meant)


def _heed_the_outer_process(bed: Testbed) -> None:
    """From now on the end of the outer process is a request to stop, and the testbed ends with this one."""
    leash = os.environ.pop(_LEASH, None)
    if leash is None:
        return  # brought here by hand: `plimsoll testbed exec lab -- plimsoll run ...`
    descriptor = int(leash)
    os.set_inheritable(descriptor, False)
    alone = threading.Event()

    def watch() -> None:
        os.read(descriptor, 1)
        alone.set()
        os.kill(os.getpid(), signal.SIGTERM)

    def last() -> None:
        if alone.is_set():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # we are among those whom the testbed ends
            with contextlib.suppress(PlimsollError):
                take_down(bed)

    # SIGTERM by itself would end this process without its last words; an experiment puts its own handler in place.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    atexit.register(last)
    threading.Thread(target=watch, name="outer process", daemon=True).start()
