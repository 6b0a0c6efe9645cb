"""Submits a job and waits for its end, for the driver `exec` with `mode: long-lived`.

    python3 submit.py MANAGER [--seconds S] [--output BYTES] [--credentials DIRECTORY]

MANAGER: none (starts a process), gram, gram-authentication (no job), srun, sbatch or dask. Each job is the same script:
it writes the time of its start and of its end to a file, sleeps, and prints BYTES to its output, which is sent back to
the submitter if BYTES is above 0. Metrics of each transaction, in seconds from the submission:

accept_s   the manager reported that it has accepted the job (gram, sbatch)
start_s    the first command of the job
end_s      the last command of the job
notice_s   from the last command of the job until the submitter knew of the end

The job writes CLOCK_REALTIME, so the submitter must run on the host of the job. The standard library is enough, except
for dask.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

JOB = """\
#!/bin/sh
date +%s.%N >"$1"
sleep "$2"
if [ "$3" -gt 0 ]; then head -c "$3" /dev/zero | tr '\\\\0' x; fi
date +%s.%N >>"$1"
"""
LINES = ("stdbuf", "-oL")
"""Programs whose output is a pipe would otherwise report all lines at their end."""


class JobError(Exception):
    """`code`: a short word for the transaction."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass
class Job:
    """One job. `script`: its program, with the arguments that follow. `times`: the file that it writes. `endpoint`: the
    URL of the manager. `output`: bytes that it prints."""

    script: Path
    times: Path
    seconds: str
    output: int
    endpoint: str
    credentials: Path | None
    accepted: float | None = None
    received: bytes = b""

    @property
    def arguments(self) -> list[str]:
        return [str(self.times), self.seconds, str(self.output)]

    @property
    def command(self) -> list[str]:
        return ["/bin/sh", str(self.script), *self.arguments]


def run_lines(job: Job, command: list[str], accepted: str, environment: Mapping[str, str]) -> None:
    """Runs a program of a manager to its end. `accepted`: what its output contains when the job is accepted; empty: it
    reports no such time, and its output is that of the job."""
    words = [*LINES, *command] if accepted else command
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **environment},
        )
        assert process.stdout is not None
        with process.stdout as lines:
            if not accepted:
                job.received = lines.read()
            else:
                for line in lines:
                    if job.accepted is None and accepted.encode() in line:
                        job.accepted = time.time()
        if process.wait() != 0:
            errors.seek(0)
            text = errors.read().decode("utf-8", "replace").strip()
            raise JobError(f"{command[0]} {process.returncode}", text[-500:])


def gram_contact(job: Job) -> tuple[str, dict[str, str]]:
    """The contact of the job manager, and the environment of its clients."""
    if job.credentials is None:
        raise JobError("usage", "gram needs --credentials")
    parts = urlsplit(job.endpoint)
    host = str(parts.hostname)
    environment = {
        "X509_CERT_DIR": str(job.credentials / "certificates"),
        "X509_USER_PROXY": str(job.credentials / "proxy"),
        "GLOBUS_HOSTNAME": host,
    }
    return f"{host}:{parts.port}/jobmanager-fork:/O=Plimsoll/CN={host}", environment


def gram(job: Job) -> None:
    contact, environment = gram_contact(job)
    arguments = " ".join(f'"{word}"' for word in [str(job.script), *job.arguments])
    request = f"&(executable=/bin/sh)(arguments={arguments})"
    if job.output:
        run_lines(job, ["globusrun", "-s", "-r", contact, request], "", environment)
    else:
        run_lines(job, ["globusrun", "-r", contact, request], "submission successful", environment)


def gram_authentication(job: Job) -> None:
    contact, environment = gram_contact(job)
    run_lines(job, ["globusrun", "-a", "-r", contact], "test successful", environment)


def slurm_environment(job: Job) -> dict[str, str]:
    """The URL of the cluster contains the path of its configuration."""
    return {"SLURM_CONF": urlsplit(job.endpoint).path}


def srun(job: Job) -> None:
    sink = [] if job.output else ["--output=/dev/null"]
    run_lines(job, ["srun", "--quiet", "--ntasks=1", *sink, *job.command], "", slurm_environment(job))


def sbatch(job: Job) -> None:
    copy = Path(f"{job.times}.out")
    sink = copy if job.output else "/dev/null"
    words = ["sbatch", "--wait", "--parsable", f"--output={sink}", str(job.script), *job.arguments]
    # The first line is the number of the job.
    run_lines(job, words, "\n", slurm_environment(job))
    if job.output:
        job.received = copy.read_bytes()
        copy.unlink()


def no_manager(job: Job) -> None:
    run_lines(job, job.command, "", {})


def execute(command: list[str]) -> bytes:
    """The work of a dask worker."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout


@dataclass
class DaskClient:
    """The connection of this submitter, which is kept."""

    client: Any = field(default=None)

    def __call__(self, job: Job) -> None:
        if self.client is None:
            from distributed import Client

            self.client = Client(job.endpoint, set_as_default=False)  # type: ignore[no-untyped-call]
        future = self.client.submit(execute, job.command, pure=False)
        job.received = future.result()


MANAGERS: Mapping[str, Callable[[Job], None]] = {
    "none": no_manager,
    "gram": gram,
    "gram-authentication": gram_authentication,
    "srun": srun,
    "sbatch": sbatch,
    "dask": DaskClient(),
}


def measure(manager: str, job: Job) -> dict[str, Any]:
    """Submits a job. Returns the report of the transaction."""
    start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    began = time.time()
    MANAGERS[manager](job)
    ended = time.time()
    report: dict[str, Any] = {
        "start_ns": start_ns,
        "end_ns": time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW),
        "bytes": len(job.received) if job.output else 0,
    }
    metrics = {} if job.accepted is None else {"accept_s": job.accepted - began}
    if manager == "gram-authentication":
        return {**report, "metrics": metrics}
    try:
        first, last = map(float, job.times.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        raise JobError("no job", "the manager reported the end of the job, and the job did not run") from None
    if job.output and len(job.received) != job.output:
        raise JobError("output", f"{len(job.received)} of {job.output} bytes of output arrived")
    metrics |= {"start_s": first - began, "end_s": last - began, "notice_s": ended - last}
    return {**report, "metrics": metrics}


@contextmanager
def directory() -> Iterator[Path]:
    """A directory to which jobs of another account can write."""
    path = Path(tempfile.mkdtemp(prefix="plimsoll-jobs-"))
    try:
        path.chmod(0o777)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def main() -> None:
    # Programs that end on request remove their directory.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    parser = argparse.ArgumentParser()
    parser.add_argument("manager", choices=MANAGERS)
    parser.add_argument("--seconds", default="0.1")
    parser.add_argument("--output", type=int, default=0)
    parser.add_argument("--credentials", type=Path)
    arguments = parser.parse_args()
    with directory() as place:
        script = place / "job"
        script.write_text(JOB, encoding="ascii")
        script.chmod(0o755)
        for number, line in enumerate(sys.stdin):
            request = json.loads(line)
            times = place / f"times-{number}"
            job = Job(
                script,
                times,
                arguments.seconds,
                arguments.output,
                request["endpoint"],
                arguments.credentials,
            )
            try:
                report = measure(arguments.manager, job)
            except JobError as error:
                print(error, file=sys.stderr, flush=True)
                report = {"ok": False, "code": error.code}
            except Exception as error:
                print(repr(error), file=sys.stderr, flush=True)
                report = {"ok": False, "code": type(error).__name__}
            times.unlink(missing_ok=True)
            print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
