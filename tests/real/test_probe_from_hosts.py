"""Targets are tried from the hosts of the testers: what the lab reaches, they may not."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from plimsoll.deploy.binary import find_engine
from tests.conftest import Lab
from tests.real.emulated import VALIDITY, Emulated, emulated

BED = """
testbed: 1
name: tried
lab: here
sites: {here: {hosts: 0}, near: {hosts: 2}}
links:
  - {between: [here, near], rtt: 0.3ms}
"""


@pytest.fixture
def bed(lab: Lab) -> Iterator[Emulated]:
    with emulated(lab, BED) as found:
        yield found


def experiment(bed: Emulated, url: str) -> str:
    hosts = {
        "kind": "ssh",
        "sites": {"near": ["near-1", "near-2"]},
        "ssh": {"config": str(bed.bed.ssh_config)},
        "controller": {"address": bed.bed.lab_address},
        "directory": str(bed.directory),
    }
    return f"""
plimsoll: 1
name: tried
workload: {{driver: http, target: "{url}"}}
load: {{testers: 2, think: 20ms}}
run: {{duration: 1s, warmup: 0s}}
validity: {VALIDITY}
hosts: {json.dumps(hosts)}
"""


@pytest.mark.long
def test_a_target_that_only_the_lab_reaches_is_found_before_the_first_run(bed: Emulated) -> None:
    words = (find_engine(), "serve", "echo", "--end-with-parent", "--listen", "127.0.0.1:0")
    process = bed.start_on("lab", *words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    url = f"http://{json.loads(process.stdout.readline())['listening']}"
    file = bed.lab.file(experiment(bed, url))
    done = bed.lab.run("run", file)
    assert done.code == 2, done.err
    assert f"{url}: from near-1, near-2: no connection: refused; check the address" in " ".join(
        done.err.split()
    )
    assert "--no-probe starts anyway" in done.err
    assert not list((bed.lab.directory / "results").glob("*")), "nothing may be left"
    bed.lab.run("run", "--no-probe", file)
    counters = json.loads((bed.lab.results() / "runs" / "0001" / "summary.json").read_text())["counters"]
    assert counters["failed"] == counters["started"] > 0, "the user knows better"


@pytest.mark.long
def test_a_target_that_they_reach_is_tried_once_from_each_and_not_counted(bed: Emulated) -> None:
    server = bed.serve("near-2")
    file = bed.lab.file(experiment(bed, server.url))
    done = bed.lab.run("run", file)
    assert done.code == 0, done.err
    books = json.loads((bed.lab.results() / "runs" / "0001" / "summary.json").read_text())
    assert server.count() == books["counters"]["started"] + 3, "once from each host and once from the lab"
