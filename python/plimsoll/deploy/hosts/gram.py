"""`kind: gram`: agents as jobs of a GRAM gatekeeper, one job for each agent.

`globusrun` submits a job, serves the engine and the token to the gatekeeper (GASS), and runs as long as the job. So the
two hosts need no common directory. It runs below a guard, which ends it if the lab is killed. The token is the job's
standard input: it is on no command line and in no request.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from plimsoll.deploy.binary import elf_facts
from plimsoll.deploy.hosts import CleanedHost
from plimsoll.deploy.hosts.dial_in import Lab, Outlook, host_error
from plimsoll.deploy.hosts.private import private_directory, write_private
from plimsoll.deploy.process import GuardedProcess, Program
from plimsoll.deploy.programs import find
from plimsoll.errors import BadInput, ServiceError
from plimsoll.plan.model.hosts import Gram, Host, Hosts
from plimsoll.plan.source.secret import Secret

KIND: Final = "gram"
CLIENT: Final = "globusrun"
PACKAGE: Final = "globus-gram-client-tools"
ENDED_S: Final = 5.0
"""The time in which the job of an agent that has ended ends, too. The job manager looks once a second."""
CANCEL_S: Final = 20.0
"""The time for the cancellation of a job."""
QUOTED_BYTES: Final = 4096
"""The end of the output of a job that is searched for its last line."""


class GramJobs:
    """Jobs of a gatekeeper. Implements `AgentStarter`."""

    def __init__(self, hosts: Hosts, lab: Lab, engine: Path) -> None:
        assert hosts.gram is not None, "the plan rejects such a file"
        self._hosts = hosts
        self._gram: Gram = hosts.gram
        self._lab = lab
        self._engine = engine
        self._directory = lab.directory / KIND
        self._jobs: dict[str, GuardedProcess] = {}

    @property
    def site(self) -> str:
        """The host of the gatekeeper."""
        return self._gram.address

    def start_agents(self, token: Secret, files: Sequence[Path] = ()) -> int:
        """Writes the token, and starts a client for each job."""
        client = find([CLIENT])
        if client is None:
            raise host_error(f"{CLIENT} was not found: apt-get install {PACKAGE}", "hosts.kind")
        if not elf_facts(self._engine).static:
            raise BadInput(
                f"the engine {self._engine} needs shared libraries that the host of the gatekeeper may not have: build "
                f"a static one with `make engine`"
            )
        directory = private_directory(self._directory)
        file = write_private(directory / "token", token.reveal())
        environment = {}
        if "GLOBUS_HOSTNAME" not in os.environ and self._hosts.controller is not None:
            # The gatekeeper connects to the client at this address.
            environment["GLOBUS_HOSTNAME"] = self._hosts.controller
        for name in self._names():
            request = job_request(self._gram, self._engine.resolve(), file.resolve(), name)
            program = Program(
                name,
                [client, "-s", "-r", self._gram.contact, request],
                directory / f"{name}.log",
                environment=environment,
            )
            try:
                self._jobs[name] = GuardedProcess(self._engine, program)
            except ServiceError as error:
                raise host_error(str(error), "hosts.gram") from error
        return self._gram.agents

    def files(self, agent: str) -> Mapping[str, str]:
        """A host must have them under the same names."""
        return {}

    def outlook(self, connected: Collection[str]) -> Outlook:
        """The state of the jobs. A job whose client has ended will not connect."""
        missing = [name for name in self._names() if name not in connected]
        coming = [name for name in missing if name in self._jobs and not self._jobs[name].has_ended()]
        why = {name: self._reason(name) for name in missing if name in self._jobs and name not in coming}
        over = next(iter(why.values()), "") if not coming else ""
        return Outlook(coming=tuple(coming), why=why, over=over)

    def end(self, *, everything: bool, discard: bool) -> list[CleanedHost]:
        """Cancels the jobs that have not ended with their agents, and removes the token. Jobs of other experiments have
        clients of their own, which end them."""
        with contextlib.suppress(OSError):
            (self._directory / "token").unlink()
        left = []
        for process in self._jobs.values():
            process.wait(ENDED_S)
            if not process.has_ended():
                process.send_signal(signal.SIGINT, CANCEL_S)  # the client cancels the job
        for name, process in self._jobs.items():
            if not process.has_ended():
                left.append(f"job {name}")
            process.stop()
        self._jobs = {}
        for file in sorted(self._directory.glob("*.log")):
            with contextlib.suppress(OSError):
                file.unlink()
        for directory in (self._directory, self._lab.directory):
            with contextlib.suppress(OSError):  # it does not exist, or contains other files
                directory.rmdir()
        return [CleanedHost(Host(KIND, "", self.site), left=tuple(left))]

    def _names(self) -> list[str]:
        return [f"{KIND}.{number}" for number in range(1, self._gram.agents + 1)]

    def _reason(self, name: str) -> str:
        """Why a job has ended, from the output of its client."""
        text = ""
        with contextlib.suppress(OSError), (self._directory / f"{name}.log").open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - QUOTED_BYTES))
            text = log.read().decode("utf-8", "replace")
        return f"its job has ended; output of {name}: {reason_in(text) or 'none'}"


def job_request(gram: Gram, engine: Path, token: Path, name: str) -> str:
    """The request for the job of an agent, in the language of GRAM (RSL). The directory of the job is removed at its
    end, with all measurements that were not fetched."""
    served = "$(GLOBUSRUN_GASS_URL)"
    arguments = " ".join(_quoted(word) for word in ["agent", "--join", "-", "--name", name, "--directory"])
    return (
        f"&(executable={served} # {_quoted(str(engine))})(stdin={served} # {_quoted(str(token))})"
        f"(scratch_dir={_quoted(gram.scratch)})(directory=$(SCRATCH_DIRECTORY))"
        f'(arguments={arguments} $(SCRATCH_DIRECTORY) # "/agent"){gram.request}'
    )


def reason_in(output: str) -> str:
    """The line of a client's output that states why a job failed; the last one if none does. After it, the client may
    list all the places where it looked for a certificate."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    stated = (line for line in lines if re.search(r"could not be|failed", line))
    return next(stated, lines[-1] if lines else "")[:300]


def _quoted(text: str) -> str:
    """A string of RSL."""
    return '"' + text.replace('"', '""') + '"'
