"""`kind: dask`: an agent on each worker of a Dask cluster, as a task that is bound to it.

Nothing but Dask is needed on the workers: what runs there is sent by value, the engine as bytes, once for each worker.
Engine and spool lie in the worker's own directory, which ends with it. The token is an argument of the task whose text
shows nowhere, and goes to the agent's standard input.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Final, TypeVar

from plimsoll.deploy.binary import elf_facts
from plimsoll.deploy.hosts import Cleaned, dask_worker, remote
from plimsoll.deploy.hosts.dial_in import POLL_S, Outlook, in_order, refused
from plimsoll.errors import Interrupted
from plimsoll.plan.model_hosts import Host, Hosts
from plimsoll.plan.source.secret import Secret

KIND: Final = "dask"
CONNECT_S: Final = 15.0
ANSWER_S: Final = 30.0
"""For a question to all workers, or a copy of the engine to one."""
CANCEL_S: Final = 5.0
"""For the scheduler, which says at once what it has forgotten; beyond that it waits for a worker that is stopped."""
ENGINE: Final = "plimsoll-engine-"
"""What names of engines on workers begin with."""
DIGEST: Final = 16

Result = TypeVar("Result")


class DaskWorkers:
    """Tasks on the workers of a cluster; see `Bringer`."""

    site = KIND

    def __init__(
        self,
        hosts: Hosts,
        engine: Path,
        token: str,
        cluster: object | None = None,
        check_interrupt: Callable[[], None] = lambda: None,
    ) -> None:
        self._hosts = hosts
        self._engine = engine
        self._token = token
        self._cluster = cluster
        self._check_interrupt = check_interrupt
        self._client: Any = None
        self._own = True
        self._round = 0
        self._tasks: dict[str, Any] = {}
        self._why: dict[str, str] = {}
        self._files: dict[str, dict[str, str]] = {}

    def bring(self, token: Secret, files: Sequence[Path] = ()) -> int:
        """Copies engine and files to every worker of now, and starts a task on each that takes them."""
        self._connect()
        workers = self._workers()
        if not workers:
            raise refused(f"the cluster at {self._hosts.dask} has no workers", "hosts.dask")
        content = self._engine.read_bytes()
        name = ENGINE + hashlib.sha256(content).hexdigest()[:DIGEST]
        trouble = self._copy(name, content, list(workers.values()))
        self._files = {agent: {} for agent in workers}
        for file in files:
            trouble |= self._put(file, {agent: one for agent, one in workers.items() if one not in trouble})
        self._why = {agent: trouble[worker] for agent, worker in workers.items() if worker in trouble}
        self._round += 1
        self._tasks = {
            agent: self._client.submit(
                dask_worker.carry,
                name,
                self._token,
                agent,
                dask_worker.Handed(token.reveal()),
                key=f"plimsoll-{self._token}-{self._round}-{agent}",
                workers=[worker],
                allow_other_workers=False,
                pure=False,
                retries=0,
            )
            for agent, worker in workers.items()
            if worker not in trouble
        }
        return len(workers)

    def files(self, agent: str) -> Mapping[str, str]:
        """In the directory of its worker."""
        return self._files.get(agent, {})

    def look(self, here: Collection[str]) -> Outlook:
        """By the tasks; workers that come later are not used. Of its host an agent knows more than the scheduler."""
        missing = {name: task for name, task in self._tasks.items() if name not in here}
        coming = tuple(name for name, task in missing.items() if not task.done())
        why = {**self._why, **{name: _how(task) for name, task in missing.items() if task.done()}}
        return Outlook(coming=coming, why=why, over="" if coming else next(iter(why.values()), ""))

    def end(self, *, everything: bool, discard: bool) -> list[Cleaned]:
        """Ends tasks and agents on the workers that are still there; with the others ended what they had started."""
        host = Host(KIND, "", self.site)
        if self._client is None and not everything:
            return [Cleaned(host)]
        kept: list[str] = []
        left: list[str] = []
        reason = ""
        keep_engine = self._hosts.keep == "engine" and not everything
        try:
            if self._client is None:
                self._connect()
            which = ("" if everything else self._token, "" if keep_engine else f"{ENGINE}*", discard)
            for worker, found in self._ask(dask_worker.end, *which).items():
                if isinstance(found, Mapping):
                    kept += [f"{worker}: {path}" for path in found["kept"]]
                    left += [f"{worker}: {what}" for what in found["left"]]
                else:
                    reason = f"{worker}: {found}"
        except Exception as error:  # a scheduler that has ended, in any of many ways
            reason = str(error)
        # Also where a worker does not answer: the tasks of the others must not stay.
        client, self._client = self._client, None
        tasks, self._tasks = list(self._tasks.values()), {}
        if client is not None:
            with contextlib.suppress(Exception), _quiet():
                self._within(CANCEL_S, lambda: client.cancel(tasks, force=True))
            with contextlib.suppress(Exception), _quiet():
                if self._own:
                    client.close(timeout=5)
        return [Cleaned(host, tuple(kept), tuple(left), reason)]

    def _connect(self) -> None:
        try:
            import cloudpickle
            import distributed
            from distributed.comm.addressing import parse_address
            from distributed.comm.registry import get_backend
        except ImportError as error:
            message = "dask is not installed here: pip install 'plimsoll-lab[dask]'"
            raise refused(message, "hosts.kind") from error
        cloudpickle.register_pickle_by_value(dask_worker)  # workers have no Plimsoll
        if isinstance(self._cluster, distributed.Client):
            self._client, self._own = self._cluster, False
            return
        connect: Callable[..., Any] = distributed.Client  # its signature has no types
        target = self._hosts.dask if self._cluster is None else self._cluster
        try:
            if isinstance(
                target, str
            ):  # asked first: a client that does not know the way hangs when it is collected
                get_backend(parse_address(target)[0])
            with _quiet():
                self._client = connect(target, timeout=CONNECT_S, set_as_default=False)
        except Exception as error:  # OSError, TimeoutError, ValueError and errors of TLS, by what is wrong
            message = f"no scheduler answers at {self._hosts.dask}: {error}"
            raise refused(message, "hosts.dask.address") from error

    def _workers(self) -> dict[str, str]:
        """Addresses of the workers of now by the names of their agents, numbered in the order of the workers' names."""
        try:
            told = self._within(ANSWER_S, lambda: self._client.scheduler_info(n_workers=-1))
        except (OSError, TimeoutError) as error:
            raise refused(f"the cluster does not answer: {error}", "hosts.dask") from error
        workers = told["workers"]
        in_turn = sorted(workers, key=lambda address: in_order(str(workers[address].get("name", address))))
        return {f"{KIND}.{number}": address for number, address in enumerate(in_turn, 1)}

    def _copy(self, name: str, content: bytes, workers: list[str]) -> dict[str, str]:
        """To the workers that have not got it, one after the other, as it passes through the scheduler's memory. Gives
        why workers cannot be used."""
        ours = elf_facts(self._engine).architecture
        trouble: dict[str, str] = {}
        facts = self._ask(dask_worker.facts, name, workers=workers)
        for worker in workers:
            found = facts.get(worker, "no answer")
            if not isinstance(found, Mapping):
                trouble[worker] = f"its worker does not answer: {found}"
            elif (found["system"], found["architecture"]) != ("Linux", ours):
                machine = f"{found['system']} on {found['architecture']}"
                trouble[worker] = f"its worker runs {machine}; the engine needs Linux on {ours}"
            elif not found["engine"]:
                said = self._ask(dask_worker.put, name, content, workers=[worker]).get(worker, "no answer")
                if said:
                    trouble[worker] = f"the engine cannot be copied to its worker: {said}"
        return trouble

    def _put(self, file: Path, workers: Mapping[str, str]) -> dict[str, str]:
        """A file, to the workers of these agents, one after the other. Gives why workers cannot be used."""
        try:
            content, mode = file.read_bytes(), 0o700 if file.stat().st_mode & 0o100 else 0o600
        except OSError as error:
            raise refused(
                f"{file} cannot be copied to the workers: {error.strerror}", "hosts.dask"
            ) from error
        name = remote.file_name(hashlib.sha256(content).hexdigest()[:DIGEST], file.name)
        trouble = {}
        for agent, worker in workers.items():
            call = (dask_worker.put_file, self._token, name, content, mode)
            found = self._ask(*call, workers=[worker]).get(worker, "no answer")
            if isinstance(found, Mapping) and not found["why"]:
                self._files[agent][str(file)] = found["path"]
            else:
                why = found["why"] if isinstance(found, Mapping) else found
                trouble[worker] = f"{file} cannot be copied to its worker: {why}"
        return trouble

    def _ask(
        self, what: Callable[..., Any], *arguments: object, workers: list[str] | None = None
    ) -> Mapping[str, Any]:
        """What workers (None: all) answer, or the exception instead. Raises BadInput where the cluster does not."""

        def ask() -> Mapping[str, Any]:
            found: Mapping[str, Any] = self._client.run(what, *arguments, workers=workers, on_error="return")
            return found

        try:
            with _quiet():
                return self._within(ANSWER_S, ask)
        except Interrupted:
            raise
        except Exception as error:  # of the network, of pickling, of the scheduler: Dask has many
            raise refused(f"the cluster does not answer: {error!r}", "hosts.dask") from error

    def _within(self, seconds: float, call: Callable[[], Result]) -> Result:
        """A call that Dask would wait for without end, as for a worker that is stopped. Raises TimeoutError."""
        answer: Future[Result] = Future()

        def work() -> None:
            try:
                answer.set_result(call())
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=work, name="dask", daemon=True).start()
        deadline = time.monotonic() + seconds
        while not answer.done():
            self._check_interrupt()
            if time.monotonic() >= deadline:
                raise TimeoutError(f"no answer within {seconds:g} s")
            wait([answer], timeout=POLL_S)
        return answer.result()


def _how(task: Any) -> str:
    """How a task has ended."""
    with contextlib.suppress(Exception):
        if task.status == "finished":
            return str(task.result(timeout=5))
        if task.status == "error":
            return f"its task failed: {task.exception(timeout=5)!r}"
    return f"its task is {task.status}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Dask's client tells on stderr of each attempt at a connection; what is wrong comes by an exception, too."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
