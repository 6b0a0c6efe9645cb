"""Proof that limits hold on a host: the engine's self-test (crates/limits/src/self_test.rs)."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from plimsoll.errors import BadInput, Problem
from plimsoll.plan import Experiment
from plimsoll.plan.model.cell import Config
from plimsoll.plan.source.document import parse_document

TEST_S: Final = 30.0
"""The maximum time of a self-test; it usually takes less than 2 s."""


@dataclass(frozen=True, slots=True)
class LimitProof:
    """The result of a self-test. `reasons`: why a limit cannot be used, by its name (memory, cpu, disk_read,
    disk_write); `remarks`: what the limits do not cover."""

    reasons: Mapping[str, str]
    remarks: tuple[str, ...] = ()

    def text(self) -> str:
        """The reasons in one line; empty if all limits hold."""
        return "; ".join(f"{name} cannot be limited: {reason}" for name, reason in self.reasons.items())


@dataclass(frozen=True, slots=True)
class _Limited:
    """What is limited, at a path of the experiment file. `host`: of a service (None: that of the lab)."""

    path: tuple[str, ...]
    names: tuple[str, ...]
    host: str | None


def _limited(config: Config) -> Iterator[_Limited]:
    for service in config.services:
        yield _Limited(("services", service.name, "limits"), tuple(service.limits.to_json()), service.host)
    if config.hosts.elsewhere:
        return  # of testers: see `HostBackend.prove_limits`; of client programs: the engine tests them there
    for limits in dict.fromkeys(config.hosts.limits_by_host.values()):
        yield _Limited(("hosts", "limits"), tuple(limits.to_json()), None)
    for workload in config.workloads:
        one = ("workload",) if len(config.workloads) == 1 else ("workloads", workload.name)
        yield _Limited((*one, workload.driver, "limits"), tuple(workload.settings.get("limits", ())), None)


def limited_resources(configs: Iterable[Config], host: str | None) -> tuple[str, ...]:
    """What is limited on a host (None: that of the lab), in a fixed order."""
    found = (limited for config in configs for limited in _limited(config) if limited.host == host)
    return tuple(sorted({name for limited in found for name in limited.names}))


def self_test_words(engine: PurePath, directory: PurePath, resources: Sequence[str]) -> list[str | PurePath]:
    """The command that tests limits. `directory`: where disks are tested."""
    return [engine, "limits", "test", "--directory", directory, *resources]


def proof_of(code: int | None, output: str, resources: Sequence[str]) -> LimitProof:
    """The result of the command. `code`: None if it took too long."""
    try:
        if code == 0:
            proofs = json.loads(output.strip().splitlines()[-1])["proofs"]
            remarks = dict.fromkeys(str(proof["remark"]) for proof in proofs if proof["remark"])
            reasons = {str(proof["resource"]): str(proof["reason"]) for proof in proofs if proof["reason"]}
            return LimitProof(reasons, tuple(remarks))
    except (ValueError, LookupError, TypeError):
        pass  # not the output of this engine
    last = output.strip().splitlines()[-1:] or ["no reason given"]
    why = "the self-test took too long" if code is None else f"the self-test failed ({last[0][:300]})"
    return LimitProof(dict.fromkeys(resources, why))


def prove_here(engine: Path, directory: Path, resources: Sequence[str]) -> LimitProof:
    """Tests limits on this host."""
    if not resources:
        return LimitProof({})
    command = [str(word) for word in self_test_words(engine, directory, resources)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TEST_S,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return proof_of(None, "", resources)
    except OSError as error:
        return proof_of(1, str(error), resources)
    return proof_of(done.returncode, done.stdout, resources)


def remove_groups(engine: Path) -> None:
    """Removes the control groups of processes on this host that were killed, so that they could not do it."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [engine, "limits", "clean"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TEST_S,
            check=False,
        )


def require_limits(proof: LimitProof, experiment: Experiment) -> None:
    """Raises BadInput with the places in the file of the limits of this host that do not hold."""
    document = parse_document(experiment.text, experiment.file)
    problems: dict[Problem, None] = {}
    for limited in (found for cell in experiment.cells for found in _limited(cell.config)):
        for name in limited.names:
            if limited.host is None and (reason := proof.reasons.get(name)):
                path = (*limited.path, name)
                _, line = document.place(path)
                message = f"this host cannot limit it: {reason}"
                problems[Problem(message, path=".".join(path), file=experiment.file, line=line)] = None
    if problems:
        raise BadInput(problems)
