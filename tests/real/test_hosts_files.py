"""Files that a workload names, on hosts that do not have them: a program of its own and its data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Lab
from tests.real.dial_in import carried, program_of_its_own, summary
from tests.real.sshd import Sshd, running_sshd


@pytest.fixture
def sshd(lab: Lab, tmp_path: Path) -> Iterator[Sshd]:  # ended before the lab looks for what is left
    with running_sshd(tmp_path / "sshd") as found:
        yield found


def hosts(sshd: Sshd, **more: object) -> str:
    told = {
        "kind": "ssh",
        "sites": {"near": ["h1"], "far": ["h2"]},
        "ssh": {"config": str(sshd.aliases("h1", "h2"))},
        "controller": {"address": "127.0.0.1"},
        **more,
    }
    return json.dumps(told)


def test_a_program_of_its_own_runs_on_hosts_that_do_not_have_it(lab: Lab, sshd: Sshd) -> None:
    done = lab.run("run", program_of_its_own(lab, hosts(sshd)))
    assert done.code == 0, done.err
    books = summary(lab.results())
    assert books["balanced"] and books["counters"]["failed"] == 0
    assert books["counters"]["items"] == 7 * books["counters"]["succeeded"] > 0
    assert [one["books"]["counters"]["succeeded"] > 0 for one in carried(lab.results())] == [True, True]
    left = [path.name[:7] for path in sshd.home.rglob("*") if path.is_file()]
    assert left == ["engine-"], "files of workloads may be keys: they do not stay"


def test_the_same_workload_runs_here(lab: Lab) -> None:
    done = lab.run("run", program_of_its_own(lab, "{kind: local}", copied=False))
    assert done.code == 0, done.err
    assert summary(lab.results())["counters"]["failed"] == 0


def test_a_file_that_is_not_there_is_said_before_anything_starts(lab: Lab, sshd: Sshd) -> None:
    path = program_of_its_own(lab, hosts(sshd))
    (lab.directory / "data.csv").unlink()
    done = lab.run("run", path)
    assert done.code == 2 and "there is no file" in done.err and "data.csv" in done.err, done.err
    assert not any(sshd.home.iterdir())
