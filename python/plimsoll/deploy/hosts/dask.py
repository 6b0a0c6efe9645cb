"""`kind: dask`: an agent on each worker of a Dask cluster, as a task that is bound to the worker.

The workers need only Dask. The functions that run there are sent by value, and the engine as bytes, once for
each worker. Engine and spool are in the worker's own directory, which is removed with the worker. The token
is an argument of the task that is never shown as text. It is written to the agent's standard input.
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
from plimsoll.deploy.hosts import CleanedHost, dask_worker, remote
from plimsoll.deploy.hosts.dial_in import POLL_S, Outlook, host_error, natural_key
from plimsoll.errors import UserInterrupt
from plimsoll.plan.model.hosts import Host, Hosts
from plimsoll.plan.source.secret import Secret

KIND: Final = "dask"
CONNECT_S: Final = 15.0
ANSWER_S: Final = 30.0
"""The time for a request to all workers, or for a copy of the engine to one."""
CANCEL_S: Final = 5.0
"""The time for the cancellation of tasks. The scheduler forgets the tasks at once; afterwards it waits for
workers that are stopped."""
ENGINE: Final = "plimsoll-engine-"
"""The prefix of the names of engines on workers."""
DIGEST: Final = 16

Result = TypeVar("Result")


class DaskWorkers:
    """Tasks on the workers of a cluster. Implements `AgentStarter`."""

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

    def start_agents(self, token: Secret, files: Sequence[Path] = ()) -> int:
        """Copies engine and files to all current workers, and starts a task on each worker that accepts
        them."""
        self._connect()
        workers = self._workers()
        if not workers:
            raise host_error(f"the cluster at {self._hosts.dask} has no workers", "hosts.dask")
        content = self._engine.read_bytes()
        name = ENGINE + hashlib.sha256(content).hexdigest()[:DIGEST]
        trouble = self._copy_engine(name, content, list(workers.values()))
        self._files = {agent: {} for agent in workers}
        for file in files:
            trouble |= self._copy_file(
                file, {agent: address for agent, address in workers.items() if address not in trouble}
            )
        self._why = {agent: trouble[worker] for agent, worker in workers.items() if worker in trouble}
        self._round += 1
        self._tasks = {
            agent: self._client.submit(
                dask_worker.run_agent,
                name,
                self._token,
                agent,
                dask_worker.HiddenToken(token.reveal()),
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
        """The paths of the files in the directory of the agent's worker."""
        return self._files.get(agent, {})

    def outlook(self, connected: Collection[str]) -> Outlook:
        """The state of the tasks. Workers that join later are not used. An agent knows more about its host
        than the scheduler."""
        missing = {name: task for name, task in self._tasks.items() if name not in connected}
        coming = tuple(name for name, task in missing.items() if not task.done())
        why = {**self._why, **{name: _task_end(task) for name, task in missing.items() if task.done()}}
        return Outlook(coming=coming, why=why, over="" if coming else next(iter(why.values()), ""))

    def end(self, *, everything: bool, discard: bool) -> list[CleanedHost]:
        """Ends tasks and agents on the workers that still run. The agents of the other workers have ended
        with them."""
        host = Host(KIND, "", self.site)
        if self._client is None and not everything:
            return [CleanedHost(host)]
        kept: list[str] = []
        left: list[str] = []
        reason = ""
        keep_engine = self._hosts.keep == "engine" and not everything
        try:
            if self._client is None:
                self._connect()
            which = ("" if everything else self._token, "" if keep_engine else f"{ENGINE}*", discard)
            for worker, result in self._ask(dask_worker.end_agents, *which).items():
                if isinstance(result, Mapping):
                    kept += [f"{worker}: {path}" for path in result["kept"]]
                    left += [f"{worker}: {remainder}" for remainder in result["left"]]
                else:
                    reason = f"{worker}: {result}"
        except Exception as error:  # a scheduler that has ended raises one of many types
            reason = str(error)
        # This is done even if a worker does not answer: the tasks of the others must be removed.
        client, self._client = self._client, None
        tasks, self._tasks = list(self._tasks.values()), {}
        if client is not None:
            with contextlib.suppress(Exception), _quiet():
                self._within(CANCEL_S, lambda: client.cancel(tasks, force=True))
            with contextlib.suppress(Exception), _quiet():
                if self._own:
                    client.close(timeout=5)
        return [CleanedHost(host, tuple(kept), tuple(left), reason)]

    def _connect(self) -> None:
        try:
            import cloudpickle
            import distributed
            from distributed.comm.addressing import parse_address
            from distributed.comm.registry import get_backend
        except ImportError as error:
            message = "dask is not installed here: pip install 'plimsoll-lab[dask]'"
            raise host_error(message, "hosts.kind") from error
        cloudpickle.register_pickle_by_value(dask_worker)  # workers have no Plimsoll
        if isinstance(self._cluster, distributed.Client):
            self._client, self._own = self._cluster, False
            return
        connect: Callable[..., Any] = distributed.Client  # its signature has no types
        target = self._hosts.dask if self._cluster is None else self._cluster
        try:
            if isinstance(
                target, str
            ):  # checked first: a client with an unknown protocol hangs at its garbage collection
                get_backend(parse_address(target)[0])
            with _quiet():
                self._client = connect(target, timeout=CONNECT_S, set_as_default=False)
        except Exception as error:  # OSError, TimeoutError, ValueError or errors of TLS
            message = f"no scheduler answers at {self._hosts.dask}: {error}"
            raise host_error(message, "hosts.dask.address") from error

    def _workers(self) -> dict[str, str]:
        """Addresses of the current workers by the names of their agents, which are numbered in the order of
        the workers' names."""
        try:
            info = self._within(ANSWER_S, lambda: self._client.scheduler_info(n_workers=-1))
        except (OSError, TimeoutError) as error:
            raise host_error(f"the cluster does not answer: {error}", "hosts.dask") from error
        workers = info["workers"]
        in_turn = sorted(workers, key=lambda address: natural_key(str(workers[address].get("name", address))))
        return {f"{KIND}.{number}": address for number, address in enumerate(in_turn, 1)}

    def _copy_engine(self, name: str, content: bytes, workers: list[str]) -> dict[str, str]:
        """Copies the engine to the workers that do not have it, one after the other, as it passes through the
        scheduler's memory. Returns why workers cannot be used, by worker."""
        architecture = elf_facts(self._engine).architecture
        trouble: dict[str, str] = {}
        facts = self._ask(dask_worker.facts, name, workers=workers)
        for worker in workers:
            worker_facts = facts.get(worker, "no answer")
            if not isinstance(worker_facts, Mapping):
                trouble[worker] = f"its worker does not answer: {worker_facts}"
            elif (worker_facts["system"], worker_facts["architecture"]) != ("Linux", architecture):
                machine = f"{worker_facts['system']} on {worker_facts['architecture']}"
                trouble[worker] = f"its worker runs {machine}; the engine needs Linux on {architecture}"
            elif not worker_facts["engine"]:
                error = self._ask(dask_worker.write_engine, name, content, workers=[worker]).get(
                    worker, "no answer"
                )
                if error:
                    trouble[worker] = f"the engine cannot be copied to its worker: {error}"
        return trouble

    def _copy_file(self, file: Path, workers: Mapping[str, str]) -> dict[str, str]:
        """Copies a file to the workers of these agents, one after the other. Returns why workers cannot be
        used, by worker."""
        try:
            content, mode = file.read_bytes(), 0o700 if file.stat().st_mode & 0o100 else 0o600
        except OSError as error:
            raise host_error(
                f"{file} cannot be copied to the workers: {error.strerror}", "hosts.dask"
            ) from error
        name = remote.file_name(hashlib.sha256(content).hexdigest()[:DIGEST], file.name)
        trouble = {}
        for agent, worker in workers.items():
            call = (dask_worker.write_file, self._token, name, content, mode)
            result = self._ask(*call, workers=[worker]).get(worker, "no answer")
            if isinstance(result, Mapping) and not result["why"]:
                self._files[agent][str(file)] = result["path"]
            else:
                why = result["why"] if isinstance(result, Mapping) else result
                trouble[worker] = f"{file} cannot be copied to its worker: {why}"
        return trouble

    def _ask(
        self, function: Callable[..., Any], *arguments: object, workers: list[str] | None = None
    ) -> Mapping[str, Any]:
        """Calls `function` on workers (None: all). Returns each result, or the exception instead. Raises
        BadInput if the cluster does not answer."""

        def ask() -> Mapping[str, Any]:
            answers: Mapping[str, Any] = self._client.run(
                function, *arguments, workers=workers, on_error="return"
            )
            return answers

        try:
            with _quiet():
                return self._within(ANSWER_S, ask)
        except UserInterrupt:
            raise
        except Exception as error:  # Dask raises many types: network, pickling, scheduler
            raise host_error(f"the cluster does not answer: {error!r}", "hosts.dask") from error

    def _within(self, seconds: float, call: Callable[[], Result]) -> Result:
        """Limits the time of a call for which Dask would wait without end, for example on a worker that is
        stopped. Raises TimeoutError."""
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


def _task_end(task: Any) -> str:
    """How a task has ended."""
    with contextlib.suppress(Exception):
        if task.status == "finished":
            return str(task.result(timeout=5))
        if task.status == "error":
            return f"its task failed: {task.exception(timeout=5)!r}"
    return f"its task is {task.status}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses the messages of Dask's client on stderr about each connection attempt. Errors are also
    raised as exceptions."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
